"""What watching one engine adds up to: the figures that the lint holds its settings against."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

from tui.lint.measured import Figures, ProbeFigure

if TYPE_CHECKING:
    from tui.model.readings import ProbeReading
    from tui.model.snapshot import EngineView, HostSnapshot

ENOUGH_RESULTS: Final = 200
ENOUGH_S: Final = 600.0
"""A percentile of so many results, or of so long a time, is one."""
KEPT_RESULTS: Final = 1000
_SAME_S: Final = 0.01
"""Two instants of a result this near each other are one result, computed twice."""


class Measuring:
    """The worst that was seen of one engine in this run."""

    def __init__(self) -> None:
        self._probes: defaultdict[tuple[str, str], _Answers] = defaultdict(_Answers)
        self._worst: dict[str, float] = {}

    def note(self, view: EngineView, snapshot: HostSnapshot) -> None:
        """Look at the newest snapshot."""
        reading = view.engine.reading if view.engine.status.ok else None
        flows = reading is not None and not reading.stalled_s and (reading.gen_tok_s or 0.0) > 0.0
        for probe in view.probes:
            self._probes[probe.kind, probe.path].note(probe, snapshot.taken_at, flows=flows)
        if reading is None:
            return
        for name, value in (
            ("request", reading.e2e_p99_s),
            ("queue", reading.queue_p95_s),
            ("ttft", reading.ttft_p99_s),
            ("step", reading.longest_stall_s),
        ):
            if value is not None and self._worst.get(name, 0.0) < value < math.inf:
                self._worst[name] = _short(value)

    def figures(self, view: EngineView, longest_load_s: float | None, least_load_s: float | None) -> Figures:
        """In two digits, so that what is said of them stands still.

        Args:
            view: the engine as the newest snapshot has it.
            longest_load_s: its longest load that was seen.
            least_load_s: ... and the shortest.
        """
        reading = view.engine.reading if view.engine.status.ok else None
        fails = any(probe.kind == "readiness" and probe.streak < 0 for probe in view.probes)
        return Figures(
            probes=tuple(self._probe(probe) for probe in view.probes),
            load_s=longest_load_s,
            load_least_s=least_load_s,
            request_at_least_s=self._worst.get("request"),
            longest_step_s=self._worst.get("step"),
            queue_s=self._worst.get("queue"),
            ttft_s=self._worst.get("ttft"),
            # only beside failures does it tell anything
            tokens_per_s=_short(reading.gen_tok_s or 0.0) if reading is not None and fails else None,
        )

    def early(self, view: EngineView, now: float) -> frozenset[str]:
        """Kinds of probes that were watched too shortly for a percentile."""
        return frozenset(
            probe.kind
            for probe in view.probes
            if (known := self._probes.get((probe.kind, probe.path))) is None or not known.enough(now)
        )

    def _probe(self, probe: ProbeReading) -> ProbeFigure:
        known = self._probes.get((probe.kind, probe.path))
        return ProbeFigure(
            kind=probe.kind,
            path=probe.path,
            status=probe.status,
            latency_s=None if known is None else known.longest,
            p99_s=None if known is None else known.p99,
            streak=min(0, probe.streak),
        )


class _Answers:
    """Latencies of one route: of good answers, and of those that a working engine was too late for."""

    def __init__(self) -> None:
        self.p99: float | None = None
        self.longest: float | None = None
        self._latencies: deque[float] = deque(maxlen=KEPT_RESULTS)
        self._first_at: float | None = None
        self._last_at = -math.inf

    def note(self, probe: ProbeReading, now: float, *, flows: bool) -> None:
        at = now - (probe.age_s or 0.0)
        if probe.latency_s is None or at - self._last_at < _SAME_S:
            return
        self._last_at = at
        if not (probe.ok or (probe.status == "timeout" and flows)):
            return
        if self._first_at is None:
            self._first_at = at
        self._latencies.append(probe.latency_s)
        ordered = sorted(self._latencies)
        self.longest = _short(ordered[-1])
        self.p99 = _short(ordered[math.ceil(0.99 * len(ordered)) - 1])

    def enough(self, now: float) -> bool:
        if len(self._latencies) >= ENOUGH_RESULTS:
            return True
        return self._first_at is not None and now - self._first_at >= ENOUGH_S


def _short(value: float) -> float:
    return float(f"{value:.2g}")
