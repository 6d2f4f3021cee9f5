"""Containers and units of engines under watch: asked when an engine is new, remembered when it has gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.runtime.test_monitor import A, Engine, World
from tests.support.waiting import until
from tui.model.places import ContainerReading, Place, PublishedPort, UnitReading
from tui.model.readings import EngineProcess, ProcessTable
from tui.model.settings import Config, EngineTarget
from tui.model.status import SourceError
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor

if TYPE_CHECKING:
    from tui.runtime.sources import Sources

ID = "ab" * 32


@dataclass
class Container:
    id: str
    published: tuple[PublishedPort, ...] = ()
    name: str = "container"

    async def read(self) -> ContainerReading:
        return ContainerReading(self.id, name="llm", state="running", published=self.published)

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
    asked: list[Place] = field(default_factory=list)
    published: tuple[PublishedPort, ...] = ()

    def sources(self) -> Sources:
        from dataclasses import replace

        return replace(super().sources(), container=self._container, unit=self._unit)

    def _container(self, place: Place) -> Container:
        self.asked.append(place)
        return Container(place.container_id or "", self.published)

    def _unit(self, place: Place) -> Unit:
        self.asked.append(place)
        return Unit(place.unit or "")


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
    assert world.asked == [Place(ID, "docker")]


async def test_a_one_shot_run_waits_for_what_it_asked_about() -> None:
    world = Placed(engines={A: Engine(A)}, table=table(Place(unit="vllm.service")))
    monitor = Monitor(Config(interval_s=0.2), (), world.sources(), SystemClock(), backoff=False)
    snapshot, _ = await monitor.sample(2)
    await monitor.stop()
    assert snapshot.engines[0].unit.status.reason == "not_supported"
    assert world.asked == [Place(unit="vllm.service")]


async def test_each_place_is_asked_about_as_what_it_is() -> None:
    for place in (Place(ID, "containerd", "pod"), Place(unit="llm.service", user_unit=True, manager_uid=7)):
        world = Placed(engines={A: Engine(A)}, table=table(place))
        monitor = Monitor(Config(interval_s=0.2), (), world.sources(), SystemClock(), backoff=False)
        snapshot, _ = await monitor.sample(2)
        await monitor.stop()
        assert snapshot.engines[0].place == place
        assert world.asked == [place]


async def test_a_rootless_container_is_watched_at_its_published_port() -> None:
    inner, outer = "http://10.0.2.100:8000", "http://127.0.0.1:18000"
    inside = EngineProcess(
        7, 1, "vllm", "api_server", "vllm", port=8000, host="0.0.0.0", listening=True, other_network=True,
        addresses=("10.0.2.100",), place=Place(ID, "podman"),
    )  # fmt: skip
    world = Placed(
        engines={inner: Engine(inner), outer: Engine(outer)},
        table=ProcessTable((inside,), (inner,)),
        published=(PublishedPort("", 18000, "", 8000, ID),),
    )
    monitor = Monitor(Config(interval_s=0.2), (), world.sources(), SystemClock())
    await monitor.start()
    try:
        await until(lambda: [v.url for v in monitor.snapshot().engines] == [outer], 10)
        (view,) = monitor.snapshot().engines
        assert view.processes == (inside,)
        assert view.discovered
    finally:
        await monitor.stop()


async def test_a_port_that_the_kernel_forwards_leads_to_the_processes_in_its_container() -> None:
    url = "http://127.0.0.1:18000"
    inside = EngineProcess(
        7, 1, "vllm", "api_server", "vllm", port=8000, host="0.0.0.0", listening=True, other_network=True,
        addresses=("172.18.0.5",), place=Place(ID, "docker"), cmdline=("vllm", "serve", "m"),
    )  # fmt: skip
    port = PublishedPort("0.0.0.0", 18000, "", 8000, ID)
    world = Placed(engines={url: Engine(url)}, table=ProcessTable((inside,)), published=(port,))
    monitor = Monitor(Config(interval_s=0.2), (EngineTarget(url),), world.sources(), SystemClock())
    await monitor.start()
    try:
        view = await until(lambda: next((v for v in monitor.snapshot().engines if v.processes), None), 10)
        assert view.processes == (inside,)
        assert view.args["model"] == "m"
        view = await until(lambda: next((v for v in monitor.snapshot().engines if v.place), None), 10)
        assert view.place == Place(ID, "docker")
    finally:
        await monitor.stop()
    assert world.asked == [Place(ID, "docker")]
