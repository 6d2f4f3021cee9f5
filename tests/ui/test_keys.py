"""Keys, palette and mouse on the real application, without a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from textual import events
from textual.binding import Binding
from textual.command import CommandList, CommandPalette

from tests.support.waiting import until
from tests.ui import scenes
from tests.ui.feeds import StillFeed
from tui.model.settings import Config, ScreenSettings
from tui.ui.app import MonitorApp, ScreenOptions
from tui.ui.keys import KEYS
from tui.ui.lines import plain
from tui.ui.main_screen import MainScreen
from tui.ui.themes import ThemeError
from tui.ui.widgets.pane import Pane

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui.ui.view import View

SHIPPED = Path(__file__).parents[2] / "themes"


def made(view: View | None = None, *, config: Config | None = None, **options: Any) -> MonitorApp:
    feed = StillFeed(view or scenes.calm_view())
    options.setdefault("theme_directories", [SHIPPED])
    return MonitorApp(feed, config or Config(), ScreenOptions(**options))


def feed_of(app: MonitorApp) -> StillFeed:
    feed = app._feed
    assert isinstance(feed, StillFeed)
    return feed


def screen_text(app: MonitorApp) -> str:
    """What the panes of the main screen show, top to bottom."""
    panes = [pane for pane in app.query(Pane) if pane.display]
    panes.sort(key=lambda pane: (pane.region.y, pane.region.x))
    return "\n".join(plain(line) for pane in panes for line in pane._lines)


async def press(pilot: Pilot[str], *keys: str) -> str:
    await pilot.press(*keys)
    await pilot.pause()
    assert isinstance(pilot.app, MonitorApp)
    return screen_text(pilot.app)


async def test_the_feed_is_started_and_stopped() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        assert feed_of(app).started == 1
    assert feed_of(app).stopped == 1


async def test_a_new_picture_is_drawn_an_old_one_is_not() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        feed_of(app).change(scenes.sick_view())
        await until(lambda: "KV CACHE FULL" in screen_text(app), 5)


async def test_g_switches_the_generate_probe() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        assert "generate probe on" in await press(pilot, "g")
        assert feed_of(app).generate
        assert "generate: on" in await press(pilot, "5", "z")
        assert "generate probe off" in await press(pilot, "g")
        assert not feed_of(app).generate
        app.main.hush("generate probe on")  # its time has come, but another word stands there
        assert "generate probe off" in screen_text(app)
        app.main.hush("generate probe off")
        await pilot.pause()
        assert "generate probe" not in screen_text(app).splitlines()[-1]


async def test_g_sends_nothing_where_nothing_may_be_sent() -> None:
    view = scenes.calm_view()
    app = made(replace(view, snapshot=replace(view.snapshot, read_only=True)))
    async with app.run_test(size=(160, 45)) as pilot:
        assert "--read-only sends an engine no request" in await press(pilot, "g")
        assert not feed_of(app).generate


async def test_zoom_why_help_and_back() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        text = await press(pilot, "2", "z")
        assert "SM MHz" in text
        assert "ENGINES" not in text
        assert "HEALTHY" in text  # the verdict stays in sight
        text = await press(pilot, "z")
        assert "ENGINES" in text
        text = await press(pilot, "v")
        assert "every rule" in text
        text = await press(pilot, "question_mark")
        assert "Quit; the terminal is left as it was" in text
        text = await press(pilot, "escape")
        assert "PROBES" in text


SPOKEN = {
    "question_mark": "?", "f1": "F1", "slash": "/", "plus": "+", "equals_sign": "=", "minus": "-",
    "tab": "Tab", "shift+tab": "Shift+Tab", "enter": "Enter", "escape": "Esc", "space": "Space",
    "up": "Up", "down": "Down", "home": "Home", "end": "End", "pageup": "PgUp", "pagedown": "PgDn",
    "ctrl+l": "^l", "ctrl+z": "^z",
}  # fmt: skip
"""How people call keys, where not by Textual's name."""


async def test_help_names_every_key_and_the_palette_has_its_action() -> None:
    app = made()
    async with app.run_test(size=(110, 70)) as pilot:
        await pilot.pause()
        text = await press(pilot, "question_mark")
        for key in KEYS:
            assert key.help in text
        words = set(re.split(r"[\s(),:]+", text)) | {"2", "3", "4"}  # within "1 .. 5"
        actions = {command.title for command in app.get_system_commands(app.screen)}
        bound = {key.action: key for key in KEYS if key.keys}
        for binding in app.main.BINDINGS:
            assert isinstance(binding, Binding)
            for name in binding.key.split(","):
                assert SPOKEN.get(name, name) in words
            assert (bound[binding.action].title or bound[binding.action].help) in actions


