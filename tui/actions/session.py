"""What every test shares: its events, its requests, the processes it holds, and its end on request."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tui.actions.drain import StopSeen
from tui.actions.exits import UNKNOWN, Exit, exit_of
from tui.actions.held import HeldTree
from tui.actions.result import CannotRunError, Event, Leftover
from tui.actions.traffic import Requests, since
from tui.actions.watch import Watch

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tui.actions.client import Client
    from tui.actions.plan import Plan
    from tui.actions.result import EventName
    from tui.actions.runs import EventWriter, RunFiles
    from tui.actions.traffic import OwnRequest
    from tui.actions.watch import Look
    from tui.model.settings import EngineTarget

STEP_S = 0.02
"""Between two looks of a test at what its parts have seen."""
GAUGES_LAG_S = 3.0
"""An engine may count for so long what we hung up a moment ago."""


class CancelledError(Exception):
    """The user wants no more of it."""


class Session:
    """One test under way.

    Attributes:
        action_at: monotonic seconds of the signal or command; None before it.
        events: what happened, in the order in which it was seen; each name once.
    """

    def __init__(
        self, plan: Plan, target: EngineTarget, files: RunFiles, writer: EventWriter, client: Client
    ) -> None:
        self.plan, self.target, self.files = plan, target, files
        self.action_at: float | None = None
        self.events: list[Event] = []
        self.notes: list[str] = []
        self.before_signal: Callable[[str], None] = lambda _what: None
        """Called with what is about to be sent; raises RefusedError where that must not be."""
        self.fill_tokens = plan.traffic.max_tokens
        """What a request in flight asks for, once it was made long enough."""
        self.starter: subprocess.Popen[bytes] | None = None
        """The start command, once it was run."""
        self.gpu_before: set[int] = set()
        """Processes of the engine that held GPU memory before the action."""
        main = () if plan.target.main is None else (plan.target.main,)
        self.held = HeldTree((*main, *(p for p in plan.target.tree if p not in main)))
        self.requests = Requests(client, plan.target.engine, plan.traffic, self._request_changed)
        self.watch = Watch(plan, target, self._seen_changed)
        self._writer = writer
        self._cancelled = False
        self._exit = UNKNOWN
        self._served = 0

    async def start(self, *, processes: bool) -> None:
        """Begin to watch."""
        loop = asyncio.get_running_loop()
        for held in (self.held.main, *self.held.others):
            if held is not None:
                loop.add_reader(held.fileno(), self._process_ended, held.fileno(), held.process.pid)
        await self.watch.start(processes=processes)

    async def close(self) -> None:
        """Close every connection of ours, and let go of the processes."""
        await self.requests.close()
        await self.watch.close()
        loop = asyncio.get_running_loop()
        for held in (self.held.main, *self.held.others):
            if held is not None:
                loop.remove_reader(held.fileno())
        self.held.close()

    # ------------------------------------------------------------------------------ telling

    def state(self, name: str, text: str = "") -> None:
        """Where the test is, and what is wrong there."""
        if text:
            self.notes.append(text)
        self._writer.write("state", name=name, **({"text": text} if text else {}))

    def note(self, text: str) -> None:
        """Something for a person, for the report too."""
        self.notes.append(text)
        self.tell(text)

    def tell(self, text: str) -> None:
        """Something for a person that is true now, and perhaps no longer at the end."""
        self._writer.write("note", text=text)

    def event(self, name: EventName, at: float | None = None, detail: str = "") -> None:
        """Something happened; only the first of a name counts."""
        if self.has(name):
            return
        at = time.monotonic() if at is None else at
        self.events.append(Event(at, name, detail))
        self._writer.write("event", t_s=since(self.action_at, at), event=name, detail=detail)

    def has(self, name: EventName) -> bool:
        """Whether it happened."""
        return any(event.name == name for event in self.events)

    def at(self, name: EventName) -> float | None:
        """When it happened."""
        return next((event.at for event in self.events if event.name == name), None)

    def down_at(self) -> float | None:
        """When it was first seen to serve no more, by its port, a request or its process."""
        seen = (self.at("port_closed"), self.at("first_refused"), self.at("main_exit"))
        return min((at for at in seen if at is not None), default=None)

    def acted(self, at: float, detail: str) -> None:
        """The signal was sent, or the command begun: time counts from here."""
        self.action_at = at
        self.event("signal_sent", at, detail)
        for request in self.requests.sent:
            self._tell(request)

    # ------------------------------------------------------------------------------ the user's end

    def cancel(self) -> None:
        """End it: nothing more is sent."""
        self._cancelled = True

    async def pause(self, seconds: float = STEP_S) -> None:
        """Let the parts work.

        Raises:
            CancelledError: the user wants no more.
        """
        ends = time.monotonic() + seconds
        while True:
            if self._cancelled or self.files.cancel.exists():
                raise CancelledError
            left = ends - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(left, 0.2))

    # ------------------------------------------------------------------------------ what is seen

    @property
    def served(self) -> int:
        """New requests that were served since the action."""
        return self._served

    def open_in_flight(self) -> list[OwnRequest]:
        """Ours that have not ended."""
        return [request for request in self.requests.of("in_flight") if request.open]

    def silent(self, now: float) -> list[OwnRequest]:
        """... and get nothing."""
        half = self.plan.grace_s / 2
        return [request for request in self.open_in_flight() if request.silent(now, half)]

    def exited(self) -> bool:
        """The main process has ended; without one, the port is closed."""
        if self.held.main is not None:
            return self.held.main.ended
        return self.watch.seen.port_open is False

    def exit(self) -> Exit:
        """How the main process ended, where it can be known."""
        if self._exit == UNKNOWN and self.held.main is not None and self.held.main.ended:
            self._exit = exit_of(self.held.main.fileno())
        return self._exit

    def stop_seen(self, now: float) -> StopSeen:
        """For the machine of a stop."""
        return StopSeen(
            exited=self.exited(),
            others=len(self.others()),
            silent=len(self.silent(now)),
            open=len(self.open_in_flight()),
            served=self._served,
            gpu_held=bool(self._gpu_holders()),
        )

    def others(self) -> list[Leftover]:
        """Processes of the engine beside its main one that run."""
        main = self.plan.target.main
        gpu = self.watch.seen.gpu_mib
        return [
            Leftover(process, None if gpu is None else gpu.get(process.pid, 0.0))
            for process in self.held.alive()
            if main is None or process.pid != main.pid
        ]

    async def others_in_flight(self) -> float | None:
        """Requests of others that run or wait now; None: the engine does not tell."""
        reading = await self.watch.read_engine()
        if reading is None or reading.running is None or reading.waiting is None:
            return None
        own = sum(request.open for request in self.requests.sent)
        return max(0.0, reading.running + reading.waiting - own)

    async def confirm_alone(self) -> None:
        """Look once more, right before the action, whether others use the engine.

        Raises:
            CannotRunError: they do, or it cannot be told, and the plan does not allow it.
        """
        self.state("confirming")
        ends = time.monotonic() + GAUGES_LAG_S
        while (others := await self.others_in_flight()) and time.monotonic() < ends:
            await self.pause(0.2)
        if self.plan.with_traffic or others == 0:
            return
        if others is None:
            raise CannotRunError("whether others use it cannot be told: its metrics do not say")
        raise CannotRunError(f"others use it: {others:.0f} requests in flight beside ours")

    def _gpu_holders(self) -> set[int]:
        return self.gpu_before & {pid for pid, mib in (self.watch.seen.gpu_mib or {}).items() if mib != 0}

    # ------------------------------------------------------------------------------ what happens

    def _tell(self, request: OwnRequest) -> None:
        row = request.row(self.action_at)
        self._writer.write("request", request=row.pop("kind"), **row)

    def _request_changed(self, request: OwnRequest) -> None:
        self._tell(request)
        if self.action_at is None or request.kind != "new" or request.open:
            return
        if request.outcome == "finished":
            self._served += request.started >= self.action_at
        elif request.ended is not None and request.started >= self.action_at and request.outcome != "timeout":
            what = str(request.http_status) if request.outcome == "error" else str(request.outcome)
            self.event("first_refused", request.ended, what)

    def settle_readiness(self) -> None:
        """At the end of the test the last look counts alone: another one will not be taken."""
        self._see_readiness(self.watch.seen.looks[-1:])

    def _see_readiness(self, looks: list[Look]) -> None:
        if self.action_at is None or any(look.ok or look.at < self.action_at for look in looks):
            return
        if looks:
            self.event("readiness_down", looks[0].at, str(looks[0].status))

    def _process_ended(self, pidfd: int, pid: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        main = self.plan.target.main
        if self.action_at is None:
            self.note(f"pid {pid} of the engine has ended before anything was done to it")
            return
        self.event("first_exit", detail=f"pid {pid}")
        if main is not None and pid == main.pid:
            self.event("main_exit", detail=f"pid {pid}")

    def _seen_changed(self, what: str) -> None:
        seen = self.watch.seen
        if what == "gauge":
            reading = seen.reading
            self._writer.write(
                "gauge",
                t_s=since(self.action_at, time.monotonic()),
                running=None if reading is None else reading.running,
                waiting=None if reading is None else reading.waiting,
                readiness=seen.readiness,
                established=seen.established,
                tokens={request.id: request.tokens for request in self.open_in_flight()},
                silent=[request.id for request in self.silent(time.monotonic())],
            )
        if what == "gpu" and self.action_at is None:
            own = {process.pid for process in self.plan.target.tree}
            self.gpu_before = own & {pid for pid, mib in (seen.gpu_mib or {}).items() if mib != 0}
        if self.action_at is None:
            return
        if what == "readiness":
            # one failure alone may be ours: on a full machine a look ran into its timeout, once
            self._see_readiness(seen.looks[-2:])
        elif what == "port" and seen.port_open is False:
            self.event("port_closed")
        elif what == "gpu" and self.gpu_before and seen.gpu_mib is not None and not self._gpu_holders():
            self.event("gpu_released")
