"""The threads of one engine: who uses the CPU, who waits for it, who hands locks around.

One read of ``schedstat`` a thread gives run time, wait time and how often it ran; names, the kinds of its
switches and what it waits for cost three more, and are asked of the few threads that matter.
"""

from __future__ import annotations

import heapq
import os
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tui.model.engine_host import ThreadUse
from tui.model.text import clean
from tui.sources.kernel.procfs import STIME, UTIME, numbered, parse_stat, read_start

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.model.readings import EngineProcess, ProcessRole

_SHOWN = 6  # threads of an engine, and one of each role beside them
_INTO = 16  # threads whose switches and waits are looked into
_BUSY_PCT = 5.0
_SWITCHES_S = 20.0  # a thread that runs more often than this works; one of an idle pool sleeps on a futex too
_LOOKS_KEPT = 20  # scans whose looks at waits are counted together
_LOOKS_LEAST = 20
_NAMES: tuple[tuple[str, ProcessRole], ...] = (
    ("detok", "detokenizer"),
    ("tokeniz", "tokenizer"),
    ("rayon", "tokenizer"),  # the pool of the tokenizers library, which is all that an engine uses rayon for
)


@dataclass(frozen=True, slots=True)
class ThreadFigures:
    """As in ``EngineHostReading``; all None before the second scan."""

    window_s: float | None = None
    threads: tuple[ThreadUse, ...] = ()
    count: int = 0
    busy: int | None = None
    cpu_pct: float | None = None
    wait_pct: float | None = None
    switches_s: float | None = None
    voluntary_s: float | None = None
    involuntary_s: float | None = None
    futex_share: float | None = None
    waits_hidden: bool = False
    """What threads wait for cannot be read here."""
    no_waits: bool = False
    """The kernel keeps no run-queue statistics."""


class _Spent(NamedTuple):
    """What a thread has used since its start."""

    run_ns: int
    wait_ns: int | None
    runs: int | None


class _Thread(NamedTuple):
    """A thread's share of the window."""

    pid: int
    tid: str
    cpu_pct: float
    wait_pct: float | None
    switches_s: float | None


_Key = tuple[int, str]


