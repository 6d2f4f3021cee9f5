"""One source, read on a cadence: deadline, back-off, never two reads at once, never a queue."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Generic, TypeVar

from tui.model.status import Observed, SourceError, SourceState, SourceStatus
from tui.model.text import clean
from tui.runtime.turns import Turns
from tui.sources.command_line import redact
from tui.sources.deadline import within

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.runtime.clock import Clock
    from tui.sources.base import AsyncSource

T = TypeVar("T")

BACKOFF_CAP_S = 30.0
REFUSED_BACKOFF_CAP_S = 2.0
"""A refused connection costs nothing and its end must be seen at once."""


class Poller(Generic[T]):
    """Keeps the latest reading of one source and how the source is doing.

    Args:
        source: what is read; its errors become statuses and never leave this class.
        clock: time.
        interval: gives seconds between reads, asked anew each time.
        deadline_s: total time that one read may take.
        on_reading: called after each successful read, on the loop.
        on_loss: called when a read fails after one that succeeded.
        on_failure: called with the error of each read that fails.
        backoff: wait longer after failures; off for a one-shot run, which has a fixed number of tries.
    """

    def __init__(
        self,
        source: AsyncSource[T],
        clock: Clock,
        interval: Callable[[], float],
        *,
        deadline_s: float,
        on_reading: Callable[[T], None] | None = None,
        on_loss: Callable[[], None] | None = None,
        on_failure: Callable[[SourceError], None] | None = None,
        backoff: bool = True,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = source.name
        self.attempts = 0
        """Reads that have ended, well or not."""
        self.limit: int | None = None
        """``run`` ends after so many attempts: a one-shot run must not see more than was asked for."""
        self.reading: T | None = None
        self.taken_at: float | None = None
        self.recovered = False
        """The last success was the first one, or ended a run of failures."""
        self._source = source
        self._clock = clock
        self._interval = interval
        self._turns = Turns(clock, interval)
        self._paced_s = 0.0
        """Seconds between reads when the newest reading was taken."""
        self._deadline_s = deadline_s
        self._on_reading = on_reading
        self._on_loss = on_loss
        self._on_failure = on_failure
        self._backoff = backoff
        self._jitter = jitter
        self._error: SourceError | None = None
        self._since: float | None = None
        self._failures = 0

    async def run(self) -> None:
        """Read, on a grid from the first read: no drift, and no burst after a slow one."""
        self._turns.begin()
        while self.limit is None or self.attempts < self.limit:
            await self.read_once()
            await self._turns.next(self._backoff_s())

    def hurry(self) -> None:
        """The interval has changed: what is overdue by it is read at once."""
        self._turns.hurry()

    async def read_once(self) -> None:
        """One attempt under the deadline; its outcome is kept either way."""
        began = self._clock.monotonic()
        try:
            reading = await within(self._deadline_s, self._source.read())
        except SourceError as error:
            self._fail(error)
        except asyncio.TimeoutError:
            self._fail(SourceError("timeout", f"no answer within {self._deadline_s:g} s"))
        except Exception as error:  # noqa: BLE001  # a bug in one source must not end the others
            (words,) = redact([f"unexpected {type(error).__name__}: {error}"])  # it may quote a header
            self._fail(SourceError("parse", clean(words)))
        else:
            now = self._clock.monotonic()
            self.recovered = self._error is not None or self.reading is None
            if self.recovered:
                # what answers now did so when it was asked: a probe answered meanwhile is no older than that
                self._since = began
            self.reading, self.taken_at, self._paced_s = reading, now, self._interval()
            self._error, self._failures = None, 0
            if self._on_reading is not None:
                self._on_reading(reading)
        self.attempts += 1

    async def close(self) -> None:
        """Close the source."""
        await self._source.close()

    def observed(self, now: float) -> Observed[T]:
        """The latest reading with the status that it has at ``now``."""
        age = None if self.taken_at is None else now - self.taken_at
        error = self._error
        if error is not None:
            state = SourceState.UNSUPPORTED if error.unsupported else SourceState.FAILED
        elif self.reading is None:
            state = SourceState.PENDING
        elif age is not None and age > self.stale_after_s:
            state = SourceState.STALE
        else:
            state = SourceState.FRESH
        status = SourceStatus(
            state=state,
            reason=None if error is None else error.reason,
            detail="" if error is None else error.detail,
            since=self._since,
            age_s=age,
            failures=self._failures,
        )
        return Observed(self.reading, status)

    @property
    def stale_after_s(self) -> float:
        """Age past which a reading is stale: two reads missed, and never under 3 s.

        One that was taken when reads were rarer is judged by that: it was the newest there could be.
        """
        return max(3.0, 2.5 * max(self._interval(), self._paced_s))

    def _fail(self, error: SourceError) -> None:
        if self._error is None or self._error.reason != error.reason:
            self._since = self._clock.monotonic()
        lost = self._error is None and self.reading is not None
        self._error = error
        self._failures += 1
        if self._on_failure is not None:
            self._on_failure(error)
        if lost and self._on_loss is not None:
            self._on_loss()

    def _backoff_s(self) -> float:
        if not self._backoff or self._error is None:
            return 0.0
        cap = REFUSED_BACKOFF_CAP_S if self._error.reason == "refused" else BACKOFF_CAP_S
        # 2 ** 5 is past the cap already; the exponent is bounded so that weeks of failures cannot overflow
        wait: float = min(cap, 2.0 ** min(self._failures - 1, 5))
        return wait * (0.9 + 0.2 * self._jitter()) if wait > REFUSED_BACKOFF_CAP_S else wait
