"""The generate probe of one endpoint: off until somebody asks for it, at rest where it would do harm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tui.model.readings import ProbeReading
from tui.model.settings import ProbeSpec
from tui.probing.arithmetic import hang_noticed
from tui.probing.machine import ContainerProbes
from tui.runtime.probe_route import Route
from tui.runtime.probe_runner import Plan, ProbeRunner
from tui.sources.generate import generate_route

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from typing import Any

    from tui.model.readings import EngineKind
    from tui.model.settings import EngineTarget
    from tui.runtime.clock import Clock
    from tui.sources.probes import Prober

RESTING: Final = "at rest: not while it loads, drains or is down"
PATIENCE_S: Final = 5.0
"""A request that is out for longer may well end at its timeout: from then on it counts as one that will."""


class GenerateWatch:
    """Starts a generation each period while it is switched on; never two at once.

    Its results are counted as a liveness probe's would be, so that it can be said when such a probe would
    have noticed a hang; nothing follows from them.

    Args:
        target: the endpoint.
        make: makes what asks.
        period_s: between two starts.
        timeout_s: until an unanswered one is given up.
        clock: time.
        spawn: starts a coroutine that the caller owns and ends.
        may: the engine is in a state in which a generation makes sense.
        once: no second one: its end is the end of a one-shot run.
    """

    def __init__(
        self,
        target: EngineTarget,
        make: Callable[[EngineTarget, EngineKind], Prober],
        period_s: float,
        timeout_s: float,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        may: Callable[[], bool],
        *,
        once: bool = False,
    ) -> None:
        self.on = False
        self._target = target
        self._make = make
        self._period_s, self._timeout_s = period_s, timeout_s
        self._clock = clock
        self._spawn = spawn
        self._may = may
        self._once = once
        self._kind: EngineKind | None = None
        self._runner: ProbeRunner | None = None
        self._spec: ProbeSpec | None = None
        self._task: asyncio.Task[None] | None = None
        self._route: Route | None = None

    def turn(self, on: bool, kind: EngineKind | None, failure_threshold: int) -> None:
        """Switch it on or off, or begin anew for another engine.

        Args:
            on: wanted.
            kind: of the engine; None while that is not known.
            failure_threshold: the liveness probe's.
        """
        if (on, kind) == (self.on, self._kind):
            return
        self.on, self._kind = on, kind
        self.end()
        if self._route is not None:
            self._spawn(self._route.close())
        self._runner = self._task = self._route = None
        if not on or kind is None or generate_route(self._target, kind)[1]:
            return
        spec = ProbeSpec(
            generate_route(self._target, kind)[0],
            period_s=self._period_s,
            timeout_s=self._timeout_s,
            failure_threshold=failure_threshold,
        )
        now = self._clock.monotonic()
        machine = ContainerProbes({"liveness": spec}, now, holds=False)
        machine.container_started(now)
        self._route = Route(self._make(self._target, kind), self._clock, spec.timeout_s)
        plan = Plan(spec, self._route)
        self._spec = spec
        self._runner = ProbeRunner(
            self._target.url, machine, {"liveness": plan}, self._clock, gate=self._gate
        )
        self._task = self._spawn(self._runner.run())

    @property
    def settled(self) -> bool:
        """It has an answer, or none is to be had."""
        return self._runner is None or self._runner.settled or not self._may()

    def sent(self, now: float) -> int:
        """Requests of the last minute."""
        return self._route.sent(now) if self._route is not None else 0

    def readings(self, now: float) -> tuple[ProbeReading, ...]:
        """What it found, or why it cannot be; nothing while it is off."""
        if not self.on or self._kind is None:
            return ()
        if self._runner is None:
            path, why = generate_route(self._target, self._kind)
            return (ProbeReading(self._target.url, "generate", path, note=why),)
        reading = self._runner.readings(now)[0]
        resting = reading.waiting_s is None and not self._may()
        return (
            replace(
                reading,
                kind="generate",
                would="none",
                would_in_s=None,
                notice_in_s=self._notice_in_s(reading),
                note=RESTING if resting else reading.note,
            ),
        )

    def _gate(self) -> bool:
        answered = self._runner is not None and self._runner.settled
        return self._may() and not (self._once and answered)

    def _notice_in_s(self, reading: ProbeReading) -> float | None:
        """Until a liveness probe like this had failed often enough, if nothing is answered any more."""
        if reading.would == "restart":
            return reading.would_in_s
        if self._spec is None or reading.waiting_s is None or reading.waiting_s < PATIENCE_S:
            return None
        return max(0.0, hang_noticed(self._spec).best - reading.waiting_s)

    def end(self) -> None:
        """Stop asking; ``close`` waits for it."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Stop asking and close the connection."""
        self.end()
        if self._route is not None:
            await self._route.close()
