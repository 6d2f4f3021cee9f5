"""A test from its start to its report. The test does not need this page: it can be left, and come back to."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from tui.ui import drill_desk as desk
from tui.ui.panes.drill_result import ResultSheet
from tui.ui.panes.drill_run import RunSheet
from tui.ui.screens.page import DrillPage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from rich.style import Style
    from textual import events

    from tui.actions.picture import Follower
    from tui.model.settings import Config
    from tui.ui.charts import Trends
    from tui.ui.feed import Feed
    from tui.ui.lines import Role
    from tui.ui.sheet import Sheet


class DrillRun(DrillPage):
    """Shows one test.

    Args:
        follower: looked at by somebody else.
        feed, config, styles, trends: as for any page.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "cancel", show=False),
        Binding("q", "app.leave", show=False),
        Binding("d,r", "leave", show=False),
    ]

    def __init__(
        self, follower: Follower, feed: Feed, config: Config, styles: Mapping[Role, Style], trends: Trends
    ) -> None:
        super().__init__(feed, config, styles, trends)
        self._follower = follower
        self._asking = False
        self._cancelled = False
        self._said = ""
        self._was_over = follower.picture.over

    @property
    def follower(self) -> Follower:
        """The test that is shown."""
        return self._follower

    def sheet(self) -> Sheet:
        """The run, and once it has ended its report."""
        picture = self._follower.picture
        if picture.over != self._was_over:
            self._was_over, self._scroll = picture.over, 0
        if picture.over:
            return ResultSheet(picture)
        return RunSheet(picture, time.time(), self._asking, self._cancelled, self._said)

    def on_key(self, event: events.Key) -> None:
        """Any other key than the one that was asked for takes the question back."""
        if self._asking and event.key not in ("c", "up", "down", "pageup", "pagedown", "home", "end"):
            event.stop()
            self._asking = False
            self.paint()

    def action_cancel(self) -> None:
        """Ask first; the second time the test is asked to end."""
        if self._follower.picture.over or self._cancelled:
            return
        self._said = ""
        if self._config.read_only:
            self._said = "not cancelled: --read-only acts on nothing"
        elif self._asking:
            self._asking = False
            cancel: Callable[[], Coroutine[object, object, None]] = self._cancel
            self.run_worker(cancel, group="cancel", exclusive=True)
        else:
            self._asking = True
        self.paint()

    async def _cancel(self) -> None:
        files = self._follower.files
        try:
            await desk.away(lambda: files.cancel.touch(mode=0o600), "cancel of a test")
        except (OSError, asyncio.TimeoutError) as error:
            self._said = f"it cannot be cancelled: {error or 'a disk does not answer'}"
        else:
            self._cancelled = True
        self.paint()