async def test_help_is_beside_the_words_on_a_wide_screen() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        text = await press(pilot, "question_mark")
        assert re.search(r"Quit; the terminal is left as it was +what the columns mean", text)
        assert "more lines below" not in text


async def test_tab_walks_through_the_panes_and_digits_jump() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        assert "╭▸ 1 VERDICT" in await press(pilot, "tab")
        assert "╭▸ 2 GPUs" in await press(pilot, "tab")
        assert "╭▸ 1 VERDICT" in await press(pilot, "shift+tab")
        assert "╭▸ 5 PROBES" in await press(pilot, "shift+tab")
        assert "╭▸ 3 ENGINES" in await press(pilot, "3")
        await press(pilot, "z")
        assert "nvme0n1" in await press(pilot, "4")  # while one is zoomed, the next one is


async def test_pause_freezes_the_picture_and_resume_shows_the_newest() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        assert "PAUSED" in await press(pilot, "p")
        feed_of(app).change(scenes.sick_view())
        await pilot.pause(0.6)  # two looks at the feed
        assert "KV CACHE FULL" not in screen_text(app)
        text = await press(pilot, "p")
        assert "PAUSED" not in text
        assert "KV CACHE FULL" in text


async def test_interval_steps() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        assert "2 s" in (await press(pilot, "plus")).splitlines()[0]
        assert feed_of(app).interval_s == 2.0
        await press(pilot, "minus", "minus", "minus")
        assert feed_of(app).interval_s == 0.5
        await press(pilot, *["plus"] * 9)
        assert feed_of(app).interval_s == 60.0


async def test_themes_cycle() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        assert app.theme == "dark"
        assert "theme high-contrast (2 of 5)" in await press(pilot, "t")
        assert app.theme == "high-contrast"
        await press(pilot, "t", "t", "t", "t")
        assert app.theme == "dark"


async def test_scrolling_what_fills_the_screen() -> None:
    app = made(scenes.crowded_view())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        text = await press(pilot, "v")
        assert "more lines below" in text
        assert "findings" not in text
        assert "findings" in await press(pilot, "end")
        assert "KV CACHE FULL" in await press(pilot, "home")
        assert "KV CACHE FULL" not in await press(pilot, "pagedown")


async def test_the_palette_has_every_action() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        main = app.screen
        names = {command.title for command in app.get_system_commands(main)}
        assert {key.title or key.help for key in KEYS if key.keys} <= names
        assert "Theme light" in names
        await pilot.press("ctrl+p")
        await until(lambda: isinstance(app.screen, CommandPalette), 5)
        await pilot.press(*"freeze")
        await pilot.pause()
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, MainScreen) and "PAUSED" in screen_text(app), 5)


async def test_nothing_is_drawn_below_the_palette() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await pilot.press("ctrl+p")
        await until(lambda: isinstance(app.screen, CommandPalette), 5)
        feed_of(app).change(scenes.sick_view())
        await pilot.pause(0.6)
        assert "KV CACHE FULL" not in screen_text_of_main(app)
        await pilot.press("escape")
        await until(lambda: "KV CACHE FULL" in screen_text(app), 5)


def screen_text_of_main(app: MonitorApp) -> str:
    return "\n".join(plain(line) for pane in app.main._panes.values() for line in pane._lines)


@pytest.mark.parametrize("keys", [("q",), ("ctrl+c",), ("ctrl+p", "ctrl+c")])
async def test_leaving(keys: tuple[str, ...]) -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await pilot.press(*keys)
        await until(lambda: app._exit, 5)
    assert app.return_code == 0


async def test_the_mouse_works() -> None:
    app = made(scenes.sick_view())
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await pilot.click("#gpus", offset=(5, 5))
        await pilot.pause()
        assert "╭▸ 2 GPUs" in screen_text(app)
        await pilot.click("#verdict", offset=(6, 1))  # the badge
        await pilot.pause()
        assert "every rule" in screen_text(app)
        await pilot.click("#footer", offset=(10, 0))  # "help"
        await pilot.pause()
        assert "HELP" in screen_text(app)


