"""Bottlenecks of the devices: real work, a clock held down, or transfers that everything waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tui.verdict import evidence as ev
from tui.verdict import own_evidence as own
from tui.verdict.gpu_signals import LOAD_SM_PCT, clock_ratio
from tui.verdict.outcome import Outcome, at_rest, cannot_say, fires, quiet

if TYPE_CHECKING:
    from tui.model.readings import GpuReading
    from tui.model.verdicts import Evidence
    from tui.verdict.gpu_signals import Throttled
    from tui.verdict.signals import Signals

MEM_CTRL_HIGH_PCT = 50.0
"""A decode step that is bound by memory bandwidth keeps the controller busier than this."""
DRAM_HIGH = 0.5
"""As above, of the profiling counters: share of the bandwidth in use."""
ACTIVE_HIGH = 0.8
LINE_RATES_MB_S = (125.0, 312.5, 625.0, 1250.0, 3125.0, 5000.0, 6250.0, 12500.0, 25000.0, 50000.0)
"""1 to 400 Gbit/s Ethernet and InfiniBand, in 10^6 bytes a second."""
LINE_FULL_RATIO = 0.85
BIG_NET_MB_S = 1000.0
"""More than any front end needs, images included: the ranks talk to each other."""


def compute(s: Signals) -> Outcome:
    """The device does real work without a pause, and users wait for it."""
    gpus, limits = s.gpus, s.thresholds
    if not s.suffers:
        return at_rest(s, ev.sm(s, limits.sm_high_pct), ev.worst_latency(s))
    if gpus.sm_max is None:
        return cannot_say("gpus.sm_pct")
    shown = (
        ev.sm(s, limits.sm_high_pct),
        ev.power(s),
        ev.clock(s),
        ev.mem_ctrl(s),
        own.profile(s),
        ev.waiting(s),
        ev.worst_latency(s),
        ev.late_tokens(s),
        ev.prompt_tokens(s) if _prefills(s) else ev.tokens(s),
    )
    full = bool(s.seats_full) and (s.waiting or 0.0) > 0
    if not s.pressed or full or s.throttled:
        return quiet(*shown)
    if gpus.sm_max < limits.sm_high_pct:
        nearly = gpus.sm_max >= limits.sm_low_pct and (gpus.power_ratio_max or 0.0) >= 0.8
        return fires(1, *shown) if nearly and not s.thread_full else quiet(*shown)
    power, moves = gpus.power_ratio_max, _moves(s)
    if gpus.resident_only and not moves:
        return quiet(*shown)
    if power is None and not moves:
        return cannot_say("gpus.power_w", evidence=shown)
    if power is not None and power < limits.power_low_ratio and not moves:
        return quiet(*shown)  # resident, not working
    hot = power is not None and power >= limits.power_high_ratio
    fast = gpus.clock_ratio_max is not None and gpus.clock_ratio_max >= limits.clock_high_ratio
    real = (gpus.active_max or 0.0) >= ACTIVE_HIGH  # measured, where NVML's utilisation only supposes it
    points = hot + moves + (fast and (hot or moves)) + real + s.over
    at_it = [gpu for gpu in gpus.loaded if (gpu.sm_pct or 0.0) >= limits.sm_high_pct]
    slow = gpus.clock_ratio_max is not None and not fast
    # ranks that compute together are all at it, and their clocks are high
    return fires(min(points, 2) if slow or 2 * len(at_it) < len(gpus.loaded) else points, *shown)


def _moves(s: Signals) -> bool:
    """The memory is at work, as it is where kernels do anything."""
    return (s.gpus.mem_ctrl_max or 0.0) >= MEM_CTRL_HIGH_PCT or (s.gpus.dram_max or 0.0) >= DRAM_HIGH


def _prefills(s: Signals) -> bool:
    engine = s.engine
    return engine is not None and (engine.prompt_tok_s or 0.0) > 5.0 * (engine.gen_tok_s or 0.0)


def power_thermal(s: Signals) -> Outcome:
    """The clock is held down under load, and users notice."""
    gpus, limits = s.gpus, s.thresholds
    if not s.suffers:
        return at_rest(s, ev.clock(s), ev.worst_latency(s))
    if s.throttled:
        return _bites(s, s.throttled[0])
    known = any(g.clock_sm_mhz is not None and g.clock_max_mhz for g in gpus.loaded)
    if not known and (gpus.sm_max or 100.0) >= limits.sm_low_pct:
        told = any(gpu.throttle is not None for gpu in gpus.loaded)
        return cannot_say("gpus.clock_sm_mhz", *(() if told else ("gpus.throttle",)))
    if any(_may_be_throttled(gpu, limits.clock_low_ratio) for gpu in gpus.loaded):
        return cannot_say("gpus.throttle", evidence=(ev.clock(s), ev.temperature(s)))
    return quiet(ev.clock(s), ev.temperature(s))


def _may_be_throttled(gpu: GpuReading, limit: float) -> bool:
    """Its clock is low under load, and why that is cannot be read."""
    ratio = clock_ratio(gpu)
    works = gpu.sm_pct is None or gpu.sm_pct >= LOAD_SM_PCT
    return gpu.throttle is None and works and ratio is not None and ratio < limit


def _bites(s: Signals, worst: Throttled) -> Outcome:
    limits = s.thresholds
    shown = (
        *ev.throttle(s, worst),
        ev.temperature(s),
        ev.worst_latency(s),
    )
    full = bool(s.seats_full) and s.queueing
    if full and not worst.hard:
        return quiet(*shown)  # a cap that every busy card meets; the seats end first
    slow = worst.clock_ratio is not None
    hottest = s.gpus.hottest
    hot = hottest is not None and (hottest.temp_c or 0.0) >= limits.temp_high_c
    # a low clock that nothing explains is one signal; it needs the users' word for it
    points = bool(worst.reasons) + slow + (hot or worst.hard) + s.pressed
    if not worst.reasons and not s.pressed and s.latency:
        return (
            quiet(*shown) if worst.gpu.throttle is not None else cannot_say("gpus.throttle", evidence=shown)
        )
    known = {"gpus.throttle": worst.gpu.throttle, "gpus.clock_sm_mhz": worst.clock_ratio}
    return fires(points, *shown, missing=tuple(name for name, value in known.items() if value is None))


def network(s: Signals) -> Outcome:
    """Ranks wait for each other's tensors or for a KV transfer: tokens come, slowly, on idle devices."""
    gpus, limits = s.gpus, s.thresholds
    if not s.pressed:
        return quiet()
    if not s.suffers:
        return at_rest(s)
    net = s.net_mb_s
    full_link = _full_link(s)
    busy_link = full_link or (net is not None and net >= limits.net_mb_s)
    shown = _transfers(s)
    if gpus.sm_max is None:
        waits = s.over and (len(gpus.loaded) > 1 or (gpus.power_ratio_max or 1.0) < limits.power_low_ratio)
        return cannot_say("gpus.sm_pct", evidence=shown) if busy_link or waits else quiet(*shown)
    moves = _moves(s)
    spinning = (
        gpus.sm_max >= limits.sm_high_pct
        and gpus.power_ratio_max is not None
        and gpus.power_ratio_max < limits.power_low_ratio
        and not moves
        and not s.throttled
    )
    if spinning and s.flow is None:
        return cannot_say(
            "gen_tok_s", evidence=shown
        )  # with tokens they wait for transfers, without they hang
    if spinning and (gpus.card_count > 1 or busy_link):
        return fires(2 + busy_link + (gpus.mem_ctrl_max is not None and s.over), *shown)
    if gpus.sm_max >= limits.sm_high_pct and gpus.power_ratio_max is None and gpus.card_count > 1:
        return cannot_say("gpus.power_w", evidence=shown)
    waits = gpus.sm_max < limits.sm_low_pct or ((gpus.power_ratio_max or 1.0) < 0.6 and not moves)
    if full_link and waits:
        return fires(2 + s.over, *shown)
    if busy_link and net is not None and waits:
        full_line = _full_line(s) is not None
        if s.thread_full and not full_line and net < BIG_NET_MB_S:
            return quiet(*shown)
        return fires(1 + s.over + (full_line or net >= BIG_NET_MB_S), *shown)
    if gpus.sm_max < limits.sm_low_pct:
        if net is None:
            return cannot_say("net_mb_s")
        if _nothing_else(s):
            return fires(1 + bool(gpus.slow_links), *shown, ev.thread(s))
    return quiet(*shown)


