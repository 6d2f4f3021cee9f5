"""Names of any script, and long ones, keep every column where it is: a line is as wide as its pane by any count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from tests.ui import drill_scenes, scenes
from tui.model.status import Observed
from tui.ui.draw import draw
from tui.ui.lines import narrow, plain
from tui.ui.view import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.readings import EngineKind
    from tui.model.snapshot import EngineView
    from tui.ui.sheet import Sheet
    from tui.ui.view import PaneName, View

SIZES = [(160, 45), (80, 24), (60, 15), (40, 12)]
NAMES = {
    "mixed": "模型-é\u0336-👩\u200d🚀x",
    "right to left": "\u202e\u05d0\u05d1\u05d2\u200f-דגם-\u0645\u0648\u062f\u0644",
    "long": "組織/" + "長い-name-" * 30,
    "flags": "🇩🇪🏳️\u200d🌈1️⃣-ok\u2705\ufe0f",
    "hangul": "\u1112\u1161\u11ab국-zalgo" + "\u0301\u0316" * 9,
}


def named(view: EngineView, name: str, kind: EngineKind = "vllm") -> EngineView:
    reading = view.engine.reading
    assert reading is not None
    reading = replace(
        reading,
        engine=kind,
        model=name,
        version=name,
        waiting_by_reason={name: 3.0},
        finish_reasons={name: 1.0},
    )
    return replace(
        view,
        engine=replace(view.engine, reading=reading),
        probe_origin=name,
        probes=tuple(replace(probe, path=f"/{name}", note=name) for probe in view.probes),
        args={"max-model-len": name},
        stopping=name,
    )


def strange(name: str, full: PaneName | None) -> View:
    base = scenes.sick_view()
    snapshot = base.snapshot
    cards, host = snapshot.gpus.reading, snapshot.host.reading
    assert cards is not None and host is not None
    gpus = tuple(
        replace(
            card, name=name, detail=name, processes=tuple(replace(p, name=name) for p in card.processes or ())
        )
        for card in cards.gpus
    )
    snapshot = replace(
        snapshot,
        hostname=name,
        gpus=replace(snapshot.gpus, reading=replace(cards, gpus=gpus, driver_version=name)),
        host=Observed(replace(host, busiest_process=name, busiest_thread=name), snapshot.host.status),
        engines=tuple(named(engine, name) for engine in snapshot.engines),
    )
    verdicts = tuple(
        replace(v, evidence=(*v.evidence, replace(v.evidence[0], text=name)), advice=(name,), missing=(name,))
        if v.evidence
        else v
        for v in base.judgement.verdicts
    )
    findings = tuple(replace(finding, text=name, instead=name) for finding in base.judgement.findings)
    judgement = replace(base.judgement, verdicts=verdicts, findings=findings)
    return replace(base, snapshot=snapshot, judgement=judgement, mode=Mode(full=full, notice=name, filter=""))


def widths(view: View, size: tuple[int, int], *, ascii_only: bool = False) -> list[tuple[str, int, int, str]]:
    """Lines that are not as wide as their pane by rich's table of widths."""
    layout, panes, _ = draw(view, *size, ascii_only=ascii_only)
    return [
        (name, box.width, cell_len(text), text)
        for name, box in layout.boxes.items()
        for text in map(plain, panes[name])
        if cell_len(text) != box.width
    ]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("full", [None, "verdict", "gpus", "engines", "host", "probes"])
def test_columns_stay_aligned(name: str, size: tuple[int, int], full: PaneName | None) -> None:
    assert widths(strange(NAMES[name], full), size) == []


@pytest.mark.parametrize("name", NAMES)
def test_in_ascii_too(name: str) -> None:
    view = strange(NAMES[name], None)
    assert widths(view, (80, 24), ascii_only=True) == []
    _, panes, _ = draw(view, 80, 24, ascii_only=True)
    assert all(plain(line).isascii() for lines in panes.values() for line in lines)


SHEETS: dict[str, Callable[[str], Sheet]] = {
    "dialog": lambda name: drill_scenes.dialog(
        engine=narrow(f"vllm {name}"), typed=name[:9], refused=(name,), said=name
    ),
    "run": lambda name: replace(drill_scenes.running(), said=name),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sheet", SHEETS)
def test_in_dialogs_too(name: str, size: tuple[int, int], sheet: str) -> None:
    view = replace(scenes.sick_view(), mode=Mode(full="drill"), sheet=SHEETS[sheet](NAMES[name]))
    assert widths(view, size) == []
