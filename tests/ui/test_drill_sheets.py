"""What the pages of a test say, at any size, and that nothing on them comes through as it came from outside."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.ui import scenes
from tests.ui.drill_scenes import ACTION, HOSTILE, dialog, ended, events, plan, request, running
from tui.actions.picture import News, Picture
from tui.actions.plan import Stop
from tui.actions.plan_text import rows
from tui.ui.draw import draw
from tui.ui.lines import plain
from tui.ui.view import Mode

if TYPE_CHECKING:
    from tui.ui.sheet import Sheet

SIZES = ((160, 45), (80, 24), (60, 15), (40, 12), (20, 5))


def text(
    sheet: Sheet, width: int = 160, height: int = 45, *, scroll: int = 0, ascii_only: bool = False
) -> str:
    view = replace(scenes.calm_view(), mode=Mode(full="drill"), sheet=sheet)
    _, panes, _ = draw(view, width, height, ascii_only=ascii_only, scroll=scroll)
    for name, lines in panes.items():
        assert all(len(plain(line)) <= width for line in lines), name
    return "\n".join(plain(line) for line in panes["drill"])


def whole(sheet: Sheet, width: int) -> str:
    """Everything that can be scrolled to, without frames and folds."""
    lines = [*sheet.head(width), *sheet.body(width), *sheet.foot(width)]
    assert all(len(plain(line)) <= width for line in lines)
    return " ".join(" ".join(map(plain, lines)).split())


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("make", [dialog, running, ended])
def test_every_size_shows_what_matters_most(make: object, width: int, height: int) -> None:
    shown = text(make(), width, height)  # type: ignore[operator]
    if height >= 12:
        assert {dialog: "Cancel", running: "grace", ended: "FAILED"}[make] in shown  # type: ignore[index]
    assert text(make(), width, height, ascii_only=True).replace("\n", "").isascii()  # type: ignore[operator]


def test_the_dialog_names_what_would_be_done_to_whom() -> None:
    for width in (36, 76, 156):
        shown = whole(dialog(), width)
        for words in (
            "vllm, pid 4711, started",
            "--api-key *** --port 8000",
            "VLLM::EngineCore, pid 4720",
            "SIGTERM to pid 4711",
            "nobody: it stays down",
            "30s ([actions] grace_s), then it is left as it is",
            "0 running, 0 waiting",
            "it stays down after the test",
            "type vllm:8000: vllm:8",
        ):
            assert words in shown, (width, words)


def test_the_warning_stands_first_on_a_small_screen() -> None:
    shown = text(dialog(), 60, 15)
    assert "nobody will start it again" in shown and "SIGTERM to pid 4711" in shown
    assert "more lines below" in shown
    assert "4720" not in shown and "4720" in text(dialog(), 60, 15, scroll=100)


def test_a_refusal_takes_the_place_of_the_line_to_type_into() -> None:
    sheet = dialog(
        controls=("kill", "traffic", "cancel"), focus="cancel", refused=("2 requests of others in flight",)
    )
    shown = text(sheet, 80, 24)
    assert "refused  2 requests of others in flight" in shown
    assert "Start" not in shown and "type vllm:8000" not in shown


def test_the_run_counts_what_became_of_each_request() -> None:
    shown = text(running(), 160, 45)
    assert "watching it end  for 14 s" in shown
    assert "8 s of 30s" in shown
    assert "ours 1 cut, 2 finished, 5 no bytes" in shown
    assert "new 1 refused" in shown
    assert "running 5   waiting 0   readiness refused" in shown
    assert "77" not in shown  # it had made way before the signal
    assert "44/512" in shown  # what request 4 has by now
    assert "512/512 length     +3.50 s" in shown
    assert "+0.26 s  port closed" in shown
    assert "the model's limit of 576 tokens ends our requests" in shown


def test_before_the_signal_the_run_says_that_nothing_was_sent() -> None:
    picture = Picture()
    picture.take(News(events()[:3], plan()))
    shown = text(replace(running(), picture=picture), 80, 24)
    assert "filling it with requests of our own" in shown
    assert "nothing was sent to it yet; then: SIGTERM to pid 4711" in shown


def test_a_grace_period_that_is_over_is_hot() -> None:
    late = running(now=ACTION + 31)
    clock = late.head(80)[1]
    assert [span.role for span in clock] == ["label", "hot", "trough", "hot"]
    assert "31 s of 30s" in plain(clock)


def test_the_clock_stops_with_the_process() -> None:
    sheet = running()
    sheet.picture.take(
        News([{"kind": "event", "at": ACTION, "t_s": 6.24, "event": "main_exit", "detail": ""}])
    )
    assert "it exited after 6.2 s of 30 s" in text(sheet)


def test_a_kill_has_no_grace_period_and_a_restart_a_deadline() -> None:
    killed = plan(test="restart", stop=Stop("kill_tree", "SIGKILL to the whole engine: pids 4711, 4720"))
    sheet = running(plan=killed)
    assert "no grace period" in text(sheet)
    sheet.picture.take(
        News([{"kind": "event", "at": ACTION, "t_s": 0.1, "event": "main_exit", "detail": ""}])
    )
    assert "8 s of 15m" in text(sheet)
    sheet.picture.take(
        News([{"kind": "event", "at": ACTION, "t_s": 7.0, "event": "first_token", "detail": ""}])
    )
    assert "it serves again, 7.0 s after the action" in text(sheet)


def test_cancelling_asks_first() -> None:
    assert "Cancel it?" in text(running(asking=True), 40, 12)
    assert "nothing more is sent" in text(running(cancelled=True), 160, 45)


def test_a_failed_test_says_why_what_to_set_and_where_it_is_kept() -> None:
    for width in (38, 76, 156):
        shown = whole(ended(), width)
        for words in (
            "FAILED",
            "5 of 8 requests in flight silent",
            "exit after 30.85 s of 30 s, code 0",
            "the readiness probe notices after 28.9 s, by its settings 20 to 31 s",
            "1 of its processes was left over",
            "silent requests of ours had to be closed",
            "new requests: 9 x refused",
            "on SIGTERM running requests are lost",
            "--shutdown-timeout N",
            "passed, 8/8 finished, exit after 6.2 s",
        ):
            assert words in shown, (width, words)
    assert "/state/tests/20270115T-drain-001.json" in whole(ended(), 156)
    assert "/state/tests/20270115T-drain-001.md" in whole(ended(), 156)


@pytest.mark.parametrize(("passed", "word"), [(True, "PASSED"), (False, "FAILED"), (None, "NO RESULT")])
def test_the_result_is_one_word(passed: bool | None, word: str) -> None:
    assert f" {word}  drain test of vllm:8000" in text(ended(passed), 80, 24)


def test_a_test_that_was_killed_has_no_result() -> None:
    picture = running().picture
    picture.take(News([], lost="Killed"))
    shown = text(replace(ended(), picture=picture))
    assert "NO RESULT" in shown
    assert "ended without a report; it said: Killed" in shown


def test_hostile_text_is_made_harmless() -> None:
    bad = replace(plan(), warnings=(HOSTILE,), target=replace(plan().target, name=HOSTILE, model=HOSTILE))
    picture = Picture()
    picture.take(
        News(
            [
                *events(),
                {"kind": "event", "at": ACTION, "t_s": 9.0, "event": HOSTILE, "detail": HOSTILE},
                request(5, outcome=HOSTILE, finish_reason=HOSTILE, tokens=HOSTILE),
                {"kind": "gauge", "at": ACTION, "readiness": HOSTILE, "running": HOSTILE},
                {"kind": "request", "at": ACTION, "id": [1]},
                {"kind": "state", "at": "later", "name": [HOSTILE]},
            ],
            bad,
        )
    )
    finished = {"kind": "done", "passed": HOSTILE, "reasons": [HOSTILE], "report": None}
    over = Picture()
    over.take(News([*events(), finished], bad, {"exit": {"code": HOSTILE}, "findings": [{"text": HOSTILE}]}))
    for sheet in (
        dialog(plan=tuple(rows(bad)), refused=(HOSTILE,)),
        replace(running(), picture=picture),
        replace(ended(), picture=over),
    ):
        for width, height in SIZES:
            shown = text(sheet, width, height)
            assert "\x1b" not in shown and "\u202e" not in shown
