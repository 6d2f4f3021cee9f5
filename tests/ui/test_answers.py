"""What the screen says of a key and of itself: it hides neither host nor clock, and is in nothing saved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import until
from tests.ui import scenes
from tests.ui.test_keys import made, press, screen_text
from tui.model.settings import Config, ScreenSettings
from tui.ui.draw import as_text
from tui.ui.keys import KEYS

if TYPE_CHECKING:
    from pathlib import Path

    from tui.ui.app import MonitorApp

SIZES = [(160, 45), (80, 24), (60, 15), (40, 12)]


@pytest.mark.parametrize("size", [*SIZES, (40, 4)])
@pytest.mark.parametrize(
    "mode",
    [
        {"notice": "theme bad.toml: name: expected a text, got 1"},
        {"said": "copied, and in ~/.local/state/infertop/verdict.txt"},
        {"drill": "drain test of vllm:8000 running 12 s, d: show", "paused": True, "slow": True},
        {"notice": "no theme pink; there are dark, light", "drill": "restart test passed", "paused": True},
    ],
)
def test_host_and_clock_stay(size: tuple[int, int], mode: dict[str, object]) -> None:
    view = scenes.calm_view(**mode)
    view = replace(view, snapshot=replace(view.snapshot, simulated=True))
    first = as_text(view, *size).splitlines()[0]
    assert "gpu" in first
    assert "12:23:05" in first
    assert "SIMULATED" in first
    assert ("PAUSED" in first) is ("paused" in mode)


def test_a_long_host_name_gives_way_before_the_clock() -> None:
    view = scenes.calm_view(paused=True)
    view = replace(view, snapshot=replace(view.snapshot, hostname="gpu-node-17-with-a-long-name"))
    assert as_text(view, 40, 12).splitlines()[0].split() == ["gpu-node-17-with-…", "12:23:05", "PAUSED"]


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (60, 15)])
async def test_what_is_saved_has_no_answer_to_another_key_on_it(
    size: tuple[int, int], tmp_path: Path
) -> None:
    app = made(state=tmp_path)
    async with app.run_test(size=size) as pilot:
        await press(pilot, "y")
        await until(lambda: "copied, and in" in screen_text(app).splitlines()[-1], 5)
        await press(pilot, "s")
        await until(lambda: "saved" in screen_text(app).splitlines()[-1], 5)
        assert "12:23:05" in screen_text(app).splitlines()[0]
    (text,) = (tmp_path / "screens").glob("*.txt")
    (picture,) = (tmp_path / "screens").glob("*.svg")
    for saved in (text.read_text(), picture.read_text().replace("&#160;", " ")):
        assert "copied" not in saved
        assert "verdict.txt" not in saved
        assert "12:23:05" in saved
        assert "quit" in saved


async def test_what_went_wrong_stays_beside_the_answers(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("name = 1")
    config = Config(screen=ScreenSettings(theme="bad"))  # one that was asked for: its fault stays
    app = made(config=config, theme_directories=[tmp_path, *made()._options.theme_directories])
    async with app.run_test(size=(160, 45)) as pilot:
        await press(pilot, "t")
        lines = screen_text(app).splitlines()
        assert "theme bad.toml: name: expected" in lines[0]
        assert "theme high-contrast" in lines[-1]
        app.main.hush()
        assert "theme bad.toml: name: expected" in screen_text(app).splitlines()[0]


SCREENS = {
    "all panes": (),
    "gpus": ("2", "z"),
    "engines": ("3", "z"),
    "host": ("4", "z"),
    "probes": ("5", "z"),
    "why": ("v",),
    "help": ("question_mark",),
}
ELSEWHERE = ("app.leave", "app.suspend_process", "app.redraw", "app.command_palette")
"""Actions that leave the screen, or are for when it is damaged."""


def state(app: MonitorApp) -> tuple[str, str]:
    return screen_text(app), app.theme


@pytest.mark.parametrize("screen", SCREENS)
async def test_every_key_of_the_help_does_or_says_something_on_every_screen(screen: str) -> None:
    app = made(scenes.sick_view())
    silent = []
    async with app.run_test(size=(60, 15)) as pilot:
        await press(pilot, *SCREENS[screen])
        if screen == "engines":
            await until(lambda: app.main._mode.plots, 10)
        app.main._scroll = min(1, app.main._furthest)  # there is something above and below
        mode, scroll = app.main._mode, app.main._scroll
        for key in KEYS:
            if not key.keys or key.action in ELSEWHERE:
                continue
            app.main._mode, app.main._scroll = mode, scroll
            app.main.paint()
            before = state(app)
            await pilot.press(key.keys.split(",")[0])
            if key.action.startswith("app."):
                await until(lambda: bool(app.main._mode.said), 5)
            if state(app) == before:
                silent.append(key.shown)
    assert silent == (["Esc"] if screen == "all panes" else [])  # there is nowhere to go back to


@pytest.mark.parametrize("key", ["tab", "z", "j", "p"])
async def test_the_next_key_brings_the_keys_back(key: str) -> None:
    app = made(scenes.crowded_view())
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "2", "space")
        assert "mark 1" in screen_text(app).splitlines()[-1]
        assert "quit" in (await press(pilot, key)).splitlines()[-1]
