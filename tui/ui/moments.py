"""Moments that the operator has marked, on everything that has a time axis."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.ui.lines import Line, Span, flow
from tui.ui.words import elapsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tui.ui.view import View

KEPT = 20
"""Marks that are kept; the oldest go first."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One marked moment."""

    number: int
    """From 1 in the order in which they were set."""
    wall: float
    """Epoch seconds."""
    at: float
    """Monotonic seconds, as ``HostSnapshot.taken_at``."""


def add(marks: tuple[Mark, ...], wall: float, at: float) -> tuple[Mark, ...]:
    """With one more; a second one of the same picture is the same."""
    if marks and marks[-1].at == at:
        return marks
    number = marks[-1].number + 1 if marks else 1
    return (*marks, Mark(number, wall, at))[-KEPT:]


def clock(mark: Mark) -> str:
    """When it was, in local time."""
    return time.strftime("%H:%M:%S", time.localtime(mark.wall))


def places(instants: Iterable[tuple[float, int]], start: float, step: float, size: int) -> dict[int, str]:
    """By cell, what stands there: a mark's number, digit by digit; a later one covers an earlier one.

    Args:
        instants: of the marks, on the axis's clock, with their numbers.
        start: the instant of the left edge of the first cell.
        step: seconds of a cell.
        size: cells.
    """
    found: dict[int, str] = {}
    for at, number in instants:
        cell = int((at - start) // step)
        if 0 <= cell < size:
            digits = str(number)
            first = max(0, min(cell, size - len(digits)))
            found.update(enumerate(digits, first))
    return found


def put_on(line: Line, marked: Mapping[int, str], *, over: str | None = None) -> Line:
    """A line with characters set into it at their cells.

    Args:
        line: what stands there already.
        marked: character by cell.
        over: set only where one of these stands; None: everywhere.
    """
    if not marked:
        return line
    spans: list[Span] = []
    at = 0
    for span in line:
        begun = 0
        for index, character in enumerate(span.text):
            new = marked.get(at + index)
            if new is None or (over is not None and character not in over):
                continue
            spans += [span._replace(text=span.text[begun:index])] if index > begun else []
            spans.append(Span(new, "key"))
            begun = index + 1
        spans += [span._replace(text=span.text[begun:])] if begun < len(span.text) else []
        at += len(span.text)
    return tuple(spans)


def on_chart(rows: Sequence[Line], marked: Mapping[int, str]) -> list[Line]:
    """Rows of a chart: the numbers in the first, a line below them wherever there is no curve."""
    if not marked or not rows:
        return list(rows)
    below = dict.fromkeys(marked, "│")
    return [put_on(rows[0], marked), *(put_on(row, below, over=" ") for row in rows[1:])]


def listed(view: View, size: int) -> list[Line]:
    """Every mark with its clock time and how long ago it was; nothing where there is none."""
    if not view.marks:
        return []
    label = (Span("marks  ", "label"),)
    items: list[Line] = [
        (
            Span(str(mark.number), "key"),
            Span(f" {clock(mark)}"),
            Span(f" {elapsed(view.snapshot.wall - mark.wall)} ago", "muted"),
        )
        for mark in reversed(view.marks)
    ]
    rows = flow(items, size - len(label[0].text), 2)
    return [
        (*(label if index == 0 else (Span(" " * len(label[0].text)),)), *row)
        for index, row in enumerate(rows)
    ]
