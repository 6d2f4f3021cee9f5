from __future__ import annotations

import pytest

from tui.model.settings import ProbeSpec
from tui.probing import arithmetic
from tui.probing.arithmetic import Span


def spec(d: float = 0, p: float = 10, f: int = 3, t: float = 1, s: int = 1) -> ProbeSpec:
    return ProbeSpec(initial_delay_s=d, period_s=p, timeout_s=t, success_threshold=s, failure_threshold=f)


@pytest.mark.parametrize(
    ("probe", "span"),
    [(spec(d=30), Span(50, 60)), (spec(d=120), Span(140, 150)), (spec(f=60), Span(590, 600))],
)
def test_first_kill_of_a_container_that_refuses(probe: ProbeSpec, span: Span) -> None:
    assert arithmetic.first_kill(probe) == span
    assert arithmetic.load_budget(probe) == span.best


def test_first_kill_of_a_container_that_accepts_and_hangs() -> None:
    assert arithmetic.first_kill(spec(d=30, t=5), hangs=True) == Span(55, 65)
    assert arithmetic.first_kill(spec(t=20), hangs=True) == Span(60, 70)


@pytest.mark.parametrize(
    ("probe", "span"), [(spec(p=5), Span(11, 16)), (spec(t=20), Span(60, 70)), (spec(f=1), Span(1, 11))]
)
def test_how_soon_a_hang_is_noticed(probe: ProbeSpec, span: Span) -> None:
    assert arithmetic.hang_noticed(probe) == span


def test_how_soon_a_refusal_and_a_recovery_are_noticed() -> None:
    assert arithmetic.refusal_noticed(spec(p=5)) == Span(10, 15)
    assert arithmetic.recovery_noticed(spec(s=2)) == Span(0, 20)


def test_from_start_to_traffic() -> None:
    assert arithmetic.start_to_traffic(90, spec(s=2), spec(p=5)) == Span(90, 106)
    assert arithmetic.start_to_traffic(90, spec(d=30)) == Span(90, 100)
    assert arithmetic.start_to_traffic(20, spec(d=30)) == Span(30, 40)


def test_misses_in_one_stall() -> None:
    assert arithmetic.misses_in_stall(spec(), 25, 0.9) == (2, 3)
    assert arithmetic.misses_in_stall(spec(t=30), 25, 0.9) == (0, 0)


@pytest.mark.parametrize(
    ("grace", "pre_stop", "signal_at", "kill_at", "window"),
    [
        (30, 10, 10, 30, 20),
        (60, 15, 15, 60, 45),
        (30, 30, 30, 32, 2),
        (30, 29, 29, 31, 2),
        (30, 300, 30, 32, 2),
        (30, 0, 0, 30, 30),
        (0, 0, 0, 2, 2),
    ],
)
def test_termination(grace: float, pre_stop: float, signal_at: float, kill_at: float, window: float) -> None:
    ends = arithmetic.termination(grace, pre_stop)
    assert (ends.signal_at, ends.kill_at, ends.window_s) == (signal_at, kill_at, window)


def test_the_vectors_of_streams_and_drains_against_their_window() -> None:
    # G=30, preStop 10, a stream of 45 s; G=60, preStop 15, a drain of 45 s
    assert arithmetic.termination(30, 10).window_s < 45
    assert arithmetic.termination(60, 15).window_s - 45 == 0


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable"), [(1, 1, 0), (2, 1, 0), (3, 1, 0), (4, 1, 1), (8, 2, 2)]
)
def test_the_default_rolling_update(replicas: int, surge: int, unavailable: int) -> None:
    found = arithmetic.rollout(replicas)
    assert (found.surge, found.unavailable) == (surge, unavailable)


def test_rollout_deadlock() -> None:
    assert arithmetic.rollout(1).deadlocked(2, 2)
    assert not arithmetic.rollout(1).deadlocked(2, 4)
    assert not arithmetic.rollout(1, 0, 1).deadlocked(2, 2)
    assert not arithmetic.rollout(4).deadlocked(2, 8)
    assert arithmetic.rollout(100, "7%", 0).surge == 7


@pytest.mark.parametrize("text", ["", "25", "x%", "-5%", "²%", "9999999999%"])
def test_a_share_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="neither"):
        arithmetic.rollout(2, text)
    with pytest.raises(ValueError, match="negative"):
        arithmetic.rollout(2, -1)


def test_a_crash_loop_backs_off_and_can_end_by_itself() -> None:
    # budget 50 s and 2 s to exit: 0, then +52, +52+10, +52+20, ...
    assert arithmetic.crash_loop([52], 8) == [0, 52, 114, 186, 278, 410, 622, 974]
    assert arithmetic.crash_loop([52, 40], 3, [0]) == [0, 52, 92]


def test_docker_calls_a_hang_unhealthy_after_180_s_by_default() -> None:
    assert arithmetic.docker_unhealthy(30, 30, 3) == (180, 90)
