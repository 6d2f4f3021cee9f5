"""Probers that answer as told, without a socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui.probing.outcomes import Outcome, http_outcome
from tui.sources.probes import ProbeResult

if TYPE_CHECKING:
    from tests.support.clock import ManualClock

TIMEOUT = ProbeResult("timeout", Outcome.FAILURE)


def status(code: int) -> ProbeResult:
    return ProbeResult(code, http_outcome(code))


class MadeProber:
    """Answers with ``result`` after ``takes_s`` of the manual clock; None: never.

    Both may be changed at any time. Without a clock it answers at once.
    """

    def __init__(self, clock: ManualClock | None = None, result: ProbeResult | None = None) -> None:
        self._clock = clock
        self.result: ProbeResult | None = status(200) if result is None else result
        self.takes_s = 0.0
        self.asked: list[float] = []
        self.outstanding = 0
        self.most_at_once = 0

    async def prepare(self) -> None:
        return

    async def ask(self, limit_s: float) -> ProbeResult:
        self.asked.append(self._clock.monotonic() if self._clock else 0.0)
        self.outstanding += 1
        self.most_at_once = max(self.most_at_once, self.outstanding)
        try:
            if self._clock is not None and self.takes_s:
                await self._clock.sleep(self.takes_s)
            while self.result is None:
                await asyncio.Event().wait()
            return self.result
        finally:
            self.outstanding -= 1

    def unanswered(self) -> ProbeResult:
        return TIMEOUT

    async def close(self) -> None:
        return
