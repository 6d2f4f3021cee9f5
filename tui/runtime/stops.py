"""Who says that an engine was asked to stop: its supervisor, its log, itself, or a test of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from tui.model.readings import Missing
from tui.model.units import seconds
from tui.runtime.poll import Poller

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping

    from tui.model.death import DeathCase, StopMark
    from tui.model.own_test import OwnTest
    from tui.model.readings import EngineKind
    from tui.model.snapshot import EngineView
    from tui.runtime.clock import Clock
    from tui.sources.base import AsyncSource

TESTS_PERIOD_S: Final = 1.0
DEADLINE_S: Final = 4.0
_ENDING: Final = {"removing": "is being removed", "stopping": "is being stopped"}
"""States of a container: Docker has none for a stop that is under way, Podman has."""
_STOPPING: Final = frozenset(("stopping", "draining", "closing"))
"""States of a test in which the engine may still answer."""
AWAITED_S: Final = 30.0
"""Who starts an engine again has done so by then: a unit after RestartSec, the kubelet after its first
back-off of 10 s."""
TICK_S: Final = 0.1
"""The kernel dates processes to 10 ms, and the test their end a little late."""
UNREADY: Final = "/ready turned 503 while its scheduler goes on"


class StopMarkSource(Protocol):
    """An ``AsyncSource`` of the newest mark in a log, and how often it may be read."""

    name: str
    period_s: float

    async def read(self) -> StopMark:
        """One look; raises ``SourceError``."""
        ...

    async def close(self) -> None:
        """Release what is held."""
        ...


class _Followed(NamedTuple):
    """The log of one engine; without a poller where none is known."""

    case: DeathCase
    poller: Poller[StopMark] | None = None
    task: asyncio.Task[None] | None = None


class StopWatch:
    """Reads the logs of the engines under watch, and what tests of ours do.

    Args:
        mark: makes the source of an engine's log; None: logs are not read.
        tests: makes the source of the tests under way, by URL; None: there are none.
        clock: time.
        spawn: starts a coroutine that the caller owns and ends.
        interval: gives seconds between pictures.
    """

    def __init__(
        self,
        mark: Callable[[DeathCase], StopMarkSource | None] | None,
        tests: Callable[[], AsyncSource[Mapping[str, OwnTest]]] | None,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        interval: Callable[[], float] = lambda: TESTS_PERIOD_S,
    ) -> None:
        self._mark, self._clock, self._spawn = mark, clock, spawn
        self._logs: dict[str, _Followed] = {}
        self._told: dict[str, tuple[tuple[int, int | None], str]] = {}
        """By URL, the server whose log told of a stop, and the line."""
        self._tests = None
        if tests is not None:
            self._tests = Poller(
                tests(), clock, lambda: max(TESTS_PERIOD_S, interval()), deadline_s=DEADLINE_S
            )

    def start(self) -> None:
        """Begin to look for tests of ours."""
        if self._tests is not None:
            self._spawn(self._tests.run())

    def keep(self, cases: Mapping[str, DeathCase]) -> None:
        """Read the logs of these engines, by URL, and no others any more."""
        for url in [url for url, followed in self._logs.items() if cases.get(url) != followed.case]:
            followed = self._logs.pop(url)
            self._told.pop(url, None)
            if followed.poller is not None and followed.task is not None:
                followed.task.cancel()
                self._spawn(followed.poller.close())
        for url in cases.keys() - self._logs.keys():
            self._logs[url] = self._follow(cases[url])

    @property
    def settled(self) -> bool:
        """Each log was read once, whatever came of it."""
        pollers = [self._tests, *(followed.poller for followed in self._logs.values())]
        return all(poller is None or poller.attempts for poller in pollers)

    def seen(self, view: EngineView, kind: EngineKind | None, now: float) -> EngineView:
        """The view with who says that it was asked to stop, and that nobody would.

        Args:
            view: with unit and container.
            kind: which engine it is.
            now: monotonic seconds.
        """
        test = self._test(view.url, now)
        said, planned = _of_restart(view, test, self._clock.wall())
        return replace(
            view,
            stopping=self._stopping(view, test, now),
            our_test=said,
            as_planned=planned,
            untold=self._untold(view, kind, now),
        )

    def _test(self, url: str, now: float) -> OwnTest | None:
        tests = self._tests.observed(now) if self._tests is not None else None
        return tests.reading.get(url) if tests is not None and tests.status.ok and tests.reading else None

    def _stopping(self, view: EngineView, test: OwnTest | None, now: float) -> str:
        unit = view.unit.reading
        if unit is not None and view.unit.status.ok and unit.active == "deactivating":
            grace = f" within {seconds(unit.stop_timeout_s)}" if unit.stop_timeout_s else ""
            return f"systemd stops {unit.unit}{grace}"
        container = view.container.reading
        if container is not None and view.container.status.ok and container.state in _ENDING:
            return f"container {container.name or container.container_id[:12]} {_ENDING[container.state]}"
        if test is not None and test.state in _STOPPING:
            return f"our {test.test} test: {test.state}"
        if view.processes is not None and not view.processes:
            return ""  # the log's last word stands long after its engine has gone
        line = self._logged(view, now)
        return f'log "{line}"' if line else self._unready(view, now)

    def _logged(self, view: EngineView, now: float) -> str:
        """What the log says of a stop, or has said of this server's.

        The end of the log that is read may no longer hold it: vLLM writes a traceback of 7 KiB for each
        request that it refuses in a drain, and no server takes back that it stops.
        """
        mark, server = self._observed(view.url, now), view.processes[0] if view.processes else None
        if server is None:
            return mark.line if mark is not None else ""
        run = server.pid, server.start_ticks
        if mark is not None and mark.started:
            self._told.pop(view.url, None)
        elif mark is not None and mark.line:
            # one that has not served yet starts, and the log's last word is of the one before
            if view.served_last is not None and self._served(view, now):
                self._told[view.url] = run, mark.line
            return mark.line
        told = self._told.get(view.url)
        return told[1] if told is not None and told[0] == run else ""

    def _unready(self, view: EngineView, now: float) -> str:
        """By its own readiness, in the last reading of the process that runs now, not of the one before."""
        reading = view.engine.reading
        if reading is None or not reading.draining:
            return ""
        return UNREADY if self._served(view, now) else ""

    def _served(self, view: EngineView, now: float) -> bool:
        """The last reading is of the process that runs now, not of the one before."""
        server = view.processes[0] if view.processes else None
        read_at = self._clock.wall() - (now - (view.served_last or now))
        return server is None or (server.started_at or 0.0) <= read_at

    def _untold(self, view: EngineView, kind: EngineKind | None, now: float) -> tuple[Missing, ...]:
        told = view.unit.status.ok or self._observed(view.url, now) is not None
        if kind != "vllm" or told:
            return ()
        why = "vLLM's /health stays 200 in a drain, and neither its unit nor its log can be read"
        if view.place is not None and view.place.pod_uid is not None:
            why = "vLLM's /health stays 200 in a drain, and only the Kubernetes API tells of a pod's deletion"
        elif view.place is not None and view.place.container_id is not None:
            why = "vLLM's /health stays 200 in a drain, and Docker tells of no stop that is under way"
        return (Missing("draining", why, 'set log of its [[engines]]: a file, "unit:NAME" or "docker:NAME"'),)

    async def close(self) -> None:
        """End all."""
        if self._tests is not None:
            await self._tests.close()
        for followed in self._logs.values():
            if followed.poller is not None and followed.task is not None:
                followed.task.cancel()
                await followed.poller.close()

    def _follow(self, case: DeathCase) -> _Followed:
        source = self._mark(case) if self._mark is not None else None
        if source is None:
            return _Followed(case)
        every = source.period_s
        poller = Poller(source, self._clock, lambda: every, deadline_s=DEADLINE_S)
        return _Followed(case, poller, self._spawn(poller.run()))

    def _observed(self, url: str, now: float) -> StopMark | None:
        poller = self._logs[url].poller if url in self._logs else None
        observed = poller.observed(now) if poller is not None else None
        return observed.reading if observed is not None and observed.status.ok else None


def _of_restart(view: EngineView, test: OwnTest | None, wall: float) -> tuple[str, bool]:
    """What a restart test of ours says of an engine that has gone, and whether all goes as planned."""
    if test is None or test.test != "restart":
        return "", False
    if test.failed:
        return f"our restart test: {test.failed}", False
    if test.gone_at is None:
        return "our restart test: it has just ended", True  # seen here before the test has told
    gone = seconds(max(0.0, wall - test.gone_at))
    again = (
        p for p in view.processes or () if not p.zombie and (p.started_at or 0.0) > test.gone_at - TICK_S
    )
    if any(again):
        return f"our restart test: down for {gone}, it starts again", True
    if wall - test.gone_at > AWAITED_S:
        return f"our restart test: nobody has started it again for {gone}", False
    return f"our restart test: down for {gone} as planned", True
