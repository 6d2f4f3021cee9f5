"""Who stands above and below a process, and what makes it that process and no later one."""

from __future__ import annotations

from typing import NamedTuple

from tui.model.text import clean
from tui.sources.command_line import redact, split
from tui.sources.kernel.procfs import PPID, START, STATE, numbered, parse_stat, read_start

_MOST = 64
"""No process is deeper below init."""
_CMDLINE_MAX = 1 << 16


class Stat(NamedTuple):
    """Of ``/proc/PID/stat``."""

    comm: str
    ppid: int
    start_ticks: int
    """Clock ticks from boot to its start."""
    zombie: bool


class Kin(NamedTuple):
    """A process above another."""

    pid: int
    comm: str
    arguments: tuple[str, ...]
    """Redacted; empty where they cannot be read."""


def stat_of(pid: int, proc: str = "/proc") -> Stat | None:
    """What the kernel says of a process; None where there is none, or none that we may see."""
    try:
        parsed = parse_stat(read_start(f"{proc}/{pid}/stat", 512))
    except OSError:
        return None
    if parsed is None:
        return None
    comm, fields = parsed
    name = clean(comm.decode("utf-8", "replace"), 64)
    return Stat(name, int(fields[PPID]), int(fields[START]), fields[STATE] in (b"Z", b"X"))


def ancestors(pid: int, proc: str = "/proc") -> tuple[Kin, ...]:
    """The processes above one, its parent first, init last; fewer where they cannot be seen."""
    found: list[Kin] = []
    stat = stat_of(pid, proc)
    while stat is not None and stat.ppid > 0 and len(found) < _MOST:
        above = stat.ppid
        stat = stat_of(above, proc)
        if stat is not None:
            found.append(Kin(above, stat.comm, _arguments(above, proc)))
    return tuple(found)


def descendants(pid: int, proc: str = "/proc") -> tuple[int, ...]:
    """Every process below one at this instant, parents before their children.

    Raises:
        OSError: the process table cannot be read.
    """
    children: dict[int, list[int]] = {}
    for name in numbered(proc):
        stat = stat_of(int(name), proc)
        if stat is not None:
            children.setdefault(stat.ppid, []).append(int(name))
    found: dict[int, None] = {}
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(0), ()):
            if child not in found and child != pid:
                found[child] = None
                waiting.append(child)
    return tuple(found)


def _arguments(pid: int, proc: str) -> tuple[str, ...]:
    try:
        return redact(split(read_start(f"{proc}/{pid}/cmdline", _CMDLINE_MAX)))
    except OSError:
        return ()
