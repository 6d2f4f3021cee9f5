"""Processes that hold memory of a device, with their names where the pid is one of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.readings import GpuProcess
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

_MIB = 1024.0 * 1024.0


def gpu_processes(found: Iterable[tuple[int, int | None]]) -> tuple[GpuProcess, ...]:
    """One entry for each process, the largest first.

    A process that uses several MIG instances is listed by NVML once for each: its memory is their sum,
    and unknown where one part is.

    Args:
        found: pid and bytes used; None where the driver does not know them.
    """
    used: dict[int, float | None] = {}
    for pid, size in found:
        mib = None if size is None else size / _MIB
        if pid in used:
            before = used[pid]
            mib = None if mib is None or before is None else before + mib
        used[pid] = mib
    order = sorted(used.items(), key=lambda item: (-(item[1] or 0.0), item[0]))
    return tuple(GpuProcess(pid, process_name(pid), mib) for pid, mib in order)


def process_name(pid: int) -> str | None:
    """The kernel's name of a process (at most 15 bytes); None where the pid is not one of this namespace.

    Read anew each time: engines rename their processes once they have started.
    """
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return clean(file.read(64).decode(errors="replace")) or None
    except OSError:  # it has ended, or the pid is of another PID namespace
        return None
