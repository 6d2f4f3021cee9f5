"""Lines of evidence from an engine's own processes, its links and its adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.units import count, data_rate, gib, number, seconds
from tui.model.verdicts import Evidence
from tui.verdict.evidence import line
from tui.verdict.own_signals import RECENT_S

if TYPE_CHECKING:
    from tui.model.readings import GpuReading
    from tui.verdict.signals import Signals


@line
def throttled(s: Signals) -> Evidence | None:
    """How often the engine's control group ran out of its CPU quota."""
    own = s.own.reading
    if own is None or own.throttled_share is None or own.quota_cores is None:
        return None
    often = f"{100 * own.throttled_share:.0f} % of periods"
    text = f"CPU quota of {number(own.quota_cores, 1)} cores used up in {often}"
    return Evidence("throttled_share", own.throttled_share, "", ">=", s.thresholds.throttled_ratio, text)


@line
def run_wait(s: Signals) -> Evidence | None:
    """For how much of their time the engine's threads wait for a core."""
    wait = s.own.reading.wait_pct if s.own.reading else None
    if wait is None:
        return None
    text = f"its threads wait for a core {number(wait)} % of the time that they want one"
    return Evidence("wait_pct", wait, "%", ">=", s.thresholds.run_wait_pct, text)


@line
def futex(s: Signals) -> Evidence | None:
    """How often its restless threads were found waiting for a lock."""
    own = s.own.reading
    if own is None or own.futex_share is None:
        return None
    text = f"its restless threads sleep on a futex in {100 * own.futex_share:.0f} % of looks"
    return Evidence("futex_share", own.futex_share, "", ">=", s.thresholds.futex_ratio, text)


@line
def switches(s: Signals) -> Evidence | None:
    """How often its threads switch, and how much of that is of their own will."""
    own = s.own.reading
    if own is None or own.switches_s is None:
        return None
    known = (own.voluntary_s or 0.0) + (own.involuntary_s or 0.0)
    will = f", {100 * (own.voluntary_s or 0.0) / known:.0f} % voluntary" if known > 0 else ""
    text = f"{count(own.switches_s)} switches/s of {own.thread_count} threads{will}"
    return Evidence("engine_switches_s", own.switches_s, "1/s", text=text)


@line
def reads(s: Signals) -> Evidence | None:
    """What its processes read, and where the model lies."""
    own, rate = s.own.reading, s.own.reads_mb_s()
    if own is None or rate is None or rate < 1.0:
        return None
    where = f" from {own.model_fs}" if own.model_fs else ""
    remote = ", over a network" if own.model_fs_remote else ""
    cached = (own.read_mb_s or 0.0) > 2.0 * (own.disk_read_mb_s or 0.0) and not remote
    text = f"reads {data_rate(rate)}{where}{remote}{', mostly from the page cache' if cached else ''}"
    return Evidence("engine_read_mb_s", rate, "MB/s", "", s.thresholds.disk_read_mb_s, text)


@line
def time_left(s: Signals) -> Evidence | None:
    """How long the weights still take at this rate."""
    own = s.own.reading
    if own is None or own.load_left_s is None or own.weights_mib is None or own.read_total_mib is None:
        return None
    sizes = f"{gib(own.read_total_mib)} of {gib(own.weights_mib)} GiB"
    text = f"weights: {sizes} read, at least {seconds(own.load_left_s)} left"
    return Evidence("load_left_s", own.load_left_s, "s", text=text)


@line
def backlog(s: Signals) -> Evidence | None:
    """Connections that nobody accepts."""
    own = s.own.reading
    if own is None or own.backlog is None:
        return None
    most = f" of {own.backlog_limit}" if own.backlog_limit is not None else ""
    text = f"{own.backlog}{most} connections wait to be accepted"
    return Evidence("backlog", float(own.backlog), "", ">=", s.thresholds.backlog, text)


@line
def connections(s: Signals) -> Evidence | None:
    """Connections against requests."""
    found = s.own.reading.connections if s.own.reading else None
    if found is None:
        return None
    requests = (s.running or 0.0) + (s.waiting or 0.0)
    text = f"{found} connections for {count(requests)} requests"
    return Evidence("connections", float(found), "", text=text)


