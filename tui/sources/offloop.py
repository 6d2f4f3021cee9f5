"""Work that would hold up the event loop, each call on a daemon thread that does nothing else meanwhile.

Not the default executor: it is joined at exit, so a resolver that hangs would hang the exit too. A thread
that has done its work waits for more of it for a while: to start one costs more than most looks at a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

REST_S = 10.0
"""A thread that has had no work for so long ends."""


class _Thread(threading.Thread):
    """Does what it is given, one piece after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.work: queue.SimpleQueue[tuple[str, Callable[[], None]]] = queue.SimpleQueue()

    def run(self) -> None:
        while self._did_one():
            _at_rest.append(self)
            self.name = "off the loop, at rest"

    def _did_one(self) -> bool:
        given = self._next()
        if given is not None:
            self.name, work = given
            work()
        return given is not None

    def _next(self) -> tuple[str, Callable[[], None]] | None:
        try:
            return self.work.get(timeout=REST_S)
        except queue.Empty:
            pass
        try:
            _at_rest.remove(self)
        except ValueError:
            return self.work.get()  # somebody has just taken it, and gives it work now
        return None


_at_rest: list[_Thread] = []
"""Taken from the end, so that those that are not needed have their rest."""
os.register_at_fork(after_in_child=_at_rest.clear)  # a fork has none of them


def start(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Do ``work`` on a daemon thread of that name; the future has its result or its exception.

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

    try:
        thread = _at_rest.pop()
    except IndexError:
        thread = _Thread()
        thread.start()
    thread.work.put((name, run))
    return done


def _notice(done: asyncio.Future[T]) -> None:
    if not done.cancelled():
        done.exception()  # or asyncio would complain on stderr when nobody waits for a late failure
