"""What a simulated engine does to its machine: the figures a simulated GPU and host follow."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any

_WINDOW_S = 1.0


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The engine's work over the last second."""

    phase: str = "down"
    """``loading``, ``serving``, ``draining``, ``aborting``, ``dead`` (its core is gone) or ``down``."""
    at_s: float = 0.0
    """Monotonic time of the scheduler's last word; it stands still in a hang."""
    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    """Referenced share of the KV cache, 0-1."""
    busy: float = 0.0
    """Share of the time spent in steps, 0-1."""
    prefill_tok_s: float = 0.0
    """Prompt tokens computed a second."""
    decode_tok_s: float = 0.0
    """Tokens generated a second."""


class LoadMeter:
    """Makes an ``EngineLoad`` of the API server's reports."""

    def __init__(self) -> None:
        self._reports: deque[tuple[float, dict[str, Any]]] = deque()
        self.pids: dict[str, int] = {}
        """Processes of the engine by title; the HTTP process is ``api``."""
        self.load = EngineLoad()
        """The figures now; like ``pids`` replaced whole, so that any thread may read it."""

    def take(self, line: bytes, now: float) -> None:
        """A report of the API server."""
        report = json.loads(line)
        self.pids = {"api": report["pid"], **report["pids"]}
        self._reports.append((now, report))
        while len(self._reports) > 2 and now - self._reports[1][0] >= _WINDOW_S:
            self._reports.popleft()
        self.load = self._figures()

    def clear(self) -> None:
        """The engine has ended."""
        self._reports.clear()
        self.pids = {}
        self.load = EngineLoad()

    def _figures(self) -> EngineLoad:
        (first_s, first), (last_s, last) = self._reports[0], self._reports[-1]
        span_s = last_s - first_s

        def rate(name: str) -> float:
            return max(0.0, float(last[name] - first[name])) / span_s if span_s > 0 else 0.0

        return EngineLoad(
            phase=last["phase"],
            at_s=last["at_s"],
            running=last["running"],
            waiting=last["waiting"],
            kv_usage=last["kv_usage"],
            busy=min(1.0, rate("busy_s")),
            prefill_tok_s=rate("computed_tokens"),
            decode_tok_s=rate("generated_tokens"),
        )
