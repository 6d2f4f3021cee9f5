"""What every screen made of panes shares: how a picture gets onto the terminal, and how it is scrolled."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from textual.screen import Screen

from tui.ui.draw import as_text, draw
from tui.ui.driver import CellDriver
from tui.ui.pen import pen_for
from tui.ui.view import View
from tui.ui.widgets.pane import Pane

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.style import Style
    from textual import events
    from textual.app import ComposeResult

    from tui.model.settings import Config
    from tui.ui.charts import Trends
    from tui.ui.feed import Feed
    from tui.ui.lines import Role
    from tui.ui.pen import Pen
    from tui.ui.view import PaneName

LOOK_S = 0.25
"""How often a screen asks whether there is anything new; a frame is drawn only if there is."""


class PaneScreen(Screen[None]):
    """Draws one view in panes. It awaits nothing and knows nothing about the host.

    Args:
        panes: those that it may show.
        feed: where pictures come from.
        config: the settings in force.
        styles: how each role looks.
        trends: the lines of the charts.
    """

    CSS = "PaneScreen { overflow: hidden; background: $background; }"
    ALLOW_SELECT = False
    AUTO_FOCUS = None

    def __init__(
        self,
        panes: Iterable[PaneName],
        feed: Feed,
        config: Config,
        styles: Mapping[Role, Style],
        trends: Trends,
    ) -> None:
        super().__init__()
        self._feed = feed
        self._config = config
        self._styles_by_role = styles
        self._trends = trends
        self._view = self._taken()
        self._version = feed.version
        self._scroll = 0
        self._furthest = 0
        self._kept_pen: Pen | None = None
        self._pen_styles: Mapping[Role, Style] | None = None
        self._panes: dict[PaneName, Pane] = {name: Pane(name) for name in panes}

    def compose(self) -> ComposeResult:
        """All panes; the layout shows those that fit."""
        yield from self._panes.values()

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size at once."""
        self.paint()

    def on_screen_resume(self) -> None:
        """What was covered may be old."""
        self.renew()
        self.paint()

    # ------------------------------------------------------------------ pictures

    @property
    def trends(self) -> Trends:
        """The lines of the charts."""
        return self._trends

    def renew(self) -> None:
        """Take the feed's newest picture."""
        self._version = self._feed.version
        self._view = self._taken()

    def shown(self) -> View:
        """The view to draw now."""
        return self._view

    def paint(self) -> None:
        """Bring every pane up to date; what has not changed costs nothing."""
        width, height = self.size
        if not width or not height:
            return
        layout, lines, self._furthest = draw(
            self.shown(), width, height, ascii_only=self._config.screen.ascii, scroll=self._scroll
        )
        self._scroll = min(self._scroll, self._furthest)
        moved = [pane for name, pane in self._panes.items() if pane.place(layout.boxes.get(name))]
        pen = None if moved else self._pen()
        with contextlib.nullcontext() if pen else self.app.batch_update():
            for name in lines:
                self._panes[name].show(lines[name], self._styles_by_role, pen)
        if pen is not None:
            pen.lift()

    def as_text(self) -> str:
        """What stands on the screen, without colours."""
        ascii_only = self._config.screen.ascii
        return as_text(self.shown(), *self.size, ascii_only=ascii_only, scroll=self._scroll)

    def restyle(self, styles: Mapping[Role, Style]) -> None:
        """Another theme."""
        self._styles_by_role = styles
        self.paint()

    def _pen(self) -> Pen | None:
        """What writes past Textual, where nothing but panes is on screen."""
        driver = self.app._driver
        if not isinstance(driver, CellDriver) or self.app.screen is not self or not driver.can_put:
            return None
        if self._pen_styles is not self._styles_by_role:
            self._pen_styles = self._styles_by_role
            self._kept_pen = pen_for(driver, self._styles_by_role, self.app.console)
        return self._kept_pen

    def _taken(self) -> View:
        judgement = self._feed.judgement()
        return View(
            snapshot=self._feed.snapshot(),
            judgement=judgement,
            trends=self._trends,
            timelines={v.scope: self._feed.timeline(v.scope) for v in judgement.verdicts},
            thresholds=self._config.thresholds,
        )

    # ------------------------------------------------------------------ scrolling

    def action_scroll(self, lines: int) -> None:
        """Scroll what fills the screen."""
        self.roll(lines)

    def roll(self, lines: int) -> None:
        """Scroll as far as there is anything."""
        self._scroll = max(0, min(self._furthest, self._scroll + lines))
        self.paint()

    def action_scroll_page(self, pages: int) -> None:
        """Scroll what fills the screen by most of a page."""
        self.action_scroll(pages * max(1, self.size.height - 8))

    def on_pane_wheeled(self, message: Pane.Wheeled) -> None:
        """Scroll what fills the screen."""
        self.roll(message.lines)
