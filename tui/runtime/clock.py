"""Time, injected: nothing below the screen asks the system for it directly."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that only grow, seconds of the calendar, and a way to wait."""

    def monotonic(self) -> float:
        """Seconds for intervals and ages."""
        ...

    def wall(self) -> float:
        """Epoch seconds, for showing and for reports."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less only yields to the loop."""
        ...


class SystemClock:
    """The real one."""

    def monotonic(self) -> float:
        """``CLOCK_MONOTONIC``."""
        return time.monotonic()

    def wall(self) -> float:
        """``CLOCK_REALTIME``."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """``asyncio.sleep``."""
        await asyncio.sleep(max(0.0, seconds))
