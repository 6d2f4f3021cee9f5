"""Every way in which a restart can go, on a clock of our own; and when a probe would have noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tui.actions.drain import Stopping, StopRules, StopSeen
from tui.actions.plan import ReadinessProbe
from tui.actions.restart import Restarting, RestartRules, RestartSeen, detected
from tui.actions.watch import Look
from tui.model.settings import ProbeSpec
from tui.probing.arithmetic import hang_noticed, refusal_noticed

UP = RestartSeen(StopSeen(exited=False, others=2))
GONE = RestartSeen(StopSeen(exited=True))
PART = RestartSeen(StopSeen(exited=True, others=2))
READY = replace(GONE, ready=True)
TOKEN = replace(READY, first_token=True)
STEADY = replace(TOKEN, served_since=4)
RULES = RestartRules(start_here=False, wait_for_tree=True, deadline_s=60)


def play(
    rules: RestartRules, *script: tuple[float, RestartSeen], grace_s: float = 30
) -> tuple[Restarting, list[str]]:
    """The machine at its end, and its orders as ``ORDER@SECONDS``."""
    machine = Restarting(rules, Stopping(StopRules(grace_s, offers=False), 0.0), 0.0)
    orders, seen = [], script[0][1]
    for tick in range(2000):
        now = tick / 10
        for at, next_seen in script:
            if now >= at:
                seen = next_seen
        orders += [f"{order}@{now:g}" for order in machine.step(now, seen)]
        if machine.state == "done":
            break
    return machine, orders


def test_a_supervisor_starts_it_again() -> None:
    machine, orders = play(RULES, (0, UP), (1, GONE), (10, READY), (11, TOKEN), (15, STEADY))
    assert orders == ["ask@10", "finish@15"]
    assert not machine.gave_up


def test_we_start_it_once_the_whole_tree_is_gone() -> None:
    rules = replace(RULES, start_here=True)
    _, orders = play(rules, (0, UP), (1, PART), (3, GONE), (10, READY), (11, STEADY))
    assert orders == ["start@3", "ask@10", "finish@11"]


def test_we_start_it_beside_what_stays_for_good() -> None:
    rules = replace(RULES, start_here=True)
    _, orders = play(rules, (0, UP), (1, PART), (10, replace(READY, stop=PART.stop)), (11, STEADY))
    assert orders[0] == "start@6"


def test_a_killed_server_is_started_beside_its_orphans_at_once() -> None:
    rules = replace(RULES, start_here=True, wait_for_tree=False)
    _, orders = play(rules, (0, UP), (1, PART), (10, READY), (11, STEADY))
    assert orders[0] == "start@1"


def test_one_that_does_not_go_is_not_started_again() -> None:
    machine, orders = play(replace(RULES, start_here=True), (0, UP), grace_s=4)
    assert orders == ["finish@4"] and machine.gave_up


def test_one_that_does_not_come_back_is_given_up_at_the_deadline() -> None:
    machine, orders = play(RULES, (0, UP), (1, GONE))
    assert orders == ["finish@60"] and machine.gave_up


def test_ready_without_a_token_is_not_back() -> None:
    machine, orders = play(RULES, (0, UP), (1, GONE), (5, READY))
    assert orders == ["ask@5", "finish@60"] and machine.gave_up


def test_steady_requests_are_not_waited_for_beyond_the_deadline() -> None:
    machine, orders = play(RULES, (0, UP), (1, GONE), (5, TOKEN))
    assert orders[-1] == "finish@60" and not machine.gave_up


def test_the_cache_is_warm_at_nine_tenths_of_its_former_ratio() -> None:
    rules = replace(RULES, former_hit_ratio=0.8)
    cold, warm = replace(STEADY, hit_ratio=0.71), replace(STEADY, hit_ratio=0.73)
    machine, orders = play(rules, (0, UP), (1, GONE), (5, cold), (20, warm))
    assert machine.warm_at == 20 and orders[-1] == "finish@20"


# -------------------------------------------------------------------------------------- detection


def looks(until: float, down_at: float, up_at: float = 1e9, took_s: float = 0.001) -> list[Look]:
    """Ten looks a second from 0 on; refused, or with ``took_s`` from 1 s on hanging, from down to up."""
    every = [tick / 10 for tick in range(int(until * 10))]
    hangs = took_s >= 1
    return [
        Look(at, took_s, "timeout" if hangs else "refused") if down_at <= at < up_at else Look(at, 0.001, 200)
        for at in every
    ]


@pytest.mark.parametrize("down_at", [10.0, 12.3, 14.7, 19.9])
@pytest.mark.parametrize(("failures", "took_s"), [(1, 0.001), (3, 0.001), (3, 1.0)])
def test_detection_lies_in_the_span_of_the_arithmetic(down_at: float, failures: int, took_s: float) -> None:
    spec = ProbeSpec(period_s=5, timeout_s=1, failure_threshold=failures)
    probe = ReadinessProbe("/health", 5, 1, failures)
    found = detected(looks(60, down_at, took_s=took_s), probe)
    span = hang_noticed(spec) if took_s >= 1 else refusal_noticed(spec)
    assert found is not None
    assert span.best - 0.11 <= found <= span.worst + 0.11


def test_an_outage_that_is_over_first_is_not_noticed() -> None:
    probe = ReadinessProbe("/health", 5, 1, 3)
    assert detected(looks(60, 10.0, up_at=18.0), probe) is None


def test_what_ended_for_good_is_noticed_after_the_watching() -> None:
    probe = ReadinessProbe("/health", 10, 1, 3)
    assert detected(looks(15, 12.0), probe) is None
    found = detected(looks(15, 12.0), probe, stays=True)
    assert found is not None and 27.9 <= found <= 28.1


def test_nothing_seen_is_nothing_noticed() -> None:
    assert detected([], ReadinessProbe("/health", 10, 1, 3), stays=True) is None
    assert detected(looks(5, 60.0), ReadinessProbe("/health", 10, 1, 3), stays=True) is None


def test_a_passing_failure_is_not_the_outage() -> None:
    probe = ReadinessProbe("/health", 10, 1, 1)
    seen = looks(60, 32.0)
    seen[50] = Look(5.0, 1.0, "timeout")
    found = detected(seen, probe)
    assert found is not None and 7.9 <= found <= 8.1
