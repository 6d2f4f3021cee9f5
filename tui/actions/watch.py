"""What is looked at while a test runs: readiness, the port, its connections, the processes, GPU memory.

Nothing here asks the engine for more than its readiness route, a scrape of its metrics a second, and what
the kernel and the driver know of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tui.model.status import SourceError
from tui.model.urls import host_port
from tui.runtime.blocking import BlockingRunner
from tui.runtime.clock import SystemClock
from tui.sources import offloop
from tui.sources.deadline import within
from tui.sources.engines.source import EngineSource
from tui.sources.http import HttpTarget
from tui.sources.kernel.procfs import read_file
from tui.sources.kernel.sockets import listeners_here
from tui.sources.nvml.source import NvmlSource
from tui.sources.processes import ProcessSource
from tui.sources.resolve import Resolver

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tui.actions.plan import Plan
    from tui.model.readings import EngineProcess, EngineReading, ProbeStatus
    from tui.model.settings import EngineTarget

READINESS_S = 0.1
PORT_S = 0.05
GAUGE_S = 1.0
GPU_S = 0.5
PROCESSES_S = 0.3
DEADLINE_S = 3.0
_READ_BYTES = 10_000
_ESTABLISHED = b"01"
_WILDCARDS = ("0.0.0.0", "::")


@dataclass(slots=True)
class Look:
    """One look at the readiness route."""

    at: float
    """Monotonic seconds at which it was asked."""
    took_s: float
    status: ProbeStatus

    @property
    def ok(self) -> bool:
        """As the kubelet counts."""
        return isinstance(self.status, int) and 200 <= self.status < 400


@dataclass(slots=True)
class Seen:
    """The latest of everything; None is not known."""

    looks: list[Look] = field(default_factory=list)
    port_open: bool | None = None
    established: int | None = None
    reading: EngineReading | None = None
    gpu_mib: dict[int, float | None] | None = None
    """Memory that each process holds on all GPUs, by pid; None where NVML does not tell."""
    servers: tuple[EngineProcess, ...] | None = None
    """Engine processes that listen, or will, at the target's port."""

    @property
    def readiness(self) -> ProbeStatus | None:
        """The last answer."""
        return self.looks[-1].status if self.looks else None