@line
def out_of_memory(s: Signals) -> Evidence | None:
    """That the kernel ended a process for memory: of its control group, else of the host."""
    own, host = s.own.reading, s.host
    if s.own.ended_for_memory() and own is not None:
        kills, age, where = own.oom_kills, own.oom_age_s, "of its control group"
    elif host is not None and host.oom_kills and (host.oom_age_s or 0.0) <= RECENT_S:
        kills, age, where = host.oom_kills, host.oom_age_s, "of this host"
    else:
        return None
    ago = f" {seconds(age)} ago" if age is not None else ""
    text = f"the kernel ended a process {where} for memory{ago}"
    return Evidence("oom_kills", float(kills or 0), "", ">", 0.0, text)


@line
def interface(s: Signals) -> Evidence | None:
    """The interface that is nearest to its speed."""
    host = s.host
    if host is None or host.net_util_pct is None or not host.net_busiest:
        return None
    text = (
        f"{host.net_busiest} {number(host.net_busiest_mb_s)} of {number(host.net_speed_mb_s)} MB/s "
        f"({number(host.net_util_pct)} %)"
    )
    return Evidence("net_util_pct", host.net_util_pct, "%", ">=", s.thresholds.net_util_pct, text)


@line
def infiniband(s: Signals) -> Evidence | None:
    """Traffic of the InfiniBand adapters."""
    host = s.host
    if host is None or host.ib_rx_mb_s is None or host.ib_tx_mb_s is None:
        return None
    text = f"InfiniBand in {data_rate(host.ib_rx_mb_s)}, out {data_rate(host.ib_tx_mb_s)}"
    if host.ib_util_pct is None:
        return Evidence("ib_mb_s", host.ib_rx_mb_s + host.ib_tx_mb_s, "MB/s", text=text)
    text += f", {host.ib_port} at {number(host.ib_util_pct)} % of its rate"
    return Evidence("ib_util_pct", host.ib_util_pct, "%", ">=", s.thresholds.net_util_pct, text)


@line
def pcie(s: Signals) -> Evidence | None:
    """The first device whose PCIe link is below its maximum, else the busiest link where it is full."""
    gpus = s.gpus
    if gpus.slow_links:
        return Evidence("pcie_link", link(gpus.slow_links[0]), text=link(gpus.slow_links[0]))
    ratio = gpus.pcie_ratio_max
    if ratio is None or 100.0 * ratio < s.thresholds.net_util_pct:
        return None
    text = f"PCIe at {100 * ratio:.0f} % of what the link carries"
    return Evidence("pcie_ratio", round(ratio, 3), "", ">=", s.thresholds.net_util_pct / 100.0, text)


@line
def nvlink(s: Signals) -> Evidence | None:
    """Traffic between the devices, and links that are down."""
    rates = [(g.nvlink_tx_mb_s or 0.0) + (g.nvlink_rx_mb_s or 0.0) for g in s.gpus.loaded if g.nvlinks]
    if not rates:
        return None
    down = sum((g.nvlinks or 0) - (g.nvlinks_up or 0) for g in s.gpus.loaded if g.nvlinks_up is not None)
    lost = f", {down} links down" if down else ""
    return Evidence("nvlink_mb_s", max(rates), "MB/s", text=f"NVLink {data_rate(max(rates))}{lost}")


@line
def profile(s: Signals) -> Evidence | None:
    """What the profiling counters say that a busy device really does."""
    gpus = s.gpus
    if gpus.active_max is None:
        return None
    parts = [f"SM active {100 * gpus.active_max:.0f} %"]
    parts += [f"tensor {100 * gpus.tensor_max:.0f} %"] if gpus.tensor_max is not None else []
    parts += [f"DRAM {100 * gpus.dram_max:.0f} %"] if gpus.dram_max is not None else []
    return Evidence("gpm_sm_active", gpus.active_max, "", text=", ".join(parts))


def link(gpu: GpuReading) -> str:
    """A PCIe link beside what it could be."""
    now = f"gen{gpu.pcie_gen or '?'} x{gpu.pcie_width or '?'}"
    most = f"gen{gpu.pcie_gen_max or '?'} x{gpu.pcie_width_max or '?'}"
    return f"GPU {gpu.index} PCIe link {now} of {most}"
