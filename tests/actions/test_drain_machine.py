"""Every way in which a stop can go, on a clock of our own."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tui.actions.drain import Stopping, StopRules, StopSeen

RUNS = StopSeen(exited=False, others=2, open=8)
SILENT = StopSeen(exited=False, others=0, silent=8, open=8)
IDLE = StopSeen(exited=False, others=2)
GONE = StopSeen(exited=True)


@dataclass
class Played:
    """What the machine ordered, and when."""

    stopping: Stopping
    orders: list[tuple[float, str]] = field(default_factory=list)

    def of(self, order: str) -> list[float]:
        return [at for at, name in self.orders if name == order]


def play(rules: StopRules, *script: tuple[float, StopSeen], until: float = 120.0) -> Played:
    """Feed a machine with what is seen from each instant on, ten looks a second, until it is done."""
    played = Played(Stopping(rules, 0.0))
    seen = script[0][1]
    for tick in range(int(until * 10) + 1):
        now = tick / 10
        for at, next_seen in script:
            if now >= at:
                seen = next_seen
        played.orders += [(now, order) for order in played.stopping.step(now, seen)]
        if played.stopping.state == "done":
            break
    return played


def test_a_clean_drain_ends_with_the_last_process() -> None:
    played = play(StopRules(30), (0, RUNS), (6.2, StopSeen(exited=True, others=2)), (8.0, GONE))
    assert played.stopping.exited_at == 6.2
    assert played.of("finish") == [8.0]
    assert not played.of("close_silent") and not played.of("kill")
    assert not played.stopping.gave_up


def test_leftovers_are_waited_for_five_seconds() -> None:
    played = play(StopRules(30), (0, RUNS), (1.0, StopSeen(exited=True, others=2)))
    assert played.of("finish") == [6.0]


@pytest.mark.parametrize("held", [StopSeen(exited=True, gpu_held=True), StopSeen(exited=True, open=1)])
def test_gpu_memory_and_open_requests_are_waited_for(held: StopSeen) -> None:
    assert play(StopRules(30), (0, RUNS), (1.0, held), (3.0, GONE)).of("finish") == [3.0]


def test_requests_may_finish_long_after_the_port_has_closed() -> None:
    drains = StopSeen(exited=True, open=8)
    assert play(StopRules(30), (0, RUNS), (0.5, drains), (22.0, GONE)).of("finish") == [22.0]
    assert play(StopRules(30), (0, RUNS), (0.5, drains)).of("finish") == [30.0]
    silent = play(StopRules(30), (0, RUNS), (0.5, StopSeen(exited=True, open=8, silent=8)), (30.1, GONE))
    assert silent.of("close_silent") == [30.0] and silent.of("finish") == [30.1]


def test_silent_requests_are_closed_when_the_grace_ends_and_not_before() -> None:
    played = play(StopRules(30), (0, SILENT), (30.1, IDLE), (31.0, GONE))
    assert played.of("close_silent") == [30.0]
    assert played.stopping.closed_at == 30.0
    assert played.stopping.exited_at == 31.0
    assert not played.of("kill")


def test_it_is_left_running_ten_seconds_after_the_silent_ones_were_closed() -> None:
    played = play(StopRules(30), (0, SILENT), (30.1, IDLE))
    assert played.of("finish") == [40.0]
    assert played.stopping.gave_up and not played.of("kill")


def test_requests_that_fall_silent_late_are_closed_too() -> None:
    half = StopSeen(exited=False, silent=4, open=8)
    played = play(
        StopRules(30), (0, half), (30.1, StopSeen(exited=False, open=4)), (33, SILENT), (33.1, GONE)
    )
    assert played.of("close_silent") == [30.0, 33.0]


def test_without_silent_requests_nothing_is_waited_for() -> None:
    played = play(StopRules(30), (0, RUNS))
    assert played.of("finish") == [30.0]
    assert played.stopping.gave_up and played.stopping.closed_at is None


def test_it_is_killed_only_as_confirmed_and_last() -> None:
    rules = StopRules(30, kill_after_grace=True)
    played = play(rules, (0, SILENT), (30.1, IDLE), (40.3, GONE))
    assert played.of("close_silent") == [30.0]
    assert played.of("kill") == [40.0] == [played.stopping.killed_at]
    assert played.of("finish") == [40.3]
    assert not played.stopping.gave_up


def test_what_survives_sigkill_is_given_up() -> None:
    played = play(StopRules(2, kill_after_grace=True), (0, RUNS))
    assert played.of("kill") == [2.0] and played.of("finish") == [7.0]
    assert played.stopping.gave_up


def test_new_requests_are_offered_until_three_were_served() -> None:
    served = StopSeen(exited=False, open=8, served=3)
    assert play(StopRules(30), (0, RUNS), (1.6, served), until=20).of("offer") == [0.5, 1.0, 1.5]


def test_new_requests_are_offered_for_five_seconds_at_most() -> None:
    offers = play(StopRules(30), (0, RUNS), until=20).of("offer")
    assert offers == [0.5 * n for n in range(1, 11)]


def test_offers_that_were_missed_are_not_made_up_for() -> None:
    stopping = Stopping(StopRules(30), 0.0)
    orders = [(at, stopping.step(at, RUNS)) for at in (0.5, 3.2, 3.21, 3.3, 3.44, 3.45, 3.96)]
    assert [at for at, order in orders if order] == [0.5, 3.2, 3.45, 3.96]


def test_a_restart_offers_none() -> None:
    assert not play(StopRules(30, offers=False), (0, RUNS), until=20).of("offer")


def test_nothing_is_ordered_once_it_is_done() -> None:
    played = play(StopRules(30), (0, GONE))
    assert played.of("finish") == [0.0]
    assert played.stopping.step(0.5, RUNS) == []
