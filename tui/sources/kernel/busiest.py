"""The busiest process and thread of the host: a scan of /proc that bounds its own cost.

One look at a process costs some 15 microseconds, so 2,000 of them are not looked at every second. A thread
is never busier than its process, so only the busiest processes are looked into.
"""

from __future__ import annotations

import heapq
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tui.sources.kernel.procfs import (
    START,
    STIME,
    THREADS,
    UTIME,
    full_name,
    numbered,
    parse_stat,
    read_start,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_PERIOD_S = 2.0
_PERIOD_MAX_S = 30.0
_CPU_SHARE = 0.01  # of a core: a scan that costs 20 ms comes every 2 s, one of 50 ms every 5 s
_FIRST_WINDOW_S = 0.2  # shorter, and a tick of 10 ms is more than 5 %
_INTO = 4  # processes whose threads are looked at
_INTO_FIRST = 16  # on the first scan: nobody is known to be busy yet
_THREADS_MAX = 512  # looked at in one scan; the busiest process is looked into whatever it has
_ENGINES = (b"VLLM::", b"vllm", b"sglang", b"tritonserver", b"trtllm")


@dataclass(frozen=True, slots=True)
class Busiest:
    """Percent of one core over the time between the last two scans; None until there were two."""

    process: str | None = None
    process_pid: int | None = None
    process_pct: float | None = None
    """May pass 100."""
    thread: str | None = None
    thread_pid: int | None = None
    """The process that owns the thread."""
    thread_pct: float | None = None
    """Never above 100."""


class _Seen(NamedTuple):
    """A process as a scan found it; the first field orders."""

    ticks: float
    pid: str
    comm: bytes
    threads: int
    fresh: bool
    """It did not exist at the scan before."""


class BusiestMeter:
    """Scans /proc every 2 s, more rarely where a scan costs more than 20 ms, and keeps the figures between.

    Args:
        proc: where procfs is mounted.
        monotonic: the clock.
        thread_time: CPU seconds used by the calling thread.
    """

    def __init__(
        self,
        proc: str,
        monotonic: Callable[[], float],
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._proc = proc
        self._monotonic = monotonic
        self._thread_time = thread_time
        self._hz = os.sysconf("SC_CLK_TCK")
        self._at: float | None = None
        self._due = 0.0
        self._ticks: dict[str, tuple[bytes, int, bytes]] = {}
        """By pid, as the last scan found it: its start, its ticks, and the text that they are from."""
        self._threads: dict[str, dict[str, int]] = {}
        self._figures = Busiest()

    def read(self) -> Busiest:
        """The newest figures; raises OSError where /proc cannot be listed."""
        now = self._monotonic()
        if self._at is None or now >= self._due:
            began = self._thread_time()
            self._figures = self._scan(now)
            cost = self._thread_time() - began
            period = min(_PERIOD_MAX_S, max(_PERIOD_S, cost / _CPU_SHARE))
            # a second scan at once makes the first figures; a tenth less, or a caller whose second
            # is a millisecond short would be served a second late
            self._due = now + (_FIRST_WINDOW_S if self._at is None else 0.9 * period)
            self._at = now
        return self._figures

    def _scan(self, now: float) -> Busiest:
        first = self._at is None
        since = 0.0 if self._at is None else now - self._at
        seen = self._processes(first)
        candidates = heapq.nlargest(_INTO_FIRST if first else _INTO, seen)
        chosen = {process.pid for process in candidates}
        candidates += [p for p in seen if p.comm.startswith(_ENGINES) and p.pid not in chosen]
        thread = self._busiest_thread(candidates, first)
        if first or since <= 0:
            return Busiest()
        if not seen:
            return Busiest(process_pct=0.0, thread_pct=0.0)
        top = candidates[0]
        per_tick = 100.0 / self._hz / since
        if thread is None:
            return Busiest(full_name(self._proc, top.pid, top.comm), int(top.pid), top.ticks * per_tick)
        ticks, owner, comm = thread
        return Busiest(
            process=full_name(self._proc, top.pid, top.comm),
            process_pid=int(top.pid),
            process_pct=top.ticks * per_tick,
            thread=full_name(self._proc, owner, comm),
            thread_pid=int(owner),
            thread_pct=min(100.0, ticks * per_tick),
        )

    def _processes(self, first: bool) -> list[_Seen]:
        """Processes that used CPU since the last scan; on the first scan since they began."""
        before, after = self._ticks, {}
        seen: list[_Seen] = []
        proc = self._proc
        newest = 0
        for pid in numbered(proc):
            try:
                stat = read_start(f"{proc}/{pid}/stat", 512)
            except OSError:
                continue  # it has ended since the listing
            was = before.get(pid)
            if (
                was is not None and was[2] == stat
            ):  # it has slept: most have, and parsing is a third of a look
                after[pid] = was
                continue
            parsed = parse_stat(stat)
            if parsed is None:
                continue
            comm, fields = parsed
            start, ticks = fields[START], int(fields[UTIME]) + int(fields[STIME])
            after[pid] = start, ticks, stat
            fresh = was is None or was[0] != start
            used = ticks if was is None or fresh else ticks - was[1]
            if first:
                newest = max(newest, int(start))
            if used > 0 or first:
                seen.append(_Seen(used, pid, comm, int(fields[THREADS]), fresh and not first))
        self._ticks = after
        if not first:
            return seen
        # a rate, or the daemons that have been up for a month would stand before the engine that spins
        return [p._replace(ticks=p.ticks / (newest - int(after[p.pid][0]) + self._hz)) for p in seen]

    def _busiest_thread(self, candidates: list[_Seen], first: bool) -> tuple[int, str, bytes] | None:
        """Ticks, owner and name of the busiest thread, as far as the last scan knew the threads.

        A process that is looked into for the first time although it is old has no figures yet: its threads
        are counted from the next scan on.
        """
        best: tuple[int, str, bytes] | None = None
        known: dict[str, dict[str, int]] = {}
        left = _THREADS_MAX
        for process in candidates:
            if process.threads == 1:
                if not first and (best is None or process.ticks > best[0]):
                    best = int(process.ticks), process.pid, process.comm
                continue
            if known and process.threads > left:
                continue
            left -= process.threads
            before = None if process.fresh else self._threads.get(process.pid)
            threads = _thread_ticks(f"{self._proc}/{process.pid}/task")
            known[process.pid] = {tid: ticks for tid, (ticks, _) in threads.items()}
            if before is None and not process.fresh:
                continue
            for tid, (ticks, comm) in threads.items():
                used = ticks - (0 if before is None else before.get(tid, 0))
                if best is None or used > best[0]:
                    best = used, process.pid, comm
        self._threads = known
        return best


def _thread_ticks(folder: str) -> dict[str, tuple[int, bytes]]:
    """CPU ticks and name of each thread of a process; empty once it has ended."""
    found: dict[str, tuple[int, bytes]] = {}
    try:
        tids = numbered(folder)
    except OSError:
        return found
    for tid in tids:
        try:
            parsed = parse_stat(read_start(f"{folder}/{tid}/stat", 512))
        except OSError:
            continue  # it has ended since the listing
        if parsed is not None:
            comm, fields = parsed
            found[tid] = int(fields[UTIME]) + int(fields[STIME]), comm
    return found
