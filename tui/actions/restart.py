"""How a restart goes on, as a machine without I/O: fed with what is seen, it says what to do.

Times are seconds on any one clock. A stop that takes time is in the hands of ``drain.Stopping``; this
machine begins with it, starts the engine again where that is ours to do, and waits until it serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.actions.drain import Stopping, StopSeen
    from tui.actions.plan import ReadinessProbe
    from tui.actions.watch import Look

STEADY_REQUESTS = 4
"""Served after the first one, so that its time can be compared with those of later ones."""
WARM_SHARE = 0.9
"""Of the former cache hit ratio: from here on the cache counts as recovered."""

Order = Literal["offer", "close_silent", "kill", "start", "ask", "finish"]
State = Literal["stopping", "starting", "warming", "done"]


@dataclass(frozen=True, slots=True)
class RestartRules:
    """What was confirmed."""

    start_here: bool
    """We start it, once the old one has gone."""
    wait_for_tree: bool
    """... with all its processes; else the main one is enough: what it leaves behind stays."""
    deadline_s: float
    steady_requests: int = STEADY_REQUESTS
    former_hit_ratio: float | None = None
    """Of the prefix cache, before the action; None: its recovery is not measured."""


@dataclass(frozen=True, slots=True)
class RestartSeen:
    """The new engine at one instant."""

    stop: StopSeen
    ready: bool = False
    """The readiness route answers well, and did so for a request sent after the old process had ended."""
    first_token: bool = False
    """A completion was served after that."""
    served_since: int = 0
    """Completions served after the first one."""
    hit_ratio: float | None = None


class Restarting:
    """From the action until the engine serves as before, or patience ends.

    Attributes:
        state: where it is.
        stopping: the stop.
        gave_up: it is not back within the deadline, or the old one did not go.
        warm_at: when its cache had recovered; None: not seen, or not measured.
    """

    def __init__(self, rules: RestartRules, stopping: Stopping, action_at: float) -> None:
        self.rules, self.stopping = rules, stopping
        self.state: State = "stopping"
        self.gave_up = False
        self.warm_at: float | None = None
        self._action_at = action_at
        self._asked = False

    def step(self, now: float, seen: RestartSeen) -> list[Order]:
        """What to do now; ``finish`` is the last order."""
        orders: list[Order] = []
        if self.state == "stopping":
            orders += self._stop(now, seen)
        if self.state == "starting":
            if seen.ready and not self._asked:
                self._asked = True
                orders.append("ask")  # the request a second would find out up to a second late
            if seen.first_token:
                self.state = "warming"
        if self.state == "warming" and self._warm(now, seen):
            self.state = "done"
            orders.append("finish")
        if self.state != "done" and now - self._action_at >= self.rules.deadline_s:
            self.gave_up, self.state = self.state != "warming", "done"
            orders.append("finish")
        return orders

    def _stop(self, now: float, seen: RestartSeen) -> list[Order]:
        orders: list[Order] = [o for o in self.stopping.step(now, seen.stop) if o != "finish"]
        gone = self.stopping.exited_at is not None and (
            not self.rules.wait_for_tree or not seen.stop.others or self.stopping.state == "done"
        )
        if gone:
            self.state = "starting"
            return [*orders, "start"] if self.rules.start_here else orders
        if self.stopping.gave_up:
            self.gave_up, self.state = True, "done"
            orders.append("finish")
        return orders

    def _warm(self, now: float, seen: RestartSeen) -> bool:
        former = self.rules.former_hit_ratio
        if former is not None and self.warm_at is None:
            if seen.hit_ratio is not None and seen.hit_ratio >= WARM_SHARE * former:
                self.warm_at = now
            else:
                return False
        return seen.served_since >= self.rules.steady_requests


def outage(looks: Sequence[Look], at: int) -> float:
    """When the failures began that go on until the look before ``at``, which has failed."""
    first = min(at, len(looks) - 1)
    while first > 0 and not looks[first - 1].ok:
        first -= 1
    return looks[first].at


def detected(looks: Sequence[Look], probe: ReadinessProbe, *, stays: bool = False) -> float | None:
    """When a readiness probe of this cadence had failed often enough, in seconds from the first failed look.

    The looks are far denser than the probe: each of its ticks sees what the first look from then on saw.

    Args:
        looks: all looks, oldest first; the first tick is the first look, so that its phase to the outage is
            as arbitrary as the kubelet's.
        probe: period, timeout and threshold.
        stays: what the last look saw goes on: the engine has ended, and nobody starts it again.

    Returns:
        None where the outage, or the watching, ended before.
    """
    if not looks:
        return None
    streak, tick, at = 0, looks[0].at, 0
    while True:
        while at < len(looks) and looks[at].at < tick:
            at += 1
        if at == len(looks) and (looks[-1].ok or not stays):
            return None
        look = looks[min(at, len(looks) - 1)]
        streak = 0 if look.ok else streak + 1
        took = min(look.took_s, probe.timeout_s)
        if streak >= probe.failure_threshold:
            return round(max(tick, look.at) + took - outage(looks, at), 3)
        tick += max(probe.period_s, took)
