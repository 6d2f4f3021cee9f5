"""All probes of one endpoint: made when its kind is known, and anew when other settings are in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from tui.probing.docker import DockerHealth
from tui.probing.machine import ContainerProbes
from tui.runtime.probe_generate import GenerateWatch
from tui.runtime.probe_route import Route
from tui.runtime.probe_runner import Plan, ProbeRunner
from tui.runtime.probe_settings import (
    SGLANG_PACE_S,
    SGLANG_PATIENCE_S,
    in_force,
    paced,
    without_ready,
)
from tui.sources.probes import origin

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from tui.model.places import Healthcheck
    from tui.model.readings import EngineKind, ProbeKind, ProbeReading
    from tui.model.settings import EngineTarget, ProbeSettings, ProbeSpec
    from tui.probing.loop import Kind
    from tui.runtime.clock import Clock
    from tui.runtime.probe_runner import Machine
    from tui.runtime.probe_settings import InForce
    from tui.runtime.sources import Sources
    from tui.sources.probes import ProbeResult

SHOWN: Final[tuple[Kind, ...]] = ("liveness", "readiness", "startup")
OURS: Final = "not in the settings: a look of our own"


class ProbeWatch:
    """Probes of one endpoint, and what they found.

    Args:
        target: the endpoint.
        sources: makes what asks.
        settings: of config and command line.
        generate_timeout_s: until an unanswered generation is given up.
        clock: time.
        spawn: starts a coroutine that the caller owns and ends.
        may_generate: the engine is in a state in which a generation makes sense.
        once: for a one-shot run, which makes one generation.
    """

    def __init__(
        self,
        target: EngineTarget,
        sources: Sources,
        settings: ProbeSettings,
        generate_timeout_s: float,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        may_generate: Callable[[], bool],
        *,
        once: bool = False,
    ) -> None:
        self.kind: EngineKind | None = None
        self._target = target
        self._sources = sources
        self._settings = settings
        self._clock = clock
        self._spawn = spawn
        self._healthcheck: Healthcheck | None = None
        self._no_ready = self._ready_seen = False
        self._process: tuple[str, float] | None = None
        self._started_wall: float | None = None
        self._force: InForce | None = None
        self._routes: dict[object, Route] = {}
        self._running: list[tuple[ProbeRunner, asyncio.Task[None]]] = []
        self._generate = GenerateWatch(
            target,
            sources.generator,
            settings.generate_period_s,
            generate_timeout_s,
            clock,
            spawn,
            may_generate,
            once=once,
        )

    # -------------------------------------------------------------------------------- what is learnt

    def learn_kind(self, kind: EngineKind) -> None:
        """What answers there; another engine on the port has other routes."""
        if kind != self.kind:
            self.kind, self._no_ready = kind, False
            self._restart()
            self.generate(on=self._generate.on)

    def learn_healthcheck(self, found: Healthcheck | None) -> None:
        """What the container that it runs in says."""
        if found != self._healthcheck:
            self._healthcheck = found
            self._restart()

    def learn_process(self, name: str, key: float, started_wall: float | None) -> None:
        """Which process serves.

        Args:
            name: what kind of key it is: ``pid``, or ``start`` where no process can be seen.
            key: another one of the same kind is another container.
            started_wall: epoch seconds.
        """
        known = self._process
        if known is not None and known[0] == "pid" and name != "pid":
            return
        self._process, self._started_wall = (name, key), started_wall
        started = self._started(self._clock.monotonic())
        for runner, _ in self._running:
            if known is None:
                runner.started_at(started)
            elif known[0] == name and known[1] != key:
                runner.new_container(started)

    def served(self) -> None:
        """A scrape succeeded after one that did not."""
        for runner, _ in self._running:
            runner.served()

    def generate(self, *, on: bool) -> None:
        """Switch the generate probe on or off."""
        liveness = self.specs.get("liveness")
        self._generate.turn(on, self.kind, 3 if liveness is None else liveness.failure_threshold)

    # -------------------------------------------------------------------------------- what is known

    @property
    def specs(self) -> Mapping[ProbeKind, ProbeSpec]:
        """The settings in force."""
        return {} if self._force is None else {kind: self._force.specs[kind] for kind in self._force.specs}

    @property
    def origin(self) -> str:
        """Where they come from."""
        return "" if self._force is None else self._force.origin

    @property
    def platform(self) -> Literal["kubernetes", "docker"]:
        """Whose rules they follow."""
        return "docker" if self._force is not None and self._force.docker else "kubernetes"

    @property
    def turns_away(self) -> bool:
        """Readiness was last answered with an error."""
        now = self._clock.monotonic()
        found = (r for runner, _ in self._running for r in runner.readings(now) if r.kind == "readiness")
        return any(isinstance(r.status, int) and r.status >= 400 for r in found)

    @property
    def settled(self) -> bool:
        """The generate probe has an answer, or none is to be had."""
        return self._generate.settled

    def sent(self, now: float) -> int:
        """Requests of the last minute."""
        return self._generate.sent(now) + sum(route.sent(now) for route in self._routes.values())

    def readings(self, now: float) -> tuple[ProbeReading, ...]:
        """Every probe at ``now`` (monotonic seconds): those that were asked, and those that cannot be."""
        found = [reading for runner, _ in self._running for reading in runner.readings(now)]
        told = [r for r in found if r.status is not None or r.note]
        shown = [r for kind in SHOWN for r in told if r.kind == kind]
        return (*shown, *self._generate.readings(now))

    # -------------------------------------------------------------------------------- life

    def end(self) -> None:
        """Stop asking, for good; ``close`` waits for it."""
        for _, task in self._running:
            task.cancel()
        self._generate.end()

    async def close(self) -> None:
        """Stop asking and close every connection."""
        self.end()
        for route in self._routes.values():
            await route.close()
        await self._generate.close()

    # -------------------------------------------------------------------------------- inside

    def _restart(self) -> None:
        """Make the probes that are in force now, if they are not those that run."""
        if self.kind is None:
            return
        force = in_force(self.kind, self._target, self._settings, self._healthcheck)
        force = without_ready(force) if self._no_ready else force
        if force == self._force:
            return
        for _, task in self._running:
            task.cancel()
        for route in self._routes.values():
            self._spawn(route.close())
        self._force, self._routes, self._running, self._ready_seen = force, {}, [], False
        plans = self._plans(self.kind, force)
        now = self._clock.monotonic()
        if force.docker:
            check = plans.pop("liveness")
            self._run(DockerHealth(check.spec, now), {"liveness": check})
        made = {k: p.spec for k, p in plans.items() if p.route is not None or k == "startup"}
        machine = ContainerProbes(made, now, holds=False)
        machine.container_started(self._started(now))
        self._run(machine, plans)

    def _run(self, machine: Machine, plans: dict[Kind, Plan]) -> None:
        runner = ProbeRunner(self._target.url, machine, plans, self._clock, on_result=self._on_result)
        self._running.append((runner, self._spawn(runner.run())))

    def _plans(self, engine: EngineKind, force: InForce) -> dict[Kind, Plan]:
        wanted = {**force.specs, **force.ours}
        longest: dict[object, float] = {}
        for spec in wanted.values():
            key = _key(self._target, spec)
            longest[key] = max(longest.get(key, 0.0), spec.timeout_s)
        plans: dict[Kind, Plan] = {}
        for kind, spec in wanted.items():
            key = _key(self._target, spec)
            if kind not in force.notes and key not in self._routes:
                self._routes[key] = self._route(engine, spec, longest[key])
            route = None if kind in force.notes else self._routes[key]
            ours = kind in force.ours
            plans[kind] = Plan(spec, route, force.notes.get(kind, OURS if ours else ""), ours)
        return plans

    def _route(self, engine: EngineKind, spec: ProbeSpec, longest_s: float) -> Route:
        prober = self._sources.prober(self._target, spec)
        if paced(engine, spec):
            return Route(prober, self._clock, max(longest_s, SGLANG_PATIENCE_S), SGLANG_PACE_S)
        return Route(prober, self._clock, longest_s)

    def _on_result(self, kind: Kind, result: ProbeResult) -> bool:
        """An old SGLang has no /ready: that is no failure of its readiness."""
        force, first = self._force, not self._ready_seen
        if kind != "readiness" or force is None:
            return False
        self._ready_seen = True
        if self.kind != "sglang" or not force.own_routes or not first or result.status != 404:
            return False
        self._no_ready = True
        self._restart()
        return True

    def _started(self, now: float) -> float:
        """When the container started, by the monotonic clock; now where that is not known."""
        if self._started_wall is None:
            return now
        return now - max(0.0, self._clock.wall() - self._started_wall)


def _key(target: EngineTarget, spec: ProbeSpec) -> object:
    """Probes of the same route ask the same; with other headers it is another request."""
    return (spec.handler, origin(target, spec), spec.path, spec.headers)
