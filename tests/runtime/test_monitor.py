"""The monitor over made-up sources: isolation, discovery, restarts of targets, clean ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import pytest

from tests.support.clock import ManualClock
from tests.support.probers import MadeProber
from tests.support.waiting import until
from tui.model.readings import (
    EngineKind,
    EngineProcess,
    EngineReading,
    GpuReading,
    GpuSet,
    HostReading,
    ProcessTable,
)
from tui.model.settings import Config, DiscoverySettings, EngineTarget
from tui.model.status import SourceError, SourceState
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import AFTER_READING_S, GUESSES, Monitor
from tui.runtime.sources import Sources

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tui.sources.base import AsyncSource

T = TypeVar("T")
A, B = "http://127.0.0.1:8001", "http://127.0.0.1:8002"


class Blocking(Generic[T]):
    def __init__(self, name: str, answer: Callable[[], T]) -> None:
        self.name = name
        self.doing = f"{name} call"
        self.answer = answer

    def read(self) -> T:
        return self.answer()

    def close(self) -> None:
        pass


@dataclass
class Engine:
    url: str
    error: SourceError | None = None
    kind: EngineKind | None = "vllm"
    hangs: bool = False
    reads: list[float] = field(default_factory=list)
    closed: int = 0

    name: str = "engine"

    async def read(self) -> EngineReading:
        self.reads.append(time.monotonic())
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return EngineReading(self.url, engine=self.kind, version="0.32.0", running=1.0, waiting=0.0)

    async def close(self) -> None:
        self.closed += 1


@dataclass
class World:
    """What the made-up sources answer; change it while the monitor runs."""

    gpus: Callable[[], GpuSet] = lambda: GpuSet((GpuReading(0, sm_pct=50.0),))
    table: ProcessTable = ProcessTable()  # noqa: RUF009  # frozen
    engines: dict[str, Engine] = field(default_factory=dict)

    def engine(self, target: EngineTarget) -> AsyncSource[EngineReading]:
        return self.engines.setdefault(target.url, Engine(target.url, SourceError("refused")))

    def sources(self) -> Sources:
        return Sources(
            gpus=lambda: Blocking("nvml", lambda: self.gpus()),
            host=lambda: Blocking("host", lambda: HostReading(cpu_pct_total=10.0)),
            processes=lambda: Blocking("processes", lambda: self.table),
            engine=self.engine,
            prober=lambda *_: MadeProber(),
            generator=lambda *_: MadeProber(),
            is_local=lambda url: True,
        )


@contextlib.asynccontextmanager
async def running(world: World, *urls: str, discovery: bool = True) -> AsyncIterator[Monitor]:
    config = Config(interval_s=0.2, discovery=DiscoverySettings(enabled=discovery))
    monitor = Monitor(config, tuple(EngineTarget(url) for url in urls), world.sources(), SystemClock())
    await monitor.start()
    try:
        yield monitor
    finally:
        await monitor.stop()


async def test_reads_judges_and_keeps_series() -> None:
    world = World(engines={A: Engine(A)})
    async with running(world, A) as monitor:
        await until(lambda: monitor.version >= 3, 10)
        snapshot = monitor.snapshot()
        assert snapshot.gpus.reading == GpuSet((GpuReading(0, sm_pct=50.0),))
        assert snapshot.host.reading == HostReading(cpu_pct_total=10.0)
        view = snapshot.engines[0]
        assert view.engine.reading is not None
        assert view.engine.reading.running == 1.0
        assert view.ever_served
        assert [v.scope for v in monitor.judgement().verdicts] == ["host", A]
        await until(lambda: monitor.history.values(A, "running", 0.0), 5)
        assert monitor.history.values("gpu:0", "sm_pct", 0.0)
        assert monitor.timeline("host")
        probed = await until(lambda: monitor.snapshot().engines[0].probes, 5)
        assert probed[0].path == "/health"


@pytest.mark.parametrize("trouble", ["refused", "hangs"])
async def test_a_dead_or_hung_engine_leaves_the_other_its_cadence(trouble: str) -> None:
    ill = Engine(A, SourceError("refused") if trouble == "refused" else None, hangs=trouble == "hangs")
    well = Engine(B)
    async with running(World(engines={A: ill, B: well}), A, B):
        await until(lambda: len(well.reads) >= 11, 20)
    gaps = sorted(b - a for a, b in zip(well.reads, well.reads[1:], strict=False))
    assert gaps[len(gaps) // 2] == pytest.approx(0.2, rel=0.2)


async def test_a_stuck_driver_delays_nothing_and_is_named() -> None:
    gate = threading.Event()

    def stuck() -> GpuSet:
        gate.wait(60)
        return GpuSet()

    world = World(gpus=stuck, engines={A: Engine(A)})
    config = Config(interval_s=0.2)
    monitor = Monitor(config, (EngineTarget(A),), world.sources(), SystemClock())
    monitor.gpus._deadline_s = 0.1
    await monitor.start()
    await until(lambda: monitor.snapshot().gpus.status.reason == "stuck", 10)
    assert "stuck in nvml call for" in monitor.snapshot().gpus.status.detail
    assert monitor.snapshot().engines[0].engine.status.ok
    before = time.monotonic()
    await monitor.stop()
    assert time.monotonic() - before < 1.5
    gate.set()


async def test_finds_engines_by_their_processes_and_one_that_starts_later() -> None:
    world = World(engines={A: Engine(A), B: Engine(B)})
    world.table = ProcessTable(
        (EngineProcess(7, 1, "vllm", "api_server", "vllm", port=8001, host="127.0.0.1", listening=True),),
        (A,),
    )
    async with running(world) as monitor:
        await until(lambda: [v.url for v in monitor.snapshot().engines] == [A], 10)
        assert monitor.snapshot().engines[0].discovered
        world.table = ProcessTable(world.table.processes, (A, B))
        await until(lambda: [v.url for v in monitor.snapshot().engines] == [A, B], 10)


async def test_an_engine_that_loads_is_watched_and_one_that_never_served_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tui.runtime.monitor.NEVER_SERVED_KEPT_S", 0.0)
    monkeypatch.setattr("tui.runtime.monitor.PROCESS_PERIOD_S", 0.1)
    world = World(engines={A: Engine(A, SourceError("refused")), B: Engine(B)})
    rows = [
        EngineProcess(pid, 1, "vllm", "api_server", "vllm", port=port, host="127.0.0.1")
        for pid, port in ((7, 8001), (8, 8002))
    ]
    world.table = ProcessTable(tuple(rows), (), expected=(A, B))
    async with running(world) as monitor:
        await until(lambda: len(monitor.snapshot().engines) == 2, 10)
        await until(lambda: monitor.snapshot().engines[1].ever_served, 10)
        world.table = ProcessTable()
        await until(
            lambda: [v.url for v in monitor.snapshot().engines] == [B], 10
        )  # it served: it has a past


async def test_a_server_on_a_unix_socket_is_told_where_engines_are_looked_for() -> None:
    server = EngineProcess(7, 1, "vllm", "api_server", "vllm", unix_socket="/run/e.sock")
    world = World(table=ProcessTable((server, EngineProcess(8, 1, "vllm", "api_server", "vllm", port=1))))
    async with running(world) as monitor:
        await until(lambda: monitor.snapshot().on_sockets == (server,), 10)
        assert any(
            'metrics_url = "unix:///run/e.sock"' in found.text for found in monitor.judgement().findings
        )


async def test_tries_the_default_ports_when_no_process_gave_itself_away() -> None:
    world = World(
        engines={GUESSES[1]: Engine(GUESSES[1], kind="sglang"), GUESSES[0]: Engine(GUESSES[0], kind=None)}
    )
    async with running(world) as monitor:
        await until(lambda: monitor.snapshot().engines, 10)
        assert [v.url for v in monitor.snapshot().engines] == [GUESSES[1]]


async def test_nothing_found_is_a_state_of_its_own() -> None:
    async with running(World()) as monitor:
        assert not monitor.snapshot().discovery_done
        await until(lambda: monitor.snapshot().discovery_done, 10)
        assert monitor.snapshot().engines == ()


async def test_looks_for_nothing_when_told_so_or_when_urls_are_given() -> None:
    world = World(engines={A: Engine(A), B: Engine(B)}, table=ProcessTable((), (A, B)))
    async with running(world, B) as monitor:
        await until(lambda: monitor.version >= 3, 10)
        assert [v.url for v in monitor.snapshot().engines] == [B]
    async with running(world, discovery=False) as monitor:
        await until(lambda: monitor.version >= 3, 10)
        assert monitor.snapshot().engines == ()
        assert monitor.snapshot().discovery_done


async def test_another_engine_on_the_port_gets_its_own_probes() -> None:
    engine = Engine(A)
    async with running(World(engines={A: engine}), A) as monitor:
        await until(lambda: {p.path for p in monitor.snapshot().engines[0].probes} == {"/health"}, 10)
        engine.kind = "sglang"
        await until(lambda: "/ready" in {p.path for p in monitor.snapshot().engines[0].probes}, 10)
        assert monitor.snapshot().engines[0].probe_origin == "sglang's defaults"


async def test_the_command_line_tells_the_seats() -> None:
    process = EngineProcess(
        7, 1, "vllm", "api_server", "vllm", port=8001, host="127.0.0.1", listening=True,
        cmdline=("python3", "vllm", "serve", "m", "--port", "8001", "--max-num-seqs", "64"),
    )  # fmt: skip
    async with running(World(engines={A: Engine(A)}, table=ProcessTable((process,), (A,))), A) as monitor:
        view = await until(lambda: next((v for v in monitor.snapshot().engines if v.args), None), 10)
        assert view.args["max-num-seqs"] == "64"
        assert view.engine.reading is not None
        assert view.engine.reading.max_num_seqs == 64


async def test_everything_is_closed_and_no_task_is_left() -> None:
    engine = Engine(A)
    tasks = asyncio.all_tasks()
    async with running(World(engines={A: engine}), A) as monitor:
        await until(lambda: monitor.version >= 2, 10)
    assert engine.closed == 1
    assert asyncio.all_tasks() == tasks
    await until(lambda: not any(t.name.startswith("source ") for t in threading.enumerate()), 5)


async def test_a_one_shot_run_takes_exactly_its_samples() -> None:
    engine = Engine(A)
    config = Config(interval_s=0.2)
    monitor = Monitor(
        config, (EngineTarget(A),), World(engines={A: engine}).sources(), SystemClock(), backoff=False
    )
    _, judgement = await monitor.sample(3)
    await monitor.stop()
    assert len(engine.reads) == 3
    assert all(v.since is None for v in judgement.verdicts)


async def test_a_version_tells_the_seats_that_no_command_line_names() -> None:
    process = EngineProcess(
        7, 1, "vllm", "api_server", "vllm", port=8001, host="127.0.0.1", listening=True,
        cmdline=("python3", "vllm", "serve", "m", "--port", "8001"),
    )  # fmt: skip
    card = GpuReading(0, name="NVIDIA A100-SXM4-80GB", mem_total_mib=81920.0)
    world = World(engines={A: Engine(A)}, table=ProcessTable((process,), (A,)), gpus=lambda: GpuSet((card,)))
    async with running(world, A) as monitor:
        view = await until(
            lambda: next((v for v in monitor.snapshot().engines if "max-num-seqs" in v.defaults), None), 10
        )
        assert view.defaults["max-num-seqs"] == "256"
        assert "max-num-seqs" not in view.args
        assert view.engine.reading is not None
        assert view.engine.reading.max_num_seqs == 256


async def test_a_one_shot_run_sees_no_more_of_one_engine_because_another_is_slow() -> None:
    well, dead = Engine(A), Engine(B, SourceError("refused"), hangs=True)
    clock = ManualClock()
    monitor = Monitor(
        Config(interval_s=0.2),
        (EngineTarget(A), EngineTarget(B)),
        World(engines={A: well, B: dead}).sources(),
        clock,
        backoff=False,
    )
    sampling = asyncio.create_task(monitor.sample(2))
    await clock.advance(0.2)
    assert len(well.reads) == 2
    await clock.advance(0.7)  # three more intervals, in which nothing may be read
    assert len(well.reads) == 2
    assert not sampling.done()
    sampling.cancel()
    await asyncio.gather(sampling, return_exceptions=True)
    await monitor.stop()


async def test_what_goes_down_is_judged_at_once() -> None:
    engine = Engine(A)
    config = Config(interval_s=5.0)
    monitor = Monitor(config, (EngineTarget(A),), World(engines={A: engine}).sources(), SystemClock())
    await monitor.start()
    # the second judgement is of the first readings, the third comes an interval later
    await until(lambda: engine.reads and monitor.version >= 2, 10)
    before = monitor.version
    engine.error = SourceError("refused")
    await monitor._engines[A].scrape.read_once()
    assert monitor.version == before + 1
    assert monitor.snapshot().engines[0].engine.status.reason == "refused"
    await monitor.stop()


async def test_while_nobody_looks_reading_takes_its_time_and_nothing_is_called_old_or_missing() -> None:
    engine, clock = Engine(A), ManualClock()
    config = Config(discovery=DiscoverySettings(enabled=False))
    monitor = Monitor(config, (EngineTarget(A),), World(engines={A: engine}).sources(), clock)
    await monitor.start()
    await clock.advance(3.5)
    assert len(engine.reads) == 4
    monitor.relaxed = True
    await clock.advance(15.0)  # at 4, 9 and 14 s
    assert len(engine.reads) == 7
    judged = monitor.version
    await clock.advance(4.4)
    assert monitor.version == judged + 1
    monitor.relaxed = False
    await clock.advance(0.0)
    assert len(engine.reads) == 9  # at 19 s and now
    await clock.advance(0.6)
    assert monitor.version == judged + 2
    assert monitor.snapshot().engines[0].engine.status.state is SourceState.FRESH
    await clock.advance(3.0)
    assert len(engine.reads) == 12
    age_s = monitor.snapshot().engines[0].engine.status.age_s  # judged right after reading, as before
    assert age_s is not None and AFTER_READING_S <= age_s < 0.9
    series = monitor.history.get(A, "running")
    assert series is not None and all(value == 1.0 for _, value in series)
    await monitor.stop()


async def test_an_engine_that_goes_down_while_nobody_looks_is_judged_at_once() -> None:
    engine, clock = Engine(A), ManualClock()
    config = Config(discovery=DiscoverySettings(enabled=False))
    monitor = Monitor(config, (EngineTarget(A),), World(engines={A: engine}).sources(), clock)
    await monitor.start()
    monitor.relaxed = True
    await clock.advance(4.0)
    judged = monitor.version
    engine.error = SourceError("refused")
    await clock.advance(1.05)  # the next read; the next judgement would be a moment later
    assert monitor.version == judged + 1
    assert {v.verdict for v in monitor.judgement().verdicts if v.scope == A} == {"engine_down"}
    await monitor.stop()


async def test_a_shorter_interval_is_in_force_at_once() -> None:
    engine, clock = Engine(A), ManualClock()
    config = Config(interval_s=60.0, discovery=DiscoverySettings(enabled=False))
    monitor = Monitor(config, (EngineTarget(A),), World(engines={A: engine}).sources(), clock)
    await monitor.start()
    await clock.advance(20.0)
    assert len(engine.reads) == 1
    monitor.interval_s = 10.0
    await clock.advance(0.0)
    assert len(engine.reads) == 2
    await monitor.stop()


async def test_a_one_shot_run_waits_for_a_first_look_at_the_processes() -> None:
    """Else a server that is gone counts as one whose processes cannot be seen, and its end as a start."""
    looked = threading.Event()

    def slow() -> ProcessTable:
        looked.wait(10)
        return ProcessTable()

    world = World(engines={A: Engine(A, SourceError("refused"))})
    sources = replace(world.sources(), processes=lambda: Blocking("processes", slow))
    monitor = Monitor(Config(interval_s=0.2), (EngineTarget(A),), sources, SystemClock(), backoff=False)
    sampling = asyncio.create_task(monitor.sample(1))
    await until(lambda: monitor._engines[A].scrape.attempts, 10)
    await until(lambda: monitor.gpus.attempts and monitor.host.attempts, 10)
    assert not (await asyncio.wait({sampling}, timeout=0.2))[0]
    looked.set()
    snapshot, judgement = await sampling
    await monitor.stop()
    assert snapshot.engines[0].processes == ()
    assert judgement.verdicts[0].verdict == "engine_down"
