"""The engines' own processes under watch: from real processes to the verdict that names their threads."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest

from tests.support.engine_like import SPIN, engine_like
from tests.support.probers import MadeProber
from tests.support.waiting import until
from tests.verdict import made
from tui.memory.model_files import ModelFiles
from tui.memory.weights import Weights
from tui.model.engine_host import EngineHostReading
from tui.model.readings import GpuSet, ProcessTable
from tui.model.settings import Config, DiscoverySettings, EngineTarget, Thresholds
from tui.model.status import SourceError
from tui.probing.outcomes import Outcome
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor
from tui.runtime.own import OwnWatch
from tui.runtime.sources import Sources
from tui.sources.engine_processes import EngineProcessSource, EngineTree
from tui.sources.probes import ProbeResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from tui.model.readings import EngineProcess, EngineReading
    from tui.model.verdicts import Verdict

T = TypeVar("T")
LOAD = """
import mmap, time
weights, room = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 1 << 20)
def load():
    while True:
        os.preadv(weights, [room], 0)
        time.sleep(0.02)
run(load, b"loader")
"""
"""Some 50 MB a second: less than a good disk, more than nothing."""
URL = "http://127.0.0.1:8000"


@dataclass
class Given(Generic[T]):
    """A blocking source that always says the same."""

    answer: T
    name: str = "given"
    doing: str = ""

    def read(self) -> T:
        return self.answer

    def close(self) -> None:
        pass


@dataclass
class Engine:
    reading: EngineReading | None
    name: str = "engine"

    async def read(self) -> EngineReading:
        if self.reading is None:
            raise SourceError("refused")
        return self.reading

    async def close(self) -> None:
        pass


def sources(reading: EngineReading | None, *processes: EngineProcess) -> Sources:
    waits = made.gpu(sm_pct=20.0, mem_ctrl_pct=10.0, power_w=150.0)
    return Sources(
        gpus=lambda: Given(GpuSet((waits,))),
        host=lambda: Given(made.host()),
        processes=lambda: Given(ProcessTable(processes)),
        engine=lambda _: Engine(reading),
        prober=lambda *_: MadeProber(),
        generator=lambda *_: MadeProber(),
        is_local=lambda _: True,
        own=EngineProcessSource,
    )


def monitor_of(found: Sources) -> Monitor:
    at_once = Thresholds(hold_s=0.0, clear_s=0.0)
    config = Config(interval_s=0.2, thresholds=at_once, discovery=DiscoverySettings(enabled=False))
    return Monitor(config, (EngineTarget(URL),), found, SystemClock())


def server(pid: int, start_ticks: int = 1) -> EngineProcess:
    """The child, as the process that serves the URL."""
    return made.process(
        pid, "api_server", port=8000, host="127.0.0.1", listening=True, start_ticks=start_ticks
    )


@pytest.fixture
async def watching(request: pytest.FixtureRequest) -> AsyncIterator[Monitor]:
    with engine_like(SPIN, title="vllm") as child:
        late = made.reading(URL, ttft_p95_s=9.0, queue_p95_s=4.0, waiting=8.0)
        monitor = monitor_of(sources(late, server(child.pid)))
        await monitor.start()
        try:
            yield monitor
        finally:
            await monitor.stop()


async def test_a_thread_that_spins_in_a_real_process_is_the_verdict_by_its_name(watching: Monitor) -> None:
    def full() -> bool:
        own = watching.snapshot().engines[0].own
        return own.status.ok and own.reading is not None and bool(own.reading.threads)

    await until(full, 20, "figures of its threads")
    reading = watching.snapshot().engines[0].own.reading
    assert reading is not None
    spinning = reading.threads[0]
    assert (spinning.name, spinning.role) == ("tokenizer-0", "tokenizer")
    named = await until(
        lambda: next(
            (v for v in watching.judgement().verdicts if v.scope == URL and v.verdict == "cpu"), None
        ),
        20,
        "the verdict",
    )
    assert any("(tokenizer tokenizer-0)" in evidence.text for evidence in named.evidence)


async def test_a_load_from_a_disk_that_is_slow_shows_what_it_reads_itself(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(os.urandom(1 << 20))
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system has no O_DIRECT")
    with engine_like(LOAD, str(file), title="vllm") as child:
        starting = replace(server(child.pid), listening=False)
        busy = made.host(disk_util_pct=99.0, disk_read_mb_s=30.0, iowait_pct=40.0)
        refused = ProbeResult("refused", Outcome.FAILURE)
        closed = replace(
            sources(None, starting),
            host=lambda: Given(busy),
            prober=lambda *_: MadeProber(result=refused),
        )
        monitor = monitor_of(closed)
        await monitor.start()

        def slow() -> Verdict | None:
            found = (v for v in monitor.judgement().verdicts if v.scope == URL and v.verdict == "io_disk")
            return next((v for v in found if any(e.signal == "engine_read_mb_s" for e in v.evidence)), None)

        try:
            named = await until(slow, 20, "the verdict")
        finally:
            await monitor.stop()
    assert "loading" in named.secondary


async def test_one_shot_has_rates_of_its_processes_after_two_samples() -> None:
    with engine_like(SPIN, title="vllm") as child:
        monitor = monitor_of(sources(made.reading(URL), server(child.pid)))
        snapshot, _ = await monitor.sample(2)
        await monitor.stop()
    own = snapshot.engines[0].own
    assert own.status.ok
    assert own.reading is not None
    assert own.reading.window_s is not None
    assert own.reading.threads


async def test_an_engine_without_processes_here_is_pending_and_holds_nothing_up() -> None:
    monitor = monitor_of(sources(made.reading(URL)))
    snapshot, _ = await asyncio.wait_for(monitor.sample(1), 10)
    await monitor.stop()
    assert snapshot.engines[0].own.reading is None
    assert not snapshot.engines[0].own.status.ok


class Fixed(EngineProcessSource):
    """Says the same of every engine."""

    def __init__(self, reading: EngineHostReading) -> None:
        super().__init__()
        self.reading = reading

    def read(self) -> Mapping[str, EngineHostReading]:
        return {URL: self.reading}


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, 100.0 * 1.048576),
        ({"disk_read_mb_s": 20.0}, 50.0 * 1.048576),
        ({"read_mb_s": 1.0}, None),
        ({"read_total_mib": 2500.0}, None),
        ({"read_total_mib": None}, None),
    ],
)
async def test_the_time_left_is_of_the_weights_that_are_not_read_yet(
    changes: dict[str, Any], left: float | None
) -> None:
    base = EngineHostReading(read_mb_s=10.0, disk_read_mb_s=0.0, read_total_mib=1000.0)
    clock = SystemClock()
    tasks: list[asyncio.Task[None]] = []
    watch = OwnWatch(
        lambda: Fixed(replace(base, **changes)),
        clock,
        lambda: 0.2,
        lambda work: tasks.append(asyncio.ensure_future(work)) or tasks[-1],  # type: ignore[func-returns-value]
    )
    watch.update({URL: EngineTree((server(1),))})
    await until(lambda: watch.settled, 10)
    files = ModelFiles(weights=Weights(2000 << 20, "made"))
    found = watch.observed(URL, clock.monotonic(), files, loads=True).reading
    served = watch.observed(URL, clock.monotonic(), files, loads=False).reading
    await watch.close()
    for task in tasks:
        task.cancel()
    assert found is not None
    assert found.weights_mib == 2000.0
    assert found.load_left_s == (None if left is None else pytest.approx(left))
    assert served is not None
    assert served.load_left_s is None
