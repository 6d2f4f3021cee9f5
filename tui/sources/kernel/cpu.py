"""CPU shares and context switches from /proc/stat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.sources.kernel.procfs import read_file

if TYPE_CHECKING:
    from collections.abc import Callable

_IDLE, _IOWAIT = 3, 4
_COUNTED = 8  # user nice system idle iowait irq softirq steal; guest time is inside user and nice


@dataclass(frozen=True, slots=True)
class CpuFigures:
    """Shares over the time since the last reading; None on the first one and after a reset."""

    cores: int
    """Cores that are online."""
    total_pct: float | None = None
    """0-100 of all cores; time stolen by a hypervisor counts as busy."""
    per_core_pct: tuple[float, ...] | None = None
    """0-100 each, in the order of the core numbers."""
    iowait_pct: float | None = None
    """0-100 of all cores."""
    ctx_switches_s: float | None = None


class CpuMeter:
    """Differences /proc/stat over its own last reading.

    Args:
        proc: where procfs is mounted.
        monotonic: the clock.
    """

    def __init__(self, proc: str, monotonic: Callable[[], float]) -> None:
        self.path = f"{proc}/stat"
        self._monotonic = monotonic
        self._at = 0.0
        self._times: dict[bytes, tuple[int, ...]] = {}
        self._switches: int | None = None

    def read(self) -> CpuFigures:
        """One reading; raises OSError, or ValueError where the file is not what it should be."""
        at = self._monotonic()
        times, switches = _parse(read_file(self.path))
        before, since, self._times, self._at = self._times, at - self._at, times, at
        switches_before, self._switches = self._switches, switches
        total, iowait = _shares(before.get(b"cpu"), times[b"cpu"])
        cores = [name for name in times if name != b"cpu"]
        shares = [_shares(before.get(name), times[name])[0] for name in cores]
        known = tuple(share for share in shares if share is not None)
        rate = None
        if switches is not None and switches_before is not None and switches >= switches_before and since > 0:
            rate = (switches - switches_before) / since
        return CpuFigures(
            cores=len(cores),
            total_pct=total,
            # a core that came or went leaves a hole: the row of figures would shift under its labels
            per_core_pct=known if len(known) == len(cores) == len(before) - 1 else None,
            iowait_pct=iowait,
            ctx_switches_s=rate,
        )


def _parse(data: bytes) -> tuple[dict[bytes, tuple[int, ...]], int | None]:
    times: dict[bytes, tuple[int, ...]] = {}
    switches = None
    for line in data.split(b"\n"):
        if line.startswith(b"cpu"):
            words = line.split(None, _COUNTED + 1)
            times[words[0]] = tuple(map(int, words[1 : _COUNTED + 1]))
            if len(times[words[0]]) <= _IOWAIT:
                raise ValueError("cpu line without iowait")
        elif line.startswith(b"ctxt "):
            switches = int(line[5:])
            break  # the interrupt line before it may hold thousands of figures: it was skipped unsplit
    if b"cpu" not in times:
        raise ValueError("no cpu line")
    return times, switches


def _shares(before: tuple[int, ...] | None, after: tuple[int, ...]) -> tuple[float | None, float | None]:
    """Busy and iowait percent of the time between two lines."""
    if before is None:
        return None, None
    total = sum(after) - sum(before)
    if total <= 0:
        return None, None
    # idle and iowait may each step back a little (proc_stat(5)), which must not show as busy
    idle = max(0, after[_IDLE] - before[_IDLE])
    iowait = max(0, after[_IOWAIT] - before[_IOWAIT])
    busy = 100.0 * (total - idle - iowait) / total
    return min(100.0, max(0.0, busy)), min(100.0, 100.0 * iowait / total)
