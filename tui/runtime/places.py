"""Containers and units of the engines: looked at when an engine is new, then every half minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tui.model.status import Observed
from tui.runtime.poll import Poller

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Coroutine

    from tui.model.places import ContainerReading, Place, UnitReading
    from tui.runtime.clock import Clock
    from tui.sources.base import AsyncSource

PERIOD_S = 30.0
DEADLINE_S = 4.0

T = TypeVar("T")


class _Watched(Generic[T]):
    """Pollers of one kind by name: those that a place still names run, the others end."""

    def __init__(
        self,
        make: Callable[[str], AsyncSource[T]] | None,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._make, self._clock, self._spawn = make, clock, spawn
        self._running: dict[str, tuple[Poller[T], asyncio.Task[None]]] = {}

    def keep(self, names: set[str]) -> None:
        for name in names - self._running.keys() if self._make is not None else ():
            assert self._make is not None
            poller = Poller(self._make(name), self._clock, lambda: PERIOD_S, deadline_s=DEADLINE_S)
            self._running[name] = (poller, self._spawn(poller.run()))
        for name in self._running.keys() - names:
            poller, task = self._running.pop(name)
            task.cancel()
            self._spawn(poller.close())

    def observed(self, name: str | None, now: float) -> Observed[T]:
        found = self._running.get(name) if name is not None else None
        return Observed() if found is None else found[0].observed(now)

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
        container: makes the source of a container by its id; None: containers are not asked about.
        unit: makes the source of a unit by its name; None: units are not asked about.
        clock: time.
        spawn: starts a coroutine that the caller owns and ends.
    """

    def __init__(
        self,
        container: Callable[[str], AsyncSource[ContainerReading]] | None,
        unit: Callable[[str], AsyncSource[UnitReading]] | None,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._containers = _Watched(container, clock, spawn)
        self._units = _Watched(unit, clock, spawn)

    def update(self, places: Collection[Place]) -> None:
        """Look at what these name, and at nothing else any more."""
        self._containers.keep(
            {p.container_id for p in places if p.container_id and p.runtime in (None, "docker")}
        )
        # a user's own manager is asked over that user's bus, which is not ours
        self._units.keep({p.unit for p in places if p.unit and not p.user_unit and not p.container_id})

    def container(self, place: Place | None, now: float) -> Observed[ContainerReading]:
        """What is known of the container of a place."""
        return self._containers.observed(place.container_id if place else None, now)

    def unit(self, place: Place | None, now: float) -> Observed[UnitReading]:
        """What is known of the unit of a place."""
        return self._units.observed(place.unit if place else None, now)

    @property
    def settled(self) -> bool:
        """Each was asked at least once, whatever came of it."""
        return self._containers.settled and self._units.settled

    async def close(self) -> None:
        """End all."""
        await self._containers.close()
        await self._units.close()
