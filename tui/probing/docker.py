"""What Docker makes of a container's HEALTHCHECK: a pure state machine, as ``machine`` is for the kubelet.

The first check comes one interval after the start, each further one an interval after the one before it
**ended**. ``unhealthy`` is a word in ``docker ps``: plain Docker restarts nothing for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tui.probing.machine import NOTHING, Decision, Forecast
from tui.probing.outcomes import Outcome

if TYPE_CHECKING:
    from tui.model.settings import ProbeSpec
    from tui.probing.loop import Kind


class DockerHealth:
    """The health check of one container, which stands in the place of a liveness probe.

    Args:
        spec: interval as ``period_s``, retries as ``failure_threshold``, start period as
            ``initial_delay_s``, and its timeout.
        now: seconds on any one clock; the first check is made at once, for what came before was not seen.
    """

    def __init__(self, spec: ProbeSpec, now: float) -> None:
        self._spec = spec
        self._started = now
        self._due: float | None = now
        self._healthy: bool | None = None
        self._run = 0
        self._passed = False
        self._last_s = 0.0
        self._began = now

    def due(self) -> tuple[Kind, float] | None:
        """The check, and when it starts; None while it runs."""
        return None if self._due is None else ("liveness", self._due)

    def streak(self, kind: Kind) -> int:
        """Results alike in a row, negative for failures; those of the start period do not count."""
        return self._run

    def container_started(self, now: float) -> None:
        """A new container: the start period begins anew."""
        self._started, self._healthy, self._run, self._passed = now, None, 0, False
        if self._due is not None:
            self._due = now + self._spec.period_s

    def started_at(self, at: float) -> None:
        """It is known by now when the container that runs started."""
        self._started = at

    def look_now(self, now: float) -> None:
        """The check is made at once, where none runs."""
        self._due = None if self._due is None else now

    def begin(self, kind: Kind, now: float) -> None:
        """A check starts."""
        self._began, self._due = now, None

    def finish(self, kind: Kind, now: float, outcome: Outcome) -> Decision | None:
        """A check ended; what Docker then calls the container, where that is news."""
        self._due = now + self._spec.period_s
        if outcome is Outcome.DISCARDED:
            outcome = Outcome.FAILURE  # Docker knows no such thing: a command that does not end has failed
        self._last_s = now - self._began
        if outcome.passed:
            self._passed = True
            self._run = max(0, self._run) + 1
            self._healthy = True
            return None
        if not self._passed and now - self._started < self._spec.initial_delay_s:
            return None
        self._run = min(0, self._run) - 1
        if -self._run < self._spec.failure_threshold or self._healthy is False:
            return None
        self._healthy = False
        return Decision(now, kind, "unhealthy")

    def forecast(self, kind: Kind, now: float) -> Forecast:
        """When Docker will call it unhealthy if the checks go on as the last one."""
        if self._healthy is False:
            return Forecast(UNHEALTHY, 0.0)
        if self._run >= 0:
            return NOTHING
        start = self._began if self._due is None else self._due
        more = self._spec.failure_threshold + self._run
        at = start + more * self._last_s + (more - 1) * self._spec.period_s
        return Forecast(UNHEALTHY, max(0.0, at - now))


UNHEALTHY: Literal["unhealthy"] = "unhealthy"
