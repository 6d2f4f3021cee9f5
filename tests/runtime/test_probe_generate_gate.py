"""When a generation is started, and when not: it would fail, or hold up the end of a drain."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clock import ManualClock
from tests.support.probers import MadeProber, status
from tui.model.readings import EngineReading, GpuSet, HostReading, ProcessTable
from tui.model.settings import Config, EngineTarget, ProbeSettings, Thresholds
from tui.model.status import SourceError
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor
from tui.runtime.sources import Sources
from tui.runtime.target import WatchedEngine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tui.model.status import Reason
    from tui.model.verdicts import VerdictName

URL = "http://127.0.0.1:8000"


class Scrape:
    name = "engine"

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self.count = 0

    async def read(self) -> EngineReading:
        self.count += 1
        if self.reason is not None:
            raise SourceError(self.reason)
        return EngineReading(URL, engine="vllm", running=0.0, waiting=0.0)

    async def close(self) -> None:
        return


class Still:
    """A source that always reads the same."""

    def __init__(self, name: str, reading: object) -> None:
        self.name, self.doing = name, ""
        self.reading = reading

    def read(self) -> Any:
        return self.reading

    def close(self) -> None:
        return


class Watch:
    def __init__(self, *, backoff: bool = True) -> None:
        self.clock = ManualClock()
        self.scrape = Scrape()
        self.health, self.generator = MadeProber(self.clock), MadeProber(self.clock)
        self.tasks: list[asyncio.Task[None]] = []
        never: Callable[..., Any] = lambda *_: None  # noqa: E731
        sources = Sources(
            never,
            never,
            never,
            lambda _: self.scrape,
            lambda *_: self.health,
            lambda *_: self.generator,
            never,
        )
        self.watched = WatchedEngine(
            EngineTarget(URL, engine="vllm"), sources, self.clock, lambda: 1.0, self.spawn, backoff=backoff
        )
        self.watched.probes.generate(on=True)

    async def run(self, seconds: float) -> None:
        if not self.watched.scrape.attempts:
            self.watched.start()
        await self.clock.advance(seconds)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    made = Watch()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_an_engine_that_serves_is_asked(watch: Watch) -> None:
    await watch.run(2.0)
    assert len(watch.generator.asked) == 1


async def test_one_that_never_served_is_not(watch: Watch) -> None:
    watch.scrape.reason = "timeout"
    await watch.run(60.0)
    assert watch.generator.asked == []


@pytest.mark.parametrize("reason", ["refused", "reset"])
async def test_one_that_has_gone_is_not(watch: Watch, reason: Reason) -> None:
    await watch.run(2.0)
    watch.scrape.reason = reason
    await watch.run(90.0)
    assert len(watch.generator.asked) == 1


async def test_one_that_answers_no_scrape_is_for_that_would_be_the_proof(watch: Watch) -> None:
    await watch.run(2.0)
    watch.scrape.reason = "timeout"
    await watch.run(60.0)
    assert len(watch.generator.asked) == 3


@pytest.mark.parametrize("verdict", ["draining", "loading", "engine_down"])
async def test_one_that_drains_loads_or_is_down_is_not(watch: Watch, verdict: VerdictName) -> None:
    await watch.run(2.0)
    watch.watched.verdict = verdict
    await watch.run(90.0)
    assert len(watch.generator.asked) == 1
    watch.watched.verdict = "engine_hung"
    await watch.run(2.0)
    assert len(watch.generator.asked) == 2


async def test_one_that_says_it_is_not_ready_is_not(watch: Watch) -> None:
    watch.health.result = status(503)
    await watch.run(60.0)
    assert watch.generator.asked == []


async def test_a_one_shot_run_asks_once() -> None:
    made = Watch(backoff=False)
    await made.run(90.0)
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)
    assert len(made.generator.asked) == 1


async def test_a_one_shot_run_reads_on_while_it_awaits_a_token() -> None:
    generator, reads = MadeProber(), Scrape()
    generator.result = None
    sources = Sources(
        lambda: Still("gpus", GpuSet()),
        lambda: Still("host", HostReading()),
        lambda: Still("processes", ProcessTable()),
        lambda _: reads,
        lambda *_: MadeProber(),
        lambda *_: generator,
        lambda _: True,
    )
    config = Config(
        interval_s=0.1,
        thresholds=Thresholds(generate_timeout_s=1.0),
        probes=ProbeSettings(generate=True, generate_period_s=0.1),
    )
    monitor = Monitor(config, (EngineTarget(URL, engine="vllm"),), sources, SystemClock(), backoff=False)
    snapshot, _ = await monitor.sample(2)
    await monitor.stop()
    (view,) = snapshot.engines
    assert [(p.status, p.waiting_s) for p in view.probes if p.kind == "generate"] == [("timeout", None)]
    assert len(generator.asked) == 1
    assert reads.count > 4, "judged on what was read before the generation"


async def test_read_only_wins_over_the_config() -> None:
    never: Callable[..., Any] = lambda *_: None  # noqa: E731
    quiet: Any = type("Quiet", (), {"name": "quiet", "doing": "", "read": never, "close": never})
    sources = Sources(quiet, quiet, quiet, never, never, never, never)
    config = Config(probes=ProbeSettings(generate=True), read_only=True)
    monitor = Monitor(config, (), sources, ManualClock())
    assert not monitor.generate
    monitor.generate = True
    assert not monitor.generate
    assert Monitor(Config(probes=ProbeSettings(generate=True)), (), sources, ManualClock()).generate
