"""Writes changed figures past Textual's compositor, which would repaint, render and parse them for no gain.

Measured at 160x45 with every figure moving: a frame through the compositor costs 12 ms, this way 5.
Only while nothing but panes is on screen, each in its place; whatever else happens goes through Textual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.strip import Strip

from tui.ui.glyphs import glyphs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.style import Style

    from tui.ui.cells import Cell, Look
    from tui.ui.driver import CellDriver
    from tui.ui.lines import Line, Role, Span

_MOST = 2048
"""Texts whose cells are kept."""


class Pen:
    """Puts lines of panes on a terminal.

    Args:
        driver: the terminal.
        looks: how a cell of each role looks there.
    """

    def __init__(self, driver: CellDriver, looks: Mapping[Role, Look]) -> None:
        self._driver = driver
        self._looks = looks
        self._cells: dict[tuple[str, Role], list[Cell]] = {}

    def line(self, y: int, x: int, before: Line, now: Line) -> None:
        """Put a line at a place; spans that stood at their very place before are left alone."""
        stood: dict[int, Span] = {}
        at = x
        for span in before:
            stood[at] = span
            at += len(span[0])
        put = self._driver.put
        for span in now:
            if stood.get(x) != span:
                put(y, x, self._cells_of(span))
            x += len(span[0])

    def _cells_of(self, span: Span) -> list[Cell]:
        key = (span[0], span[1])  # a role is quicker to look up than the look that it stands for
        cells = self._cells.get(key)
        if cells is None:
            if len(self._cells) >= _MOST:
                self._cells.clear()
            cells = self._cells[key] = self._driver.cells(glyphs(span[0]), self._looks[span[1]])
        return cells

    def lift(self) -> None:
        """Bring on screen what was put."""
        self._driver.show()


def pen_for(driver: CellDriver, styles: Mapping[Role, Style], console: Console) -> Pen | None:
    """A pen for a theme; None where the look of a style cannot be told."""
    looks: dict[Role, Look] = {}
    system = console._color_system
    for role, style in styles.items():
        look = driver.look_of(Strip.render_style(style, "x", system) if system else "x")
        if look is None:
            return None
        looks[role] = look
    return Pen(driver, looks)
