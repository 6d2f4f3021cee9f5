"""Hours on a manual clock, with cards and engines coming and going: nothing grows."""

from __future__ import annotations

import asyncio
import gc
import heapq
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tests.support.clock import ManualClock
from tests.support.probers import MadeProber
from tui.model.history import History
from tui.model.readings import (
    EngineProcess,
    EngineReading,
    GpuProcess,
    GpuReading,
    GpuSet,
    HostReading,
    ProcessTable,
)
from tui.model.settings import Config
from tui.model.status import SourceError
from tui.runtime.monitor import Monitor
from tui.runtime.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")
TICKS, WARM, EVERY_S, KEPT = 1_700, 1_250, 2.0, 900
"""``make bench`` runs 20,000, a second each. After the warm ones every series is as long as it gets."""
MIB = 2**20
MOVE_S = 600


class Clock(ManualClock):
    """Wakes all sleepers of an instant at once: the fewest turns of the loop for the most time."""

    runners: tuple[Any, ...] = ()

    async def tick(self, seconds: float) -> None:
        end = self.now + seconds
        await asyncio.sleep(0)
        while self._waiting and self._waiting[0][0] <= end:
            self.now = max(self.now, self._waiting[0][0])
            while self._waiting and self._waiting[0][0] <= self.now:
                done = heapq.heappop(self._waiting)[2]
                if not done.done():
                    done.set_result(None)
            await self.answered()
        self.now = end

    async def answered(self) -> None:
        """Until what was woken sleeps again: no source owes an answer."""
        for _ in range(6):
            await asyncio.sleep(0)
        while any(runner._busy_since is not None for runner in self.runners):  # noqa: ASYNC110  # in threads
            await asyncio.sleep(0)
        await asyncio.sleep(0)


class Blocking(Generic[T]):
    def __init__(self, name: str, answer: Callable[[], T]) -> None:
        self.name = self.doing = name
        self.answer = answer

    def read(self) -> T:
        return self.answer()

    def close(self) -> None:
        pass


class Engine:
    """Answers while its port is open."""

    name = "engine"

    def __init__(self, world: World, url: str) -> None:
        self.world, self.url = world, url

    async def read(self) -> EngineReading:
        if self.url not in self.world.open:
            raise SourceError("refused", "connection refused")
        return EngineReading(self.url, engine="vllm", running=3.0, waiting=0.0, kv_usage=0.4, gen_tok_s=90.0)

    async def close(self) -> None:
        pass


@dataclass
class World:
    """Four cards, of which one is cut anew every 150 s, and engines that move to another port every 600 s."""

    now: float = 0.0
    open: set[str] = field(default_factory=set)

    def at(self, now: float) -> None:
        self.now = now
        ports = (40_000 + int(now // MOVE_S) % 20_000, 8000)
        self.open = {f"http://127.0.0.1:{port}" for port in ports}

    def gpus(self) -> GpuSet:
        if self.now % 500 < 3:
            raise SourceError("driver_error", "the driver was reloaded")
        cards = [
            GpuReading(
                i, uuid=f"GPU-{i}", sm_pct=self.now % 100, mem_used_mib=7e4, mem_total_mib=8e4, power_w=600.0,
                temp_c=70.0, clock_sm_mhz=1900.0, processes=(GpuProcess(os.getpid(), "vllm", 7e4),),
            )
            for i in range(4)
            if i != 3 or self.now % 400 < 300
        ]  # fmt: skip
        part = GpuReading(1, uuid=f"MIG-{int(self.now // 150)}", parent_uuid="GPU-1", mem_used_mib=9e3)
        return GpuSet((*cards[:2], part, *cards[2:]))

    def table(self) -> ProcessTable:
        found = tuple(
            EngineProcess(os.getpid(), 1, "vllm", "api_server", "vllm", port=int(url[-5:].strip(":")),
                          host="127.0.0.1", listening=True)
            for url in self.open
        )  # fmt: skip
        return ProcessTable(found, tuple(sorted(self.open)))

    def sources(self) -> Sources:
        return Sources(
            gpus=lambda: Blocking("nvml", self.gpus),
            host=lambda: Blocking("host", lambda: HostReading(cpu_pct_total=self.now % 100)),
            processes=lambda: Blocking("processes", self.table),
            engine=lambda target: Engine(self, target.url),
            prober=lambda *_: MadeProber(),
            generator=lambda *_: MadeProber(),
            is_local=lambda _url: True,
        )


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Mark:
    """What the program held at a tick."""

    resident: int
    tasks: int
    threads: int
    series: int
    engines: int


async def run(ticks: int, warm: int, every_s: float = 1.0, kept: int = 1800) -> tuple[Mark, Mark, int]:
    """What was held after the warm ticks and at the end, and how many pictures were judged.

    Args:
        ticks: in all.
        warm: of them, before the first mark.
        every_s: between two, and between two reads of each source.
        kept: points of a series.
    """
    clock, world = Clock(), World()
    others = set(threading.enumerate())  # of tests before this one, which may still be on their way out
    world.at(clock.now)
    monitor = Monitor(Config(interval_s=every_s), (), world.sources(), clock)
    monitor.history = History(kept)
    clock.runners = tuple(poller._source for poller in (monitor.gpus, monitor.host, monitor.processes))
    await monitor.start()
    marks = []
    for tick in range(1, ticks + 1):
        world.at(clock.now)
        await clock.tick(every_s)
        if tick in (warm, ticks):
            marks.append(
                Mark(
                    resident(),
                    len(asyncio.all_tasks()),
                    len(set(threading.enumerate()) - others),
                    len(monitor.history),
                    len(monitor.snapshot().engines),
                )
            )
    version = monitor.version
    await monitor.stop()
    return marks[0], marks[1], version


async def test_nothing_grows() -> None:
    warm, end, version = await run(TICKS, WARM, EVERY_S, KEPT)
    assert version >= TICKS
    assert end.resident - warm.resident < MIB
    assert end.threads == warm.threads
    assert end.engines <= warm.engines <= 2 + 1800 // MOVE_S + 1  # those that went half an hour ago are gone
    assert abs(end.tasks - warm.tasks) <= 2  # of the one engine more or less that was just forgotten
    assert end.series < 150
