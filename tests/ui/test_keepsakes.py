"""What `y`, `s` and `t` leave behind, and a title that tells the verdict."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.support.waiting import until
from tests.ui import scenes
from tests.ui.test_keys import made, press, screen_text
from tui.model.settings import Config, ScreenSettings
from tui.ui import main_screen, words
from tui.ui.draw import as_text
from tui.ui.keepsakes import chosen_theme, for_clipboard, stamped, verdict_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


async def test_y_copies_what_is_shown_and_says_where(home: Path) -> None:
    view = scenes.sick_view()
    app = made(view, state=home / "state")
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await press(pilot, "y")
        await until(lambda: "copied, and in ~/state/verdict.txt" in screen_text(app), 10)
        assert app.clipboard == verdict_text(view)
    file = home / "state" / "verdict.txt"
    assert file.read_text() == app.clipboard
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = app.clipboard
    assert text.startswith("gpu-07  2025-10-09 12:23:05 +0000\n")
    assert "KV CACHE FULL  http://127.0.0.1:8000  confidence high" in text
    assert "because  kv 0.99 (limit 0.90)" in text
    assert "do       lower --max-num-seqs" in text
    assert "\x1b" not in text


async def test_where_it_was_written_does_not_stay_and_ends_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main_screen, "SAID_S", 0.1)
    app = made(scenes.sick_view(), state=home)
    said: list[str] = []
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        hush = app.main.hush

        def hushed(word: str = "") -> None:
            said.append(word)
            hush(word)

        monkeypatch.setattr(app.main, "hush", hushed)
        await press(pilot, "y")
        await until(lambda: any("copied, and in" in word for word in said), 10)
        assert "copied" not in screen_text(app)


def test_a_clipboard_gets_whole_lines_and_no_more_than_terminals_take() -> None:
    assert for_clipboard("a\nb\n") == "a\nb\n"
    line = f"because  {'模' * 100}\n"
    cut = for_clipboard(line * 400)
    assert len(cut.encode()) <= 48_100
    *lines, last = cut.splitlines(keepends=True)
    assert set(lines) == {line}
    assert last == "the rest is in verdict.txt\n"


async def test_s_saves_a_picture_and_text(home: Path) -> None:
    app = made(scenes.sick_view(), state=home)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        shown = as_text(app.main.shown(), 120, 40)
        await press(pilot, "s")
        await until(lambda: "saved ~/screens/gpu-07-20251009-122305.svg" in screen_text(app), 10)
    picture = (home / "screens" / "gpu-07-20251009-122305.svg").read_text()
    ElementTree.fromstring(picture)  # well formed
    assert "KV" in picture
    assert "@font-face" not in picture
    assert (home / "screens" / "gpu-07-20251009-122305.txt").read_text() == f"{shown}\n"


async def test_what_cannot_be_written_is_said(home: Path) -> None:
    (home / "file").write_text("")
    app = made(state=home / "file" / "state")
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await press(pilot, "s")
        await until(lambda: "not written: Not a directory" in screen_text(app), 10)


async def test_without_a_state_directory_the_clipboard_has_it_all_the_same() -> None:
    app = made()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await press(pilot, "y")
        await until(lambda: "nowhere to write" in screen_text(app), 10)
        assert app.clipboard


@pytest.mark.parametrize(
    ("host", "name"), [("../../etc", "etc"), ("", "host"), ("日本 1", "1"), (".", "host")]
)
def test_a_file_is_named_by_host_and_time_and_stays_in_its_directory(host: str, name: str) -> None:
    view = scenes.calm_view()
    view = replace(view, snapshot=replace(view.snapshot, hostname=host))
    assert stamped(view) == f"{name}-20251009-122305"


# ---------------------------------------------------------------------------------------- themes


async def test_the_theme_that_was_chosen_is_remembered(tmp_path: Path) -> None:
    app = made(state=tmp_path)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await press(pilot, "t")
        await until(lambda: chosen_theme(tmp_path) == "high-contrast", 10)
    assert made(state=tmp_path).theme == "high-contrast"
    named = Config(screen=ScreenSettings(theme="light", theme_named=True))
    assert made(state=tmp_path, config=named).theme == "light"
    assert made(state=tmp_path, config=Config(screen=ScreenSettings(theme="light"))).theme == "high-contrast"
    assert made(state=tmp_path, no_color=True).theme == "mono"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"theme": 3}', '{"theme": "gone"}', "\x00"])
def test_a_choice_that_says_nothing_leaves_the_usual_theme(text: str, tmp_path: Path) -> None:
    (tmp_path / "screen.json").write_text(text)
    app = made(state=tmp_path)
    assert app.theme == "dark"
    assert not app._faults


def test_a_choice_that_is_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "screen.json")
    assert made(state=tmp_path).theme == "dark"


async def test_where_colours_are_not_wanted_nothing_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "screen.json").write_text(json.dumps({"theme": "light"}))
    app = made(state=tmp_path, no_color=True)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await press(pilot, "t")
    assert chosen_theme(tmp_path) == "light"


# ---------------------------------------------------------------------------------------- title


def test_a_title_names_the_worst_verdict_its_engine_and_the_host() -> None:
    sick, calm = scenes.sick_view(), scenes.calm_view()
    assert words.title(sick.snapshot, sick.judgement) == "KV CACHE FULL vllm :8000 on gpu-07"
    assert words.title(calm.snapshot, calm.judgement).endswith(" on gpu-07")
    pending = scenes.pending_view()
    assert words.title(pending.snapshot, pending.judgement) == "infertop gpu-07"


def test_a_title_holds_no_control_characters() -> None:
    view = scenes.sick_view()
    snapshot = replace(view.snapshot, hostname="a\x07\x1b]2;owned\x07日本")
    assert words.title(snapshot, view.judgement).endswith(" on a日本")
