"""When a loop's next turn is due: on a grid, so that loops of one interval keep their order for weeks."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.runtime.clock import Clock

SHORT_S = 1.0
"""A wait that is not worth cutting short: to be able to costs a task, 20 us of CPU."""


class Turns:
    """The turns of one loop, the first at once.

    Args:
        clock: time.
        interval: gives seconds between turns, asked anew for each; it may change while one is waited for.
    """

    def __init__(self, clock: Clock, interval: Callable[[], float]) -> None:
        self._clock = clock
        self._interval = interval
        self._due = clock.monotonic()
        self._nap: asyncio.Future[Any] | None = None

    def begin(self, in_s: float = 0.0) -> None:
        """A new grid: a turn is due in so many seconds, and counts as begun."""
        self._due = self._clock.monotonic() + in_s

    async def next(self, rest_s: float = 0.0) -> bool:
        """Wait for the next turn; those that have passed meanwhile are not made up for.

        Args:
            rest_s: from now on, at least.

        Returns:
            Whether it came sooner than it would have when the wait began.
        """
        begun, ended = self._due, self._clock.monotonic()
        expected: float | None = None
        while True:
            interval = self._interval()
            self._due = begun + interval * max(1, math.ceil((ended - begun) / interval))
            until = max(self._due, ended + rest_s)
            expected = until if expected is None else expected
            if await self._slept(until - self._clock.monotonic()):
                break
        now = self._clock.monotonic()
        if now - self._due >= interval:  # after a rest, or a sleep of the machine; not for being waked late
            self._due = now
        return until < expected

    def hurry(self) -> None:
        """The interval has changed: wait no longer than it says now."""
        if self._nap is not None:
            self._nap.cancel()

    async def _slept(self, seconds: float) -> bool:
        """Wait; false where that was cut short."""
        if seconds <= SHORT_S:
            await self._clock.sleep(seconds)
            return True
        nap = self._nap = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({nap})
        finally:
            self._nap = None
            nap.cancel()
        return not nap.cancelled()
