"""What the control group of an engine grants it: CPU quota, memory, and how often it hit the limits.

Both versions: where a controller is still one of version 1, its own hierarchy is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tui.sources.kernel.gauges import pressure
from tui.sources.kernel.procfs import read_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOOK_AGAIN_S = 30.0  # limits are changed by people, and rarely
_DEEPEST: Final = 16
_UNLIMITED: Final = 1 << 60
"""Version 1 prints the greatest multiple of a page for "no limit"."""


class CgroupFigures(NamedTuple):
    """As in ``EngineHostReading``."""

    quota_cores: float | None = None
    throttled_share: float | None = None
    mem_mib: float | None = None
    mem_max_mib: float | None = None
    oom_kills: int | None = None
    oom_age_s: float | None = None
    psi_cpu: float | None = None
    psi_io: float | None = None
    psi_mem: float | None = None
    why: str = ""
    """Why there is nothing."""


class _Groups(NamedTuple):
    """The folders of one process's group, each None where its controller has none."""

    unified: str | None
    cpu: str | None
    memory: str | None
    versions: tuple[int, int] = (2, 2)
    """Of the CPU and the memory controller."""


class CgroupMeter:
    """Reads one engine's group, and goes on after its processes have ended, as long as the group is there.

    Args:
        proc: where procfs is mounted.
        sys: where sysfs is mounted, with the control groups below it.
    """

    def __init__(self, proc: str, sys: str) -> None:
        self._proc, self._root = proc, f"{sys}/fs/cgroup"
        self._looked: float | None = None
        self._pid: int | None = None
        self._groups: _Groups | None = None
        self._quota: tuple[float, str] | None = None
        self._limit: tuple[float, str] | None = None
        self._periods: tuple[int, int] | None = None
        self._throttled: float | None = None
        self._kills: tuple[str, int] | None = None
        self._killed: int | None = None
        self._killed_at: float | None = None

    def read(self, pid: int | None, now: float) -> CgroupFigures:
        """One reading.

        Args:
            pid: the engine's server; None: it has gone.
            now: monotonic seconds.
        """
        if pid is not None and (
            pid != self._pid or self._looked is None or now - self._looked >= _LOOK_AGAIN_S
        ):
            try:
                self._find(pid)
            except (OSError, ValueError) as error:
                self._groups = None
                return CgroupFigures(why=f"{self._proc}/{pid}/cgroup: {_reason(error)}")
            self._pid, self._looked = pid, now
        groups = self._groups
        if groups is None:
            return CgroupFigures()
        self._read_throttling(groups)
        self._read_kills(groups, now)
        used, most = self._memory(groups)
        return CgroupFigures(
            quota_cores=None if self._quota is None else self._quota[0],
            throttled_share=self._throttled,
            mem_mib=used,
            mem_max_mib=most,
            oom_kills=self._killed,
            oom_age_s=None if self._killed_at is None else now - self._killed_at,
            psi_cpu=_pressure(groups.unified, "cpu"),
            psi_io=_pressure(groups.unified, "io"),
            psi_mem=_pressure(groups.unified, "memory"),
        )

    # -------------------------------------------------------------------------------- where

    def _find(self, pid: int) -> None:
        groups = _groups(self._proc, self._root, pid)
        if self._groups is None or groups.cpu != self._groups.cpu:
            self._periods = self._throttled = None
        self._groups = groups
        quota = _quota_v1 if groups.versions[0] == 1 else _quota_v2
        limit = _limit_v1 if groups.versions[1] == 1 else _limit_v2
        self._quota = min(self._limits(groups.cpu, quota), default=None)
        self._limit = min(self._limits(groups.memory, limit), default=None)

    def _limits(self, folder: str | None, read: Callable[[str], float | None]) -> Iterator[tuple[float, str]]:
        """Limits of a group and of those above it, each with the folder that sets it."""
        for _ in range(_DEEPEST):
            if folder is None or not folder.startswith(self._root) or folder == self._root:
                return
            try:
                value = read(folder)
            except (OSError, ValueError):  # the root of a hierarchy has no limits, nor has a group without
                value = None  # that controller
            if value is not None:
                yield value, folder
            folder = folder.rpartition("/")[0]

    # -------------------------------------------------------------------------------- figures

    def _read_throttling(self, groups: _Groups) -> None:
        if self._quota is None:
            self._periods = self._throttled = None
            return
        try:
            table = _table(f"{self._quota[1]}/cpu.stat")
            after = table[b"nr_periods"], table[b"nr_throttled"]
        except (OSError, ValueError, KeyError):
            self._periods = self._throttled = None
            return
        before, self._periods = self._periods, after
        if before is not None and after[0] >= before[0]:
            periods = after[0] - before[0]
            # no period has passed in which anything wanted to run: nothing was held up
            self._throttled = min(1.0, max(0.0, (after[1] - before[1]) / periods)) if periods else 0.0

    def _read_kills(self, groups: _Groups, now: float) -> None:
        folder = groups.memory
        if folder is None:
            return
        try:
            name = "memory.oom_control" if groups.versions[1] == 1 else "memory.events"
            count = _table(f"{folder}/{name}")[b"oom_kill"]
        except (OSError, ValueError, KeyError):
            return  # the group has gone with its last process: what was seen of it stands
        if self._kills is None or self._kills[0] != folder:
            self._kills, self._killed = (folder, count), (self._killed or 0)
        elif count > self._kills[1]:
            self._killed = (self._killed or 0) + count - self._kills[1]
            self._kills, self._killed_at = (folder, count), now

    def _memory(self, groups: _Groups) -> tuple[float | None, float | None]:
        """MiB used of the tightest limit, and that limit; of the own group where there is none."""
        most, folder = self._limit or (None, groups.memory)
        if folder is None:
            return None, None
        name = "memory.usage_in_bytes" if groups.versions[1] == 1 else "memory.current"
        try:
            used = int(read_start(f"{folder}/{name}", 64))
        except (OSError, ValueError):
            return None, None if most is None else most / 2**20
        return used / 2**20, None if most is None else most / 2**20


