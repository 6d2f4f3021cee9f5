"""Filled charts side by side, each with its name, its figure now and its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.model.units import count
from tui.ui.charts import area, nice_top
from tui.ui.lines import Line, Span, beside, fit
from tui.ui.moments import on_chart, places
from tui.ui.view import figure
from tui.ui.words import elapsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.ui.view import View

STEP_S = 10.0
GAP = 3
FIGURE = 5
"""Cells that a figure may take."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One quantity over time.

    Args:
        name: with its unit.
        now: the newest figure, as shown.
        scopes: whose series; several are added, or averaged.
        signal: the series' name.
        top: the fixed upper edge; None: the next round figure above what was seen.
        scale: what stored values are multiplied by.
        mean: average over the scopes instead of their sum.
        hot: the figure is what made the verdict.
        stale: the figure is old.
    """

    name: str
    now: str
    scopes: Sequence[str]
    signal: str
    top: float | None = None
    scale: float = 1.0
    mean: bool = False
    hot: bool = False
    stale: bool = False


def charts(view: View, wanted: Sequence[Chart], size: int, height: int) -> list[Line]:
    """A line of names over ``height - 1`` rows of charts, as many of them as the width holds."""
    shown = wanted[: max(1, size // 24)]
    each = (size - GAP * (len(shown) - 1)) // len(shown)
    blocks = [_block(view, chart, each, height) for chart in shown]
    gap = Span(" " * GAP)
    lines: list[Line] = []
    for parts in zip(*blocks, strict=True):
        line = list(parts[0])
        for part in parts[1:]:
            line += [gap, *part]
        lines.append(tuple(line))
    return lines


def _block(view: View, chart: Chart, size: int, height: int) -> list[Line]:
    step = max(STEP_S, 2 * view.snapshot.interval_s)
    values = view.trends.joined(tuple(chart.scopes), chart.signal, 2 * size, step, view.now, mean=chart.mean)
    if chart.scale != 1.0:
        values = tuple(None if value is None else value * chart.scale for value in values)
    top = chart.top
    if top is None:  # the newest figure stands beside the edge, a step before the chart has it
        latest = view.trends.latest(tuple(chart.scopes), chart.signal)
        top = nice_top((*values, None if latest is None else latest * chart.scale))
    name = (Span(f"{chart.name} ", "label"), figure(chart.now, hot=chart.hot, stale=chart.stale))
    for text in (f"0-{count(top)}, {elapsed(2 * size * step)}", f"0-{count(top)}", ""):
        # room for any figure, not for this one: what is shown must not change with its digits
        if len(chart.name) + 1 + FIGURE + 1 + len(text) <= size:
            break
    first = beside(name, (Span(text, "muted"),), size)
    rows = [fit((Span(row, "spark"),), size) for row in area(values, height - 1, top)]
    # two steps a cell, whole ones only: a mark of the step that has just begun stands at the edge
    end = view.now // step * step
    seen = ((min(mark.at, end - step), mark.number) for mark in view.marks)
    marked = places(seen, end - 2 * size * step, 2 * step, size)
    return [first, *on_chart(rows, marked)]
