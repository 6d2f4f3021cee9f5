"""A picture to the lines of every visible pane: the whole screen as text, without a terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tui.ui import filtered, moments
from tui.ui.frame import framed
from tui.ui.glyphs import glyphs
from tui.ui.layout import Needs, arrange
from tui.ui.lines import Line, Span, fit, to_ascii
from tui.ui.panes import engines, footer, gpus, header, help, host, probes, verdict, why  # noqa: A004
from tui.ui.table import overflow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.ui.layout import Box, Layout
    from tui.ui.view import PaneName, View

    Draw = Callable[[View, int, int], list[Line]]

_TITLES: dict[PaneName, Callable[[View], Line]] = {
    "verdict": verdict.title,
    "gpus": gpus.title,
    "engines": engines.title,
    "host": host.title,
    "probes": probes.title,
    "help": help.title,
    "drill": lambda view: view.sheet.title() if view.sheet is not None else (),
}
_CHARTED = frozenset(("gpus", "engines", "host"))
"""Panes with charts: zoomed, they list what the marks on them stand for."""
_BODIES: dict[PaneName, Draw] = {
    "verdict": verdict.body,
    "gpus": gpus.body,
    "engines": engines.body,
    "host": host.body,
    "probes": probes.body,
    "help": help.body,
}
_FLAT: dict[PaneName, Draw] = {
    "header": header.lines,
    "verdict": verdict.flat,
    "gpus": gpus.flat,
    "engines": engines.flat,
    "host": host.flat,
    "probes": probes.flat,
    "footer": footer.lines,
}
_ROWS: dict[PaneName, Callable[[View], Sequence[object]]] = {
    "gpus": filtered.gpus,
    "engines": filtered.engines,
}
"""The tables that scroll."""


def draw(
    view: View, width: int, height: int, *, ascii_only: bool = False, scroll: int = 0
) -> tuple[Layout, dict[PaneName, list[Line]], int]:
    """The layout, each pane's lines (as many and as wide as its box), and how far the screen scrolls.

    Args:
        view: the picture.
        width: of the screen.
        height: of the screen.
        ascii_only: no character outside ASCII.
        scroll: lines of the full pane that are scrolled away, or rows of the focused table; what cannot be
            is not.
    """
    layout = arrange(width, height, Needs.of(view), view.mode.full)
    panes: dict[PaneName, list[Line]] = {}
    rest = _overflow(view, layout)
    if view.mode.full is None:
        view = replace(view, mode=replace(view.mode, skipped=min(scroll, rest)))
    if view.mode.said and "footer" not in layout.boxes:
        view = replace(view, mode=replace(view.mode, notice=view.mode.said))
    for name, box in layout.boxes.items():
        if layout.framed and name in _BODIES and view.mode.full is None:
            body = _BODIES[name](view, box.width - 4, box.height - 2)
            lines = _frame(view, name, body, box)  # they fit
        else:
            if name == view.mode.full:
                lines, rest = _full(view, name, box, layout.framed, scroll)
            else:
                lines = _FLAT[name](view, box.width, box.height)
            lines = [fit(line, box.width) for line in lines[: box.height]]
        lines += [(Span(" " * box.width),)] * (box.height - len(lines))
        panes[name] = [to_ascii(line) for line in lines] if ascii_only else lines
    return layout, panes, rest


def _overflow(view: View, layout: Layout) -> int:
    """How many rows of the focused table can be scrolled away."""
    name = view.mode.focused
    box = layout.boxes.get(name) if name is not None and view.mode.full is None else None
    rows = _ROWS.get(name) if name is not None else None
    if box is None or rows is None:
        return 0
    count = len(rows(view))
    if layout.framed:
        return overflow(count, box.height - 3)
    return overflow(count, box.height - 1) if name == "engines" or gpus.as_table(view, box.height) else 0


def _full(view: View, name: PaneName, box: Box, is_framed: bool, scroll: int) -> tuple[list[Line], int]:
    """A scrolled window on a pane that fills the screen, and how far it can be scrolled."""
    size, room = (box.width - 4, box.height - 2) if is_framed else (box.width - 1, box.height)
    heading = [_TITLES[name](view)] if not is_framed and room > 2 else []  # it says how old all of it is
    room -= len(heading)
    head: list[Line] = []
    foot: list[Line] = []
    if name == "drill" and view.sheet is not None:
        foot = view.sheet.foot(size)[:room]
        head = view.sheet.head(size)[: max(0, room - len(foot) - 2)]
        room -= len(head) + len(foot)
        body = view.sheet.body(size)
    else:
        body = why.body(view, size) if name == "verdict" else _BODIES[name](view, size, room)
        if name in _CHARTED and view.marks:
            body = [*body, (), *moments.listed(view, size)]
    rest = max(0, len(body) - room)
    start = min(scroll, rest)
    shown = body[start : start + room]
    if start < rest and shown:
        shown[-1] = (Span(f"{len(body) - start - room + 1} more lines below", "muted"),)
    shown = [*head, *shown, *foot]
    if is_framed:
        return _frame(view, name, shown, box), rest
    return [(Span(" "), *line) for line in (*heading, *shown)], rest


def _frame(view: View, name: PaneName, body: list[Line], box: Box) -> list[Line]:
    focused = view.mode.focused == name
    return framed(_TITLES[name](view), body, box.width, box.height, focused=focused)


def as_text(view: View, width: int, height: int, *, ascii_only: bool = False, scroll: int = 0) -> str:
    """The whole screen as plain text; the arguments are those of ``draw``."""
    layout, panes, _ = draw(view, width, height, ascii_only=ascii_only, scroll=scroll)
    rows = [" " * width] * height
    for name, box in layout.boxes.items():
        for index, line in enumerate(panes[name]):
            y = box.y + index
            text = "".join(span.text for span in line)
            rows[y] = rows[y][: box.x] + text + rows[y][box.x + box.width :]
    return "\n".join(glyphs(row) for row in rows)
