"""While the picture is frozen the feed is told so, unless there is something else to follow."""

from __future__ import annotations

from pathlib import Path

from textual.command import CommandPalette

from tests.support.waiting import until
from tests.ui import scenes
from tests.ui.feeds import StillFeed
from tui.model.settings import Config
from tui.ui.app import MonitorApp, ScreenOptions

SHIPPED = Path(__file__).parents[2] / "themes"


async def test_a_frozen_picture_needs_few_readings_a_dialog_over_it_or_a_test_all() -> None:
    feed = StillFeed(scenes.calm_view())
    app = MonitorApp(feed, Config(), ScreenOptions(theme_directories=[SHIPPED]))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("p")
        await until(lambda: feed.relaxed, 5)
        app.main.tell_drill("drain test running, d: show")
        await until(lambda: not feed.relaxed, 5)
        app.main.tell_drill("")
        await until(lambda: feed.relaxed, 5)
        await pilot.press("ctrl+p")
        await until(lambda: isinstance(app.screen, CommandPalette) and not feed.relaxed, 5)
        await pilot.press("escape")
        await until(lambda: feed.relaxed, 5)
        await pilot.press("p")
        await pilot.pause()
        assert not feed.relaxed
