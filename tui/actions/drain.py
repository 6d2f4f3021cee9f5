"""How a stop goes on, as a machine without I/O: fed with what is seen, it says what to do.

Times are seconds on any one clock. Every stop, of a drain or a restart test, goes through it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OFFER_EVERY_S = 0.5
OFFER_SERVED = 3
OFFER_FOR_S = 5.0
CLOSED_WAIT_S = 10.0
"""From closing our silent requests to the end of patience: a real vLLM exits 1 s after the last hung up."""
KILL_WAIT_S = 5.0
SETTLE_S = 5.0
"""What is left of an engine so long after its main process is left over: a worker of a real vLLM ends 2.1 s
after its core."""

Order = Literal["offer", "close_silent", "kill", "finish"]
State = Literal["draining", "closing", "killing", "settling", "done"]


@dataclass(frozen=True, slots=True)
class StopRules:
    """What was confirmed; the rest has the values above."""

    grace_s: float
    kill_after_grace: bool = False
    offers: bool = True
    """New requests are offered after the signal."""
    offer_every_s: float = OFFER_EVERY_S
    offer_served: int = OFFER_SERVED
    offer_for_s: float = OFFER_FOR_S
    closed_wait_s: float = CLOSED_WAIT_S
    kill_wait_s: float = KILL_WAIT_S
    settle_s: float = SETTLE_S


@dataclass(frozen=True, slots=True)
class StopSeen:
    """The engine at one instant."""

    exited: bool
    """The main process; where there is none, its port."""
    others: int = 0
    """Processes of the engine beside it that still run."""
    silent: int = 0
    """Requests of ours in flight that are open and get no bytes."""
    open: int = 0
    """Requests of ours in flight that are open."""
    served: int = 0
    """New requests that were served since the action."""
    gpu_held: bool = False
    """One of its processes is known to hold GPU memory still."""


class Stopping:
    """From the action to the end of the engine, or of patience.

    Attributes:
        state: where it is.
        exited_at: when the main process was seen to have ended.
        closed_at: when our silent requests were to be closed; None: it was not needed.
        killed_at: when SIGKILL was due; None: it was not.
        gave_up: it did not exit, and was left as it is.
    """

    def __init__(self, rules: StopRules, action_at: float) -> None:
        self.rules = rules
        self.state: State = "draining"
        self.exited_at: float | None = None
        self.closed_at: float | None = None
        self.killed_at: float | None = None
        self.gave_up = False
        self._action_at = action_at
        self._offer_at = action_at + rules.offer_every_s

    def step(self, now: float, seen: StopSeen) -> list[Order]:
        """What to do now; ``finish`` is the last order."""
        orders: list[Order] = []
        if self.state == "done":
            return orders
        offering = self._offers(now, seen)
        if seen.exited and self.exited_at is None:
            self.exited_at = now
            self.state = "settling"
        if self.state == "settling":
            orders += self._settle(now, seen)
        else:
            orders += self._wait(now, seen)
        if offering and self.state in ("draining", "settling"):
            orders.append("offer")
            # after a pause of ours those that were missed are not made up for in a burst
            self._offer_at = (
                max(self._offer_at, now - self.rules.offer_every_s / 2) + self.rules.offer_every_s
            )
        return orders

    def _offers(self, now: float, seen: StopSeen) -> bool:
        rules = self.rules
        if not rules.offers or self.state not in ("draining", "settling") or now < self._offer_at:
            return False
        return now - self._action_at <= rules.offer_for_s and seen.served < rules.offer_served

    def _settle(self, now: float, seen: StopSeen) -> list[Order]:
        assert self.exited_at is not None
        in_grace = now - self._action_at < self.rules.grace_s
        if seen.open and (in_grace or seen.silent):
            # a closed port alone, where the processes are not known, is no exit: requests may still finish
            if in_grace:
                return []
            self.closed_at = self.closed_at or now
            return ["close_silent"]
        quiet = not seen.others and not seen.open and not seen.gpu_held
        if quiet or now - self.exited_at >= self.rules.settle_s:
            self.state = "done"
            return ["finish"]
        return []

    def _wait(self, now: float, seen: StopSeen) -> list[Order]:
        rules = self.rules
        if self.state == "draining" and now - self._action_at >= rules.grace_s:
            if seen.silent:
                self.state, self.closed_at = "closing", now
                return ["close_silent"]
            return self._last_resort(now)
        if self.state == "closing" and self.closed_at is not None:
            if now - self.closed_at >= rules.closed_wait_s:
                return self._last_resort(now)
            return ["close_silent"] if seen.silent else []
        if (
            self.state == "killing"
            and self.killed_at is not None
            and now - self.killed_at >= rules.kill_wait_s
        ):
            return self._give_up()
        return []

    def _last_resort(self, now: float) -> list[Order]:
        if not self.rules.kill_after_grace:
            return self._give_up()
        self.state, self.killed_at = "killing", now
        return ["kill"]

    def _give_up(self) -> list[Order]:
        self.gave_up, self.state = True, "done"
        return ["finish"]
