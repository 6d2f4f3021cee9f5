"""What one probe has answered so far, and what that would have led to."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

from tui.model.readings import ProbeReading
from tui.probing.outcomes import Outcome

if TYPE_CHECKING:
    from tui.model.readings import ProbeKind
    from tui.sources.probes import ProbeResult

KEPT_LATENCIES: Final = 200
"""What percentiles are of; a p99 of fewer is the maximum."""
KEPT_RESULTS: Final = 120


class ProbeRecord:
    """Results of one probe.

    Args:
        kind: which.
        path: of its route.
        note: for a person, until there is a result.
    """

    def __init__(self, kind: ProbeKind, path: str, note: str = "") -> None:
        self.kind: ProbeKind = kind
        self.path = path
        self._note = note
        self._last: ProbeResult | None = None
        self._latencies: deque[tuple[float, float]] = deque(maxlen=KEPT_LATENCIES)
        self._recent: deque[bool | None] = deque(maxlen=KEPT_RESULTS)
        self._took: float | None = None
        self._ended: float | None = None
        self._decided: float | None = None
        self._decisions = 0

    @property
    def answered(self) -> bool:
        """There is a result."""
        return self._last is not None

    @property
    def failed(self) -> bool:
        """The last result did not pass."""
        return self._last is not None and not self._last.outcome.passed

    def add(self, result: ProbeResult, took_s: float, now: float) -> None:
        """One result."""
        discarded = result.outcome is Outcome.DISCARDED
        self._last, self._took, self._ended = result, took_s, now
        self._recent.append(None if discarded else result.outcome.passed)
        if not discarded:
            self._latencies.append((now, took_s))

    def decided(self, wall: float) -> None:
        """The failure threshold was reached."""
        self._decided = wall
        self._decisions += 1

    def reading(self, url: str, now: float, waiting_s: float | None) -> ProbeReading:
        """All of it but what is to come.

        Args:
            url: the endpoint.
            now: monotonic seconds.
            waiting_s: age of the request that is under way.
        """
        last, ordered = self._last, sorted(took for _, took in self._latencies)
        passes = last is not None and isinstance(last.status, int) and 200 <= last.status < 400
        return ProbeReading(
            url=url,
            kind=self.kind,
            path=self.path,
            status=None if last is None else last.status,
            latency_s=self._took,
            latency_p50_s=_nearest_rank(ordered, 0.5),
            latency_p99_s=_nearest_rank(ordered, 0.99),
            latency_max_s=ordered[-1] if ordered else None,
            results=len(ordered),
            span_s=self._latencies[-1][0] - self._latencies[0][0] if ordered else None,
            age_s=None if self._ended is None else now - self._ended,
            waiting_s=waiting_s,
            decided_at=self._decided,
            decisions=self._decisions,
            recent=tuple(self._recent),
            failed=passes and self.failed,
            note=self._note if last is None else last.note,
        )


def _nearest_rank(ordered: list[float], q: float) -> float | None:
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else None
