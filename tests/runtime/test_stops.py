"""Who says that an engine was asked to stop: systemd, a container's runtime, a test of ours, its log; nobody else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clock import ManualClock
from tui.model.death import DeathCase, StopMark
from tui.model.own_test import OwnTest
from tui.model.places import ContainerReading, Place, UnitReading
from tui.model.readings import EngineProcess, EngineReading
from tui.model.snapshot import EngineView
from tui.model.status import Observed, SourceError, SourceState, SourceStatus
from tui.runtime.stops import StopWatch

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

URL = "http://127.0.0.1:8000"
ID = "ab" * 32
FRESH = SourceStatus(SourceState.FRESH, age_s=0.1)
FAILED = SourceStatus(SourceState.FAILED, "timeout")
UNIT = UnitReading("vllm.service", active="deactivating", stop_timeout_s=90.0)
WALL, NOW = ManualClock().wall(), ManualClock().monotonic()
SERVER = EngineProcess(7, 1, "python", "api_server", "sglang", started_at=WALL - 600.0)
UNREADY = EngineView(
    URL, Observed(EngineReading(URL, draining=True), FRESH), processes=(SERVER,), served_last=NOW
)


@dataclass
class Source:
    answer: Any
    name: str = "source"
    period_s: float = 1.0
    reads: int = 0
    closed: int = 0

    async def read(self) -> Any:
        self.reads += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        self.closed += 1


@dataclass
class World:
    log: Source = field(default_factory=lambda: Source(StopMark()))
    tests: Source = field(default_factory=lambda: Source({}))
    cases: list[DeathCase] = field(default_factory=list)
    clock: ManualClock = field(default_factory=ManualClock)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def watch(self) -> StopWatch:
        return StopWatch(self._mark, self._tests, self.clock, self._spawn)

    def _mark(self, case: DeathCase) -> Source | None:
        self.cases.append(case)
        return self.log if case.log else None

    def _tests(self) -> Source:
        return self.tests

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    def end(self) -> None:
        for task in self.tasks:
            task.cancel()


async def said(
    view: EngineView, mark: StopMark | Exception | None = None, tests: Mapping[str, OwnTest] | None = None
) -> tuple[str, list[str]]:
    """Who says that it stops, and what is not told, after the first reads."""
    world = World(log=Source(mark), tests=Source(tests or {}))
    watch = world.watch()
    watch.start()
    watch.keep({URL: DeathCase(URL, "/log" if mark is not None else "")})
    await world.clock.advance(0.5)
    assert watch.settled
    seen = watch.seen(view, "vllm", world.clock.monotonic())
    world.end()
    await watch.close()
    return seen.stopping, [f"{gap.field}: {gap.why}" for gap in seen.untold]


@pytest.mark.parametrize(
    ("view", "mark", "tests", "who"),
    [
        (EngineView(URL, unit=Observed(UNIT, FRESH)), None, {}, "systemd stops vllm.service within 90s"),
        (EngineView(URL, unit=Observed(UNIT, FAILED)), StopMark(), {}, ""),
        (EngineView(URL, container=Observed(ContainerReading(ID, name="llm", state="removing"), FRESH)), None, {},
         "container llm is being removed"),
        (EngineView(URL, container=Observed(ContainerReading(ID, state="stopping"), FRESH)), None, {},
         f"container {ID[:12]} is being stopped"),
        (EngineView(URL, container=Observed(ContainerReading(ID, state="running"), FRESH)), None, {}, ""),
        (EngineView(URL), None, {URL: OwnTest("drain", "draining")}, "our drain test: draining"),
        (EngineView(URL), None, {URL: OwnTest("drain", "filling")}, ""),
        (EngineView(URL), None, {URL: OwnTest("restart", "starting", WALL)}, ""),
        (EngineView(URL), None, {"http://127.0.0.1:9": OwnTest("drain", "draining")}, ""),
        (EngineView(URL), StopMark("Shutting down"), {}, 'log "Shutting down"'),
        (EngineView(URL, processes=()), StopMark("Shutting down"), {}, ""),
        (EngineView(URL), SourceError("404"), {}, ""),
        (UNREADY, None, {}, "/ready turned 503 while its scheduler goes on"),
        (UNREADY, StopMark("Shutting down"), {}, 'log "Shutting down"'),
        (replace(UNREADY, processes=(replace(SERVER, started_at=WALL + 5.0),)), None, {}, ""),
        (replace(UNREADY, processes=()), None, {}, ""),
        (EngineView(URL), None, {}, ""),
    ],
)  # fmt: skip
async def test_who_says_so(
    view: EngineView, mark: StopMark | Exception | None, tests: Mapping[str, OwnTest], who: str
) -> None:
    assert (await said(view, mark, tests))[0] == who


NEW = replace(SERVER, started_at=WALL - 8.0)


@pytest.mark.parametrize(
    ("test", "processes", "said", "planned"),
    [
        (OwnTest("restart", "draining"), (), "it has just ended", True),
        (OwnTest("restart", "starting", WALL - 11.5), (), "down for 12s as planned", True),
        (OwnTest("restart", "starting", WALL - 11.5), (NEW,), "down for 12s, it starts again", True),
        (OwnTest("restart", "starting", WALL - 44.5), (NEW,), "down for 45s, it starts again", True),
        (OwnTest("restart", "starting", WALL - 44.5), (replace(NEW, zombie=True),), "nobody has started it", False),
        (OwnTest("restart", "starting", WALL - 44.5), (), "nobody has started it again for 45s", False),
        (OwnTest("restart", "starting", WALL, "the start command ended with 3"), (), "ended with 3", False),
    ],
)  # fmt: skip
async def test_what_a_restart_test_expects_is_told_apart_from_what_it_does_not(
    test: OwnTest, processes: tuple[EngineProcess, ...], said: str, planned: bool
) -> None:
    world = World(tests=Source({URL: test}))
    watch = world.watch()
    watch.start()
    await world.clock.advance(0.5)
    seen = watch.seen(EngineView(URL, processes=processes), "sglang", world.clock.monotonic())
    assert said in seen.our_test
    assert seen.as_planned is planned
    world.end()


@pytest.mark.parametrize(
    ("view", "mark", "why"),
    [
        (EngineView(URL), None, "neither its unit nor its log"),
        (EngineView(URL, place=Place(ID, "docker")), None, "Docker tells of no stop that is under way"),
        (EngineView(URL, place=Place(ID, "containerd", "pod")), None, "only the Kubernetes API"),
        (EngineView(URL), SourceError("no_permission"), "neither its unit nor its log"),
    ],
)
async def test_what_would_not_be_seen_is_named(
    view: EngineView, mark: StopMark | Exception | None, why: str
) -> None:
    (gap,) = (await said(view, mark))[1]
    assert gap.startswith("draining: vLLM's /health stays 200")
    assert why in gap


@pytest.mark.parametrize(
    ("then", "server", "who"),
    [
        (StopMark(), SERVER, 'log "draining"'),  # tracebacks of what it refuses fill the end that is read
        (SourceError("404"), SERVER, 'log "draining"'),
        (StopMark("Shutting down"), SERVER, 'log "Shutting down"'),
        (StopMark(started=True), SERVER, ""),
        (StopMark(), replace(SERVER, pid=8), ""),
        (StopMark(), replace(SERVER, start_ticks=5), ""),
    ],
)
async def test_a_server_that_stops_never_takes_it_back(
    then: StopMark | Exception, server: EngineProcess, who: str
) -> None:
    world = World(log=Source(StopMark("draining")))
    watch = world.watch()
    watch.keep({URL: DeathCase(URL, "/log")})
    await world.clock.advance(0.5)
    view = EngineView(URL, processes=(SERVER,), served_last=world.clock.monotonic())
    assert watch.seen(view, "vllm", world.clock.monotonic()).stopping == 'log "draining"'
    world.log.answer = then
    await world.clock.advance(1.0)
    now = world.clock.monotonic()
    assert watch.seen(replace(view, processes=(server,)), "vllm", now).stopping == who
    world.end()
    await watch.close()


async def test_the_last_word_of_the_server_before_is_not_kept_for_one_that_starts() -> None:
    world = World(log=Source(StopMark("Shutting down")))
    watch = world.watch()
    watch.keep({URL: DeathCase(URL, "/log")})
    await world.clock.advance(0.5)
    young = replace(SERVER, pid=9, started_at=world.clock.wall() - 0.1)
    for served in (None, world.clock.monotonic() - 30.0):
        view = EngineView(URL, processes=(young,), served_last=served)
        watch.seen(view, "vllm", world.clock.monotonic())
    world.log.answer = StopMark()
    await world.clock.advance(1.0)
    now = world.clock.monotonic()
    assert watch.seen(EngineView(URL, processes=(young,), served_last=now), "vllm", now).stopping == ""
    world.end()
    await watch.close()


async def test_with_a_source_nothing_is_missing() -> None:
    assert (await said(EngineView(URL), StopMark()))[1] == []
    assert (await said(EngineView(URL, unit=Observed(UnitReading("u", active="active"), FRESH))))[1] == []


async def test_a_log_is_read_on_its_own_cadence_and_left_when_its_engine_goes() -> None:
    world = World()
    watch = world.watch()
    watch.keep({URL: DeathCase(URL, "/a")})
    for _ in range(5):
        await world.clock.advance(1.0)
    assert world.log.reads in (5, 6)
    watch.keep({URL: DeathCase(URL, "/a")})
    assert len(world.cases) == 1
    watch.keep({URL: DeathCase(URL, "/b")})
    assert [case.log for case in world.cases] == ["/a", "/b"]
    watch.keep({})
    await world.clock.advance(0.0)
    reads = world.log.reads
    await world.clock.advance(5.0)
    assert (world.log.reads, world.log.closed) == (reads, 2)
    world.end()
    await watch.close()
