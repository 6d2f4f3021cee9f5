"""The engines' own processes under watch: one source for all of them, so that its cost has one bound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui.model.status import Observed
from tui.runtime.blocking import BlockingRunner
from tui.runtime.poll import Poller

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping

    from tui.memory.model_files import ModelFiles
    from tui.model.engine_host import EngineHostReading
    from tui.runtime.clock import Clock
    from tui.sources.engine_processes import EngineProcessSource, EngineTree

DEADLINE_S = 5.0
FIRST_S = 0.25
"""Until the second look, which makes the first rates."""
LOADING_MB_S = 5.0
"""What reads less than this does not load weights now."""


class OwnWatch:
    """What the kernel says of each engine's processes.

    Args:
        make: makes the source; None: nothing is read.
        clock: time.
        interval: gives seconds between looks.
        spawn: starts a coroutine that the caller owns and ends.
    """

    def __init__(
        self,
        make: Callable[[], EngineProcessSource] | None,
        clock: Clock,
        interval: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._source = make() if make is not None else None
        self._spawn, self._interval = spawn, interval
        self._task: asyncio.Task[None] | None = None
        self._poller: Poller[Mapping[str, EngineHostReading]] | None = None
        if self._source is not None:
            self._poller = Poller(
                BlockingRunner(self._source, clock), clock, self._every, deadline_s=DEADLINE_S, backoff=False
            )

    def update(self, trees: Mapping[str, EngineTree]) -> None:
        """Look at these from now on."""
        if self._source is None or self._poller is None:
            return
        self._source.watch(dict(trees))
        if self._task is None and any(tree.processes for tree in trees.values()):
            self._task = self._spawn(self._poller.run())

    def observed(
        self, url: str, now: float, files: ModelFiles | None, *, loads: bool
    ) -> Observed[EngineHostReading]:
        """What is known of one engine; pending while none of its processes was ever seen.

        Args:
            url: the engine's.
            now: monotonic seconds.
            files: its model, as far as it was read.
            loads: it does not serve yet.
        """
        if self._poller is None:
            return Observed()
        found = self._poller.observed(now)
        reading = found.reading.get(url) if found.reading is not None else None
        if reading is None:
            return Observed()
        if files is not None and files.weights is not None:
            weights = files.weights.stored_bytes / 2**20
            left = _left(reading, weights) if loads else None
            reading = replace(reading, weights_mib=weights, load_left_s=left)
        return Observed(reading, found.status)

    def hurry(self) -> None:
        """The interval has changed: a look that is overdue by it is made at once."""
        if self._poller is not None:
            self._poller.hurry()

    @property
    def settled(self) -> bool:
        """It has rates, or there is nothing to read."""
        return self._task is None or self._poller is None or self._poller.attempts > 1

    async def close(self) -> None:
        """Let go of the source."""
        if self._poller is not None:
            await self._poller.close()

    def _every(self) -> float:
        assert self._poller is not None  # it asks
        return FIRST_S if self._poller.attempts < 2 else self._interval()


def _left(reading: EngineHostReading, weights_mib: float) -> float | None:
    """Seconds until the weights are read at the present rate; None once more was read than they are."""
    rate = max(reading.read_mb_s or 0.0, reading.disk_read_mb_s or 0.0)
    if reading.read_total_mib is None or rate < LOADING_MB_S:
        return None
    left_mib = weights_mib - reading.read_total_mib
    return left_mib * 1.048576 / rate if left_mib > 0 else None
