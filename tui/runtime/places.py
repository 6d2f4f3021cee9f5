"""Containers and units of the engines: looked at when an engine is new, then again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tui.model.status import Observed
from tui.runtime.poll import Poller

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Coroutine, Mapping

    from tui.model.places import ContainerReading, Place, PublishedPort, UnitReading
    from tui.runtime.clock import Clock
    from tui.sources.base import AsyncSource

PERIOD_S = 30.0
UNIT_PERIOD_S = 5.0
"""That systemd stops a unit shows nowhere else while the engine goes on answering."""
DEADLINE_S = 4.0

T = TypeVar("T")
Key = tuple[object, ...]


class _Watched(Generic[T]):
    """Pollers of one kind by what they are of: those that a place still names run, the others end."""

    def __init__(
        self,
        make: Callable[[Place], AsyncSource[T]] | None,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        period_s: float = PERIOD_S,
    ) -> None:
        self._make, self._clock, self._spawn, self._period_s = make, clock, spawn, period_s
        self._running: dict[Key, tuple[Poller[T], asyncio.Task[None]]] = {}

    def keep(self, wanted: Mapping[Key, Place]) -> None:
        for key in wanted.keys() - self._running.keys() if self._make is not None else ():
            assert self._make is not None
            poller = Poller(
                self._make(wanted[key]), self._clock, lambda: self._period_s, deadline_s=DEADLINE_S
            )
            self._running[key] = (poller, self._spawn(poller.run()))
        for key in self._running.keys() - wanted.keys():
            poller, task = self._running.pop(key)
            task.cancel()
            self._spawn(poller.close())

    def observed(self, key: Key | None, now: float) -> Observed[T]:
        found = self._running.get(key) if key is not None else None
        return Observed() if found is None else found[0].observed(now)

    @property
    def readings(self) -> list[T]:
        return [poller.reading for poller, _ in self._running.values() if poller.reading is not None]

    @property
    def settled(self) -> bool:
        return all(poller.attempts for poller, _ in self._running.values())

    async def close(self) -> None:
        for poller, task in self._running.values():
            task.cancel()
            await poller.close()


class PlaceWatch:
    """What Docker and systemd say of the engines' places.

    Args:
        container: makes the source of a place's container; None: containers are not asked about.
        unit: makes the source of a place's unit; None: units are not asked about.
        clock: time.
        spawn: starts a coroutine that the caller owns and ends.
    """

    def __init__(
        self,
        container: Callable[[Place], AsyncSource[ContainerReading]] | None,
        unit: Callable[[Place], AsyncSource[UnitReading]] | None,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._containers = _Watched(container, clock, spawn)
        self._units = _Watched(unit, clock, spawn, UNIT_PERIOD_S)

    def update(self, places: Collection[Place]) -> None:
        """Look at what these name, and at nothing else any more."""
        self._containers.keep({key: p for p in places if (key := _container(p)) is not None})
        self._units.keep({key: p for p in places if (key := _unit(p)) is not None})

    @property
    def published(self) -> tuple[PublishedPort, ...]:
        """Ports of this host that lead into the containers."""
        return tuple(port for reading in self._containers.readings for port in reading.published)

    def container(self, place: Place | None, now: float) -> Observed[ContainerReading]:
        """What is known of the container of a place."""
        return self._containers.observed(_container(place), now)

    def unit(self, place: Place | None, now: float) -> Observed[UnitReading]:
        """What is known of the unit of a place."""
        return self._units.observed(_unit(place), now)

    @property
    def settled(self) -> bool:
        """Each was asked at least once, whatever came of it."""
        return self._containers.settled and self._units.settled

    async def close(self) -> None:
        """End all."""
        await self._containers.close()
        await self._units.close()


def _container(place: Place | None) -> Key | None:
    return (place.container_id,) if place is not None and place.container_id else None


def _unit(place: Place | None) -> Key | None:
    """In a container a unit's name is of the container's own systemd, or of the runtime itself."""
    if place is None or not place.unit or place.container_id:
        return None
    return place.unit, place.user_unit, place.manager_uid
