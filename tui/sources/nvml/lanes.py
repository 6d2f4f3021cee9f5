"""Threads for calls that may never return, and passes over devices of which one may get stuck.

There are three lanes, each with one thread at most: two for the figures of every reading, of which the
second is only started when a device holds the first, and one for what is slow. A call that hangs costs its
lane; no thread is ever started in its place.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


class Lane:
    """One daemon thread and the call that it is in.

    ``start`` and ``stop`` are for one thread alone, which is not the lane's.

    Args:
        name: the thread's.
        monotonic: seconds that only grow.
    """

    __slots__ = ("_idle", "_jobs", "_monotonic", "_name", "_thread", "doing", "since")

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        self.doing = ""
        """The function in progress, by the binding's name; written by whoever calls it."""
        self.since = 0.0
        """Monotonic seconds at which the present job, or the function in it, began."""
        self._name = name
        self._monotonic = monotonic
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """A job has not ended."""
        return not self._idle.is_set()

    def start(self, job: Callable[[], None]) -> None:
        """Begin a job, which must not raise; only when not busy."""
        self._idle.clear()
        self.since = self._monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def wait(self, seconds: float) -> bool:
        """Wait for the job's end, at most so long; whether it has ended."""
        return self._idle.wait(seconds)

    def stop(self) -> None:
        """End the thread after its job; one that is stuck dies with the process."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread = None

    def stuck(self) -> str:
        """What it hangs in and for how long, for a person."""
        return f"stuck in {self.doing or 'NVML'} for {self._monotonic() - self.since:.0f} s"

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._idle.set()


class Sweep(Generic[T]):
    """One pass over items by one lane, which takes each before it works on it.

    Giving the pass up leaves the item in hand to the lane that hangs in it, and only that one.
    """

    def __init__(self, items: Iterable[T] = ()) -> None:
        self.done: list[T] = []
        self._lock = threading.Lock()
        self._left = list(items)[::-1]
        self._held: T | None = None
        self._over = False

    def take(self) -> T | None:
        """The next item, the one before being done; None at the end, or when the pass was given up."""
        with self._lock:
            if self._over:
                return None
            if self._held is not None:
                self.done.append(self._held)
            self._held = self._left.pop() if self._left else None
            return self._held

    def give_up(self) -> tuple[T | None, list[T]]:
        """End the pass; the item in hand and those not yet taken."""
        with self._lock:
            self._over = True
            return self._held, self._left[::-1]
