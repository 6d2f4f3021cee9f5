"""Calls that may never return, kept off the loop: one daemon thread for each blocking source.

Not the default executor: it is shared with name look-ups and joined at exit, so that one call stuck
in the driver would hold up quitting for as long as it is stuck (measured: 8.2 s against 0.3 s with a
daemon thread, for a call blocked for 8 s).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from tui.model.status import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.runtime.clock import Clock
    from tui.sources.base import BlockingSource

T = TypeVar("T")


class BlockingRunner(Generic[T]):
    """Reads a blocking source on a thread of its own, one call at a time.

    A call that is still running when the next one is asked for is reported as ``stuck`` and no second
    one is started: there is never more than one thread, and one stuck call, for each source.
    """

    def __init__(self, source: BlockingSource[T], clock: Clock) -> None:
        self.name = source.name
        self._source = source
        self._clock = clock
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._busy_since: float | None = None

    async def read(self) -> T:
        """One reading; the caller's deadline may cancel the wait, never the call.

        Raises:
            SourceError: the source's own; ``stuck`` while an earlier call has not returned.
        """
        if self._busy_since is not None:
            held = self._clock.monotonic() - self._busy_since
            raise SourceError("stuck", f"stuck in {self._source.doing or self.name} for {held:.0f} s")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._busy_since = self._clock.monotonic()

        def finish(reading: T | None, error: BaseException | None) -> None:
            self._busy_since = None
            if done.cancelled():
                return  # the deadline passed: this late result is older than what the status says
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(reading)  # type: ignore[arg-type]  # T may itself be Optional

        def job() -> None:
            reading: T | None = None
            error: BaseException | None = None
            try:
                reading = self._source.read()
            except Exception as caught:  # noqa: BLE001  # carried to the loop, which knows what to do
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop closed while the call was stuck
                loop.call_soon_threadsafe(finish, reading, error)

        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"source {self.name}", daemon=True)
            self._thread.start()
        self._jobs.put(job)
        return await done

    async def close(self) -> None:
        """Let the thread close the source and end; a stuck one is left to die with the process."""
        if self._thread is not None:
            self._jobs.put(None)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                with contextlib.suppress(Exception):  # closing is a courtesy: nothing depends on it
                    self._source.close()
                return
            job()