def _groups(proc: str, root: str, pid: int) -> _Groups:
    """Raises OSError; ValueError where the group lies outside what is mounted here."""
    lines = read_start(f"{proc}/{pid}/cgroup", 16384).decode("utf-8", "replace").splitlines()
    rows = [line.split(":", 2) for line in lines if line.count(":") >= 2]
    if any("/.." in path for _, _, path in rows):
        raise ValueError("the control group lies outside this container")
    paths = {name: path for _, names, path in rows for name in names.split(",")}
    at = {name: f"{root}/{names}{path}".rstrip("/") for _, names, path in rows for name in names.split(",")}
    base = root if Path(root, "cgroup.controllers").exists() else f"{root}/unified"
    unified = f"{base}{paths['']}".rstrip("/") if "" in paths else None
    cpu, memory = at.get("cpu"), at.get("memory")
    return _Groups(
        unified,
        cpu if cpu is not None else unified,
        memory if memory is not None else unified,
        (1 if cpu is not None else 2, 1 if memory is not None else 2),
    )


def _quota_v2(folder: str) -> float | None:
    quota, period = read_start(f"{folder}/cpu.max", 64).split()
    return None if quota == b"max" else int(quota) / int(period)


def _quota_v1(folder: str) -> float | None:
    quota = int(read_start(f"{folder}/cpu.cfs_quota_us", 64))
    return None if quota <= 0 else quota / int(read_start(f"{folder}/cpu.cfs_period_us", 64))


def _limit_v2(folder: str) -> float | None:
    text = read_start(f"{folder}/memory.max", 64).strip()
    return None if text == b"max" else float(text)


def _limit_v1(folder: str) -> float | None:
    value = int(read_start(f"{folder}/memory.limit_in_bytes", 64))
    return None if value >= _UNLIMITED else float(value)


def _table(path: str) -> dict[bytes, int]:
    rows = (line.split() for line in read_start(path).splitlines())
    return {words[0]: int(words[1]) for words in rows if len(words) == 2}


def _pressure(folder: str | None, resource: str) -> float | None:
    if folder is None:
        return None
    try:
        return pressure(f"{folder}/{resource}.pressure")
    except (OSError, ValueError):
        return None  # a kernel without PSI, or without it for groups


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or "unreadable" if isinstance(error, OSError) else str(error)
