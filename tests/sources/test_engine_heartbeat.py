from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.captures import vllm_series
from tests.support.vllm_text import Rank, exposition
from tui.sources.engines.heartbeat import Heartbeat
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.vllm import VLLM

if TYPE_CHECKING:
    from tui.model.readings import EngineReading

Scrape = tuple[float, float, bool]  # at, beat, work


@pytest.mark.parametrize(
    ("scrapes", "stalled_s", "count", "since"),
    [
        ([(0, 5, True)], 0.0, 0, None),
        ([(0, 5, True), (1, 5, True)], 1.0, 2, 1.0),
        ([(0, 5, True), (1, 5, True), (2, 5, True)], 2.0, 3, 2.0),
        ([(0, 5, True), (1, 6, True), (2, 6, True)], 1.0, 2, 1.0),
        ([(0, 5, True), (1, 5, True), (2, 6, True)], 0.0, 0, 0.0),
        ([(0, 5, False), (1, 5, False), (2, 5, False)], 0.0, 0, 2.0),
        ([(0, 5, False), (1, 5, False), (2, 5, True)], 0.0, 1, 2.0),  # work came just now
        ([(0, 5, False), (1, 5, True), (2, 5, True)], 1.0, 2, 2.0),
        ([(0, 5, True), (1, 5, True), (2, 5, False), (3, 5, True), (4, 5, True)], 1.0, 2, 4.0),
        ([(0, 5, True), (60, 5, True)], 60.0, 2, 60.0),  # nobody looked in between
        ([(0, 5, True), (1, 2, True), (2, 2, True)], 1.0, 2, 1.0),  # a counter that fell moved, too
    ],
)
def test_spans(scrapes: list[Scrape], stalled_s: float, count: int, since: float | None) -> None:
    beat = Heartbeat()
    for at, value, work in scrapes:
        beat.update(at, (value,), work)
    assert (beat.stalled_s, beat.scrapes, beat.since_step_s) == (stalled_s, count, since)


def last(*scrapes: str) -> EngineReading:
    engine = EngineReader(VLLM, "u")
    return [engine.feed(body, float(at)) for at, body in enumerate(scrapes)][-1]


def test_the_worst_rank_counts() -> None:
    found = last(*(exposition(Rank(running=1, steps=at), Rank(running=1, steps=7)) for at in range(7)))
    assert (found.stalled_s, found.stalled_scrapes, found.since_last_step_s) == (6.0, 7, 6.0)
    assert [rank.stalled_s for rank in found.ranks] == [0.0, 6.0]


def test_a_rank_without_work_does_not_hang() -> None:
    found = last(*(exposition(Rank(running=1, steps=at), Rank(steps=7)) for at in range(7)))
    assert (found.stalled_s, found.stalled_scrapes, found.since_last_step_s) == (0.0, 0, 0.0)


def test_waiting_alone_is_work() -> None:
    assert last(*(exposition(Rank(waiting=3)) for _ in range(4))).stalled_s == 3.0


def test_a_long_prefill_that_counts_prompt_tokens_is_progress() -> None:
    found = last(*(exposition(Rank(running=1, prompt=at)) for at in range(7)))
    assert found.stalled_s == 0.0


def test_without_the_step_counter_tokens_stand_in() -> None:
    def old(generated: int) -> str:
        body = exposition(Rank(running=1, generated=generated))
        return "".join(line + "\n" for line in body.split("\n")[:-1] if "iteration_tokens" not in line)

    assert last(old(1), old(1), old(1)).stalled_s == 2.0
    assert last(old(1), old(1), old(2)).stalled_s == 0.0


def test_without_any_counter_progress_is_unknown() -> None:
    body = "vllm:num_requests_running 3\n"
    found = last(body, body, body)
    assert (found.stalled_s, found.stalled_scrapes, found.since_last_step_s) == (None, None, None)
    assert "stalled_s" in {gap.field for gap in found.missing}


def test_a_recorded_hang_is_seen_and_so_are_its_end_and_the_restart() -> None:
    engine = EngineReader(VLLM, "u")
    stalled, restarts, rates = {}, {}, {}
    for at, phase, body in vllm_series():
        found = engine.feed(body, at)
        second = int(at)
        stalled[second], restarts[second] = (found.stalled_s, found.stalled_scrapes), found.restarts
        rates[second] = found.gen_tok_s
        if phase == "resume":
            assert (found.stalled_s, found.stalled_scrapes) == (0.0, 0)
    # SIGSTOP was at 129.6 s: the first scrape without a step is the one at 131.5 s
    assert stalled[130] == (0.0, 0)
    for second in (131, 135, 138):
        seconds, scrapes = stalled[second]
        assert seconds == pytest.approx(second - 130, abs=0.02)
        assert scrapes == second - 130 + 1
    assert (restarts[165], restarts[194], restarts[197]) == (0, 1, 1)
    assert rates[194] is None
    assert rates[197] == pytest.approx(903 / 3.007, rel=0.01)  # 0 at 194.7 s, 903 at 197.7 s


def test_says_how_many_steps_the_engine_has_made() -> None:
    reader = EngineReader(VLLM, "http://x")
    assert reader.feed(exposition(Rank(running=1, steps=3)), 0.0).progress == 3.0
    ranks = (Rank(running=1, steps=900), Rank(running=1, steps=4))
    reader = EngineReader(VLLM, "http://x")
    reader.feed(exposition(*ranks), 0.0)
    moved = (Rank(running=1, steps=950), Rank(running=1, steps=4))
    assert reader.feed(exposition(*moved), 1.0).progress == 4.0  # of the rank that stands still


def stalls(*scrapes: Scrape) -> float:
    beat = Heartbeat()
    for at, value, work in scrapes:
        beat.update(at, (value,), work)
    return beat.longest_stall_s


def test_the_longest_stall_that_ended_is_a_normal_step() -> None:
    assert (
        stalls((0, 50, True), (1, 50, True), (2, 50, True), (3, 51, True), (4, 51, True), (5, 52, True))
        == 2.0
    )
    assert stalls((0, 50, True), (1, 51, True), (2, 52, True)) == 0.0
    assert stalls((0, 50, True), (1, 50, True), (2, 50, True)) == 0.0  # it has not ended
    assert stalls((0, 50, True), (9, 50, True), (10, 50, False), (11, 51, True)) == 0.0  # its work went away
    assert stalls((0, 50, True), (2, 50, True), (3, 51, False)) == 2.0  # the step that ended the work


def test_warm_up_and_what_is_long_ago_are_not_normal() -> None:
    assert stalls((0, 2, True), (25, 2, True), (26, 3, True)) == 0.0
    early = ((0, 50, True), (9, 50, True), (10, 51, True), (20, 51, True), (21, 52, True))
    assert stalls(*early) == 10.0
    assert stalls(*early, (315, 53, False)) == 10.0
    assert stalls(*early, (400, 53, False)) == 0.0
