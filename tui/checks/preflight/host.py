"""The host around the GPUs: disk, shared memory, limits of the process, orphans that hold GPU memory."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.checks.finding import CheckFinding
from tui.checks.preflight.gpus import chosen
from tui.model.text import clean
from tui.runtime.orphans import OrphanWatch
from tui.sources.kernel.visibility import is_gone
from tui.sources.processes import ProcessSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tui.checks.preflight.gpus import GpuLook
    from tui.checks.preflight.intent import Intent
    from tui.model.memory import Orphan

GIB: Final = 1 << 30
SHM: Final = "/dev/shm"
SHM_GIB: Final = 1.0
"""With several ranks: NCCL and the engines' message queues live there. Docker gives 64 MiB unasked."""
OPEN_FILES: Final = 65_535
"""What vLLM and SGLang raise their own limit to, where they may."""
_RAISES_ITSELF: Final = ("vllm", "sglang")
_INFINIBAND: Final = "/sys/class/infiniband"
_CACHES: Final = ("HF_HUB_CACHE", "HF_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR")


def disk_findings(intent: Intent, model: Path | None) -> Iterator[CheckFinding]:
    """Free space where the model lies and where engines keep what they download and compile.

    Each file system counts once. One that is read-only, such as a model volume, needs none.
    """
    seen: set[int] = set()
    places = [("the model directory", model)] if model is not None else []
    places += [("the cache", path) for path in _cache_folders(intent.environment)]
    for what, path in places:
        existing = _nearest(path)
        try:
            device, disk = existing.stat().st_dev, os.statvfs(existing)
        except OSError as error:
            text = f"disk of {what} ({clean(str(path))}): {clean(error.strerror or str(error))}"
            yield CheckFinding("disk", "warning", text, None, intent.min_disk_gib)
            continue
        if device in seen:
            continue
        seen.add(device)
        yield _disk(intent, f"{what} ({clean(str(path))})", disk)


def shm_finding(intent: Intent, path: str = SHM) -> CheckFinding:
    """The size of shared memory, which counts where an engine has several ranks."""
    several = intent.needed_gpus > 1
    limit = SHM_GIB if several else None
    try:
        disk = os.statvfs(path)
    except OSError as error:
        text = f"{path}: {clean(error.strerror or str(error))}"
        return CheckFinding("shm", "warning" if several else "ok", text, None, limit)
    size, free = disk.f_blocks * disk.f_frsize / GIB, disk.f_bavail * disk.f_frsize / GIB
    text = f"{path}: {_gib(size)}, {_gib(free)} free"
    if several and free < SHM_GIB:
        text += f"; an engine on {intent.needed_gpus} GPUs wants {SHM_GIB:g} GiB"
        text += " (Docker: --shm-size 16g or --ipc host)" if size < SHM_GIB else " (what lies there now?)"
        return CheckFinding("shm", "warning", text, round(free, 3), limit)
    return CheckFinding("shm", "ok", text, round(free, 3), limit)


def limit_findings(intent: Intent, infiniband: str = _INFINIBAND) -> Iterator[CheckFinding]:
    """Open files and locked memory, as the engine would inherit them."""
    soft, hard = (_shown(value) for value in resource.getrlimit(resource.RLIMIT_NOFILE))
    counts = hard if intent.engine in _RAISES_ITSELF else soft
    text = f"open files: {_limit(soft)}"
    if counts != soft and soft is not None and soft < OPEN_FILES:
        text += f", the engine raises it as far as it may: {_limit(hard)}"
    if counts is None or counts >= OPEN_FILES:
        yield CheckFinding("open-files", "ok", text, counts, OPEN_FILES)
    else:
        text += f"; {OPEN_FILES} wanted: each request holds one (ulimit -n, LimitNOFILE=)"
        yield CheckFinding("open-files", "warning", text, counts, OPEN_FILES)
    locked = _shown(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
    text = f"locked memory: {_limit(None if locked is None else locked >> 10, ' KiB')}"
    if locked is not None and intent.needed_gpus > 1 and _any_in(infiniband):
        text += "; InfiniBand between GPUs wants it unlimited (ulimit -l, LimitMEMLOCK=infinity)"
        yield CheckFinding("locked-memory", "warning", text, locked >> 10, "unlimited")
    else:
        yield CheckFinding("locked-memory", "ok", text, "unlimited" if locked is None else locked >> 10)


def orphan_findings(intent: Intent, seen: GpuLook | None) -> list[CheckFinding]:
    """Parts of dead engines, and GPU memory that belongs to no process, on the chosen devices.

    Args:
        intent: what is to be started.
        seen: the devices; None: only the process table is looked at.
    """
    table = ProcessSource().read()
    watch, found, wall = OrphanWatch(is_gone), None, time.time()
    for gpus in (seen.first, seen.last) if seen is not None else (None,):
        found = watch.update(table, gpus, wall)
    if seen is not None:
        ours = {row.index for row in chosen(intent, seen.last.gpus)[0]}
        found = tuple(o for o in found or () if not o.gpus or not ours.isdisjoint(o.gpus))
    if not found:
        text = "no orphans of engines"
        if not table.complete:
            text += f", as far as can be seen: {table.hidden}"
        return [CheckFinding("orphans", "ok", text, 0, 0)]
    return [CheckFinding("orphans", "warning", _orphan(o), o.gpu_mem_mib, 0) for o in found]


def _orphan(orphan: Orphan) -> str:
    where = f" of GPU {', '.join(map(str, orphan.gpus))}" if orphan.gpus else ""
    size = "" if orphan.gpu_mem_mib is None else f"{orphan.gpu_mem_mib:,.0f} MiB{where}"
    if orphan.pid is None:
        return f"{size or f'memory{where}'} in use: {orphan.why}"
    who = f"orphan pid {orphan.pid} {clean(orphan.name or '', 60)}".strip()
    ends = f"; to end it: {orphan.command}" if orphan.command else ""
    return f"{who}{f' holds {size}' if size else where}: {orphan.why}{ends}"


def _disk(intent: Intent, what: str, disk: os.statvfs_result) -> CheckFinding:
    free, least = disk.f_bavail * disk.f_frsize / GIB, intent.min_disk_gib
    if disk.f_flag & os.ST_RDONLY:
        return CheckFinding("disk", "ok", f"disk of {what}: read-only, none needed", None, None)
    text = f"disk of {what}: {_gib(free)} free"
    if free >= least:
        return CheckFinding("disk", "ok", text, round(free, 1), least)
    return CheckFinding("disk", "warning", f"{text}, {least:g} GiB wanted", round(free, 1), least)


def _cache_folders(environment: Mapping[str, str]) -> list[Path]:
    named = [Path(environment[name]) for name in _CACHES if environment.get(name)]
    home = Path(environment.get("HOME") or "/", ".cache")
    return [*named, Path(environment.get("XDG_CACHE_HOME") or home)]


def _nearest(path: Path) -> Path:
    """The folder itself, or the nearest above it that exists."""
    for candidate in (path, *path.absolute().parents):
        try:
            candidate.stat()
        except OSError:
            continue
        return candidate
    return path


def _any_in(folder: str) -> bool:
    try:
        return any(Path(folder).iterdir())
    except OSError:
        return False


def _shown(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


def _limit(value: int | None, unit: str = "") -> str:
    return "unlimited" if value is None else f"{value}{unit}"


def _gib(value: float) -> str:
    return f"{value * 1024:.0f} MiB" if value < 1 else f"{value:,.1f} GiB"
