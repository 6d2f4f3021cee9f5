"""Work that would hold up the event loop, each call on a daemon thread of its own.

Not the default executor: it is joined at exit, so a resolver that hangs would hang the exit too.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def start(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Start ``work`` on a daemon thread; the future has its result or its exception.

    Cancelling the future ends the wait only: the thread goes on and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    done.add_done_callback(_notice)

    def finish(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # T may itself be Optional

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except Exception as caught:  # noqa: BLE001  # carried to the loop, where somebody waits for it
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done


def _notice(done: asyncio.Future[T]) -> None:
    if not done.cancelled():
        done.exception()  # or asyncio would complain on stderr when nobody waits for a late failure
