"""Bytes that the processes of one engine have read and written, from /proc/PID/io."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui.sources.kernel.procfs import read_start

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.model.readings import EngineProcess


class IoFigures(NamedTuple):
    """Rates in 10^6 bytes a second; None on the first reading and where nothing may be read."""

    disk_read_mb_s: float | None = None
    read_mb_s: float | None = None
    disk_write_mb_s: float | None = None
    read_total_mib: float | None = None
    """The greater of both kinds of reads since the processes began."""
    hidden: bool = False
    """Another user's: these figures need root."""


class _Bytes(NamedTuple):
    calls: int
    """``rchar``: what read calls returned, from wherever; mapped files are not in it."""
    read: int
    """``read_bytes``: what came from a device, page faults of mapped files included."""
    written: int


class IoMeter:
    """Differences the counters over its own last reading.

    Args:
        proc: where procfs is mounted.
    """

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._at: float | None = None
        self._before: dict[tuple[int, int | None], _Bytes] = {}

    def read(self, processes: Iterable[EngineProcess], now: float) -> IoFigures:
        """One reading.

        Args:
            processes: the engine's.
            now: monotonic seconds.
        """
        after: dict[tuple[int, int | None], _Bytes] = {}
        hidden = False
        for process in processes:
            if process.zombie:
                continue
            try:
                after[process.pid, process.start_ticks] = _counters(
                    read_start(f"{self._proc}/{process.pid}/io", 512)
                )
            except PermissionError:
                hidden = True
            except (OSError, ValueError):
                continue  # it has ended since it was listed, or the kernel keeps no such account
        since = 0.0 if self._at is None else now - self._at
        before, self._before, self._at = self._before, after, now
        if not after:
            return IoFigures(hidden=hidden)
        total = max(sum(b.calls for b in after.values()), sum(b.read for b in after.values())) / 2**20
        if since <= 0:
            return IoFigures(read_total_mib=total, hidden=hidden)
        # of one that is new here only what it read since is known: it may have begun long ago
        pairs = [(before[key], counted) for key, counted in after.items() if key in before]
        if not pairs:
            return IoFigures(read_total_mib=total, hidden=hidden)

        def rate(field: int) -> float:
            return sum(max(0, b[field] - a[field]) for a, b in pairs) / since / 1e6

        return IoFigures(rate(1), rate(0), rate(2), total, hidden)


def _counters(data: bytes) -> _Bytes:
    found = dict(line.split(b": ", 1) for line in data.splitlines() if b": " in line)
    try:
        return _Bytes(int(found[b"rchar"]), int(found[b"read_bytes"]), int(found[b"write_bytes"]))
    except KeyError as error:
        raise ValueError(f"no {error}") from None
