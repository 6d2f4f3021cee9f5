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


def memory(path: str) -> Memory:
    """Memory from a ``meminfo``; raises OSError, ValueError (``MemAvailable`` needs Linux 3.14)."""
    total = available = None
    for line in read_start(path).split(b"\n"):
        if line.startswith(b"MemTotal:"):
            total = int(line.split()[1])
        elif line.startswith(b"MemAvailable:"):
            available = int(line.split()[1])
            break
    if not total or available is None:
        raise ValueError("no MemTotal or no MemAvailable")
    used = max(0, total - available)
    return Memory(used / 1024.0, total / 1024.0, 100.0 * used / total)


def load1(path: str) -> float:
    """The one-minute load from a ``loadavg``; raises OSError, ValueError."""
    return float(read_start(path, 128).split(None, 1)[0])


def pressure(path: str) -> float:
    """Percent of the last 10 s in which some task waited for the resource; raises OSError, ValueError."""
    for line in read_start(path, 512).split(b"\n"):
        if line.startswith(b"some "):
            return float(line.partition(b"avg10=")[2].split(None, 1)[0])
    raise ValueError("no line of kind some")
