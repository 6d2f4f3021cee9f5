"""Cadence, deadlines and back-off, on a manual clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from tests.support.clock import ManualClock, settle
from tui.model.status import SourceError, SourceState
from tui.runtime.poll import Poller


@dataclass
class Scripted:
    """Answers what it is told to, and notes when it was asked."""

    clock: ManualClock
    name: str = "scripted"
    takes_s: float = 0.0
    error: Exception | None = None
    asked: list[float] = field(default_factory=list)

    async def read(self) -> float:
        self.asked.append(self.clock.now)
        if self.takes_s:
            await self.clock.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        return self.clock.now

    async def close(self) -> None:
        pass


def poller(source: Scripted, **options: object) -> Poller[float]:
    return Poller(source, source.clock, lambda: 1.0, deadline_s=60.0, jitter=lambda: 0.5, **options)  # type: ignore[arg-type]


async def run_for(polled: Poller[float], clock: ManualClock, seconds: float) -> None:
    task = asyncio.create_task(polled.run())
    await clock.advance(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_reads_on_a_grid_without_drift() -> None:
    clock = ManualClock()
    source = Scripted(clock, takes_s=0.3)
    await run_for(poller(source), clock, 5.05)
    assert source.asked == pytest.approx([1000, 1001, 1002, 1003, 1004, 1005])


async def test_a_slow_read_skips_ticks_and_is_never_followed_by_a_burst() -> None:
    clock = ManualClock()
    source = Scripted(clock, takes_s=2.4)
    await run_for(poller(source), clock, 7.0)
    assert source.asked == pytest.approx([1000, 1003, 1006])


@pytest.mark.parametrize(
    ("reason", "gaps"),
    [("refused", [1, 2, 2, 2, 2, 2]), ("timeout", [1, 2, 4, 8, 16, 30, 30])],
)
async def test_backs_off_after_failures_up_to_the_cap(reason: str, gaps: list[float]) -> None:
    clock = ManualClock()
    source = Scripted(clock, error=SourceError(reason))  # type: ignore[arg-type]
    await run_for(poller(source), clock, sum(gaps) + 0.5)
    seen = [b - a for a, b in zip(source.asked, source.asked[1:], strict=False)]
    assert seen == pytest.approx(gaps)


async def test_a_one_shot_run_does_not_back_off() -> None:
    clock = ManualClock()
    source = Scripted(clock, error=SourceError("timeout"))
    await run_for(poller(source, backoff=False), clock, 4.5)
    assert len(source.asked) == 5


async def test_recovery_goes_back_to_the_cadence_at_once() -> None:
    clock = ManualClock()
    source = Scripted(clock, error=SourceError("refused"))
    polled = poller(source)
    task = asyncio.create_task(polled.run())
    await clock.advance(10)
    assert polled.observed(clock.now).status.state is SourceState.FAILED
    source.error = None
    await clock.advance(2.0)
    assert polled.observed(clock.now).status.ok
    before = len(source.asked)
    await clock.advance(3.0)
    assert len(source.asked) - before == 3
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_interval_that_becomes_shorter_is_kept_to_at_once_and_makes_no_reading_old() -> None:
    clock = ManualClock()
    source = Scripted(clock)
    interval = 10.0
    polled: Poller[float] = Poller(source, clock, lambda: interval, deadline_s=60.0)
    task = asyncio.create_task(polled.run())
    await clock.advance(4.0)
    interval = 5.0
    polled.hurry()
    await clock.advance(0.5)
    assert source.asked == [1000]
    await clock.advance(4.9)
    assert source.asked == [1000, 1005]
    interval = 1.0
    source.takes_s = 2.0  # the next reading is under way: the last one was the newest there could be
    polled.hurry()
    await clock.advance(1.0)
    assert polled.observed(clock.now).status.state is SourceState.FRESH
    source.takes_s = 0.0
    await clock.advance(2.9)
    assert source.asked == pytest.approx([1000, 1005, 1009.4, 1011.4, 1012.4])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_loop_that_is_waked_late_stays_on_its_grid() -> None:
    class Late(ManualClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds + 0.01)

    clock = Late()
    source = Scripted(clock)
    await run_for(poller(source), clock, 50.05)
    assert source.asked[-1] == pytest.approx(1050.01)


async def test_failure_keeps_the_reading_and_says_why_and_since_when() -> None:
    clock = ManualClock()
    source = Scripted(clock)
    polled = poller(source)
    await polled.read_once()
    source.error = SourceError("5xx", "HTTP 502")
    clock.now += 7
    await polled.read_once()
    clock.now += 3
    await polled.read_once()
    observed = polled.observed(clock.now)
    assert observed.reading == 1000
    assert observed.status.state is SourceState.FAILED
    assert (observed.status.reason, observed.status.detail) == ("5xx", "HTTP 502")
    assert observed.status.age_s == 10
    assert observed.status.since == 1007
    assert observed.status.failures == 2


async def test_a_reading_goes_stale_while_the_next_read_hangs() -> None:
    clock = ManualClock()
    source = Scripted(clock)
    polled = poller(source)
    task = asyncio.create_task(polled.run())
    await clock.advance(0.5)
    assert polled.observed(clock.now).status.state is SourceState.FRESH
    source.takes_s = 1e9
    await clock.advance(10)
    status = polled.observed(clock.now).status
    assert status.state is SourceState.STALE
    assert status.age_s == pytest.approx(10.5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_nothing_read_yet_is_pending_and_unsupported_is_not_failed() -> None:
    clock = ManualClock()
    source = Scripted(clock, error=SourceError("no_driver", "no NVIDIA driver", unsupported=True))
    polled = poller(source)
    assert polled.observed(clock.now).status.state is SourceState.PENDING
    await polled.read_once()
    assert polled.observed(clock.now).status.state is SourceState.UNSUPPORTED


async def test_an_unexpected_exception_is_a_status_and_the_loop_lives_on() -> None:
    clock = ManualClock()
    source = Scripted(clock, error=ZeroDivisionError("by \x1b[31mzero"))
    polled = poller(source)
    task = asyncio.create_task(polled.run())
    await clock.advance(4)
    status = polled.observed(clock.now).status
    assert status.reason == "parse"
    assert status.detail == "unexpected ZeroDivisionError: by zero"
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_total_deadline_ends_a_read_that_never_answers() -> None:
    class Never:
        name = "never"
        cancelled = False

        async def read(self) -> float:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            raise AssertionError

        async def close(self) -> None:
            pass

    clock = ManualClock()
    source = Never()
    polled: Poller[float] = Poller(source, clock, lambda: 1.0, deadline_s=0.01)
    await polled.read_once()
    status = polled.observed(clock.now).status
    assert (status.reason, status.detail) == ("timeout", "no answer within 0.01 s")
    assert source.cancelled


async def test_one_that_hangs_does_not_delay_another() -> None:
    clock = ManualClock()
    hung, well = Scripted(clock, takes_s=1e9), Scripted(clock)
    tasks = [asyncio.create_task(poller(s).run()) for s in (hung, well)]
    await clock.advance(10)
    assert (len(hung.asked), len(well.asked)) == (1, 11)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await settle()


async def test_what_works_did_so_since_it_was_asked() -> None:
    """A probe that was answered while the first read was under way tells of the same server."""
    clock = ManualClock()
    source = Scripted(clock, takes_s=0.3)
    polled = poller(source)
    await run_for(polled, clock, 1.5)
    assert polled.observed(clock.now).status.since == pytest.approx(1000)
    source.error = SourceError("refused")
    await run_for(polled, clock, 1.0)
    assert polled.observed(clock.now).status.since == pytest.approx(1001.8)
