"""A deadline that never eats a cancellation.

``asyncio.wait_for`` before Python 3.12 returns its result when the cancellation of the caller and the end
of what it waits for fall together (python/cpython#81839): a loop around it then goes on for ever. Seen here
as a monitor that could not be stopped, once in some hundred runs on a busy machine.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")

GIVE_UP_S = 1.0


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    """The result of ``work``, which is cancelled when it takes longer, or when the caller is cancelled.

    Args:
        seconds: the deadline; None: as long as it takes.
        work: a coroutine, or a future.

    Raises:
        asyncio.TimeoutError: it took longer.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _end(task)
        raise
    if done:
        return task.result()
    await _end(task)
    if task.done() and not task.cancelled() and task.exception() is None:
        return task.result()  # it ended at the very moment
    raise asyncio.TimeoutError


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel and wait until it has ended, so that the next attempt finds no other one at work."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait({task}, timeout=GIVE_UP_S)
    if task.done() and not task.cancelled():
        task.exception()  # looked at: nobody else will
