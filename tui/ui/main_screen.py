"""The monitor itself: panes, keys and the look for news. It awaits nothing and knows nothing of the host."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from tui.model.text import clean
from tui.ui import filtered
from tui.ui.charts import Trends
from tui.ui.driver import CellDriver
from tui.ui.keys import KEYS
from tui.ui.moments import add, clock
from tui.ui.pane_screen import LOOK_S, PaneScreen
from tui.ui.view import PANES, Mode, View, looked_at, scopes
from tui.ui.widgets import plotext_chart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.style import Style
    from textual import events

    from tui.model.explanations import Explanation
    from tui.model.settings import Config
    from tui.model.snapshot import HostSnapshot
    from tui.ui.feed import Feed
    from tui.ui.lines import Role
    from tui.ui.moments import Mark
    from tui.ui.view import PaneName
    from tui.ui.widgets.pane import Pane

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds between readings that ``+`` and ``-`` step through."""
SAID_S = 4.0
"""How long the answer to a key stands in the header."""
WITHOUT_ROWS: tuple[PaneName | None, ...] = ("verdict", "host", "help")
"""Panes that show nothing to be filtered when they fill the screen."""
PAUSED_LOOK_S = 1.0
"""How often a frozen picture asks whether it is still all that is looked at."""
SLOW_LOOKS = 20
"""Looks between two frames on a slow link."""
_ALL: tuple[PaneName, ...] = ("header", *PANES, "help", "footer")