def _transfers(s: Signals) -> tuple[Evidence | None, ...]:
    """What the links carry, then what the devices do meanwhile."""
    return (
        _network(s),
        own.interface(s),
        own.infiniband(s),
        own.pcie(s),
        own.nvlink(s),
        ev.sm(s, s.thresholds.sm_high_pct),
        ev.power(s),
        ev.mem_ctrl(s),
        own.profile(s),
        ev.worst_latency(s),
        ev.tokens(s),
    )


def _full_line(s: Signals) -> float | None:
    """The line rate that the traffic is at, in MB/s, where no interface tells its speed."""
    net = s.net_mb_s
    if net is None or s.host is None or s.host.net_util_pct is not None:
        return None
    return next((rate for rate in LINE_RATES_MB_S if LINE_FULL_RATIO <= net / rate <= 1.02), None)


@ev.line
def _network(s: Signals) -> Evidence | None:
    known = ev.host(s, "net_mb_s", "MB/s", s.thresholds.net_mb_s, "network")
    rate = _full_line(s)
    if known is None or rate is None:
        return known
    return replace(known, text=f"{known.text}: a link of {rate * 8e-3:g} Gbit/s would be full")


def _full_link(s: Signals) -> bool:
    """An interface, an adapter or a PCIe link carries all that it can; False where none tells."""
    host, limit = s.host, s.thresholds.net_util_pct
    shares = (
        host.net_util_pct if host else None,
        host.ib_util_pct if host else None,
        None if s.gpus.pcie_ratio_max is None else 100.0 * s.gpus.pcie_ratio_max,
    )
    return any(share is not None and share >= limit for share in shares)


def _nothing_else(s: Signals) -> bool:
    """Several devices wait while the host is quiet: links between devices are on no meter of the host."""
    gpus, host = s.gpus, s.host
    return (
        len(gpus.loaded) > 1
        and s.over
        and not s.decode_in_target  # ranks exchange tensors for every token
        and host is not None
        and s.thread is not None
        and s.thread < 60.0
        and not s.uneven()
        and not s.switches_high()
        and (host.psi_io or 0.0) < 10.0
        and (host.iowait_pct or 0.0) < 10.0
        and (host.cpu_pct_total or 0.0) < 50.0
    )