async def test_a_resize_is_another_layout() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await pilot.resize_terminal(60, 15)
        await until(lambda: "╭" not in screen_text(app), 5)
        assert "HEALTHY" in screen_text(app)
        await pilot.resize_terminal(160, 45)
        await until(lambda: "╭─ 5 PROBES" in screen_text(app), 5)


async def test_a_feed_that_fails_is_a_notice() -> None:
    app = made()

    async def fail() -> None:
        raise RuntimeError("out of [file descriptors]")

    feed_of(app).start = fail  # type: ignore[method-assign]
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await until(lambda: "collection stopped: out of [file descriptors]" in screen_text(app), 5)


async def test_a_broken_theme_that_nobody_asked_for_has_its_word_and_not_the_header(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("name = 1")
    app = made(theme_directories=[SHIPPED, tmp_path])
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        lines = screen_text(app).rstrip().splitlines()
        assert "theme bad.toml: name: expected" in lines[-1]
        assert "theme" not in lines[0]
        await press(pilot, "2")
        assert "bad.toml" not in screen_text(app)


async def test_of_several_faults_that_of_the_theme_asked_for_is_told(tmp_path: Path) -> None:
    for name in ("a", "pink"):
        (tmp_path / f"{name}.toml").write_text("name = 7\n")
    app = made(config=Config(screen=ScreenSettings(theme="pink")), theme_directories=[SHIPPED, tmp_path])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "theme pink.toml: name: expected" in screen_text(app).splitlines()[0]


async def test_an_unknown_theme_is_a_notice() -> None:
    app = made(config=Config(screen=ScreenSettings(theme="pink")))
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        assert "no theme pink" in screen_text(app).splitlines()[0]


def test_without_any_theme_there_is_no_screen(tmp_path: Path) -> None:
    with pytest.raises(ThemeError, match="none installed"):
        made(theme_directories=[tmp_path])


async def test_without_colour_the_monochrome_theme_is_used() -> None:
    app = made(no_color=True)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        assert app.theme == "mono"
        await press(pilot, "t")
        assert app.theme == "mono"


async def test_ascii_mode() -> None:
    app = made(scenes.sick_view(), config=Config(screen=ScreenSettings(ascii=True)))
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        assert screen_text(app).replace("\n", "").isascii()


async def test_plots_come_after_the_zoomed_pane() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await pilot.press("3", "z")
        await until(lambda: "generated tokens/s" in screen_text(app), 10)
        assert "-30 min" in screen_text(app)


async def test_slow_links_get_few_frames() -> None:
    app = made(config=Config(screen=replace(ScreenSettings(), slow=True)))
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        feed_of(app).change(scenes.calm_view())
        await until(lambda: app.main._version == feed_of(app).version, 5)
        feed_of(app).change(scenes.sick_view())
        await pilot.pause(0.6)
        assert "KV CACHE FULL" not in screen_text(app)


@pytest.mark.parametrize("keys", [("enter", "enter", "enter"), ("enter", "escape"), ("escape", "escape")])
async def test_the_palette_closes_once_however_often_it_is_told(keys: tuple[str, ...]) -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("ctrl+p", *"freeze")
        await until(lambda: app.screen.query_one(CommandList).option_count == 1, 5)
        app.screen.query_one(CommandList).highlighted = 0
        for key in keys:
            app.post_message(events.Key(key, None))  # all at once, as a terminal may send them
        await until(lambda: isinstance(app.screen, MainScreen), 5)
        await pilot.pause()
        if "enter" not in keys or "escape" not in keys:  # of both the first that is heard counts
            assert ("PAUSED" in screen_text(app)) is ("enter" in keys)


async def test_a_click_on_an_entry_that_has_just_gone_ends_nothing() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("ctrl+p")
        await until(lambda: app.screen.query_one(CommandList).option_count > 9, 5)
        entries = app.screen.query_one(CommandList)
        await pilot.pause()
        x, y = entries.content_region.x + 3, entries.content_region.y + 9
        click = events.Click(entries, 3, 9, 0, 0, 1, False, False, False, x, y, app.screen.get_style_at(x, y))
        entries.clear_options()
        entries.post_message(click)
        await pilot.pause()
        assert isinstance(app.screen, CommandPalette)


async def test_no_screen_is_too_small_for_the_palette() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("ctrl+p")
        await until(lambda: app.screen.query_one(CommandList).option_count > 9, 5)
        for size in (*((width, 45) for width in range(1, 9)), (160, 1), (1, 1), (160, 45)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert isinstance(app.screen, CommandPalette)