class MainScreen(PaneScreen):
    """Draws the feed's latest picture whenever there is a new one.

    Args:
        feed: where pictures come from.
        config: the settings in force.
        styles: how each role looks.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.keys, key.action, key.help, show=False, priority=key.priority) for key in KEYS if key.keys
    ]

    def __init__(self, feed: Feed, config: Config, styles: Mapping[Role, Style]) -> None:
        super().__init__(_ALL, feed, config, styles, Trends(feed.history))
        self._marks: tuple[Mark, ...] = ()
        self._explained: tuple[HostSnapshot, str, Explanation | None] | None = None
        self._mode = Mode(slow=config.screen.slow)
        self._looks_to_skip = 0
        self._waits: asyncio.TimerHandle | None = None

    def on_mount(self) -> None:
        """Begin to look for news."""
        self._await_news()
        import gc

        gc.collect()
        gc.freeze()
        gc.set_threshold(10000, 50, 50)

    def on_unmount(self) -> None:
        """No more of it."""
        if self._waits is not None:
            self._waits.cancel()

    # ------------------------------------------------------------------ pictures

    def _await_news(self) -> None:
        """Look now and then, by the loop's own timer: Textual's costs 0.1 ms of CPU more each time."""
        if self._waits is not None:
            self._waits.cancel()
        wait_s = PAUSED_LOOK_S if self._mode.paused else LOOK_S
        self._waits = asyncio.get_running_loop().call_later(wait_s, self._await_news)
        self._ease()
        news = not self._mode.paused and self._feed.version != self._version
        if news or self._looks_to_skip or self._is_slow() != self._mode.slow:
            self.call_later(self.look)

    def look(self) -> None:
        """Draw the feed's newest picture if it is new; none while the picture is frozen or covered."""
        self._mind_the_link()
        if self._looks_to_skip:
            self._looks_to_skip -= 1
        elif not self._mode.paused and self.app.screen is self and self._feed.version != self._version:
            self._version = self._feed.version
            self._view = self._taken()
            self._looks_to_skip = SLOW_LOOKS if self._mode.slow else 0
            self.paint()

    def _ease(self) -> None:
        """Reading may take its time while the picture is frozen, and neither dialog nor test is there."""
        self._feed.relaxed = self._mode.paused and not self._mode.drill and self.app.screen is self

    def _mind_the_link(self) -> None:
        """Few frames while the terminal takes long for each; all of them once it does not."""
        slow = self._is_slow()
        if slow != self._mode.slow:
            self._mode = replace(self._mode, slow=slow)
            self._looks_to_skip = 0
            if self.app.screen is self:
                self.paint()

    def _is_slow(self) -> bool:
        driver = self.app._driver
        return self._config.screen.slow or (isinstance(driver, CellDriver) and driver.slow)

    def shown(self) -> View:
        """The newest picture, or the frozen one, as the operator wants to see it."""
        view = replace(self._view, mode=self._mode, marks=self._marks)
        return replace(view, explanation=self._explanation(view))

    def _explanation(self, view: View) -> Explanation | None:
        """What is behind the verdict that is looked at, worked out once for each picture."""
        verdict = looked_at(view) if view.mode.full == "verdict" else None
        if verdict is None:
            self._explained = None
            return None
        known = self._explained
        if known is None or known[0] is not view.snapshot or known[1] != verdict.scope:
            found = self._feed.explain(verdict.scope, view.snapshot)
            known = self._explained = (view.snapshot, verdict.scope, found)
        return known[2]

    def renew(self) -> None:
        """A frozen picture stays."""
        if not self._mode.paused:
            super().renew()

    def notice(self, text: str) -> None:
        """Say something about the program itself in the header, where it stays."""
        self._mode = replace(self._mode, notice=text)
        self.paint()

    def answer(self, said: str) -> None:
        """A word on a key that was pressed stands in the footer, and does not stay."""
        self._say(said)
        self.set_timer(SAID_S, lambda: self.hush(said))

    def hush(self, said: str = "") -> None:
        """Take back the answer to a key, whichever it is or that one; what was said since stays."""
        if self._mode.said and said in ("", self._mode.said):
            self._say("")

    def _say(self, said: str) -> None:
        self._mode = replace(self._mode, said=said)
        if self.app.screen is self:
            self.paint()

    def tell_drill(self, text: str) -> None:
        """A test that runs, or has ended and was not looked at, in the header; empty: there is none."""
        if text != self._mode.drill:
            self._mode = replace(self._mode, drill=text)
            if self.app.screen is self:
                self.paint()

    def _turn(self, *, full: PaneName | None, focused: PaneName | None) -> None:
        """Another pane in focus or in full."""
        if full != self._mode.full or focused != self._mode.focused:
            self._scroll = 0
        scope = self._mode.scope if full == "verdict" else None
        self._mode = replace(self._mode, full=full, focused=focused, scope=scope, said="")
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
        """All rows again; back to all panes; from there, none in focus."""
        if self._mode.filter:
            self._sift("")
            return
        self._turn(full=None, focused=self._mode.focused if self._mode.full else None)

    def action_jump(self, name: PaneName) -> None:
        """Focus a pane; where one fills the screen, this one does."""
        self._turn(full=name if self._mode.full else None, focused=name)

    def action_next_pane(self, step: int) -> None:
        """Focus the next pane in reading order, or the one before; the next scope where one is explained."""
        if self._mode.full == "verdict":
            self.action_next_scope(step)
            return
        at = self._mode.focused
        index = (PANES.index(at) + step) % len(PANES) if at in PANES else (0 if step > 0 else -1)
        self.action_jump(PANES[index])

    def action_next_scope(self, step: int) -> None:
        """Explain the verdict of the next engine or of the host, or of the one before."""
        shown, known = looked_at(self.shown()), scopes(self._view)
        if self._mode.full != "verdict":
            self.answer("n and N go from engine to engine in v, why this verdict")
            return
        if shown is None or shown.scope not in known or len(known) < 2:
            self.answer("there is no other verdict")
            return
        scope = known[(known.index(shown.scope) + step) % len(known)]
        self._scroll = 0
        self._mode = replace(self._mode, scope=scope)
        self.paint()

    def action_scroll(self, lines: int) -> None:
        """Scroll what fills the screen, or the rows of the focused pane; say so where that is nothing."""
        if self._furthest:
            self.roll(lines)
        elif self._mode.full is None and self._mode.focused is None:
            self.answer("nothing to scroll: go to a pane with Tab or 1 .. 5")
        else:
            self.answer("nothing to scroll: all of it is shown")

    def action_mark(self) -> None:
        """Mark the moment of the picture that is shown."""
        snapshot = self._view.snapshot
        self._marks = add(self._marks, snapshot.wall, snapshot.taken_at)
        self.answer(f"mark {self._marks[-1].number} at {clock(self._marks[-1])}")

    def action_pause(self) -> None:
        """Freeze the picture, or show the newest again."""
        self._mode = replace(self._mode, paused=not self._mode.paused)
        self._await_news()
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
        else:
            self.answer(f"{now:g} s between readings is the {'longest' if direction > 0 else 'shortest'}")
            return
        # said at once: the picture that has been read with it comes an interval later
        snapshot = replace(self._view.snapshot, interval_s=self._feed.interval_s)
        self._view = replace(self._view, snapshot=snapshot)
        self.answer(f"{self._feed.interval_s:g} s between readings")

    def action_generate(self) -> None:
        """The generate probe on or off."""
        if self._view.snapshot.read_only:
            self.answer("no generate probe: --read-only sends an engine no request")
            return
        self._feed.generate = not self._feed.generate
        # said at once, as an interval is
        snapshot = replace(self._view.snapshot, generate=self._feed.generate)
        self._view = replace(self._view, snapshot=snapshot)
        self.answer(f"generate probe {'on' if self._feed.generate else 'off'}")

    # ------------------------------------------------------------------ filter

    def action_filter(self) -> None:
        """Begin to type what rows must hold, where there are rows."""
        if self._mode.full in WITHOUT_ROWS:
            self.answer("nothing to filter here: / filters engines, their probes, and GPUs")
            return
        self._mode = replace(self._mode, typing=True)
        self.paint()

    def on_key(self, event: events.Key) -> None:
        """While the filter is typed keys are letters; Enter keeps it, Escape clears it.

        Any key brings the footer back where the answer to the one before stands.
        """
        self.hush()
        if not self._mode.typing:
            # begun here, not by its binding: that would come behind the letters of whoever types fast
            if event.key == "slash":
                event.stop()
                self.action_filter()
            return
        if event.key in ("enter", "escape"):
            self._mode = replace(self._mode, typing=False)
            self._sift(self._mode.filter if event.key == "enter" else "")
        elif event.key == "backspace":
            self._sift(self._mode.filter[:-1])
        elif event.key == "ctrl+u":
            self._sift("")
        elif event.is_printable and event.character:
            self._sift(self._mode.filter + event.character)
        else:
            return  # to scroll, or to suspend
        event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """A name from elsewhere goes into the filter."""
        if self._mode.typing:
            event.stop()
            self._sift(self._mode.filter + clean(event.text, filtered.MOST))

    def _sift(self, wanted: str) -> None:
        self._scroll = 0
        self._mode = replace(self._mode, filter=wanted[: filtered.MOST])
        self.paint()

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
