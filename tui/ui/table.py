"""Rows in fixed columns: numbers stand right so that they do not dance, the least needed columns go first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from tui.ui.lines import Line, Span, fit, left, right, width, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tui.ui.lines import Role

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column.

    Args:
        head: its heading.
        size: cells; the least number of them where ``grow`` is set.
        cell: what it shows of a row.
        rank: columns with the highest rank are dropped first where the width does not hold all.
        grow: the most cells it may take of what is left over; 0 keeps ``size``.
        to_left: text; numbers stand right.
        shorten: makes of a cell what fits, where it does not.
    """

    head: str
    size: int
    cell: Callable[[R], Span | Line]
    rank: int = 0
    grow: int = 0
    to_left: bool = False
    shorten: Callable[[Line, int], Line] = fit


NAME = 22
"""Cells that a name may take from the columns beside it, e.g. of ``trtllm 10.0.12.34:8000``."""
GAP = " "


def for_names(columns: Sequence[Column[R]], names: Iterable[str], size: int) -> Sequence[Column[R]]:
    """The columns, the first as wide as its names need, as far as those that are never dropped allow."""
    first, *others = columns
    room = size - sum(column.size + 1 for column in others if not column.rank)
    longest = max(map(len, names), default=0)
    return [replace(first, size=max(first.size, min(longest, NAME, room))), *others]


def choose(columns: Sequence[Column[R]], size: int) -> list[tuple[Column[R], int]]:
    """The columns that fit ``size`` cells, and how wide each is."""
    kept = list(columns)
    while len(kept) > 1 and sum(column.size + 1 for column in kept) - 1 > size:
        kept.remove(max(kept, key=lambda column: column.rank))
    spare = max(0, size - (sum(column.size + 1 for column in kept) - 1))
    sizes = []
    for column in kept:
        extra = min(spare, max(0, column.grow - column.size))
        spare -= extra
        sizes.append(column.size + extra)
    return list(zip(kept, sizes, strict=True))


def head(chosen: Sequence[tuple[Column[R], int]]) -> Line:
    """The line of headings."""
    words = [(left if c.to_left else right)(c.head, size) for c, size in chosen]
    return (Span(GAP.join(words), "label"),)


def row(chosen: Sequence[tuple[Column[R], int]], item: R) -> Line:
    """The line of one row. Padding is no part of a figure: an underline must not cover it."""
    spans: list[Span] = []
    blanks = 0
    for column, size in chosen:
        cell = column.cell(item)
        pieces: Line
        if isinstance(cell, Span):
            pieces, used = (cell,), len(cell[0])
        else:
            pieces, used = cell, width(cell)
        if used > size:
            pieces, used = column.shorten(pieces, size), size
        padding = size - used
        if not column.to_left:
            blanks += padding
        if blanks:
            spans.append(Span(" " * blanks))
        spans += pieces
        blanks = len(GAP) + (padding if column.to_left else 0)
    if blanks > len(GAP):
        spans.append(Span(" " * (blanks - len(GAP))))
    return tuple(spans)


def window(rows: Sequence[R], room: int, skipped: int) -> tuple[Sequence[R], str]:
    """The rows that are shown where they do not all fit, and what is said of the others on a line below.

    Args:
        rows: all of them.
        room: lines, that one included; where there are fewer than two, nothing is said.
        skipped: rows that are scrolled away, as far as the last ones then fill the room.
    """
    start = min(skipped, overflow(len(rows), room))
    shown = rows[start : start + max(1, room - 1)]
    below = len(rows) - start - len(shown)
    return shown, ", ".join(
        text for text, count in ((f"{start} above", start), (f"+{below} more", below)) if count
    )


def overflow(count: int, room: int) -> int:
    """How many rows can be scrolled away."""
    return 0 if count <= room else count - max(1, room - 1)


def noted(
    chosen: Sequence[tuple[Column[R], int]], item: R, heads: int, notes: Sequence[str], role: Role, size: int
) -> Line:
    """A row whose figures cannot be shown: its first ``heads`` columns, then why, over the rest.

    Args:
        chosen: all columns, and how wide each is.
        item: the row.
        heads: how many of them stand.
        notes: wordings, the fullest first; the first that is whole is taken.
        role: of the note.
        size: cells.
    """
    start = row(chosen[:heads], item)
    return (*start, Span(GAP), Span(told(notes, size - width(start) - 1)[0], role))


def told(wordings: Sequence[str], size: int, rows: int = 1) -> list[str]:
    """The first wording that is whole on so many lines; the shortest, cut with a mark, where none is."""
    fitting = (lines for text in wordings if len(lines := wrap(text, size)) <= rows)
    return next(fitting, None) or wrap(min(wordings, key=len), size, rows)
