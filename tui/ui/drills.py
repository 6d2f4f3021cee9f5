"""The tests of this user as the screen knows them: the one that runs, the one whose end was not seen."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tui.actions.picture import Follower
from tui.model.settings import EngineTarget
from tui.sources.deadline import within
from tui.ui import drill_desk as desk
from tui.ui.panes.drill_result import outcome
from tui.ui.panes.drill_run import named, target
from tui.ui.screens.drill_run import DrillRun
from tui.ui.screens.page import DrillPage
from tui.ui.view import urgent_first
from tui.ui.words import elapsed, engine_name

if TYPE_CHECKING:
    from tui.actions.plan import TestKind
    from tui.actions.runs import RunFiles
    from tui.model.settings import Config
    from tui.ui.app import MonitorApp

LOOK_S = 0.25
SEARCH_S = 5.0
"""Between two looks for a test that somebody else of this user has started."""
OFF = "tests are off: --allow-actions or [actions] enabled = true"
READ_ONLY = "no tests: this is --read-only"


class Drills:
    """Follows tests, and shows what was asked for.

    Args:
        app: on whose screens.
        config: the settings in force; ``engines`` holds every endpoint that was named.
    """

    def __init__(self, app: MonitorApp, config: Config) -> None:
        self._app = app
        self._config = config
        self._follower: Follower | None = None
        self._found = asyncio.Event()
        """There is one to follow."""
        self._searched_at = 0.0

    # ------------------------------------------------------------------ following

    async def attend(self) -> None:
        """Follow what runs, for ever; nothing else waits for it."""
        await self._search(first=True)
        while True:
            follower = self._follower
            if follower is not None and not follower.picture.over:
                with suppress(OSError, asyncio.TimeoutError):  # tried again at the next look
                    follower.picture.take(await desk.away(follower.look, "events of a test"))
            elif time.monotonic() - self._searched_at >= SEARCH_S:
                await self._search()
            await self._tell()
            await self._pause()

    async def _pause(self) -> None:
        """Until the next look at the test that runs; where there is none, until there is or may be one."""
        if self._follower is not None:
            await asyncio.sleep(LOOK_S)
            return
        self._found.clear()
        with suppress(asyncio.TimeoutError):
            await within(SEARCH_S, self._found.wait())

    def _follow(self, files: RunFiles) -> Follower:
        follower = self._follower = Follower(files)
        self._found.set()
        return follower

    async def _search(self, *, first: bool = False) -> None:
        self._searched_at = time.monotonic()
        try:
            running, owed = await desk.known()
        except asyncio.TimeoutError:
            return
        if running is not None:
            self._follow(running)
            if first and running.unseen.exists():
                self._show()
        elif first and owed is not None:
            self._follow(owed)
            await self._forget(owed)  # it is offered once

    async def _tell(self) -> None:
        """Say in the header what is not on a page; what has ended on one was seen."""
        follower = self._follower
        if follower is None:
            self._app.main.tell_drill("")
            return
        top, picture = self._app.screen, follower.picture
        if isinstance(top, DrillRun) and top.follower is follower:
            if picture.over:
                self._follower = None
                await self._forget(follower.files)
            self._app.main.tell_drill("")
        elif picture.over:
            self._app.main.tell_drill(f"{named(picture)} of {target(picture)} {outcome(picture)}, d: result")
        else:
            began = picture.began_at
            since = "" if began is None else f" {elapsed(time.time() - began)}"
            self._app.main.tell_drill(f"{named(picture)} running{since}, d: show")

    async def _forget(self, files: RunFiles) -> None:
        with suppress(OSError, asyncio.TimeoutError):
            await desk.away(lambda: files.unseen.unlink(missing_ok=True), "end of a test")

    # ------------------------------------------------------------------ what was asked for

    async def ask(self, test: TestKind) -> None:
        """Show the test that runs or has just ended; else the dialog for a new one."""
        if isinstance(self._app.screen, DrillPage):
            return
        if self._follower is None:
            await self._search()
        if self._follower is not None:
            self._show()
        elif self._config.read_only:
            self._app.main.answer(READ_ONLY)
        elif not self._config.actions.enabled:
            self._app.main.answer(OFF)
        else:
            self._ask_for(test)

    def _show(self) -> None:
        assert self._follower is not None  # whoever calls this has one
        app = self._app
        app.push_screen(DrillRun(self._follower, *app.page_parts()))

    def _ask_for(self, test: TestKind) -> None:
        # importing what makes plans takes longer than all the rest of the start
        from tui.ui.screens.drill_dialog import DrillDialog

        engines = urgent_first(self._app.main.shown())
        named_here = {known.url: known for known in self._config.engines}
        targets = [
            (named_here.get(engine.url, EngineTarget(engine.url, discovered=True)), engine_name(engine))
            for engine in sorted(engines, key=lambda engine: not engine.local)
        ]
        if not targets:
            self._app.main.answer(f"no engine to test: a {test} test needs one on this host")
            return
        self._app.push_screen(DrillDialog(test, targets, self._begun, *self._app.page_parts()))

    def _begun(self, files: RunFiles) -> None:
        """The dialog has started a test: its page takes the dialog's place."""
        self._app.switch_screen(DrillRun(self._follow(files), *self._app.page_parts()))
