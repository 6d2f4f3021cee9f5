"""The loop of one probe of one container (kubernetes/kubernetes ``pkg/kubelet/prober/worker.go``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from tui.probing.outcomes import Outcome

if TYPE_CHECKING:
    from tui.model.settings import ProbeSpec

Kind = Literal["liveness", "readiness", "startup"]
State = Literal["success", "failure", "unknown"]

TRIES = 3
"""Attempts in one tick while the prober itself errs (``Outcome.DISCARDED``)."""

_INITIAL: dict[Kind, State] = {"liveness": "success", "readiness": "failure", "startup": "unknown"}
_NEAR = 1e-9  # periods: a tick this close has come, whatever the floating point says


class ProbeLoop:
    """Ticks, runs of equal results and the state that they add up to.

    The ticks stand at fixed times, ``loop_started + k * period``; only their phase to the container's
    start is arbitrary. The loop's owner opens and closes it (``ContainerProbes``).

    Args:
        kind: which probe.
        spec: its fields.
        loop_started: seconds; the tick grid counts from here.
        holds: stop probing once the failure threshold is reached, until a new container, as the
            kubelet does. False for a watcher that restarts nothing and wants to go on looking.
    """

    def __init__(self, kind: Kind, spec: ProbeSpec, loop_started: float, *, holds: bool = True) -> None:
        self.kind: Kind = kind
        self.spec = spec
        self.state: State = _INITIAL[kind]
        self.decided_at: float | None = None
        """When the failure threshold was reached in this container; None again after a success."""
        self.in_flight: float | None = None
        """When the probe that is running began."""
        self.last_s = 0.0
        """How long the last counted probe took."""
        self._phase = loop_started
        self._holds = holds
        self._open = False
        self._held = False
        self._result: Literal["success", "failure"] | None = None
        self._run = 0
        self._drained = -1  # index of the newest tick that was taken from the ticker
        self._idle_since = loop_started
        self._earliest = -math.inf
        self._triggered: float | None = None
        self._tries = 0
        self._stale = False

    @property
    def streak(self) -> int:
        """Results alike in a row: positive for successes, negative for failures, 0 before the first."""
        return -self._run if self._result == "failure" else self._run

    @property
    def held(self) -> bool:
        """The kubelet has decided on a restart and waits for the new container."""
        return self._held

    @property
    def due(self) -> float | None:
        """When the next probe starts; None while it runs, is held or must not run."""
        if not self._open or self._held or self.in_flight is not None:
            return None
        if self._tries:
            return self._idle_since
        if self._triggered is not None:
            at = max(self._triggered, self._idle_since)
            if at >= self._earliest:
                return at
        newest = self._tick(self._idle_since)
        if newest > self._drained and self._idle_since >= self._earliest:
            return self._idle_since  # a tick passed while the probe ran: the ticker kept one
        return self._phase + max(newest + 1, self._tick_from(self._earliest)) * self.spec.period_s

    def new_container(self, now: float, *, gated: bool) -> None:
        """Another container id: the state is the initial one and probing resumes.

        The run of equal results goes on across containers, unless the loop was held.

        Args:
            now: when the container started; a tick at that very instant counts.
            gated: the startup probe has to succeed first (``open``).
        """
        self.state = _INITIAL[self.kind]
        self.decided_at = None
        self._held = False
        self._open = not gated
        self._stale = self.in_flight is not None
        self._tries = 0
        # whole seconds of age are compared: a delay of 1.5 s has passed at the age of 2
        self._earliest = now + math.ceil(self.spec.initial_delay_s)
        self._triggered = None
        self._idle_since = now
        self._drained = max(self._drained, self._tick_from(now) - 1)

    def started(self, at: float) -> None:
        """The container is known by now to have started at ``at``: the initial delay counts from there."""
        self._earliest = at + math.ceil(self.spec.initial_delay_s)

    def open(self, now: float) -> None:
        """The startup probe succeeded: ticks after ``now`` count."""
        self._open = True
        self._idle_since = now
        self._drained = max(self._drained, self._tick(now))

    def close(self) -> None:
        """No tick counts: gated by the startup probe, or the container does not run."""
        self._open = False
        self._triggered = None
        self._tries = 0
        self._stale = self.in_flight is not None

    def trigger(self, now: float) -> None:
        """Ask for one probe beside the ticks; within the initial delay it is lost."""
        if self._open:
            self._triggered = now

    def begin(self, now: float) -> None:
        """A probe starts.

        Raises:
            ValueError: one is running: probes of one kind never overlap.
        """
        if self.in_flight is not None:
            raise ValueError(f"the {self.kind} probe is still running")
        self.in_flight = now
        self._tries += 1
        self._drained = max(self._drained, self._tick(now))
        if self._triggered is not None and self._triggered <= now:
            self._triggered = None

    def finish(self, now: float, outcome: Outcome) -> bool:
        """A probe ended; true when that changed the state.

        Raises:
            ValueError: none was running.
        """
        if self.in_flight is None:
            raise ValueError(f"no {self.kind} probe is running")
        took, self.in_flight = now - self.in_flight, None
        self._idle_since = now
        if self._stale or outcome is Outcome.DISCARDED:
            if self._stale or self._tries >= TRIES:
                self._tries = 0
            self._stale = False
            return False
        self._tries = 0
        self.last_s = took
        return self._count("success" if outcome.passed else "failure", now)

    def _count(self, result: Literal["success", "failure"], now: float) -> bool:
        self._run = self._run + 1 if result == self._result else 1
        self._result = result
        if result == "success":
            self.decided_at = None
        wanted = self.spec.success_threshold if result == "success" else self.spec.failure_threshold
        if self._run < wanted:
            return False
        changed = self.state != result
        self.state = result
        if result == "failure":
            self.decided_at = now if self.decided_at is None else self.decided_at
            if self._holds and self.kind != "readiness":
                self._held = True
                self._run = 0
        return changed

    def _tick(self, at: float) -> int:
        """Index of the newest tick at or before an instant, -1 before the first."""
        return max(-1, math.floor((at - self._phase) / self.spec.period_s + _NEAR))

    def _tick_from(self, at: float) -> int:
        """Index of the first tick at or after an instant."""
        if at == -math.inf:
            return 0
        return max(0, math.ceil((at - self._phase) / self.spec.period_s - _NEAR))
