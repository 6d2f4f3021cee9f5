"""Blocking sources on threads of their own: a stuck call delays nobody and is named."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.support.clock import ManualClock
from tests.support.waiting import until
from tui.model.status import SourceError
from tui.runtime.blocking import BlockingRunner


class Gated:
    """Blocks in ``read`` while its gate is shut."""

    name = "gated"

    def __init__(self) -> None:
        self.doing = ""
        self.gate = threading.Event()
        self.gate.set()
        self.entered = 0
        self.closed = threading.Event()
        self.error: Exception | None = None

    def read(self) -> int:
        self.entered += 1
        self.doing = "nvmlDeviceGetPowerUsage"
        self.gate.wait(30)
        self.doing = ""
        if self.error is not None:
            raise self.error
        return self.entered

    def close(self) -> None:
        self.closed.set()


async def test_reads_on_a_daemon_thread_and_closes_there() -> None:
    source = Gated()
    runner = BlockingRunner(source, ManualClock())
    assert await runner.read() == 1
    assert await runner.read() == 2
    thread = next(t for t in threading.enumerate() if t.name == "source gated")
    assert thread.daemon
    await runner.close()
    await until(source.closed.is_set, 5)
    await until(lambda: not thread.is_alive(), 5)


async def test_errors_come_through() -> None:
    source = Gated()
    source.error = SourceError("no_driver", "none")
    runner = BlockingRunner(source, ManualClock())
    with pytest.raises(SourceError, match="no_driver"):
        await runner.read()
    source.error = None
    assert await runner.read() == 2
    await runner.close()


async def test_a_stuck_call_is_named_and_no_second_one_is_started() -> None:
    clock = ManualClock()
    source = Gated()
    runner = BlockingRunner(source, clock)
    source.gate.clear()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(runner.read(), 0.05)
    clock.now += 12
    for _ in range(20):
        with pytest.raises(SourceError) as caught:
            await runner.read()
    assert caught.value.reason == "stuck"
    assert caught.value.detail == "stuck in nvmlDeviceGetPowerUsage for 12 s"
    assert source.entered == 1
    assert sum(t.name == "source gated" for t in threading.enumerate()) == 1

    source.gate.set()  # the driver came back: the late result is dropped, the next read works
    value = await until(lambda: None if runner._busy_since is not None else True, 5)
    assert value
    assert await runner.read() == 2
    await runner.close()
