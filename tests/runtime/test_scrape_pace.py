"""How often one endpoint is scraped: never twice at once, and less often where a scrape costs much."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.support.clock import ManualClock
from tests.support.probers import MadeProber
from tui.model.readings import EngineReading
from tui.model.settings import EngineTarget
from tui.runtime.sources import Sources
from tui.runtime.target import SLOWEST_S, TOO_LARGE_S, WatchedEngine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from typing import Any

    from tui.model.status import Reason

URL = "http://127.0.0.1:8000"


@dataclass
class Engine:
    """Takes ``took_s`` of the clock for each scrape, or as long as ``wait`` is not set."""

    clock: ManualClock
    took_s: float = 0.0
    reason: Reason | None = None
    begun: list[float] = field(default_factory=list)
    at_once: int = 0
    name: str = "engine"

    async def read(self) -> EngineReading:
        self.begun.append(self.clock.monotonic())
        self.at_once += 1
        assert self.at_once == 1
        try:
            if self.took_s:
                await self.clock.sleep(self.took_s)
        finally:
            self.at_once -= 1
        return EngineReading(URL, reason=self.reason, running=1.0, scrape_s=self.took_s)

    async def close(self) -> None:
        pass


class Watch:
    def __init__(self, *, backoff: bool = True) -> None:
        self.clock = ManualClock(0.0)
        self.engine = Engine(self.clock)
        self.tasks: list[asyncio.Task[None]] = []

        def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            self.tasks.append(asyncio.ensure_future(work))
            return self.tasks[-1]

        never: Callable[..., Any] = lambda *_: None  # noqa: E731
        made: Callable[..., Any] = lambda *_: MadeProber()  # noqa: E731
        sources = Sources(never, never, never, lambda _: self.engine, made, made, lambda _: True)
        self.watched = WatchedEngine(
            EngineTarget(URL), sources, self.clock, lambda: 1.0, spawn, backoff=backoff
        )

    def gaps(self) -> list[float]:
        begun = self.engine.begun
        return [round(b - a, 3) for a, b in itertools.pairwise(begun)]

    def every(self) -> float | None:
        reading = self.watched.view(self.clock.monotonic(), None, {}).engine.reading
        return None if reading is None else reading.scrape_every_s


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    made = Watch()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_a_quick_engine_is_scraped_at_the_interval(watch: Watch) -> None:
    watch.engine.took_s = 0.1
    watch.watched.start()
    await watch.clock.advance(10.0)
    assert watch.gaps() == [1.0] * 10
    assert watch.every() is None


async def test_a_slow_one_less_often_and_it_says_so(watch: Watch) -> None:
    watch.engine.took_s = 0.8
    watch.watched.start()
    await watch.clock.advance(30.0)
    assert watch.gaps()[-1] == 4.0
    assert watch.every() == pytest.approx(4.0)
    watch.engine.took_s = 0.01
    await watch.clock.advance(20.0)
    assert watch.gaps()[-1] == 1.0
    assert watch.every() is None


async def test_one_slow_scrape_changes_nothing(watch: Watch) -> None:
    watch.watched.start()
    await watch.clock.advance(5.0)
    watch.engine.took_s = 0.9
    await watch.clock.advance(1.0)
    watch.engine.took_s = 0.0
    await watch.clock.advance(5.0)
    assert watch.gaps() == [1.0] * 11


async def test_a_scrape_longer_than_the_interval_is_never_overtaken(watch: Watch) -> None:
    watch.engine.took_s = 4.5
    watch.watched.start()
    await watch.clock.advance(100.0)
    assert watch.gaps()[-1] == SLOWEST_S
    assert len(watch.engine.begun) < 12  # each read asserts that it is alone


async def test_what_is_too_large_is_left_alone_for_long(watch: Watch) -> None:
    watch.engine.reason = "too_large"
    watch.watched.start()
    await watch.clock.advance(100.0)
    assert watch.gaps() == [TOO_LARGE_S] * 3
    assert watch.every() == TOO_LARGE_S


async def test_a_one_shot_run_keeps_its_interval() -> None:
    watch = Watch(backoff=False)
    watch.engine.took_s = 0.8
    watch.watched.start()
    await watch.clock.advance(8.0)
    assert watch.gaps()[-1] == 1.0
    for task in watch.tasks:
        task.cancel()
    await asyncio.gather(*watch.tasks, return_exceptions=True)
