"""Figures of the moment that need no second reading: memory, load, pressure."""

from __future__ import annotations

from dataclasses import dataclass

from tui.sources.kernel.procfs import read_start


@dataclass(frozen=True, slots=True)
class Memory:
    """Main memory. Used is what could not be had without swapping: total less MemAvailable."""

    used_mib: float | None = None
    total_mib: float | None = None
    used_pct: float | None = None
    swap_used_mib: float | None = None
    swap_total_mib: float | None = None
    """0 on a host without swap."""


def memory(path: str) -> Memory:
    """Memory from a ``meminfo``; raises OSError, ValueError (``MemAvailable`` needs Linux 3.14)."""
    wanted = (b"MemTotal", b"MemAvailable", b"SwapTotal", b"SwapFree")
    rows = (line.partition(b":") for line in read_start(path).split(b"\n"))
    found = {name: int(rest.split()[0]) for name, _, rest in rows if name in wanted}
    total, available, swap, free = (found.get(name) for name in wanted)
    if not total or available is None:
        raise ValueError("no MemTotal or no MemAvailable")
    used = max(0, total - available)
    return Memory(
        used / 1024.0,
        total / 1024.0,
        100.0 * used / total,
        None if swap is None or free is None else (swap - free) / 1024.0,
        None if swap is None else swap / 1024.0,
    )


def load1(path: str) -> float:
    """The one-minute load from a ``loadavg``; raises OSError, ValueError."""
    return float(read_start(path, 128).split(None, 1)[0])


def pressure(path: str) -> float:
    """Percent of the last 10 s in which some task waited for the resource; raises OSError, ValueError."""
    for line in read_start(path, 512).split(b"\n"):
        if line.startswith(b"some "):
            return float(line.partition(b"avg10=")[2].split(None, 1)[0])
    raise ValueError("no line of kind some")
