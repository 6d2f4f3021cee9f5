"""What an operator should know of links, swap and control groups while they are not the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.text import clean
from tui.model.units import data_rate, gib, number, seconds
from tui.model.verdicts import Finding
from tui.verdict.gpu_signals import slow_link
from tui.verdict.own_evidence import link
from tui.verdict.own_signals import RECENT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.engine_host import EngineHostReading
    from tui.model.readings import GpuReading, HostReading
    from tui.model.settings import Thresholds
    from tui.model.verdicts import Verdict

SWAPPING_MB_S = 5.0
"""Pages go out and come in all the time; swap that was used once and is left alone harms nobody."""
MEMORY_PRESSURE_PCT = 10.0


def of_link(gpu: GpuReading) -> Iterator[Finding]:
    """A PCIe link that is narrower than it could be, or older while the device works."""
    if slow_link(gpu):
        yield Finding("gpu-pcie-link", "warning", "host", link(gpu))
    if gpu.nvlinks and gpu.nvlinks_up is not None and gpu.nvlinks_up < gpu.nvlinks:
        text = f"GPU {gpu.index} has {gpu.nvlinks_up} of {gpu.nvlinks} NVLinks up"
        yield Finding("gpu-nvlink-down", "warning", "host", text)


def of_swap(host: HostReading) -> Iterator[Finding]:
    """Memory that goes to the disk and back."""
    moved = max(host.swap_in_mb_s or 0.0, host.swap_out_mb_s or 0.0)
    if moved >= SWAPPING_MB_S:
        rates = f"in {data_rate(host.swap_in_mb_s)}, out {data_rate(host.swap_out_mb_s)}"
        text = f"the host swaps: {rates}, {gib(host.swap_used_mib)} GiB out"
        yield Finding("swapping", "warning", "host", text)
    if host.oom_kills and (host.oom_age_s or 0.0) <= RECENT_S:
        ago = f", the last {seconds(host.oom_age_s)} ago" if host.oom_age_s is not None else ""
        text = f"the kernel ended {host.oom_kills} processes of this host for memory{ago}"
        yield Finding("host-oom-kill", "warning", "host", text)


def of_engine(
    scope: str, own: EngineHostReading, verdict: Verdict, thresholds: Thresholds
) -> Iterator[Finding]:
    """Limits of its control group that are met, and a model that lies far away."""
    if own.oom_kills and own.oom_age_s is not None and own.oom_age_s <= RECENT_S:
        text = (
            f"the kernel ended {own.oom_kills} processes of its control group for memory, "
            f"the last {seconds(own.oom_age_s)} ago"
        )
        yield Finding("oom-kill", "error", scope, text)
    if (own.psi_mem or 0.0) >= MEMORY_PRESSURE_PCT and own.cgroup_mem_max_mib is not None:
        sizes = f"{gib(own.cgroup_mem_mib)} of {gib(own.cgroup_mem_max_mib)} GiB"
        text = f"memory of its control group is short: {sizes}, pressure {number(own.psi_mem)} %"
        yield Finding("cgroup-memory", "warning", scope, text)
    share = own.throttled_share or 0.0
    if share >= thresholds.throttled_ratio and verdict.verdict != "cpu":
        text = (
            f"its CPU quota of {number(own.quota_cores, 1)} cores ran out in {100 * share:.0f} % of periods"
        )
        yield Finding("cpu-throttled", "warning", scope, text)
    if own.model_fs_remote and verdict.verdict == "loading":
        text = f"its model lies on {own.model_fs}, over a network: every start reads it again"
        yield Finding("model-remote", "info", scope, clean(text))
