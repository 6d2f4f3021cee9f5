"""plotext behind one careful door: its kernel aborts the process on values it does not expect.

NaN, infinities and finite values far outside the pinned range end in an uncatchable SIGABRT (or take
gigabytes) when lines are drawn; so nothing but finite points inside the range ever reaches it.
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    Point = tuple[float, float | None]

LEAST_WIDTH, LEAST_HEIGHT = 24, 6
"""Below this the axes leave no room for a curve."""
MOST_WIDTH, MOST_HEIGHT = 400, 200
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@functools.lru_cache(maxsize=1)
def load() -> bool:
    """Import plotext, which takes some 0.15 s; false where it is not to be had."""
    try:
        import plotext
    except (ImportError, OSError):  # no wheel for this platform, or its C library does not load
        return False
    plotext.terminal.limit(False, False)  # else it measures a terminal that is ours
    plotext.figure.theme("colorless")
    plotext.figure.canvas("default")
    return True


def plot(
    points: Sequence[Point], width: int, height: int, *, top: float, span_s: float, limit: float | None = None
) -> list[str]:
    """A curve over time with axes, as exactly ``height`` lines of exactly ``width`` cells.

    Args:
        points: (seconds before now, value), oldest first, seconds negative; None is a gap.
        width: cells.
        height: lines.
        top: the upper edge; the lower is 0. Values outside are pinned to the edges.
        span_s: seconds shown.
        limit: where to draw a threshold.
    """
    fits = LEAST_WIDTH <= width <= MOST_WIDTH and LEAST_HEIGHT <= height <= MOST_HEIGHT
    usable = math.isfinite(top) and math.isfinite(span_s) and 1e-6 <= top <= 1e15 and 1.0 <= span_s <= 1e9
    if not fits or not usable or not load():
        return [" " * max(0, width)] * max(0, height)
    xs, ys, breaks = _sanitised(points, 2 * width, top, span_s)
    lines = _ESCAPES.sub("", _draw(xs, ys, breaks, width, height, top, span_s, limit)).split("\n")
    lines = [line.ljust(width)[:width] for line in lines[:height]]
    return lines + [" " * width] * (height - len(lines))


def _sanitised(
    points: Sequence[Point], most: int, top: float, span_s: float
) -> tuple[list[float], list[float], list[int]]:
    """Finite points inside the range, the newest ``most``, and the indices before which the curve breaks."""
    xs: list[float] = []
    ys: list[float] = []
    breaks: list[int] = []
    gap = False
    for at, value in points[-most:]:
        if value is None or not math.isfinite(value) or not math.isfinite(at):
            gap = True
            continue
        if gap and xs:
            breaks.append(len(xs))
        gap = False
        xs.append(min(0.0, max(-span_s, at)))
        ys.append(min(top, max(0.0, value)))
    return xs, ys, breaks


def _draw(
    xs: list[float],
    ys: list[float],
    breaks: list[int],
    width: int,
    height: int,
    top: float,
    span_s: float,
    limit: float | None,
) -> str:
    import plotext

    # one global figure: it is drawn on the loop's thread alone, and cleared before, not after, use
    figure: Any = plotext.figure
    figure.clear.data()
    figure.plot_size(width, height)
    if xs:
        curve = figure.signal(xs, ys, marker="braille").lines(True)
        for index in breaks:
            curve.line(index, False)
        figure.draw(curve)
    if limit is not None and 0.0 <= limit <= top:
        figure.line(limit, orientation="horizontal", relative=True, style="dotted")
    across, up = figure.ruler(0, 0), figure.ruler(1, 0)
    across.lim(-span_s, 0.0)
    across.ticks([-span_s, -span_s / 2, 0.0], [_ago(span_s), _ago(span_s / 2), "now"])
    up.lim(0.0, top)
    up.ticks([0.0, top / 2, top], ["0", _figure(top / 2), _figure(top)])
    return str(figure.build().string())


def _ago(span_s: float) -> str:
    return f"-{span_s / 60:.0f} min" if span_s >= 120 else f"-{span_s:.0f} s"


def _figure(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value / 1000:.3g}k" if value < 1e6 else f"{value:.1e}"
