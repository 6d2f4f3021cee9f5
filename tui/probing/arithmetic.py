"""How long things take under Kubernetes, Docker and systemd: the formulas behind every finding.

Times are seconds. Where the phase between an event and the ticks is arbitrary the result is a span. What
lies between the kubelet's decision and the traffic (status update, endpoints, proxies: some 1-5 s in a
cluster) is not in these figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.settings import ProbeSpec

BACKOFF_S = (0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
"""Waits before the restarts of a container; the last one repeats. Ten minutes of running reset it."""
LEAST_GRACE_S = 2.0
"""What a process gets at least between its stop signal and KILL, however long the pre-stop hook ran."""


@dataclass(frozen=True, slots=True)
class Span:
    """From ``best`` up to, not including, ``worst``."""

    best: float
    worst: float


def spacing(spec: ProbeSpec) -> float:
    """Between the starts of two probes that run into their timeout."""
    return max(spec.period_s, spec.timeout_s)


def hang_noticed(spec: ProbeSpec) -> Span:
    """From a hang (probes run into their timeout) to the failure threshold."""
    best = (spec.failure_threshold - 1) * spacing(spec) + spec.timeout_s
    return Span(best, spec.period_s + best)


def refusal_noticed(spec: ProbeSpec) -> Span:
    """From the first refused connection to the failure threshold."""
    best = (spec.failure_threshold - 1) * spec.period_s
    return Span(best, best + spec.period_s)


def recovery_noticed(spec: ProbeSpec) -> Span:
    """From the first good answer to the success threshold; extra probes can make it 0."""
    return Span(0.0, spec.period_s + (spec.success_threshold - 1) * spec.period_s)


def load_budget(spec: ProbeSpec) -> float:
    """The longest load that surely survives this probe while the port is refused: D + (F-1) * P."""
    return spec.initial_delay_s + (spec.failure_threshold - 1) * spec.period_s


def first_kill(spec: ProbeSpec, *, hangs: bool = False) -> Span:
    """When a container that never gets healthy is killed for the first time, from its start.

    Args:
        spec: the startup probe; or the liveness probe where there is none.
        hangs: probes run into their timeout; else they are refused at once.
    """
    took = spec.timeout_s if hangs else 0.0
    start = spec.initial_delay_s + (spec.failure_threshold - 1) * max(spec.period_s, took) + took
    return Span(start, start + spec.period_s)


def start_to_traffic(load_s: float, readiness: ProbeSpec, startup: ProbeSpec | None = None) -> Span:
    """From container start to ready, for a load that ends after ``load_s``."""
    more = (readiness.success_threshold - 1) * readiness.period_s
    if startup is not None:
        return Span(load_s, load_s + startup.period_s + startup.timeout_s + more)
    first = max(load_s, readiness.initial_delay_s)
    return Span(first, first + readiness.period_s + more)


def misses_in_stall(spec: ProbeSpec, stall_s: float, answer_s: float) -> tuple[int, int]:
    """Fewest and most failures in a row while a server that needs ``answer_s`` stands still once.

    For answers and timeouts shorter than the period.
    """
    if stall_s + answer_s <= spec.timeout_s:
        return 0, 0
    # missed are the probes under way when it began and those whose answer comes too late after it
    window = stall_s + 2 * answer_s - spec.timeout_s
    return math.floor(window / spec.period_s), math.ceil(window / spec.period_s)


@dataclass(frozen=True, slots=True)
class Termination:
    """How a deletion runs, from the instant it was accepted."""

    signal_at: float
    kill_at: float

    @property
    def window_s(self) -> float:
        """Between stop signal and KILL: what a drain may take."""
        return self.kill_at - self.signal_at


def termination(grace_s: float, pre_stop_s: float = 0.0) -> Termination:
    """The pre-stop hook counts against the grace period; 2 s remain at least."""
    signal_at = min(pre_stop_s, grace_s)
    return Termination(signal_at, signal_at + max(grace_s - pre_stop_s, LEAST_GRACE_S))


def crash_loop(lives_s: Sequence[float], tries: int, backoff_s: Sequence[float] = BACKOFF_S) -> list[float]:
    """Starts of a container that dies again and again, from its first start.

    Args:
        lives_s: how long each try lives, exit included (at least one); the last one repeats.
        tries: how many starts.
        backoff_s: waits before the first, second, ... restart (at least one); the last one repeats.
    """
    starts, at = [], 0.0
    lives = chain(lives_s, repeat(lives_s[-1]))
    waits = chain(backoff_s, repeat(backoff_s[-1]))
    for _, life, wait in zip(range(tries), lives, waits, strict=False):
        starts.append(at)
        at += life + wait
    return starts


@dataclass(frozen=True, slots=True)
class Rollout:
    """How many pods a rolling update adds and takes away."""

    replicas: int
    surge: int
    unavailable: int

    def deadlocked(self, gpus_per_pod: int, gpus: int) -> bool:
        """The new pod waits for GPUs that the old one keeps for ever."""
        return self.unavailable == 0 and (self.replicas + self.surge) * gpus_per_pod > gpus


def rollout(replicas: int, surge: int | str = "25%", unavailable: int | str = "25%") -> Rollout:
    """Percentages of the replicas: the surge is rounded up, the unavailable ones down.

    Raises:
        ValueError: neither a whole number of at least 0 nor a percentage.
    """
    more = -(-_percent(surge) * replicas // 100) if isinstance(surge, str) else surge
    less = _percent(unavailable) * replicas // 100 if isinstance(unavailable, str) else unavailable
    if more < 0 or less < 0:
        raise ValueError("a negative number of pods")
    return Rollout(replicas, more, less)


def _percent(text: str) -> int:
    digits = text.removesuffix("%")
    if digits == text or not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        raise ValueError("neither a whole number nor a percentage")
    return int(digits)


def docker_unhealthy(interval_s: float, timeout_s: float, retries: int) -> tuple[float, float]:
    """Longest time from a hang, and from a refusal, until Docker says ``unhealthy``.

    A check follows one interval after the previous one **finished**.
    """
    hang = interval_s + retries * timeout_s + (retries - 1) * interval_s
    return hang, retries * interval_s
