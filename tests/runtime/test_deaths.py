"""When it is looked into why an engine has gone: at once, again after half a minute, and after a restart."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.runtime.test_monitor import A, B, Engine, World
from tests.support.clock import ManualClock
from tests.support.waiting import until
from tui.model.death import DeathCase, DeathReading, ExitReading, StopMark
from tui.model.places import Place
from tui.model.readings import EngineProcess, ProcessTable
from tui.model.settings import Config, EngineTarget
from tui.model.snapshot import EngineView, HostSnapshot
from tui.model.status import Observed, SourceError
from tui.runtime.clock import SystemClock
from tui.runtime.deaths import DeathWatch, case_of
from tui.runtime.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tui.runtime.sources import Sources

ID = "ab" * 32
KILLED = DeathReading(ExitReading("systemd", "vllm.service", 137))
UNNOTICED = DeathReading(ExitReading("systemd", "vllm.service"))


@dataclass
class Looks:
    """A source of ends that notes what it was asked about."""

    answer: DeathReading | Exception = KILLED
    cases: list[DeathCase] = field(default_factory=list)
    found: int = 0

    def make(self, case: DeathCase) -> Look:
        self.cases.append(case)
        return Look(self)

    def on_found(self) -> None:
        self.found += 1


@dataclass
class Look:
    looks: Looks
    name: str = "end"

    async def read(self) -> DeathReading:
        if isinstance(self.looks.answer, Exception):
            raise self.looks.answer
        return self.looks.answer

    async def close(self) -> None:
        pass


def process(pid: int, **changes: Any) -> EngineProcess:
    return replace(EngineProcess(pid, 1, "vllm", "api_server", "vllm", port=8001, start_ticks=pid), **changes)


class Watched:
    """A watch over one engine on a manual clock."""

    def __init__(self, looks: Looks) -> None:
        self.looks = looks
        self.clock = ManualClock()
        self.watch = DeathWatch(looks.make, self.clock, self._spawn, looks.on_found)
        self.tasks: list[asyncio.Task[None]] = []

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    async def tick(self, *, down: bool = False, log: str = "", step_s: float = 1.0, **view: Any) -> int:
        """One picture; how often it was looked since the beginning."""
        await self.clock.advance(step_s)
        now = self.clock.monotonic()
        seen = EngineView(A, **({"local": True} | view))
        snapshot = HostSnapshot(now, 1e9 + now, engines=(seen,))
        self.watch.update(snapshot, {A} if down else (), [(A, log)])
        await asyncio.gather(*self.tasks)
        return len(self.looks.cases)


async def test_one_look_when_it_goes_and_one_every_half_minute() -> None:
    watched = Watched(Looks())
    assert await watched.tick(processes=(process(7),)) == 0
    counts = [await watched.tick(down=True, processes=()) for _ in range(61)]
    assert (counts[0], counts[29], counts[30], counts[60]) == (1, 1, 2, 3)
    assert watched.watch.observed(A, watched.clock.monotonic()).reading == KILLED
    assert watched.looks.cases[0].pids == {7}
    assert watched.looks.found == 3


async def test_a_supervisor_that_has_not_noticed_is_asked_again_soon() -> None:
    watched = Watched(Looks(UNNOTICED))
    await watched.tick(processes=(process(7),))
    counts = [await watched.tick(down=True, processes=()) for _ in range(14)]
    assert [counts.index(n) for n in (1, 2, 3)] == [0, 4, 12]
    watched.looks.answer = KILLED
    await watched.tick(down=True, step_s=16.0, processes=())
    assert watched.watch.observed(A, watched.clock.monotonic()).reading == KILLED


async def test_a_log_may_tell_of_a_stop_only_after_the_port_has_closed() -> None:
    watched = Watched(Looks(DeathReading()))
    await watched.tick(processes=(process(7),))
    counts = [await watched.tick(down=True, processes=()) for _ in range(44)]
    assert [counts.index(n) for n in (1, 2, 3, 4)] == [0, 4, 12, 42]


async def test_the_next_end_is_another_one() -> None:
    watched = Watched(Looks())
    await watched.tick(processes=(process(7),))
    await watched.tick(down=True, processes=())
    assert await watched.tick(processes=(process(8),)) == 1  # it was looked into while it was away
    watched.looks.answer = SourceError("timeout")
    assert await watched.tick(down=True, processes=()) == 2
    assert watched.watch.observed(A, watched.clock.monotonic()).reading is None
    assert watched.looks.cases[1].pids == {8}


async def test_a_restart_that_nobody_saw_is_looked_into_once() -> None:
    watched = Watched(Looks())
    await watched.tick(processes=(process(7), process(70, role="engine_core")))
    assert await watched.tick(processes=(process(8),)) == 1
    assert await watched.tick(processes=(process(8),)) == 1
    assert watched.looks.cases[0].pids == {7, 70}


async def test_of_another_host_only_a_log_that_is_named_can_be_asked() -> None:
    watched = Watched(Looks())
    assert await watched.tick(down=True, local=False) == 0
    assert await watched.tick(down=True, local=False, log="/log") == 1
    assert (watched.looks.cases[0].log, watched.looks.cases[0].local) == ("/log", False)


async def test_what_is_no_longer_watched_is_forgotten() -> None:
    watched = Watched(Looks())
    await watched.tick(down=True)
    watched.watch.update(HostSnapshot(99.0, 1e9), (), ())
    assert watched.watch.observed(A, 99.0) == Observed()


def test_the_unit_of_a_container_is_not_one_of_this_host() -> None:
    assert case_of(A, "", Place(ID, "docker", unit="x.service")) == DeathCase(
        A, container_id=ID, runtime="docker"
    )
    assert case_of(A, "f", Place(unit="x.service"), "o") == DeathCase(A, "f", "o", unit="x.service")


# ------------------------------------------------------------------------------- the monitor


@dataclass
class Mortal(World):
    looks: Looks = field(default_factory=Looks)
    mark: StopMark = field(default_factory=StopMark)
    read: list[DeathCase] = field(default_factory=list)

    def sources(self) -> Sources:
        return replace(super().sources(), death=self.looks.make, stop_mark=self._mark)

    def _mark(self, case: DeathCase) -> Marks | None:
        self.read.append(case)
        return Marks(self) if case.log else None


@dataclass
class Marks:
    world: Mortal
    name: str = "log"
    period_s: float = 0.1

    async def read(self) -> StopMark:
        return self.world.mark

    async def close(self) -> None:
        pass


def serving(**changes: Any) -> ProcessTable:
    return ProcessTable((process(7, host="127.0.0.1", listening=True, **changes),), (A,))


async def test_a_log_that_tells_of_a_stop_makes_a_drain_and_then_the_reason_of_the_end() -> None:
    world = Mortal(engines={A: Engine(A)}, table=serving())
    target = EngineTarget(A, log="/var/log/vllm")
    monitor = Monitor(Config(interval_s=0.2), (target,), world.sources(), SystemClock())
    await monitor.start()
    try:
        await until(lambda: monitor.snapshot().engines[0].ever_served, 10)
        world.mark = StopMark("Shutting down")
        await until(lambda: monitor.judgement().verdicts[0].verdict == "draining", 10)
        assert monitor.judgement().verdicts[0].evidence[0].text == 'log "Shutting down"'
        world.table, world.engines[A].error = ProcessTable(), SourceError("refused")
        await until(lambda: monitor.judgement().verdicts[0].verdict == "engine_down", 10)
        await until(lambda: monitor.judgement().verdicts[0].evidence[0].text.startswith("exited 137"), 10)
    finally:
        await monitor.stop()
    assert {case.log for case in world.read} == {"/var/log/vllm"}


async def test_a_one_shot_run_waits_for_the_reason() -> None:
    world = Mortal(table=ProcessTable())
    target = EngineTarget(A, log="/var/log/vllm")
    monitor = Monitor(Config(interval_s=0.2), (target,), world.sources(), SystemClock(), backoff=False)
    snapshot, judgement = await monitor.sample(2)
    await monitor.stop()
    assert snapshot.engines[0].death.reading == KILLED
    assert judgement.verdicts[0].evidence[0].text.startswith("exited 137")
    assert len(world.looks.cases) == 1


async def test_that_a_drain_of_vllm_would_not_be_seen_is_named() -> None:
    world = Mortal(engines={A: Engine(A)}, table=serving())
    monitor = Monitor(Config(interval_s=0.2), (), world.sources(), SystemClock(), backoff=False)
    snapshot, judgement = await monitor.sample(2)
    await monitor.stop()
    assert [gap.field for gap in snapshot.engines[0].untold] == ["draining"]
    assert snapshot.engines[0].stopping == ""
    assert judgement.verdicts[0].verdict != "draining"


async def test_a_file_that_two_servers_write_to_is_the_log_of_neither() -> None:
    both = tuple(
        process(pid, host="127.0.0.1", port=port, listening=True, output="/log")
        for pid, port in ((7, 8001), (8, 8002))
    )
    for table, output in ((ProcessTable(both[:1], (A,)), "/log"), (ProcessTable(both, (A, B)), "")):
        world = Mortal(engines={A: Engine(A), B: Engine(B)}, table=table)
        monitor = Monitor(Config(interval_s=0.2), (), world.sources(), SystemClock(), backoff=False)
        await monitor.sample(2)
        await monitor.stop()
        assert {case.url: case.output for case in world.read}[A] == output