class Watch:
    """Looks until it is closed.

    Args:
        plan: what the test is about.
        target: how to ask it.
        changed: called after each look that can be an event: ``readiness``, ``port`` or ``gpu``.
    """

    def __init__(self, plan: Plan, target: EngineTarget, changed: Callable[[str], None]) -> None:
        self.seen = Seen()
        self._plan, self._target, self._changed = plan, target, changed
        self._host, self._port = host_port(target.url)
        self._addresses: tuple[str, ...] = _WILDCARDS
        self._port_visible = False
        self._engine = EngineSource(target)
        self._reading = asyncio.Lock()
        self._readiness = HttpTarget(
            target.url,
            headers=target.headers,
            ca_file=target.ca_file,
            verify=target.verify and bool(target.headers),  # the kubelet does not; headers must not leak
            keep_alive=False,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._closers: list[Callable[[], Coroutine[Any, Any, None]]] = []

    async def start(self, *, processes: bool) -> None:
        """Begin to look.

        Args:
            processes: look for the process that comes after the one that was stopped, too.
        """
        with contextlib.suppress(SourceError):
            await self._readiness.prepare()
            self._addresses = (*_WILDCARDS, *await Resolver(self._host, self._port).addresses())
        self._port_visible = self._listens() is True  # not so where it is in another network namespace
        jobs = [
            self._each(READINESS_S, self._look_at_readiness),
            self._each(PORT_S, self._look_at_port),
            self._each(GAUGE_S, self._look_at_connections),
            self._look_at_gpus(),
        ]
        if processes:
            jobs.append(self._look_at_processes())
        self._tasks = [asyncio.get_running_loop().create_task(job) for job in jobs]

    async def read_engine(self) -> EngineReading | None:
        """A fresh reading of the engine's figures; None where there is none."""
        async with self._reading:
            try:
                self.seen.reading = await within(DEADLINE_S, self._engine.read())
            except (SourceError, asyncio.TimeoutError):
                self.seen.reading = None
            # no connection is kept: an idle one of ours held up a real Triton's exit, of 7 s, for 30 s
            await self._engine.close()
            return self.seen.reading

    async def close(self) -> None:
        """Look no more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DEADLINE_S)
        for close in (*self._closers, self._engine.close, self._readiness.close):
            await close()

    async def _each(self, period_s: float, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            began = time.monotonic()
            await look()
            await asyncio.sleep(max(0.005, period_s - (time.monotonic() - began)))

    # ------------------------------------------------------------------------------ looks

    async def _look_at_readiness(self) -> None:
        began = time.monotonic()
        status: ProbeStatus
        probe = self._plan.readiness
        try:
            answer = await self._readiness.get(probe.path, probe.timeout_s, max_bytes=_READ_BYTES, cut=True)
            status = answer.status
        except SourceError as error:
            known = error.reason in ("refused", "timeout", "tls", "dns", "reset")
            status = error.reason if known else "reset"  # type: ignore[assignment]
        self.seen.looks.append(Look(began, time.monotonic() - began, status))
        self._changed("readiness")

    async def _look_at_port(self) -> None:
        """Asked of the kernel, not by a connection that the engine would have to take."""
        self.seen.port_open = self._listens() if self._port_visible else None
        self._changed("port")

    def _listens(self) -> bool | None:
        try:
            sockets = listeners_here().values()
        except OSError:
            return None
        return any(s.port == self._port and s.address in self._addresses for s in sockets)

    async def _look_at_connections(self) -> None:
        self.seen.established = await offloop.start(lambda: established(self._port), "connections")
        await self.read_engine()
        self._changed("gauge")

    async def _look_at_gpus(self) -> None:
        runner = BlockingRunner(NvmlSource(), SystemClock())
        self._closers.append(runner.close)
        while True:
            try:
                gpus = (await within(DEADLINE_S, runner.read())).gpus
                held: dict[int, float | None] = {}
                for process in (p for gpu in gpus for p in gpu.processes or ()):
                    before = held.get(process.pid, 0.0)
                    more = process.mem_mib
                    held[process.pid] = None if before is None or more is None else before + more
                told = any(gpu.processes is not None for gpu in gpus)
                self.seen.gpu_mib = held if told else None
            except SourceError as error:
                self.seen.gpu_mib = None
                if error.unsupported:
                    return
            except asyncio.TimeoutError:
                self.seen.gpu_mib = None
            self._changed("gpu")
            await asyncio.sleep(GPU_S)

    async def _look_at_processes(self) -> None:
        runner = BlockingRunner(ProcessSource(), SystemClock())
        self._closers.append(runner.close)
        while True:
            try:
                table = await within(DEADLINE_S, runner.read())
                self.seen.servers = tuple(
                    p
                    for p in table.processes
                    if p.port == self._port and not p.zombie and not p.other_network
                )
            except (SourceError, asyncio.TimeoutError):
                self.seen.servers = None
            self._changed("processes")
            await asyncio.sleep(PROCESSES_S)


def established(port: int) -> int | None:
    """Connections to a port of this network namespace, seen from the server's side; None: not readable."""
    count, known = 0, False
    for table in ("tcp", "tcp6"):
        try:
            text = read_file(f"/proc/self/net/{table}", 64 << 20)
        except OSError:  # a kernel without IPv6 has no tcp6
            continue
        known = True
        end = b":%04X" % port
        for line in text.splitlines()[1:]:
            words = line.split(None, 4)
            count += len(words) > 3 and words[3] == _ESTABLISHED and words[1].endswith(end)
    return count if known else None
