"""One route of one endpoint: never two requests outstanding on it, whoever asks."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tui.model.text import clean
from tui.probing.outcomes import Outcome
from tui.sources.probes import ProbeResult

if TYPE_CHECKING:
    from tui.runtime.clock import Clock
    from tui.sources.probes import Prober

GIVE_UP_S: Final = 1.0
RATE_S: Final = 60.0
"""The span over which our own requests are counted."""
_NEAR: Final = 0.9
"""Ticks come a little early or late: nine tenths of the pace are one."""


class Asked(NamedTuple):
    """What a probe got, and how long that took."""

    result: ProbeResult
    took_s: float


@dataclass(slots=True)
class _Request:
    task: asyncio.Task[ProbeResult]
    began: float
    waiting: int = 0
    took_s: float = 0.0


class Route:
    """Lets probes share what they ask.

    Two probes of the same route that are due together are one request. One that comes due while a request
    is still unanswered shares it, too: its time counts from when it came, so it fails if that is not
    answered within its own timeout. The kubelet would send another one, which a server that hangs answers
    no sooner. A request ends when nobody waits for it any more.

    A route with a pace is asked no more often than that, and each request is left its whole time; probes
    that come oftener count the newest result again, as far as it came within their timeout.

    Args:
        prober: asks.
        clock: time.
        longest_s: the longest timeout of those that share it.
        pace_s: least seconds between two requests; 0: those of the probes.
    """

    def __init__(self, prober: Prober, clock: Clock, longest_s: float, pace_s: float = 0.0) -> None:
        self._prober = prober
        self._clock = clock
        self._longest_s = longest_s
        self._pace_s = pace_s
        self._request: _Request | None = None
        self._sent: deque[float] = deque()

    async def prepare(self) -> None:
        """So that no latency has the cost of an import in it."""
        await self._prober.prepare()

    async def ask(self, timeout_s: float) -> Asked:
        """The answer, or what its lack is after ``timeout_s``."""
        now = self._clock.monotonic()
        request = self._request
        if request is not None and request.task.done() and now - request.began < _NEAR * self._pace_s:
            await self._clock.sleep(min(timeout_s, request.took_s))  # as long as asking anew would take
            return _again(request, timeout_s)
        if request is None or request.task.done():
            request = self._request = _Request(asyncio.ensure_future(self._run()), now)
            self._sent.append(now)
        return await self._wait(request, timeout_s, now)

    def sent(self, now: float) -> int:
        """Requests of the last ``RATE_S``."""
        while self._sent and self._sent[0] <= now - RATE_S:
            self._sent.popleft()
        return len(self._sent)

    async def close(self) -> None:
        """Give up what is under way and close the connection."""
        if self._request is not None:
            await _end(self._request.task)
        await self._prober.close()

    async def _run(self) -> ProbeResult:
        began = self._clock.monotonic()
        result = await self._prober.ask(self._longest_s)
        assert self._request is not None  # set before this began to run
        self._request.took_s = self._clock.monotonic() - began
        return result

    async def _wait(self, request: _Request, timeout_s: float, now: float) -> Asked:
        request.waiting += 1
        expiry = asyncio.ensure_future(self._clock.sleep(timeout_s))
        try:
            await asyncio.wait({request.task, expiry}, return_when=asyncio.FIRST_COMPLETED)
            if request.task.done():
                return Asked(_result(request.task), min(timeout_s, self._clock.monotonic() - now))
            return Asked(self._prober.unanswered(), timeout_s)
        finally:
            expiry.cancel()
            request.waiting -= 1
            if not request.waiting and not self._pace_s:
                await _end(request.task)


def _again(request: _Request, timeout_s: float) -> Asked:
    if request.took_s > timeout_s:
        return Asked(ProbeResult("timeout", Outcome.FAILURE), timeout_s)
    return Asked(_result(request.task), request.took_s)


def _result(task: asyncio.Task[ProbeResult]) -> ProbeResult:
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or error is not None:  # a bug in one prober must not end the others
        what = "cancelled" if error is None else clean(f"unexpected {type(error).__name__}: {error}")
        return ProbeResult("reset", Outcome.DISCARDED, what)
    return task.result()


async def _end(task: asyncio.Task[ProbeResult]) -> None:
    """Wait until it has ended, so that the next request finds no other one at work."""
    if not task.done():
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=GIVE_UP_S)
    if task.done() and not task.cancelled():
        task.exception()  # looked at: nobody else will
