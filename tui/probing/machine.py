"""What the kubelet makes of a container's probes: a pure state machine, fed with instants and outcomes.

``due`` says when each probe starts; the caller runs it (at most ``timeout_s``, one of a kind at a time) and
reports ``begin`` and ``finish``. Instants are seconds on any one clock. Rules that are not in the API
documentation follow the kubelet's code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tui.probing.loop import Kind, ProbeLoop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.readings import ProbeAction
    from tui.model.settings import ProbeSpec
    from tui.probing.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Decision:
    """What the kubelet did upon a probe's result."""

    at: float
    kind: Kind
    action: Literal["restart", "unready", "ready", "started", "unhealthy"]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the kubelet will do if the results go on as they are; 0 seconds: it has been decided."""

    action: ProbeAction
    in_s: float | None = None


NOTHING = Forecast("none")


class ContainerProbes:
    """Startup, liveness and readiness probe of one container in one pod.

    A kind without a probe counts as success. A container that does not run is not ready.

    Args:
        specs: the probes that exist.
        loop_started: when the pod was added; or one instant for each kind. The container starts
            later, so the phase of the ticks to its start is arbitrary.
        holds: as for ``ProbeLoop``.
    """

    def __init__(
        self,
        specs: Mapping[Kind, ProbeSpec],
        loop_started: float | Mapping[Kind, float],
        *,
        holds: bool = True,
    ) -> None:
        self.loops: dict[Kind, ProbeLoop] = {
            kind: ProbeLoop(
                kind,
                spec,
                loop_started if isinstance(loop_started, (int, float)) else loop_started[kind],
                holds=holds,
            )
            for kind, spec in specs.items()
        }
        self.running = False
        self.started = False
        """The startup probe has succeeded in this container (or there is none)."""
        self._deleting = False

    @property
    def ready(self) -> bool:
        """Whether the container counts as ready."""
        readiness = self.loops.get("readiness")
        return self.running and self.started and (readiness is None or readiness.state == "success")

    def streak(self, kind: Kind) -> int:
        """As ``ProbeLoop.streak``.

        Raises:
            KeyError: there is no such probe.
        """
        return self.loops[kind].streak

    def due(self) -> tuple[Kind, float] | None:
        """The probe that starts next, and when; None while all are running, gated or held."""
        waiting = [(loop.due, kind) for kind, loop in self.loops.items()]
        at, kind = min(((at, kind) for at, kind in waiting if at is not None), default=(None, None))
        return None if at is None or kind is None else (kind, at)

    def container_started(self, now: float) -> None:
        """A new container runs; in a pod that is being deleted only readiness is probed."""
        self.running = True
        self.started = "startup" not in self.loops
        for kind, loop in self.loops.items():
            loop.new_container(now, gated=not self.started and kind != "startup")
            if self._deleting and kind != "readiness":
                loop.close()

    def started_at(self, at: float) -> None:
        """It is known by now when the container that runs started: initial delays count from there."""
        for loop in self.loops.values():
            loop.started(at)

    def container_exited(self) -> None:
        """The container does not run any more: not ready, whatever the probes said."""
        self.running = False
        for loop in self.loops.values():
            loop.close()

    def pod_deleted(self) -> None:
        """Deletion was requested: liveness and startup end as successes, readiness goes on."""
        self._deleting = True
        for kind, loop in self.loops.items():
            if kind != "readiness":
                loop.state = "success"
                loop.close()

    def status_refreshed(self, now: float) -> None:
        """The kubelet synced the pod: a container that is not ready yet gets a readiness probe at once."""
        readiness = self.loops.get("readiness")
        if readiness is not None and self.running and self.started and readiness.state != "success":
            readiness.trigger(now)

    def look_now(self, now: float) -> None:
        """A watcher came late: the phase of the ticks is unknown to it, so what may run does so at once."""
        for loop in self.loops.values():
            loop.trigger(now)

    def begin(self, kind: Kind, now: float) -> None:
        """A probe starts.

        Raises:
            KeyError: there is no such probe.
            ValueError: one of this kind is running.
        """
        self.loops[kind].begin(now)

    def finish(self, kind: Kind, now: float, outcome: Outcome) -> Decision | None:
        """A probe ended; what the kubelet does about it, if anything.

        Raises:
            KeyError: there is no such probe.
            ValueError: none of this kind was running.
        """
        loop = self.loops[kind]
        if not loop.finish(now, outcome):
            return None
        if kind == "readiness":
            return Decision(now, kind, "ready" if loop.state == "success" else "unready")
        if loop.state == "failure":
            return Decision(now, kind, "restart")
        if kind == "liveness":  # a watcher went on after the kubelet would have restarted
            return None
        self.started = True
        loop.close()
        for other in self.loops.values():
            if other is not loop and not (self._deleting and other.kind == "liveness"):
                other.open(now)
        self.status_refreshed(now)
        return Decision(now, kind, "started")

    def forecast(self, kind: Kind, now: float) -> Forecast:
        """What the kubelet will do, and in how many seconds, if this probe goes on as it last did."""
        loop = self.loops.get(kind)
        if loop is None or not self.running:
            return NOTHING
        action: ProbeAction = "unready" if kind == "readiness" else "restart"
        if loop.decided_at is not None and (loop.held or loop.streak < 0):
            return Forecast(action, 0.0)
        if loop.streak < 0 and (kind != "readiness" or loop.state == "success"):
            return self._after(loop, action, loop.spec.failure_threshold + loop.streak, now)
        if kind == "readiness" and loop.streak > 0 and loop.state != "success":
            return self._after(loop, "ready", loop.spec.success_threshold - loop.streak, now)
        return NOTHING

    @staticmethod
    def _after(loop: ProbeLoop, action: ProbeAction, more: int, now: float) -> Forecast:
        start = loop.due if loop.in_flight is None else loop.in_flight
        if start is None:
            return NOTHING
        at = start + (more - 1) * max(loop.spec.period_s, loop.last_s) + loop.last_s
        return Forecast(action, max(0.0, at - now))
