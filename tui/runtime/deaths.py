"""Why engines have gone: looked into when one goes, then every half minute for as long as it is away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tui.model.death import DeathCase, DeathReading
from tui.model.status import Observed
from tui.runtime.poll import Poller

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Coroutine, Iterable

    from tui.model.places import Place
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.runtime.clock import Clock
    from tui.sources.base import AsyncSource

AGAIN_S: Final = 30.0
SOON_S: Final = 2.0
"""The port closes before the process ends, and its supervisor notices later still."""
LOG_LOOKS: Final = 2
"""Early ones where nobody supervises: the lines on a stop that was asked for come before the process ends."""
DEADLINE_S: Final = 10.0
"""The kernel's log may be asked for twice, and each of both has 3 s."""


def case_of(url: str, log: str, place: Place | None, output: str = "") -> DeathCase:
    """What is known of an engine by its settings, its place and the file that its server writes to."""
    case = DeathCase(url, log, output)
    if place is None:
        return case
    return replace(
        case,
        container_id=place.container_id,
        runtime=place.runtime,
        pod_uid=place.pod_uid,
        # in a container a unit's name is of the container's own systemd, or of the runtime itself
        unit=None if place.container_id else place.unit,
        user_unit=place.user_unit,
        manager_uid=place.manager_uid,
    )


@dataclass(slots=True)
class _Engine:
    """What is remembered of one engine."""

    server: tuple[int, int | None] | None = None
    """Pid and start of its server when it was last seen."""
    pids: frozenset[int] = frozenset()
    output: str = ""
    down: bool = False
    looked_at: float | None = None
    """Monotonic seconds."""
    looked_for: tuple[int, int | None] | None = None
    """The server whose end the last look was about."""
    looks: int = 0
    """Into this end."""
    poller: Poller[DeathReading] | None = None
    found: Poller[DeathReading] | None = None
    """The last look that has ended."""

    @property
    def again_s(self) -> float:
        """Seconds from a look to the next: soon where a supervisor, or a log, may not tell of the end yet."""
        reading = self.found.reading if self.found is not None else None
        supervised = reading is not None and reading.exit is not None
        told = reading is not None and reading.exit is not None and reading.exit.code is not None
        early = not told and (supervised or self.looks <= LOG_LOOKS)
        return min(AGAIN_S, SOON_S * 2.0 ** min(self.looks, 5)) if early else AGAIN_S


class DeathWatch:
    """What is known of the last end of each engine.

    Args:
        make: makes the source of one case; None: nothing is looked into.
        clock: time.
        spawn: starts a coroutine that the caller owns and ends.
        on_found: called when a look has ended.
    """

    def __init__(
        self,
        make: Callable[[DeathCase], AsyncSource[DeathReading]] | None,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        on_found: Callable[[], None],
    ) -> None:
        self._make = make
        self._clock = clock
        self._spawn = spawn
        self._on_found = on_found
        self._engines: dict[str, _Engine] = {}

    def update(self, snapshot: HostSnapshot, down: Collection[str], logs: Iterable[tuple[str, str]]) -> None:
        """Look into the engines that have gone, or have been started again since the last picture.

        Args:
            snapshot: the newest picture.
            down: URLs of those that were judged to be down.
            logs: URL and log of the settings.
        """
        named = dict(logs)
        for url in self._engines.keys() - {view.url for view in snapshot.engines}:
            del self._engines[url]
        for view in snapshot.engines:
            log = named.get(view.url, "")
            if self._make is not None and (view.local or log):
                self._update(view, snapshot, view.url in down, log)

    def observed(self, url: str, now: float) -> Observed[DeathReading]:
        """The last look that has ended, at ``now``."""
        engine = self._engines.get(url)
        return Observed() if engine is None or engine.found is None else engine.found.observed(now)

    @property
    def looking(self) -> frozenset[str]:
        """URLs of the engines that are being looked into for the first time since they went."""
        return frozenset(
            url for url, engine in self._engines.items() if engine.poller is not None and engine.found is None
        )

    async def settle(self) -> bool:
        """Wait for the looks that are under way, each of which has its deadline; whether there were any."""
        waited = False
        while any(engine.poller is not None for engine in self._engines.values()):
            waited = True
            await self._clock.sleep(0.02)
        return waited

    def _update(self, view: EngineView, snapshot: HostSnapshot, down: bool, log: str) -> None:
        engine = self._engines.setdefault(view.url, _Engine())
        was, before, pids = engine.server, engine.down, engine.pids
        engine.down = down
        tree = view.processes
        if tree and not tree[0].orphan:
            engine.server = tree[0].pid, tree[0].start_ticks
            engine.pids = frozenset(process.pid for process in tree)
            engine.output = tree[0].output
        again = was is not None and engine.server != was and engine.looked_for != was
        fell = down and not before
        due = engine.looked_at is not None and snapshot.taken_at - engine.looked_at >= engine.again_s
        if engine.poller is not None or not (again or fell or (down and due)):
            return
        if fell:
            engine.found, engine.looks = None, 0  # that was another end
        writers = sum(other.output == engine.output for other in self._engines.values())
        case = case_of(view.url, log, view.place, engine.output if writers == 1 else "")
        since = (
            snapshot.wall - (snapshot.taken_at - view.served_last) if view.served_last is not None else None
        )
        case = replace(case, pids=pids or engine.pids, since=since, local=view.local)
        engine.looked_at, engine.looked_for = snapshot.taken_at, was or engine.server
        engine.looks += 1
        assert self._make is not None  # or nothing is looked into
        engine.poller = Poller(self._make(case), self._clock, lambda: AGAIN_S, deadline_s=DEADLINE_S)
        self._spawn(self._look(engine, engine.poller))

    async def _look(self, engine: _Engine, poller: Poller[DeathReading]) -> None:
        try:
            await poller.read_once()
            if poller.reading is not None:
                engine.found = poller
        finally:
            engine.poller = None
            await poller.close()
        self._on_found()
