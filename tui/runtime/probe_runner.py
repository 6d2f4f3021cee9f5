"""Runs the probes of one engine when the platform would, and hands their results to its state machine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from tui.probing.outcomes import Outcome
from tui.runtime.probe_record import ProbeRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tui.model.readings import ProbeReading
    from tui.model.settings import ProbeSpec
    from tui.probing.loop import Kind
    from tui.probing.machine import Decision, Forecast
    from tui.runtime.clock import Clock
    from tui.runtime.probe_route import Route
    from tui.sources.probes import ProbeResult

GATE_S: Final = 1.0
"""How often it is asked whether a probe that must not run now may."""


class Machine(Protocol):
    """Decides when a probe is due and what follows: the kubelet's rules, or Docker's."""

    def due(self) -> tuple[Kind, float] | None:
        """The probe that starts next, and when."""
        ...

    def streak(self, kind: Kind) -> int:
        """Results alike in a row, negative for failures."""
        ...

    def container_started(self, now: float) -> None:
        """A new container runs."""
        ...

    def started_at(self, at: float) -> None:
        """It is known by now when the container that runs started."""
        ...

    def look_now(self, now: float) -> None:
        """What may run does so at once."""
        ...

    def begin(self, kind: Kind, now: float) -> None:
        """A probe starts."""
        ...

    def finish(self, kind: Kind, now: float, outcome: Outcome) -> Decision | None:
        """A probe ended."""
        ...

    def forecast(self, kind: Kind, now: float) -> Forecast:
        """What follows if the results go on like this."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """How one probe is made."""

    spec: ProbeSpec
    route: Route | None
    """None: not by us; ``note`` says why."""
    note: str = ""
    ours: bool = False
    """Nobody set it up: we look all the same, and nothing follows from it."""


class ProbeRunner:
    """Asks when the machine says so; each kind has at most one probe under way.

    Args:
        url: the endpoint, for readings.
        machine: decides; its container has started.
        plans: by kind.
        clock: time.
        gate: while it says no, nothing is started.
        on_result: told of each result before it counts; true means that this runner ends with it.
    """

    def __init__(
        self,
        url: str,
        machine: Machine,
        plans: Mapping[Kind, Plan],
        clock: Clock,
        *,
        gate: Callable[[], bool] | None = None,
        on_result: Callable[[Kind, ProbeResult], bool] | None = None,
    ) -> None:
        self._url = url
        self._machine = machine
        self._plans = plans
        self._clock = clock
        self._gate = gate
        self._on_result = on_result
        self._records = {kind: ProbeRecord(kind, _path(p.spec), p.note) for kind, p in plans.items()}
        self._began: dict[Kind, float] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled; nothing of it is under way afterwards."""
        try:
            for plan in self._plans.values():
                if plan.route is not None:
                    await plan.route.prepare()
            while True:
                self._news.clear()
                wait = self._start_due()
                await self._pause(wait)
        finally:
            asking = list(self._asking)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    @property
    def settled(self) -> bool:
        """Each probe that we make has a result."""
        return all(self._records[kind].answered for kind, p in self._plans.items() if p.route is not None)

    def new_container(self, now: float) -> None:
        """The engine's process is another one."""
        self._machine.container_started(now)
        self._news.set()

    def started_at(self, at: float) -> None:
        """It is known by now when the engine's process started."""
        self._machine.started_at(at)
        self._news.set()

    def served(self) -> None:
        """The engine answers us again: a startup probe that we cannot make will have succeeded as well."""
        now = self._clock.monotonic()
        startup = self._plans.get("startup")
        due = self._machine.due()
        if startup is not None and startup.route is None and due is not None and due[0] == "startup":
            self._machine.begin("startup", now)
            self._machine.finish("startup", now, Outcome.SUCCESS)
            self._machine.look_now(now)
        elif any(record.failed for record in self._records.values()):
            self._machine.look_now(now)  # what they said of the closed port is no longer true
        self._news.set()

    def readings(self, now: float) -> tuple[ProbeReading, ...]:
        """Each probe at ``now`` (monotonic seconds)."""
        return tuple(self._reading(kind, plan, now) for kind, plan in self._plans.items())

    # -------------------------------------------------------------------------------- inside

    def _reading(self, kind: Kind, plan: Plan, now: float) -> ProbeReading:
        began = self._began.get(kind)
        reading = self._records[kind].reading(self._url, now, None if began is None else now - began)
        if plan.route is None:
            return reading
        streak = self._machine.streak(kind)
        spec = plan.spec
        reading = replace(
            reading,
            streak=streak,
            threshold=spec.failure_threshold if streak < 0 else spec.success_threshold if streak else None,
        )
        if plan.ours:
            return replace(reading, note=reading.note or plan.note, decided_at=None, decisions=0)
        forecast = self._machine.forecast(kind, now)
        return replace(reading, would=forecast.action, would_in_s=forecast.in_s)

    def _start_due(self) -> float | None:
        """Start what is due; seconds until the next one, None where nothing is waited for."""
        while (due := self._machine.due()) is not None:
            kind, at = due
            now = self._clock.monotonic()
            if at > now:
                return at - now
            route = self._plans[kind].route
            if route is None:
                return None  # only a startup probe is left to be decided by us, and all others wait for it
            if self._gate is not None and not self._gate():
                return GATE_S
            self._machine.begin(kind, now)
            self._began[kind] = now
            task = asyncio.ensure_future(self._ask(kind, route))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return None

    async def _pause(self, seconds: float | None) -> None:
        """Until then, or until something has happened that may have changed what is due."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._news.wait())]
        if seconds is not None:
            waits.append(asyncio.ensure_future(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _ask(self, kind: Kind, route: Route) -> None:
        result, took_s = await route.ask(self._plans[kind].spec.timeout_s)
        now = self._clock.monotonic()
        del self._began[kind]
        self._news.set()
        if self._on_result is not None and self._on_result(kind, result):
            return
        decision = self._machine.finish(kind, now, result.outcome)
        record = self._records[kind]
        if decision is not None and decision.action == "started" and not record.answered:
            self._machine.look_now(now)  # it had started before we came
        record.add(result, took_s, now)
        if decision is not None and decision.action in ("restart", "unready", "unhealthy"):
            record.decided(self._clock.wall())


def _path(spec: ProbeSpec) -> str:
    if spec.handler == "httpGet":
        return spec.path
    return f"tcpSocket {spec.port or ''}".rstrip() if spec.handler == "tcpSocket" else spec.handler
