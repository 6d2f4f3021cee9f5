"""What the kernel says of a zoomed engine's own processes, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.engine_host import ROLE_WORDS
from tui.model.units import count, gib, megabytes_per_s, number, percent, seconds
from tui.ui.lines import narrow

if TYPE_CHECKING:
    from tui.model.engine_host import EngineHostReading, ThreadUse


def own_facts(own: EngineHostReading | None) -> list[tuple[str, list[str]]]:
    """Labels, each with what is known under it; none where nothing was read."""
    if own is None:
        return []
    missing = [f"{m.field}: {m.why}" + (f" ({m.enable})" if m.enable else "") for m in own.missing]
    return [
        ("threads", [_thread(thread) for thread in own.threads]),
        ("its CPU", _cpu(own)),
        ("its group", _group(own)),
        ("its reads", _reads(own)),
        ("its port", _port(own)),
        ("kernel hides", [narrow(text, 120) for text in missing]),
    ]


def _thread(thread: ThreadUse) -> str:
    name = f" {narrow(thread.name, 24)}" if thread.name else ""
    waits = f", waits {percent(thread.wait_pct)} %" if (thread.wait_pct or 0.0) >= 1.0 else ""
    return f"{ROLE_WORDS[thread.role]}{name} {percent(thread.cpu_pct)} %{waits}"


def _cpu(own: EngineHostReading) -> list[str]:
    if own.cpu_pct is None:
        return []
    found = [
        f"{percent(own.cpu_pct)} % in {count(own.thread_count)} threads ({count(own.busy_threads)} busy)"
    ]
    found += [f"waits for a core {percent(own.wait_pct)} %"] if own.wait_pct is not None else []
    found += [f"{count(own.switches_s)} switches/s"] if own.switches_s is not None else []
    found += [f"on futexes {100 * own.futex_share:.0f} %"] if own.futex_share is not None else []
    return found


def _group(own: EngineHostReading) -> list[str]:
    found = []
    if own.quota_cores is not None:
        often = f", used up in {100 * own.throttled_share:.0f} % of periods" if own.throttled_share else ""
        found.append(f"CPU quota {number(own.quota_cores, 1)} cores{often}")
    if own.cgroup_mem_mib is not None:
        most = f" of {gib(own.cgroup_mem_max_mib)}" if own.cgroup_mem_max_mib is not None else ""
        found.append(f"memory {gib(own.cgroup_mem_mib)}{most} GiB")
    if own.oom_kills:
        found.append(f"{own.oom_kills} processes ended for memory")
    stalls = (("cpu", own.psi_cpu), ("io", own.psi_io), ("memory", own.psi_mem))
    known = [f"{name} {number(value)} %" for name, value in stalls if value is not None]
    return found + ([f"pressure {', '.join(known)}"] if known else [])


def _reads(own: EngineHostReading) -> list[str]:
    found = []
    if own.read_mb_s is not None or own.disk_read_mb_s is not None:
        disk = megabytes_per_s(own.disk_read_mb_s)
        found.append(f"{megabytes_per_s(own.read_mb_s)} MB/s, {disk} of it from disk")
    if own.load_left_s is not None:
        sizes = f"{gib(own.read_total_mib)} of {gib(own.weights_mib)} GiB"
        found.append(f"weights {sizes}, at least {seconds(own.load_left_s)} left")
    if own.model_fs is not None:
        found.append(
            f"model on {narrow(own.model_fs, 24)}" + (", over a network" if own.model_fs_remote else "")
        )
    return found


def _port(own: EngineHostReading) -> list[str]:
    found = [f"{own.connections} connections"] if own.connections is not None else []
    if own.backlog is not None:
        most = f" of {own.backlog_limit}" if own.backlog_limit is not None else ""
        found.append(f"{own.backlog}{most} wait to be accepted")
    return found
