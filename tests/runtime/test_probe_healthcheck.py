"""The HEALTHCHECK of the container in which an engine was found decides which probes are made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.runtime.test_monitor import A, Engine, World
from tests.support.waiting import until
from tui.model.places import ContainerReading, Healthcheck, Place
from tui.model.readings import EngineProcess, ProcessTable
from tui.model.settings import Config, EngineTarget, ProbeSettings, ProbeSpec
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor

if TYPE_CHECKING:
    from tui.model.snapshot import EngineView

PLACE = Place("ab" * 32, "docker")
CHECK = Healthcheck(("CMD-SHELL", "curl -f http://localhost:8001/alive || exit 1"), interval_s=7.0)


@dataclass
class Container:
    name: str = "container"

    async def read(self) -> ContainerReading:
        return ContainerReading(PLACE.container_id or "", name="llm", restarts=2, healthcheck=CHECK)

    async def close(self) -> None:
        pass


async def seen(config: Config) -> EngineView:
    process = EngineProcess(
        7, 1, "vllm", "api_server", "vllm", port=8001, host="127.0.0.1", listening=True, place=PLACE
    )
    world = World(engines={A: Engine(A)}, table=ProcessTable((process,), (A,)))
    sources = replace(world.sources(), container=lambda _: Container())
    monitor = Monitor(config, (EngineTarget(A),), sources, SystemClock())
    await monitor.start()
    try:

        def known() -> EngineView | None:
            view = monitor.snapshot().engines[0]
            return view if view.container.reading is not None and view.probes else None

        await until(known, 10)
        version = monitor.version
        await until(lambda: monitor.version > version, 10)
        return await until(known, 10)
    finally:
        await monitor.stop()


async def test_it_is_found_and_shown_with_its_own_rules() -> None:
    view = await seen(Config(interval_s=0.2))
    assert (view.probe_origin, view.probe_platform) == ("the container's HEALTHCHECK", "docker")
    assert (view.probe_specs["liveness"].path, view.probe_specs["liveness"].period_s) == ("/alive", 7.0)


async def test_what_the_operator_said_stands_above_it() -> None:
    view = await seen(Config(interval_s=0.2, probes=ProbeSettings(liveness=ProbeSpec("/mine"))))
    assert (view.probe_origin, view.probe_platform) == ("the config", "kubernetes")
