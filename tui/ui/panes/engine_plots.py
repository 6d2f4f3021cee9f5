"""Half an hour of one engine, with axes: tokens a second, queue, KV cache."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from tui.model.units import number
from tui.ui.charts import nice_top
from tui.ui.lines import Line, Role, Span, fit
from tui.ui.moments import on_chart, places
from tui.ui.widgets import plotext_chart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.ui.charts import Value
    from tui.ui.view import View

HEIGHT = 13
LEAST = 38
GAP = 2
SPAN_S = 1800.0


def plots(view: View, url: str, size: int) -> list[Line]:
    """As many of the plots side by side as the width holds, the others below; what has no past is named."""
    if not view.mode.plots:
        return [(Span("drawing…", "muted"),)]
    across = max(1, min(3, (size + GAP) // (LEAST + GAP)))
    each = (size - GAP * (across - 1)) // across
    kv_limit = view.thresholds.kv_usage_warn * 100
    made = {
        "generated tokens/s": _block(view, url, "generated tokens/s", "gen_tok_s", each),
        "requests waiting": _block(view, url, "requests waiting", "waiting", each),
        "KV cache %": _block(
            view, url, "KV cache %", "kv_usage", each, scale=100.0, top=100.0, limit=kv_limit
        ),
    }
    blocks = [block for block in made.values() if block]
    lines: list[Line] = []
    if len(blocks) < len(made):  # an axis without a curve looks like a curve of zeros
        of = ", ".join(name for name, block in made.items() if not block) if blocks else ""
        lines.append(fit((Span(f"no history yet{f' of {of}' if of else ''}", "muted"),), size))
    for start in range(0, len(blocks), across):
        for parts in zip(*blocks[start : start + across], strict=True):
            line: Line = parts[0]
            for part in parts[1:]:
                line = (*line, Span(" " * GAP), *part)
            lines.append(line)
    return lines


def _block(
    view: View,
    url: str,
    name: str,
    signal: str,
    size: int,
    *,
    scale: float = 1.0,
    top: float | None = None,
    limit: float | None = None,
) -> list[Line]:
    """One plot under its name; nothing where nothing was seen."""
    # two points a column, in steps that divide the half hour into whole ones
    step = max(SPAN_S / (2 * max(1, size - 6)), 2 * view.snapshot.interval_s, 10.0)
    count = int(SPAN_S / step)
    values: Sequence[Value] = [
        None if value is None else value * scale
        for value in view.trends.steps(url, signal, count, step, view.now)
    ]
    if all(value is None for value in values):
        return []
    points = [(-(count - index) * step, value) for index, value in enumerate(values)]
    upper = top if top is not None else nice_top(values)
    rows = plotext_chart.plot(points, size, HEIGHT - 1, top=upper, span_s=SPAN_S, limit=limit)
    told = "" if limit is None else f", limit {number(limit)}"
    return [fit((Span(f"{name}{told}", "label"),), size), *_marked(view, rows)]


def _marked(view: View, rows: list[str]) -> list[Line]:
    """The curve with the operator's marks: numbers on the upper frame, lines down to the axis."""
    left = max((row.find("┌") for row in rows[:1]), default=-1)
    right = rows[0].rfind("┐") if rows else -1
    frame, below = list(map(_tinted, rows[:-2])), list(map(_tinted, rows[-2:]))
    inside = right - left - 1
    if left < 0 or inside < 1:
        return [*frame, *below]
    seen = ((mark.at - view.now, mark.number) for mark in view.marks)
    at = {left + 1 + cell: c for cell, c in places(seen, -SPAN_S, SPAN_S / inside, inside).items()}
    return [*on_chart(frame, at), *below]


def _tinted(text: str) -> Line:
    """Dots are the curve, all else is axis."""

    def role(character: str) -> Role:
        return "spark" if "\u2800" < character <= "\u28ff" else "muted"

    return tuple(Span("".join(run), kind) for kind, run in itertools.groupby(text, role))
