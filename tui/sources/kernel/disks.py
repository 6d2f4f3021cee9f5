"""Rates of whole disks from /proc/diskstats."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui.model.readings import DiskReading
from tui.model.text import clean
from tui.sources.kernel.devices import DeviceSet
from tui.sources.kernel.procfs import read_file, read_start

if TYPE_CHECKING:
    from collections.abc import Callable

_SECTOR = 512  # the unit of diskstats whatever the device's own block size
# Memory, files, optical and floppy drives, and what lies on top of other disks and would count twice.
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "zd", "drbd", "bcache")


class _Counters(NamedTuple):
    reads: int
    read_sectors: int
    read_ms: int
    writes: int
    written_sectors: int
    write_ms: int
    busy_ms: int


class DiskMeter:
    """Differences /proc/diskstats over its own last reading, for the disks that stand for themselves.

    Args:
        proc: where procfs is mounted.
        sys: where sysfs is mounted; /sys/block tells disks from partitions.
        monotonic: the clock.
    """

    def __init__(self, proc: str, sys: str, monotonic: Callable[[], float]) -> None:
        self.path = f"{proc}/diskstats"
        self._monotonic = monotonic
        self._whole = DeviceSet(f"{sys}/block", _is_whole_disk, monotonic)
        self._at = 0.0
        self._before: dict[bytes, _Counters] = {}

    def read(self) -> tuple[DiskReading, ...]:
        """Every whole disk, rates None on the first reading; raises OSError, ValueError."""
        at = self._monotonic()
        lines = [line.split() for line in read_file(self.path).splitlines()]
        rows = {words[2]: words for words in lines if len(words) >= 14}
        whole = self._whole.among(rows)
        counters = {name: _counters(rows[name]) for name in rows if name in whole}
        before, since, self._before, self._at = self._before, at - self._at, counters, at
        return tuple(_reading(name, before.get(name), after, since) for name, after in counters.items())


def _counters(words: list[bytes]) -> _Counters:
    numbers = (words[3], words[5], words[6], words[7], words[9], words[10], words[12])
    return _Counters._make(map(int, numbers))


def _is_whole_disk(folder: str) -> bool:
    """Whether an entry of /sys/block is a disk with a medium that is no path or stack of others."""
    if folder.rpartition("/")[2].startswith(_NOT_DISKS):
        return False
    try:
        if int(read_start(f"{folder}/size", 64)) == 0:
            return False
    except (OSError, ValueError):
        return False
    try:
        # one path of a multipath NVMe disk: its head counts the same transfers
        return read_start(f"{folder}/hidden", 16).strip() != b"1"
    except OSError:
        return True  # kernels before 4.15 have no such file, nor such paths


def _rate(before: int, after: int, since: float) -> float | None:
    return (after - before) / since if after >= before and since > 0 else None


def _megabytes(rate: float | None) -> float | None:
    return None if rate is None else rate * _SECTOR / 1e6


def _reading(name: bytes, before: _Counters | None, after: _Counters, since: float) -> DiskReading:
    shown = clean(name.decode("utf-8", "replace"), 64)
    if before is None or since <= 0:
        return DiskReading(shown)
    busy = _rate(before.busy_ms, after.busy_ms, since)
    # completed transfers: without any there is no wait to speak of, and after a reset or a wrap
    # (the times are 32-bit milliseconds) none that could be trusted
    done = after.reads - before.reads + after.writes - before.writes
    waited = after.read_ms - before.read_ms, after.write_ms - before.write_ms
    known = done > 0 and after.reads >= before.reads and after.writes >= before.writes and min(waited) >= 0
    return DiskReading(
        name=shown,
        r_s=_rate(before.reads, after.reads, since),
        w_s=_rate(before.writes, after.writes, since),
        read_mb_s=_megabytes(_rate(before.read_sectors, after.read_sectors, since)),
        write_mb_s=_megabytes(_rate(before.written_sectors, after.written_sectors, since)),
        util_pct=None if busy is None else min(100.0, busy / 10.0),
        await_ms=sum(waited) / done if known else None,
    )
