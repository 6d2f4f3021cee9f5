"""``v``: every rule of the engine that is looked at, and the moments that the operator has marked."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.ui import scenes
from tests.ui.feeds import StillFeed
from tests.ui.test_panes import rows
from tui.model.verdicts import Judgement
from tui.ui.draw import as_text, draw
from tui.ui.lines import plain
from tui.ui.moments import KEPT, Mark, add
from tui.ui.view import Mode, looked_at
from tui.verdict.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.ui.view import PaneName, View

SIZES = [(160, 45), (120, 40), (80, 24), (60, 15), (40, 12)]
NOW, WALL = scenes.NOW, scenes.WALL
MARKS = (Mark(1, WALL - 1200, NOW - 1200), Mark(2, WALL - 90, NOW - 90))


def explained(view: View, scope: str | None = None) -> View:
    """The view of one verdict in full, as the screen takes it from its feed."""
    view = replace(view, mode=replace(view.mode, full="verdict", scope=scope))
    verdict = looked_at(view)
    assert verdict is not None
    return replace(view, explanation=StillFeed(view).explain(verdict.scope, view.snapshot))


def whole(view: View, width: int = 160) -> str:
    """All of it, as on a screen that is high enough."""
    return as_text(view, width, 300)


def test_the_verdict_is_told_whole() -> None:
    certainty = ("4 independent signals agree", "nothing from probes")
    verdict = replace(scenes.kv_cache(), secondary=("degraded_cache",), certainty=certainty)
    view = replace(scenes.sick_view(), judgement=Judgement((scenes.HOST_IDLE, verdict), scenes.FINDINGS))
    text = whole(explained(view))
    assert rows(text, r"KV CACHE FULL +vllm :8000 +since 12:21:40 \(85 s\)")
    assert "requests are preempted, or wait for blocks" in text
    assert rows(text, "confidence high: 4 independent signals agree; nothing from probes")
    assert rows(text, "because +kv 0.99 .limit 0.90.; waiting 37 rising; preempting")
    assert rows(text, "not known +generate probe")
    for line in verdict.advice:
        assert rows(text, re.escape(line))
    assert rows(text, "also fits +degraded cache")
    assert rows(text, "! vllm :8000: timeout 1 s < 2 . probe p99 .* 1.0 < 2 . 0.78")


def test_every_rule_stands_there_with_its_answer() -> None:
    text = whole(explained(scenes.sick_view()))
    found = re.findall(r"^│ +([!?·]) ([a-z ]+?)  +(fires|cannot say|quiet)", text, re.MULTILINE)
    assert {name.replace(" ", "_") for _, name, _ in found} == {rule.id for rule in RULES}
    assert found[0] == ("!", "kv cache", "fires")
    order = [("fires", "cannot say", "quiet").index(state) for _, _, state in found[1:]]
    assert order == sorted(order)


def test_figures_stand_beside_their_limits_with_their_last_minutes() -> None:
    text = whole(explained(scenes.sick_view()))
    assert rows(text, r"KV cache +100 % +>= 90 % +[⠁-⣿]{15} 0-100 +kv 1.00")
    assert rows(text, r"SM +61 % +< 90 % +[⠁-⣿]{15} 0-100")
    assert rows(text, r"power of limit +91.4 % +>= 90 % ")  # a limit of which the rule does not say a side
    limits = {row.index(" >= ") for row in rows(text, "  (KV cache|power of limit|GPU memory free) .* >= ")}
    assert len(limits) == 1


def test_a_history_is_drawn_to_a_scale_that_holds_the_newest_figure() -> None:
    rise = explained(scenes.sick_view())
    assert rise.explanation is not None
    answers = tuple(
        replace(
            a, evidence=tuple(replace(e, value=163.0) if e.signal == "waiting" else e for e in a.evidence)
        )
        for a in rise.explanation.answers
    )
    rise = replace(rise, explanation=replace(rise.explanation, answers=answers))
    assert rows(whole(rise), r"waiting +163 .*[⠁-⣿]{15} 0-200 ")  # no step of the chart has it yet


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_figures_and_limits_are_whole_at_any_width(width: int) -> None:
    text = whole(explained(scenes.sick_view()), width)
    assert rows(text, r"KV cache +100 % +>= 90 % ")
    assert rows(text, r"waiting +37 +> 0 ")
    assert rows(text, r" 610 tok/s ")
    assert not rows(text, r"\d tok…")
    assert not rows(text, r"(>=|<=|<|>) *[0-9.kM]*(s| [%GMi/sB]*)?…")


def test_it_says_what_would_turn_a_rule_around() -> None:
    text = whole(explained(scenes.sick_view()))
    assert rows(
        text,
        r"would be quiet with KV cache < 85 % \(now 100 %\) and preemptions = 0 \(now 3.1/s\), then scheduler",
    )
    assert rows(text, r"would fire with context switches >= 160k/s \(now 121k/s\)")


def test_it_says_what_cannot_be_known_here_and_what_would_bring_it() -> None:
    assert rows(whole(explained(scenes.sick_view())), "503 answers +the status label is grouped → admission_")


def test_it_says_where_the_newest_picture_is_another() -> None:
    held = replace(scenes.calm_view(), judgement=scenes.SICK)
    assert rows(whole(explained(held)), "every rule +on the newest picture, which says healthy")
    assert rows(whole(explained(scenes.sick_view())), "every rule +on the newest picture +│")


def test_a_calm_verdict_is_not_marked_as_an_alarm() -> None:
    text = whole(explained(scenes.calm_view()))
    assert rows(text, "· healthy +fires, high")
    assert not rows(text, "! healthy")


def test_the_host_shows_what_it_is_made_of() -> None:
    text = whole(explained(scenes.sick_view(), "host"))
    assert rows(text, "▸host +vllm :8000")
    assert rows(text, "the host's verdict is the worst of its engines")
    assert rows(text, "vllm :8000 +KV CACHE FULL")
    assert "every rule" not in text


def test_an_engine_that_has_gone_leaves_the_worst_verdict_to_look_at() -> None:
    view = replace(scenes.sick_view(), mode=Mode(full="verdict", scope="http://gone"))
    assert rows(as_text(view, 120, 40), "▸vllm :8000")


@pytest.mark.parametrize("scene", ["kv_cache", "stale", "bare", "pending", "crowded"])
@pytest.mark.parametrize("size", SIZES)
def test_it_fits_any_size_and_scrolls_to_its_end(scene: str, size: tuple[int, int]) -> None:
    view = scenes.SCENES[scene](full="verdict")
    view = explained(view) if view.judgement.verdicts else view
    layout, panes, _ = draw(view, *size, scroll=10_000)
    box = layout.boxes["verdict"]
    shown = [plain(line) for line in panes["verdict"]]
    assert [len(line) for line in shown] == [box.width] * box.height
    assert not any("more lines below" in line for line in shown)


# ---------------------------------------------------------------------------------------- marks


@pytest.mark.parametrize("size", SIZES)
def test_a_mark_stands_on_the_strip_by_its_number(size: tuple[int, int]) -> None:
    strip = rows(as_text(replace(scenes.calm_view(), marks=MARKS), *size), "past 30 min")[0]
    cells = strip.split("past 30 min")[1].strip("│ ")
    assert 0.25 < cells.index("1") / len(cells) < 0.45
    assert 0.85 < cells.index("2") / len(cells) < 1.0
    assert "hea" not in cells or "healthy" in cells  # it does not stand within a word
    plain_strip = rows(as_text(scenes.calm_view(), *size), "past 30 min")[0]
    assert len(plain_strip) == len(strip)


def test_a_mark_that_is_older_than_the_strip_is_only_listed() -> None:
    old = replace(scenes.calm_view(), marks=(Mark(7, WALL - 4000, NOW - 4000),))
    assert "7" not in rows(as_text(old, 160, 45), "past 30 min")[0].split("min")[1]
    assert rows(whole(explained(old)), "marks +7 11:16:25 67 min ago")


def test_marks_stand_on_charts_and_plots() -> None:
    from tui.ui.widgets import plotext_chart

    plotext_chart.load()
    marked: Callable[..., View] = lambda **mode: replace(scenes.calm_view(**mode), marks=MARKS)  # noqa: E731
    charts = as_text(marked(full="host"), 160, 45)
    assert charts.count("│") > as_text(scenes.calm_view(full="host"), 160, 45).count("│") + 5
    plots = as_text(marked(full="engines", plots=True), 160, 60)
    frames = [row for row in plots.splitlines() if "┌" in row and "┐" in row]
    assert frames and all(re.search("┌─*1─*2─*┐", row) for row in frames)


@pytest.mark.parametrize("pane", ["gpus", "engines", "host"])
def test_a_zoomed_pane_with_charts_lists_the_marks_on_them(pane: PaneName) -> None:
    text = as_text(replace(scenes.calm_view(full=pane), marks=MARKS), 160, 100)
    assert rows(text, "marks +2 12:21:35 90 s ago +1 12:03:05 20 min ago")


def test_marks_are_numbered_in_order_once_for_each_picture_and_the_oldest_go() -> None:
    marks: tuple[Mark, ...] = ()
    for second in range(KEPT + 5):
        marks = add(add(marks, WALL + second, NOW + second), WALL + second, NOW + second)
    assert [mark.number for mark in marks] == list(range(6, KEPT + 6))
