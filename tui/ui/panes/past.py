"""The strip of the past half hour: which verdict held when."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from tui.ui.lines import Line, Role, Span
from tui.ui.moments import places, put_on
from tui.ui.view import QUIET, TRANSIENT, severity
from tui.ui.words import SHORT_VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.ui.view import View

SPAN_S = 1800.0


def strip(view: View, scope: str, size: int) -> Line:
    """One cell for each equal part of the past 30 minutes, the worst verdict in it; blank is before our time.

    Calm runs are dots, sick ones bars, both with their name where it fits, so that colour carries nothing.
    The operator's marks stand over it by their numbers.
    """
    if size <= 0:
        return ()
    start, step = _axis(view.snapshot.wall, size)
    cells = _cells(view.timelines.get(scope, ()), view.snapshot.wall, size)
    marked = places(((mark.wall, mark.number) for mark in view.marks), start, step, size)
    spans: list[Span] = []
    at = 0
    for name, run in itertools.groupby(cells):
        length = len(list(run))
        spans.append(_run(name, length, next((cell - at for cell in sorted(marked) if cell >= at), length)))
        at += length
    return put_on(tuple(spans), marked)


def _axis(wall: float, size: int) -> tuple[float, float]:
    """The instant of the left edge, and seconds a cell."""
    step = SPAN_S / size
    # it moves a whole cell at a time, or it would be rewritten each second
    return (wall // step + 1) * step - size * step, step


def _cells(changes: Sequence[tuple[float, str]], wall: float, size: int) -> list[str]:
    start, step = _axis(wall, size)
    cells = [""] * size
    ends = [at for at, _ in changes[1:]] + [wall]
    for (since, name), until in zip(changes, ends, strict=False):
        if until < start:
            continue
        first = max(0, int((since - start) // step))
        last = min(size - 1, int((until - start) // step))
        for index in range(first, last + 1):
            if not cells[index] or severity(name) < severity(cells[index]):
                cells[index] = name
    return cells


def _run(name: str, length: int, free: int) -> Span:
    """One run of a verdict; its name stands where ``free`` cells hold it, or a mark would stand within."""
    if not name:
        return Span(" " * length)
    role: Role
    if name in QUIET:
        fill, role = "·", "muted"
    elif name in TRANSIENT:
        fill, role = "─", "label"
    else:
        fill, role = "━", "text"
    label = SHORT_VERDICTS.get(name, name)
    if len(label) + 2 > min(length, free + 1):
        return Span(fill * length, role)
    return Span(f"{fill}{label}".ljust(length, fill), role)
