"""Containers and units of engines under watch: asked when an engine is new, remembered when it has gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.runtime.test_monitor import A, Engine, World
from tests.support.waiting import until
from tui.model.places import ContainerReading, Place, UnitReading
from tui.model.readings import EngineProcess, ProcessTable
from tui.model.settings import Config
from tui.model.status import SourceError
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor

if TYPE_CHECKING:
    from tui.runtime.sources import Sources

ID = "ab" * 32


@dataclass
class Container:
    id: str
    name: str = "container"

    async def read(self) -> ContainerReading:
        return ContainerReading(self.id, name="llm", state="running")

    async def close(self) -> None:
        pass


@dataclass
class Unit:
    unit: str
    name: str = "unit"

    async def read(self) -> UnitReading:
        raise SourceError("not_supported", "there is no systemctl here")

    async def close(self) -> None:
        pass


@dataclass
class Placed(World):
    asked: list[str] = field(default_factory=list)

    def sources(self) -> Sources:
        from dataclasses import replace

        return replace(super().sources(), container=self._container, unit=self._unit)

    def _container(self, name: str) -> Container:
        self.asked.append(name)
        return Container(name)

    def _unit(self, name: str) -> Unit:
        self.asked.append(name)
        return Unit(name)


def table(place: Place) -> ProcessTable:
    process = EngineProcess(
        7, 1, "vllm", "api_server", "vllm", port=8001, host="127.0.0.1", listening=True, place=place
    )
    return ProcessTable((process,), (A,))


async def test_a_container_is_known_and_stays_so_when_its_server_has_gone() -> None:
    world = Placed(engines={A: Engine(A)}, table=table(Place(ID, "docker")))
    monitor = Monitor(Config(interval_s=0.2), (), world.sources(), SystemClock())
    await monitor.start()
    try:
        view = await until(
            lambda: next((v for v in monitor.snapshot().engines if v.container.reading), None), 10
        )
        assert view.container.reading == ContainerReading(ID, name="llm", state="running")
        world.table = ProcessTable()
        await until(lambda: monitor.snapshot().engines[0].processes == (), 10)
        view = monitor.snapshot().engines[0]
        assert view.place == Place(ID, "docker")
        assert view.container.reading is not None
    finally:
        await monitor.stop()
    assert world.asked == [ID]


async def test_a_one_shot_run_waits_for_what_it_asked_about() -> None:
    world = Placed(engines={A: Engine(A)}, table=table(Place(unit="vllm.service")))
    monitor = Monitor(Config(interval_s=0.2), (), world.sources(), SystemClock(), backoff=False)
    snapshot, _ = await monitor.sample(2)
    await monitor.stop()
    assert snapshot.engines[0].unit.status.reason == "not_supported"
    assert world.asked == ["vllm.service"]


async def test_other_runtimes_and_users_own_managers_are_not_asked() -> None:
    for place in (Place(ID, "containerd", "pod"), Place(unit="llm.service", user_unit=True)):
        world = Placed(engines={A: Engine(A)}, table=table(place))
        monitor = Monitor(Config(interval_s=0.2), (), world.sources(), SystemClock(), backoff=False)
        snapshot, _ = await monitor.sample(2)
        await monitor.stop()
        assert snapshot.engines[0].place == place
        assert world.asked == []