class ThreadMeter:
    """Differences the threads of one engine over its own last scan.

    Args:
        proc: where procfs is mounted.
    """

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._at: float | None = None
        self._known: frozenset[tuple[int, int | None]] = frozenset()
        self._before: dict[_Key, _Spent] = {}
        self._switched: dict[_Key, tuple[int, int]] = {}
        self._looks: deque[tuple[int, int]] = deque(maxlen=_LOOKS_KEPT)

    def scan(self, processes: Iterable[EngineProcess], now: float) -> ThreadFigures:
        """One look at every thread; processes that have ended since they were listed are left out.

        Args:
            processes: the engine's.
            now: monotonic seconds.
        """
        alive = {process.pid: process for process in processes if not process.zombie}
        after = {(pid, tid): spent for pid in alive for tid, spent in self._spent(pid)}
        since = 0.0 if self._at is None else now - self._at
        before, known = self._before, self._known
        self._before, self._at = after, now
        self._known = frozenset((p.pid, p.start_ticks) for p in alive.values())
        if since <= 0:
            return ThreadFigures(count=len(after))
        threads = []
        for key, spent in after.items():
            was = before.get(key)
            if was is None:
                process = alive[key[0]]
                if (process.pid, process.start_ticks) not in known:
                    continue  # what it has used since its start is no part of this window
                was = _Spent(0, None if spent.wait_ns is None else 0, None if spent.runs is None else 0)
            if spent.run_ns >= was.run_ns:
                threads.append(_share(key, was, spent, since))
        return self._figures(alive, threads, len(after), since)

    def _figures(
        self, alive: dict[int, EngineProcess], threads: list[_Thread], count: int, since: float
    ) -> ThreadFigures:
        waits = [(t.cpu_pct, t.wait_pct) for t in threads if t.wait_pct is not None]
        wanted = sum(run + wait for run, wait in waits)
        switching = heapq.nlargest(_INTO, threads, key=self._interest)
        rates = self._switches(switching, since)
        restless = [t for t in switching if (t.switches_s or 0.0) >= _SWITCHES_S]
        hidden = self._look(restless, threads)
        looks = sum(made for _, made in self._looks)
        shown = _shown(alive, heapq.nlargest(4 * _SHOWN, threads, key=lambda t: t.cpu_pct))
        told = bool(waits) or not threads
        return ThreadFigures(
            window_s=since,
            threads=tuple(self._use(alive[t.pid], t, rates.get((t.pid, t.tid))) for t in shown),
            count=count,
            busy=sum(t.cpu_pct >= _BUSY_PCT for t in threads),
            cpu_pct=sum(t.cpu_pct for t in threads),
            wait_pct=100.0 * sum(wait for _, wait in waits) / wanted
            if wanted > 0
            else 0.0
            if waits
            else None,
            switches_s=sum(t.switches_s or 0.0 for t in threads) if waits else None,
            voluntary_s=sum(v for v, _ in rates.values()) if rates else None,
            involuntary_s=sum(i for _, i in rates.values()) if rates else None,
            futex_share=(
                sum(found for found, _ in self._looks) / looks
                if looks >= _LOOKS_LEAST and not hidden
                else None
            ),
            waits_hidden=hidden,
            no_waits=not told,
        )

    def _interest(self, thread: _Thread) -> tuple[float, float]:
        # a rate takes two looks: who was looked into is so again, unless another switches twice as much
        seen = 2.0 if (thread.pid, thread.tid) in self._switched else 1.0
        return seen * (thread.switches_s or 0.0), thread.cpu_pct

    # -------------------------------------------------------------------------------- reads

    def _spent(self, pid: int) -> list[tuple[str, _Spent]]:
        folder = f"{self._proc}/{pid}/task"
        found = []
        try:
            tids = numbered(folder)
        except OSError:
            return []
        for tid in tids:
            try:
                words = read_start(f"{folder}/{tid}/schedstat", 128).split()
                spent = _Spent(int(words[0]), int(words[1]), int(words[2]))
                if not spent.runs:  # a kernel that keeps no such statistics prints zeros
                    spent = self._ticks(f"{folder}/{tid}")
            except (OSError, ValueError, IndexError):
                try:
                    spent = self._ticks(f"{folder}/{tid}")
                except (OSError, ValueError):
                    continue  # it has ended since the listing
            found.append((tid, spent))
        return found

    def _ticks(self, folder: str) -> _Spent:
        """CPU time in steps of 10 ms; raises OSError, ValueError."""
        parsed = parse_stat(read_start(f"{folder}/stat", 512))
        if parsed is None:
            raise ValueError("not a stat")
        fields = parsed[1]
        return _Spent((int(fields[UTIME]) + int(fields[STIME])) * self._tick_ns, None, None)

    def _switches(self, threads: list[_Thread], since: float) -> dict[_Key, tuple[float, float]]:
        """Voluntary and involuntary switches a second of those looked into at this scan and the last."""
        before, after = self._switched, {}
        rates: dict[_Key, tuple[float, float]] = {}
        for thread in threads:
            key = thread.pid, thread.tid
            try:
                data = read_start(f"{self._proc}/{thread.pid}/task/{thread.tid}/status", 8192)
                after[key] = voluntary, forced = (
                    _field(data, b"\nvoluntary_ctxt_switches:"),
                    _field(data, b"\nnonvoluntary_ctxt_switches:"),
                )
            except (OSError, ValueError):
                continue  # it has ended
            was = before.get(key)
            if was is not None and voluntary >= was[0] and forced >= was[1]:
                rates[key] = (voluntary - was[0]) / since, (forced - was[1]) / since
        self._switched = after
        return rates

    def _look(self, restless: list[_Thread], threads: list[_Thread]) -> bool:
        """Count those that sleep now, and those that do on a futex; true where the kernel does not tell us.

        Those that run or wait for a core are left out: how many these are is the load's doing.
        """
        if not restless:
            return False
        found = [self._wait(t) for t in restless]
        if all(wait in (b"", b"0") for wait in found):
            # they may all be running: one that sleeps tells whether waits can be seen at all
            sleeper = min(threads, key=lambda t: (t.switches_s or 0.0, t.cpu_pct))
            if self._wait(sleeper) in (b"", b"0") and not sleeper.cpu_pct:
                return True
        asleep = [wait for wait in found if wait not in (b"", b"0")]
        self._looks.append((sum(wait.startswith(b"futex") for wait in asleep), len(asleep)))
        return False

    def _wait(self, thread: _Thread) -> bytes:
        try:
            return read_start(f"{self._proc}/{thread.pid}/task/{thread.tid}/wchan", 64)
        except OSError:
            return b""

    def _use(self, process: EngineProcess, thread: _Thread, rate: tuple[float, float] | None) -> ThreadUse:
        name = process.title
        if thread.tid != str(thread.pid) or not name:
            try:
                comm = read_start(f"{self._proc}/{thread.pid}/task/{thread.tid}/comm", 64)
                name = clean(comm.decode("utf-8", "replace"), 32)
            except OSError:
                name = process.comm  # it has ended
        return ThreadUse(
            pid=thread.pid,
            tid=int(thread.tid),
            role=_role(process.role, name),
            name=name,
            cpu_pct=thread.cpu_pct,
            wait_pct=thread.wait_pct,
            switches_s=thread.switches_s,
            voluntary_s=None if rate is None else rate[0],
            involuntary_s=None if rate is None else rate[1],
        )


def _share(key: _Key, was: _Spent, now: _Spent, since: float) -> _Thread:
    window_ns = since * 1e9
    wait = switches = None
    if now.wait_ns is not None and was.wait_ns is not None:
        wait = min(100.0, max(0.0, 100.0 * (now.wait_ns - was.wait_ns) / window_ns))
    if now.runs is not None and was.runs is not None:
        switches = max(0, now.runs - was.runs) / since
    run = min(100.0, 100.0 * (now.run_ns - was.run_ns) / window_ns)
    return _Thread(key[0], key[1], run, wait, switches)


def _shown(alive: dict[int, EngineProcess], busiest: list[_Thread]) -> list[_Thread]:
    """The busiest, and the first of each role that is not among them."""
    shown = busiest[:_SHOWN]
    roles = {alive[t.pid].role for t in shown}
    for thread in busiest[_SHOWN:]:
        role = alive[thread.pid].role
        if role not in roles:
            roles.add(role)
            shown.append(thread)
    return shown


def _role(role: ProcessRole, name: str) -> ProcessRole:
    """What a thread does where its own name tells more than its process does."""
    lower = name.lower()
    return next((known for start, known in _NAMES if lower.startswith(start)), role)


def _field(data: bytes, name: bytes) -> int:
    at = data.index(name) + len(name)
    return int(data[at : at + 24].split(b"\n", 1)[0])
