"""A clock that moves only when a test says so, and lets every waiting coroutine run as it passes."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class ManualClock:
    def __init__(self, start: float = 1000.0, wall: float = 1_700_000_000.0) -> None:
        self.now = start
        self._offset = wall - start
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self._offset

    async def sleep(self, seconds: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self.now + max(0.0, seconds), next(self._order), done))
        await done

    async def advance(self, seconds: float) -> None:
        """Pass time, waking sleepers in order; each gets the loop before the next is woken."""
        end = self.now + seconds
        await settle()
        while self._waiting and self._waiting[0][0] <= end:
            at, _, done = heapq.heappop(self._waiting)
            self.now = max(self.now, at)
            if not done.done():
                done.set_result(None)
            await settle()
        self.now = end
        await settle()


async def settle() -> None:
    """Let everything that is ready run: chains of a few awaits between tasks."""
    for _ in range(20):
        await asyncio.sleep(0)
