"""The keys of ``v`` and the marks, on the real application without a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.ui import scenes
from tests.ui.test_keys import feed_of, made, press, screen_text
from tests.ui.test_panes import rows
from tui.model.verdicts import Judgement

if TYPE_CHECKING:
    from tui.model.explanations import Explanation
    from tui.model.snapshot import HostSnapshot


async def test_v_explains_the_worst_and_n_and_tab_go_round_the_scopes() -> None:
    app = made(scenes.sick_view())
    async with app.run_test(size=(120, 40)) as pilot:
        text = await press(pilot, "v")
        assert rows(text, "▸vllm :8000")
        assert rows(text, "! kv cache +fires, high")
        text = await press(pilot, "n")
        assert rows(text, "▸vllm :8001")
        assert rows(text, "· healthy +fires")
        assert rows(await press(pilot, "tab"), "▸host")
        assert rows(await press(pilot, "n"), "▸vllm :8000")
        assert rows(await press(pilot, "N", "shift+tab"), "▸vllm :8001")
        assert "every rule" not in await press(pilot, "v")
        assert rows(await press(pilot, "v"), "▸vllm :8000")  # what was chosen is not kept


async def test_n_says_where_it_belongs_where_nothing_is_explained() -> None:
    app = made(scenes.sick_view())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        before = screen_text(app).splitlines()
        after = (await press(pilot, "n")).splitlines()
        assert after[:-1] == before[:-1]
        assert "in v, why this verdict" in after[-1]


async def test_an_explanation_is_worked_out_once_for_a_picture_and_only_while_it_is_looked_at() -> None:
    app = made(scenes.sick_view())
    feed, asked = feed_of(app), []
    real = feed.explain

    def explain(scope: str, snapshot: HostSnapshot) -> Explanation | None:
        asked.append(scope)
        return real(scope, snapshot)

    feed.explain = explain  # type: ignore[method-assign]
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "p")  # no picture of its own accord
        assert not asked
        await press(pilot, "v", "down", "down", "up")
        assert asked == [scenes.URLS[0]]
        await press(pilot, "n")
        assert asked == [*scenes.URLS[:2]]
        await press(pilot, "escape", "2")
        assert len(asked) == 2


async def test_a_frozen_picture_is_explained_by_its_own_figures() -> None:
    app = made(scenes.sick_view())
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "p")
        calm = replace(scenes.calm_view(), judgement=Judgement((scenes.healthy(),)))
        feed_of(app).change(calm)
        assert rows(await press(pilot, "v"), "! kv cache +fires, high")
        assert rows(await press(pilot, "p"), "· healthy +fires")


async def test_space_marks_the_moment_once_for_each_picture() -> None:
    app = made(scenes.calm_view())
    async with app.run_test(size=(160, 45)) as pilot:
        text = await press(pilot, "space", "space")
        assert rows(text.splitlines()[-1], "mark 1 at 12:23:05")
        assert rows(text, r"past 30 min .*·1")
        later = replace(scenes.snapshot(), wall=scenes.WALL + 60, taken_at=scenes.NOW + 60)
        await press(pilot, "p", "p")
        feed_of(app).change(replace(scenes.calm_view(), snapshot=later))
        await press(pilot, "p", "p", "space")
        text = await press(pilot, "v")
        assert rows(text, "marks +2 12:24:05 0 s ago +1 12:23:05 60 s ago")
        assert re.search(r"past 30 min .*1.*2", text)
