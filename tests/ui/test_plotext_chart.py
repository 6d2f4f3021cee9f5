from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tui.ui.widgets.plotext_chart import plot

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_no_floats_can_kill_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.ui.plot_property"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def drawn(points: Sequence[tuple[float, float | None]], limit: float | None = None) -> str:
    rows = plot(points, 60, 12, top=100.0, span_s=1800.0, limit=limit)
    return "\n".join(rows)


def test_axes_have_time_and_figures() -> None:
    text = drawn([(-1800.0 + 15 * i, 50.0) for i in range(120)])
    assert "-30 min" in text
    assert "-15 min" in text
    assert "now" in text
    assert text.count("100") == 1


def test_a_curve_and_its_gap() -> None:
    whole = [(-1800.0 + 15 * i, 50.0) for i in range(120)]
    gap = [(at, None if 40 <= i < 80 else value) for i, (at, value) in enumerate(whole)]
    assert dots(drawn(whole)) > dots(drawn(gap)) > 0
    assert dots(drawn([(at, None) for at, _ in whole])) == 0


def dots(text: str) -> int:
    return sum("\u2800" < character <= "\u28ff" for character in text)


def test_a_threshold_is_a_line_of_its_own() -> None:
    assert drawn([(-10.0, 50.0)], limit=90.0).count("┈") + drawn([(-10.0, 50.0)], limit=90.0).count("┄") > 30


def test_no_room_is_blank() -> None:
    assert plot([(-1.0, 1.0)], 10, 3, top=1.0, span_s=60.0) == [" " * 10] * 3
