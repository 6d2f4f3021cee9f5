"""The one screen: panes, keys and the look for news. It awaits nothing and knows nothing about the host."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.ui.charts import Trends
from tui.ui.draw import draw
from tui.ui.driver import CellDriver
from tui.ui.keys import KEYS
from tui.ui.pen import pen_for
from tui.ui.view import PANES, Mode, View
from tui.ui.widgets import plotext_chart
from tui.ui.widgets.pane import Pane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.style import Style
    from textual import events
    from textual.app import ComposeResult

    from tui.model.settings import Config
    from tui.ui.feed import Feed
    from tui.ui.lines import Role
    from tui.ui.pen import Pen
    from tui.ui.view import PaneName

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds between readings that ``+`` and ``-`` step through."""
LOOK_S = 0.25
"""How often the feed is asked whether there is anything new; a frame is drawn only if there is."""
SAID_S = 4.0
"""How long the answer to a key stands in the header."""
SLOW_LOOKS = 20
"""Looks between two frames on a slow link."""
_ALL: tuple[PaneName, ...] = ("header", *PANES, "help", "footer")


class MainScreen(Screen[None]):
    """Draws the feed's latest picture whenever there is a new one.

    Args:
        feed: where pictures come from.
        config: the settings in force.
        styles: how each role looks.
    """

    CSS = "MainScreen { overflow: hidden; background: $background; }"
    ALLOW_SELECT = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.keys, key.action, key.help, show=False, priority=key.priority) for key in KEYS if key.keys
    ]

    def __init__(self, feed: Feed, config: Config, styles: Mapping[Role, Style]) -> None:
        super().__init__()
        self._feed = feed
        self._config = config
        self._styles_by_role = styles
        self._trends = Trends(feed.history)
        self._mode = Mode()
        self._view = self._taken()
        self._version = feed.version
        self._looks_to_skip = 0
        self._scroll = 0
        self._furthest = 0
        self._kept_pen: Pen | None = None
        self._pen_styles: Mapping[Role, Style] | None = None
        self._panes: dict[PaneName, Pane] = {name: Pane(name) for name in _ALL}

    def compose(self) -> ComposeResult:
        """All panes; the layout shows those that fit."""
        yield from self._panes.values()

    def on_mount(self) -> None:
        """Begin to look for news."""
        self.set_interval(LOOK_S, self.look)
        import gc

        gc.collect()
        gc.freeze()
        gc.set_threshold(10000, 50, 50)

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size at once."""
        self.paint()

    # ------------------------------------------------------------------ pictures

    def look(self) -> None:
        """Draw the feed's newest picture if it is new; none while the picture is frozen or covered."""
        if self._looks_to_skip:
            self._looks_to_skip -= 1
        elif not self._mode.paused and self.app.screen is self and self._feed.version != self._version:
            self._version = self._feed.version
            self._view = self._taken()
            self._looks_to_skip = SLOW_LOOKS if self._config.screen.slow else 0
            self.paint()

    def paint(self) -> None:
        """Bring every pane up to date; what has not changed costs nothing."""
        width, height = self.size
        if not width or not height:
            return
        view = replace(self._view, mode=self._mode)
        layout, lines, self._furthest = draw(
            view, width, height, ascii_only=self._config.screen.ascii, scroll=self._scroll
        )
        self._scroll = min(self._scroll, self._furthest)
        moved = [pane for name, pane in self._panes.items() if pane.place(layout.boxes.get(name))]
        pen = None if moved else self._pen()
        with contextlib.nullcontext() if pen else self.app.batch_update():
            for name in lines:
                self._panes[name].show(lines[name], self._styles_by_role, pen)
        if pen is not None:
            pen.lift()

    def restyle(self, styles: Mapping[Role, Style]) -> None:
        """Another theme."""
        self._styles_by_role = styles
        self.paint()

    def notice(self, text: str) -> None:
        """Say something about the program itself in the header."""
        self._mode = replace(self._mode, notice=text)
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

    def _unsay(self, said: str) -> None:
        """A word on a key that was pressed does not stay; what was said since does."""
        if self._mode.notice == said:
            self.notice("")

    def _taken(self) -> View:
        judgement = self._feed.judgement()
        return View(
            snapshot=self._feed.snapshot(),
            judgement=judgement,
            trends=self._trends,
            timelines={v.scope: self._feed.timeline(v.scope) for v in judgement.verdicts},
            thresholds=self._config.thresholds,
        )

    def _turn(self, *, full: PaneName | None, focused: PaneName | None) -> None:
        """Another pane in focus or in full."""
        if full != self._mode.full:
            self._scroll = 0
        self._mode = replace(self._mode, full=full, focused=focused)
        self.paint()
        if full == "engines" and not self._mode.plots:
            # importing the plotting library takes longer than a key may: the rest is drawn first
            self.call_after_refresh(self._load_plots)

    def _load_plots(self) -> None:
        plotext_chart.load()
        self._mode = replace(self._mode, plots=True)
        self.paint()

    # ------------------------------------------------------------------ keys

    def action_fill(self, name: PaneName) -> None:
        """Fill the screen with a pane; the same again goes back."""
        self._turn(full=None if self._mode.full == name else name, focused=self._mode.focused)

    def action_zoom(self) -> None:
        """Fill the screen with the focused pane, or go back."""
        self._turn(
            full=None if self._mode.full else self._mode.focused or "verdict", focused=self._mode.focused
        )

    def action_back(self) -> None:
        """Back to all panes; from there, none in focus."""
        self._turn(full=None, focused=self._mode.focused if self._mode.full else None)

    def action_jump(self, name: PaneName) -> None:
        """Focus a pane; where one fills the screen, this one does."""
        self._turn(full=name if self._mode.full else None, focused=name)

    def action_next_pane(self, step: int) -> None:
        """Focus the next pane in reading order, or the one before."""
        at = self._mode.focused
        index = (PANES.index(at) + step) % len(PANES) if at in PANES else (0 if step > 0 else -1)
        self.action_jump(PANES[index])

    def action_pause(self) -> None:
        """Freeze the picture, or show the newest again."""
        self._mode = replace(self._mode, paused=not self._mode.paused)
        if not self._mode.paused:
            self._version = self._feed.version
            self._view = self._taken()
        self.paint()

    def action_interval(self, direction: int) -> None:
        """The next longer or shorter interval between readings."""
        now = self._feed.interval_s
        longer = [value for value in INTERVALS if value > now]
        shorter = [value for value in INTERVALS if value < now]
        if direction > 0 and longer:
            self._feed.interval_s = longer[0]
        elif direction < 0 and shorter:
            self._feed.interval_s = shorter[-1]
        # said at once: the picture that has been read with it comes an interval later
        snapshot = replace(self._view.snapshot, interval_s=self._feed.interval_s)
        self._view = replace(self._view, snapshot=snapshot)
        self.paint()

    def action_generate(self) -> None:
        """The generate probe on or off."""
        if self._view.snapshot.read_only:
            self.notice("no generate probe: --read-only sends an engine no request")
            return
        self._feed.generate = not self._feed.generate
        # said at once, as an interval is
        snapshot = replace(self._view.snapshot, generate=self._feed.generate)
        self._view = replace(self._view, snapshot=snapshot)
        said = f"generate probe {'on' if self._feed.generate else 'off'}"
        self.notice(said)
        self.set_timer(SAID_S, lambda: self._unsay(said))

    def action_scroll(self, lines: int) -> None:
        """Scroll what fills the screen."""
        self._scroll = max(0, min(self._furthest, self._scroll + lines))
        self.paint()

    def action_scroll_page(self, pages: int) -> None:
        """Scroll what fills the screen by most of a page."""
        self.action_scroll(pages * max(1, self.size.height - 8))

    # ------------------------------------------------------------------ mouse

    async def on_pane_clicked(self, message: Pane.Clicked) -> None:
        """Do what was clicked, or focus the pane; a double click fills the screen with it."""
        if message.action:
            await self.run_action(message.action)
        elif message.pane in PANES:
            if message.double:
                self.action_fill(message.pane)
            else:
                self.action_jump(message.pane)

    def on_pane_wheeled(self, message: Pane.Wheeled) -> None:
        """Scroll what fills the screen."""
        self.action_scroll(message.lines)
