"""What a rule is: a pure function over one container and the figures, with its prose beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tui.lint.engines import route_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tui.lint.engines import Engine
    from tui.lint.measured import Figures, ProbeFigure
    from tui.lint.shape import Container, Handler, Platform, Probe, ProbeName, Workload
    from tui.lint.texts import Prose
    from tui.model.settings import ProbeSpec
    from tui.model.verdicts import Level


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule looks at."""

    workload: Workload
    container: Container
    engine: Engine
    figures: Figures

    def probe(self, kind: ProbeName) -> Probe | None:
        """One of the container's probes."""
        return self.container.probes.get(kind)

    @property
    def pre_stop_s(self) -> float | None:
        """Run time of the pre-stop hook; 0 without one, None when it cannot be read off."""
        hook = self.container.pre_stop
        return 0.0 if hook is None else hook.seconds

    def figure(self, probe: Probe, path: str) -> ProbeFigure | None:
        """What was measured of the route of a probe.

        Another route's figure stands in only where both are answered by the HTTP process alone.
        """
        exact = [f for f in self.figures.probes if f.path == path]
        if not exact and self.engine.kind == "vllm" and (path == "/health" or self.engine.static(path)):
            exact = [f for f in self.figures.probes if f.kind == probe.kind and f.path == "/health"]
        return max(exact, key=lambda f: f.p99_s or f.latency_s or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class Hit:
    """The rule fires."""

    line: int
    arithmetic: str = ""
    level: Level | None = None
    """None: the rule's own."""
    values: Mapping[str, object] = field(default_factory=dict)
    """For the places in the rule's texts."""


@dataclass(frozen=True, slots=True)
class Need:
    """The rule cannot be judged: what is missing, and what of the sum is known."""

    what: str
    line: int | None = None
    arithmetic: str = ""


Outcome: TypeAlias = "Hit | Need"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the lint."""

    id: str
    prose: Prose
    check: Callable[[Case], Iterator[Outcome]]
    platforms: frozenset[Platform]
    everyone: bool = False
    """Concerns sidecars too."""
    once: bool = False
    """Concerns the workload: judged for its main container only."""


def hit(line: int, arithmetic: str = "", level: Level | None = None, **values: object) -> Hit:
    """A hit with the values of its texts."""
    return Hit(line, arithmetic, level, {name: shown(value) for name, value in values.items()})


def shown(value: object) -> str:
    """Numbers in as few digits as they are worth."""
    return f"{round(value, 2):.10g}" if isinstance(value, float) else str(value)


def s(value: float) -> str:
    """Seconds for an arithmetic."""
    return f"{shown(float(value))} s"


def budget(spec: ProbeSpec) -> str:
    """D + (F-1) * P in figures."""
    return (
        f"{shown(spec.initial_delay_s)} + ({spec.failure_threshold}-1) * {shown(spec.period_s)}"
        f" = {s(spec.initial_delay_s + (spec.failure_threshold - 1) * spec.period_s)}"
    )


def patience(spec: ProbeSpec) -> str:
    """(F-1) * max(P, T) + T in figures."""
    period, timeout = shown(spec.period_s), shown(spec.timeout_s)
    total = (spec.failure_threshold - 1) * max(spec.period_s, spec.timeout_s) + spec.timeout_s
    return f"({spec.failure_threshold}-1) * max({period}, {timeout}) + {timeout} = {s(total)}"


def requests(case: Case, *, only_get: bool = False) -> Iterator[tuple[Probe, Handler, str]]:
    """Probes that ask for a route, each with its handler and the path."""
    for probe in case.container.probes.values():
        for handler in probe.handlers:
            path = route_of(handler)
            if path and (handler.kind == "httpGet" or not only_get):
                yield probe, handler, path
