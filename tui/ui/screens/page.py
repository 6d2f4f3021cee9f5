"""A page about a test over the monitor: header and verdict go on above it, its own keys stand below."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from tui.ui.pane_screen import LOOK_S, PaneScreen
from tui.ui.view import Mode, View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.style import Style

    from tui.model.settings import Config
    from tui.ui.charts import Trends
    from tui.ui.feed import Feed
    from tui.ui.lines import Role
    from tui.ui.sheet import Sheet
    from tui.ui.view import PaneName
    from tui.ui.widgets.pane import Pane

_PANES: tuple[PaneName, ...] = ("header", "verdict", "drill", "footer")
_SCROLLS = {
    "up": "scroll(-1)",
    "down": "scroll(1)",
    "pageup": "scroll_page(-1)",
    "pagedown": "scroll_page(1)",
    "home": "scroll(-100000)",
    "end": "scroll(100000)",
}


class DrillPage(PaneScreen):
    """Draws one sheet, as often as there is something new."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("ctrl+l", "app.redraw", show=False),
        Binding("ctrl+z", "app.suspend_process", show=False),
        *(Binding(key, action, show=False) for key, action in _SCROLLS.items()),
    ]

    def __init__(self, feed: Feed, config: Config, styles: Mapping[Role, Style], trends: Trends) -> None:
        super().__init__(_PANES, feed, config, styles, trends)

    def on_mount(self) -> None:
        """Begin to look for news."""
        self.set_interval(LOOK_S, self.look)

    def sheet(self) -> Sheet:
        """What is to be shown now."""
        raise NotImplementedError

    def look(self) -> None:
        """Draw what is new; nothing while something lies above."""
        if self.app.screen is not self:
            return
        if self._feed.version != self._version:
            self.renew()
        self.paint()

    def shown(self) -> View:
        """The sheet below the monitor's header and verdict."""
        return replace(self._view, mode=Mode(full="drill"), sheet=self.sheet())

    def action_leave(self) -> None:
        """Back to the monitor."""
        self.dismiss(None)

    async def on_pane_clicked(self, message: Pane.Clicked) -> None:
        """Do what was clicked on the page; the panes above lead nowhere from here."""
        if message.action and message.pane in ("drill", "footer"):
            await self.run_action(message.action)
