"""Parts that a running test and its report share: the table of our requests, and the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.model.units import DASH, number
from tui.ui.lines import Line, Span, folded, narrow
from tui.ui.table import Column, choose, head, row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tui.ui.lines import Role

GOOD_REASONS = (None, "stop", "length")
"""A plain request has no reason."""


def wording(value: object) -> str:
    """A word of an event file or a report; a dash where it is not known."""
    return DASH if value is None else narrow(str(value).replace("_", " "))


def seconds_at(value: object) -> str:
    """Seconds after the action, with their sign."""
    return f"{value:+.2f} s" if isinstance(value, (int, float)) else DASH


def figure(value: object, digits: int = 0) -> str:
    """A figure of an event file or a report; a dash where it is none."""
    return number(value, digits) if isinstance(value, (int, float)) else DASH


def fate(request: Mapping[str, Any]) -> Span:
    """What became of a request."""
    outcome = request.get("outcome")
    if outcome is None:
        return Span("no bytes", "hot") if request.get("silent") else Span("running", "notice")
    good = outcome == "finished" and request.get("finish_reason") in GOOD_REASONS
    return Span(wording(outcome), "calm" if good else "hot")


_COLUMNS: tuple[Column[Any], ...] = (
    Column("request", 7, lambda r: Span(wording(r.get("id")), "value"), rank=1),
    Column("outcome", 9, fate, to_left=True),
    Column(
        "tokens", 11, lambda r: Span(f"{figure(r.get('tokens'))}/{figure(r.get('tokens_wanted'))}", "value")
    ),
    Column("reason", 8, lambda r: Span(wording(r.get("finish_reason")), "text"), rank=2, to_left=True),
    Column("ended", 9, lambda r: Span(seconds_at(r.get("ended_s")), "text"), rank=3),
    Column("status", 6, lambda r: Span(wording(r.get("http_status")), "text"), rank=4),
)
REQUESTS_WIDTH = sum(column.size + 1 for column in _COLUMNS) - 1


def requests(rows: Iterable[Mapping[str, Any]], size: int) -> list[Line]:
    """Our requests in flight, one a line; nothing without any."""
    shown = list(rows)
    if not shown:
        return []
    chosen = choose(_COLUMNS, size)
    return [head(chosen), *(row(chosen, request) for request in shown)]


def timeline(events: Iterable[tuple[object, object, object]], size: int) -> list[Line]:
    """Events in order: seconds after the action, name, detail; long details go on below."""
    lines: list[Line] = []
    for t_s, name, detail in events:
        what = wording(name)
        role: Role = "hot" if name in _BAD else "value"
        start: Line = (Span(seconds_at(t_s).rjust(10), "label"), Span("  "), Span(what, role))
        text = narrow(str(detail or ""), 1000)
        room = size - 14 - len(what)
        if not text:
            lines.append(start)
        elif len(text) <= room:
            lines.append((*start, Span(f"  {text}", "muted")))
        else:
            lines.append(start)
            lines += [(Span(" " * 12), Span(part, "muted")) for part in folded(text, size - 12)]
    return lines


_BAD = frozenset(("killed", "clients_closed"))


def beside(left: Sequence[Line], right: Sequence[Line], at: int) -> list[Line]:
    """Two blocks next to each other, the second from column ``at``."""
    lines: list[Line] = []
    for index in range(max(len(left), len(right))):
        first = left[index] if index < len(left) else ()
        second = right[index] if index < len(right) else ()
        gap = at - sum(len(span.text) for span in first)
        lines.append((*first, Span(" " * gap), *second) if second else first)
    return lines
