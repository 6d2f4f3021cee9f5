"""Waiting for a condition with a deadline: the only way in which the tests wait for real time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wait_for(condition: Callable[[], T | None], within_s: float, what: str = "the condition") -> T:
    """The first value of ``condition`` that is true."""
    limit = time.monotonic() + within_s
    pause = 0.001
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"{what} did not come within {within_s:g} s")
        time.sleep(pause)  # between two looks, not instead of one
        pause = min(0.05, pause * 1.5)


async def until(condition: Callable[[], T | None], within_s: float, what: str = "the condition") -> T:
    """As ``wait_for``, on the event loop."""
    limit = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"{what} did not come within {within_s:g} s")
        await asyncio.sleep(0.005)
