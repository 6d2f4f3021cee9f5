"""What the kernel says of each engine's own processes: threads, control group, reads, connections."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui.model.engine_host import EngineHostReading
from tui.model.readings import Missing
from tui.sources.kernel import sock_diag
from tui.sources.kernel.cgroup_limits import CgroupMeter
from tui.sources.kernel.mounts import filesystem, is_remote
from tui.sources.kernel.process_io import IoMeter
from tui.sources.kernel.threads import ThreadFigures, ThreadMeter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tui.model.readings import EngineProcess
    from tui.sources.kernel.cgroup_limits import CgroupFigures
    from tui.sources.kernel.process_io import IoFigures

_PERIOD_S = 2.0
_PERIOD_MAX_S = 15.0
_CPU_SHARE = 0.002  # of a core, all engines together: 400 threads cost 8 ms, and come every 4 s
_FIRST_WINDOW_S = 0.2
_CONNECTIONS_S = 5.0  # the kernel walks its whole table of connections: 1 ms on a small host, 5 on a big one


class EngineTree(NamedTuple):
    """The processes of one engine, its server first; empty once they have gone."""

    processes: tuple[EngineProcess, ...]
    model_device: int | None = None
    """``st_dev`` of the directory that its model was found in."""


class _Connections(NamedTuple):
    backlog: int | None = None
    limit: int | None = None
    established: int | None = None
    why: str = ""
    enable: str = ""


class EngineProcessSource:
    """Implements ``BlockingSource[Mapping[str, EngineHostReading]]``: readings by the engine's URL.

    An engine has none before its processes were seen, and keeps its own after they have gone. The source
    looks every 2 s, more rarely where a look costs more than 4 ms, and keeps its figures between.

    Args:
        proc: where procfs is mounted.
        sys: where sysfs is mounted.
        monotonic: the clock.
        thread_time: CPU seconds used by the calling thread.
    """

    name = "engine processes"

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        monotonic: Callable[[], float] = time.monotonic,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self.doing = ""
        self._proc, self._sys = os.fspath(proc), os.fspath(sys)
        self._monotonic, self._thread_time = monotonic, thread_time
        self._trees: Mapping[str, EngineTree] = {}
        self._engines: dict[str, _Engine] = {}
        self._readings: Mapping[str, EngineHostReading] = {}
        self._due = 0.0
        self._looks = 0

    def watch(self, trees: Mapping[str, EngineTree]) -> None:
        """From the next look on, look at these; the mapping is read on another thread and must not change."""
        self._trees = trees

    def read(self) -> Mapping[str, EngineHostReading]:
        """The newest readings; rates are None at the first look at an engine."""
        now, trees = self._monotonic(), self._trees
        new = {url for url, tree in trees.items() if tree.processes} - self._engines.keys()
        if now < self._due and not new:
            return self._readings
        began = self._thread_time()
        for gone in self._engines.keys() - trees.keys():
            del self._engines[gone]
        for url in new:
            self._engines[url] = _Engine(self._proc, self._sys)
        readings = {}
        try:
            for url, engine in self._engines.items():
                self.doing = f"reading the processes of {url}"
                readings[url] = engine.read(trees[url], now)
        finally:
            self.doing = ""
        cost = self._thread_time() - began
        period = min(_PERIOD_MAX_S, max(_PERIOD_S, cost / _CPU_SHARE))
        # a tenth less, or a caller whose second is a millisecond short would be served a second late
        self._due = now + (_FIRST_WINDOW_S if new else 0.9 * period)
        self._readings = readings
        return readings

    def close(self) -> None:
        """Nothing is held between readings."""


class _Engine:
    """The meters of one engine."""

    def __init__(self, proc: str, sys: str) -> None:
        self._proc = proc
        self._threads, self._io, self._cgroup = ThreadMeter(proc), IoMeter(proc), CgroupMeter(proc, sys)
        self._connections = _Connections()
        self._connections_due = 0.0
        self._filesystem: tuple[tuple[int, int], str | None] | None = None

    def read(self, tree: EngineTree, now: float) -> EngineHostReading:
        processes = tuple(process for process in tree.processes if not process.zombie)
        server = processes[0] if processes else None
        threads = self._threads.scan(processes, now)
        io = self._io.read(processes, now)
        cgroup = self._cgroup.read(None if server is None else server.pid, now)
        if now >= self._connections_due:
            self._connections, self._connections_due = _connections(processes), now + _CONNECTIONS_S
        connections = self._connections
        model_fs = self._model_fs(server, tree.model_device)
        return EngineHostReading(
            window_s=threads.window_s,
            threads=threads.threads,
            thread_count=threads.count,
            busy_threads=threads.busy,
            cpu_pct=threads.cpu_pct,
            wait_pct=threads.wait_pct,
            switches_s=threads.switches_s,
            voluntary_s=threads.voluntary_s,
            involuntary_s=threads.involuntary_s,
            futex_share=threads.futex_share,
            quota_cores=cgroup.quota_cores,
            throttled_share=cgroup.throttled_share,
            cgroup_mem_mib=cgroup.mem_mib,
            cgroup_mem_max_mib=cgroup.mem_max_mib,
            oom_kills=cgroup.oom_kills,
            oom_age_s=cgroup.oom_age_s,
            psi_cpu=cgroup.psi_cpu,
            psi_io=cgroup.psi_io,
            psi_mem=cgroup.psi_mem,
            disk_read_mb_s=io.disk_read_mb_s,
            read_mb_s=io.read_mb_s,
            disk_write_mb_s=io.disk_write_mb_s,
            read_total_mib=io.read_total_mib,
            model_fs=model_fs,
            model_fs_remote=None if model_fs is None else is_remote(model_fs),
            backlog=connections.backlog,
            backlog_limit=connections.limit,
            connections=connections.established,
            missing=tuple(_missing(threads, io, cgroup, connections)) if processes else (),
        )

    def _model_fs(self, server: EngineProcess | None, device: int | None) -> str | None:
        if server is None or device is None:
            return None
        key = server.pid, device
        if self._filesystem is None or self._filesystem[0] != key:
            try:
                found = filesystem(self._proc, server.pid, device)
            except OSError:
                found = None  # it ends, or its mounts are another user's: the figure is left out
            self._filesystem = key, found
        return self._filesystem[1]


def _connections(processes: tuple[EngineProcess, ...]) -> _Connections:
    server = next((p for p in processes if p.listening and p.port is not None), None)
    if server is None or server.port is None:
        return _Connections()
    if server.other_network:
        return _Connections(
            why="its port is in a network namespace of its own", enable="run in its network namespace"
        )
    try:
        queue = sock_diag.backlog(server.port)
        waiting, limit = queue if queue is not None else (None, None)
        return _Connections(waiting, limit, sock_diag.established(server.port))
    except OSError as error:
        return _Connections(
            why=f"the kernel tells of no sockets: {error.strerror or error}", enable="a kernel with inet_diag"
        )


def _missing(
    threads: ThreadFigures, io: IoFigures, cgroup: CgroupFigures, connections: _Connections
) -> Iterator[Missing]:
    if threads.waits_hidden:
        why = "what its threads wait for (wchan) is hidden"
        yield Missing("futex_share", why, "run as root, or with CAP_SYS_PTRACE")
    if threads.no_waits:
        why = "the kernel keeps no run-queue statistics (schedstat)"
        yield Missing("wait_pct", why, "a kernel with CONFIG_SCHEDSTATS")
    if io.hidden:
        yield Missing("read_mb_s", "what another user's processes read is hidden", "run as root")
    if cgroup.why:
        yield Missing("quota_cores", cgroup.why, "run on the host, not in a container beside it")
    if connections.why:
        yield Missing("backlog", connections.why, connections.enable)
