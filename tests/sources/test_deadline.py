from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.support.clock import ManualClock, settle
from tui.runtime.poll import Poller
from tui.sources.deadline import within


async def test_gives_the_result_or_the_error_of_the_work() -> None:
    async def good() -> int:
        return 7

    async def bad() -> int:
        raise KeyError("x")

    assert await within(1.0, good()) == 7
    with pytest.raises(KeyError):
        await within(1.0, bad())


@pytest.mark.parametrize("stubborn", [False, True])
async def test_late_work_is_cancelled_and_has_ended_before_the_caller_goes_on(stubborn: bool) -> None:
    ended = False

    async def late() -> None:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if stubborn:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
            raise
        finally:
            ended = True

    with pytest.raises(asyncio.TimeoutError):
        await within(0.01, late())
    assert ended


async def test_a_cancellation_that_falls_together_with_the_result_is_not_lost() -> None:
    result: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def work() -> int:
        return await result

    task = asyncio.create_task(within(60.0, work()))
    await settle()
    result.set_result(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_poller_ends_whenever_it_is_cancelled() -> None:
    class Gated:
        name = "gated"
        gate: asyncio.Future[None]

        async def read(self) -> int:
            self.gate = asyncio.get_running_loop().create_future()
            await self.gate
            return 1

        async def close(self) -> None:
            pass

    source = Gated()
    polled: Poller[int] = Poller(source, ManualClock(), lambda: 1.0, deadline_s=60.0)
    task = asyncio.create_task(polled.run())
    await settle()
    source.gate.set_result(None)
    await asyncio.sleep(0)  # the read has ended, the poller has not yet been told
    task.cancel()
    await settle()
    assert task.cancelled()
