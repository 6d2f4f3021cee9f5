"""`/`, and tables with more rows than lines."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from textual import events

from tests.ui import scenes
from tests.ui.test_keys import made, press
from tui.ui import filtered
from tui.ui.draw import as_text, draw
from tui.ui.view import Mode

if TYPE_CHECKING:
    from tui.ui.view import View


def crowd() -> View:
    return scenes.crowded_view()


async def test_rows_that_do_not_match_are_hidden_and_the_titles_say_so() -> None:
    app = made(crowd())
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        await press(pilot, "slash", *":8003")
        text = await press(pilot, "enter")
        assert "3 ENGINES  12  /:8003  11 of 12 hidden" in text
        assert "/:8003  16 of 16 hidden" in text
        assert "no GPU matches /:8003; Esc shows all" in text
        engines = text[text.index("3 ENGINES") :]
        assert re.search(r"vllm :8003 .*serving", engines)
        assert not re.search(r"vllm :8004 .*serving", engines)
        assert "Esc all rows" in text.splitlines()[-1]
        text = await press(pilot, "escape")
        assert "hidden" not in text
        assert "16 GPU" not in text


async def test_the_verdict_is_never_filtered() -> None:
    app = made(scenes.sick_view())
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        text = await press(pilot, "slash", *"nothing of the kind", "enter")
        assert "KV CACHE FULL" in text
        assert "no engine matches" in text


async def test_while_it_is_typed_keys_are_letters() -> None:
    app = made(crowd())
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        text = await press(pilot, "slash", *"quip", "backspace", "question_mark")
        assert not app._exit
        assert "PAUSED" not in text
        assert "/qui?█ Enter keep  Esc all rows" in text
        await press(pilot, "ctrl+u", *"gpu 1")
        app.screen.post_message(events.Paste("3\x1b[2J"))
        text = await press(pilot)
        assert "/gpu 13█" in text
        assert "2 GPUs" in text
        assert "15 of 16 hidden" in text
        assert "hidden" not in await press(pilot, "escape")
        assert "PAUSED" in await press(pilot, "p")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("GPU 6", [6]),
        ("gpu-6", [6]),
        ("h100", list(range(8))),
        ("vllm::worker", list(range(8))),
        ("ok", list(range(8))),
        ("x", []),
    ],
)
def test_what_gpus_are_found_by(wanted: str, found: list[int]) -> None:
    assert [gpu.index for gpu in filtered.gpus(scenes.calm_view(filter=wanted))] == found


def test_a_gpu_is_found_by_what_ails_it() -> None:
    view = scenes.broken_view(filter="LOST")
    assert {gpu.state for gpu in filtered.gpus(view)} == {"lost"}


@pytest.mark.parametrize("wanted", ["llama", "127.0.0.1:8001", "VLLM", "healthy"])
def test_what_engines_are_found_by(wanted: str) -> None:
    assert filtered.engines(scenes.calm_view(filter=wanted))


async def test_the_focused_table_scrolls_to_its_last_row() -> None:
    app = made(crowd())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        text = await press(pilot, "2")
        assert "▸ 0 H100" in text
        assert "▸+8 more" in text
        text = await press(pilot, "down", "down")
        assert "▸2 above, +6 more" in text
        assert "▸ 2 H100" in text
        assert "▸ 1 H100" not in text
        text = await press(pilot, "end")
        assert "▸8 above" in text
        assert "▸15 H100" in text
        assert "▸7 above, +1 more" in await press(pilot, "up")
        assert "above" not in await press(pilot, "home")
        await press(pilot, "end")
        text = await press(pilot, "3")  # another pane begins at its top
        assert "above" not in text
        assert "▸+9 more" in text


@pytest.mark.parametrize("size", [(160, 45), (120, 40), (80, 24), (60, 15), (40, 12)])
@pytest.mark.parametrize("pane", ["gpus", "engines"])
def test_every_row_can_be_reached(size: tuple[int, int], pane: str) -> None:
    wanted = {f":{8000 + n}" for n in range(12)} if pane == "engines" else {rf"\b{n} H100" for n in range(16)}
    seen: set[str] = set()
    view = scenes.crowded_view(focused=pane)
    _, _, rest = draw(view, *size)
    for scroll in range(rest + 1):
        _, panes, _ = draw(view, *size, scroll=scroll)
        text = "\n".join("".join(span.text for span in line) for line in panes[pane])  # type: ignore[index]
        seen |= {name for name in wanted if re.search(rf"{name}\b", text)}
    rows = rest or size[1] > 24
    assert seen == (wanted if rows else set())


def test_names_are_found_as_they_are_written() -> None:
    view = scenes.wide_view()
    for wanted in ("日本語", "カ", "CAFÉ", "e\u0301", "\U0001f680"):
        assert filtered.engines(replace(view, mode=Mode(filter=wanted))), wanted
    assert not filtered.engines(replace(view, mode=Mode(filter="語本")))


def test_a_filter_is_seen_where_there_are_no_titles() -> None:
    text = as_text(scenes.crowded_view(filter=":8003"), 60, 15)
    assert "/:8003  Esc all rows" in text.splitlines()[-1]
