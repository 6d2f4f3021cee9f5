"""Bottlenecks of the host: a full thread, a lock that many wait for, a disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tui.verdict import evidence as ev
from tui.verdict import fits
from tui.verdict import own_evidence as own
from tui.verdict.outcome import Outcome, at_rest, cannot_say, fires, quiet
from tui.verdict.progress import starting
from tui.verdict.signals import MANY_THREADS_PCT

if TYPE_CHECKING:
    from tui.model.readings import HostReading
    from tui.model.verdicts import Evidence
    from tui.verdict.signals import Signals

HALF_IDLE_SM_PCT = 50.0
SLOW_READ_RATIO = 0.3
"""Of the rate that a good disk reaches: below it the disk, or the share, is what a start waits for."""
PROBE_SLOW_S = 0.1
"""Status routes answer in a few milliseconds unless their event loop is busy (SGLang's waits 1 s)."""


def cpu(s: Signals) -> Outcome:
    """A thread or the CPU quota is full, and the devices wait for it."""
    host, limits = s.host, s.thresholds
    if not s.suffers:
        return at_rest(s, ev.thread(s), ev.worst_latency(s))
    if host is None:
        return cannot_say("host")
    sm = s.gpus.sm_max
    if sm is not None and sm >= limits.sm_low_pct:
        if s.thread_full and s.pressed and sm < limits.sm_high_pct and not s.thread_elsewhere:
            return fires(1, ev.thread(s), ev.sm(s, limits.sm_high_pct, "<"), ev.worst_latency(s))
        return quiet(ev.sm(s, limits.sm_low_pct), ev.thread(s), own.throttled(s))
    total, quota = _quota(s, host)
    thread = _thread(s, host)
    starved = s.own.starved() and s.pressed
    if sm is None:
        nearly = s.pressed and _nearly_full(s, host, 0.0)
        return cannot_say("gpus.sm_pct") if thread or quota or starved or nearly else quiet(ev.thread(s))
    points = 1 + thread + quota  # the idle device is a signal of its own
    shown: tuple[Evidence | None, ...] = (
        ev.thread(s) if thread or not quota else None,
        ev.host(s, "busiest_process_cpu_pct", "%", None, "process") if s.thread is None else None,
        *(total if quota else ()),
        own.throttled(s) if s.own.throttled() else None,
        own.run_wait(s) if starved else None,
        ev.sm(s, limits.sm_low_pct, "<"),
        ev.worst_latency(s),
        ev.probe(s, "liveness") if _slow_probe(s) else None,
    )
    if thread or quota or starved:
        unknown = () if s.thread is not None else ("busiest_thread_cpu_pct",)
        return fires(points + starved + s.pressed + _slow_probe(s), *shown, missing=unknown)
    if s.pressed and _nearly_full(s, host, sm):
        return fires(1, *shown)
    if s.thread is None and host.busiest_process_cpu_pct is None and host.cpu_pct_total is None:
        return cannot_say("busiest_thread_cpu_pct", "cpu_pct_total")
    if s.thread is None:
        return cannot_say("busiest_thread_cpu_pct", evidence=shown)
    return quiet(*shown)


def _thread(s: Signals, host: HostReading) -> bool:
    """A thread that counts is full; a busy poller's only with users waiting."""
    if s.thread is None:
        process = host.busiest_process_cpu_pct
        return process is not None and s.thresholds.thread_busy_pct <= process < MANY_THREADS_PCT
    if not s.thread_full or s.thread_elsewhere:
        return False
    seats_end = s.seats_full and s.many_waiting and s.kv is not None and s.kv < s.thresholds.kv_usage_early
    if seats_end and s.thread_role is None and not _slow_probe(s):
        return False  # a core that polls looks the same; the seats explain the queue
    return s.pressed or s.front_full


def _quota(s: Signals, host: HostReading) -> tuple[tuple[Evidence | None, ...], bool]:
    """All cores together, or the quota, are full; not where half-busy threads fight for a lock."""
    limits = s.thresholds
    total = (host.cpu_pct_total or 0.0) >= limits.cpu_total_pct
    pressure = (host.psi_cpu or 0.0) >= limits.psi_cpu
    shown = (
        ev.host(s, "cpu_pct_total", "%", limits.cpu_total_pct, "cpu"),
        ev.host(s, "psi_cpu", "%", limits.psi_cpu, "CPU pressure"),
    )
    if s.own.throttled():
        return shown, True
    fight = s.switches_high() and (s.thread or 100.0) < limits.cpu_total_pct
    if fight and not (total and pressure) and (host.cpu_pct_total or 0.0) < limits.thread_busy_pct:
        return shown, False
    return shown, total or pressure


def _nearly_full(s: Signals, host: HostReading, sm: float) -> bool:
    """A thread that sleeps a little between bursts, with a device that waits: weak, but all there is."""
    half = sm < HALF_IDLE_SM_PCT
    if s.thread is not None:
        limit = s.thresholds.cpu_total_pct if half else s.thresholds.thread_busy_pct - 5.0
        return s.thread >= limit and not s.thread_elsewhere
    return half and (host.busiest_process_cpu_pct or 0.0) >= MANY_THREADS_PCT


def _slow_probe(s: Signals) -> bool:
    probe = s.probe("liveness")
    if probe is None or probe.latency_s is None or s.picture.kind == "sglang":
        return False
    return s.answers.get("liveness") in ("ok", "timeout") and probe.latency_s >= PROBE_SLOW_S


def lock_contention(s: Signals) -> Outcome:
    """Many threads are half busy, none is full, and they switch all the time."""
    host, limits = s.host, s.thresholds
    if not s.suffers:
        return at_rest(s)
    sm = s.gpus.sm_max
    if host is None:
        return cannot_say("host")
    if sm is not None and sm >= limits.sm_low_pct:
        return quiet(ev.sm(s, limits.sm_low_pct))
    many = (host.busiest_process_cpu_pct or 0.0) >= MANY_THREADS_PCT
    busy = (host.cpu_pct_total or 0.0) >= 20.0
    shown = (
        ev.host(s, "ctx_switches_s", "1/s", None, "context switches"),
        own.switches(s),
        own.futex(s),
        ev.thread(s),
        ev.host(s, "busiest_process_cpu_pct", "%", MANY_THREADS_PCT, "process"),
        ev.host(s, "cpu_pct_total", "%", None, "cpu"),
        ev.sm(s, limits.sm_low_pct, "<"),
        ev.worst_latency(s),
    )
    if s.own.fights() and s.pressed and not s.front_full and not s.own.throttled():
        return fires(2 + (sm is not None), *shown)
    if host.ctx_switches_s is None:
        return quiet(*shown) if s.thread_full else cannot_say("ctx_switches_s")
    total = host.cpu_pct_total or 0.0
    pressure = (host.psi_cpu or 0.0) >= limits.psi_cpu and total >= limits.cpu_total_pct
    quota = pressure or total >= limits.thread_busy_pct
    if not s.switches_high() or s.thread_full or quota:
        return quiet(*shown)
    quota_unseen = host.cpu_pct_total is None and (host.psi_cpu or 0.0) >= limits.psi_cpu
    unknown = {"busiest_thread_cpu_pct": s.thread is None, "cpu_pct_total": quota_unseen}
    facts = (many or busy, s.thread is not None, s.pressed and sm is not None)
    points = sum(facts) if s.switches_by_cores() else min(2, sum(facts))
    missing = tuple(name for name, is_missing in unknown.items() if is_missing)
    return fires(points, *shown, missing=missing) if points else quiet(*shown)


def io_disk(s: Signals) -> Outcome:
    """Reads are what everything waits for: mostly weights on their way to the device."""
    host, limits = s.host, s.thresholds
    served = s.flow or s.generate == "ok" or s.answers.get("readiness") == "ok"
    loads = not served and starting(s)
    if not loads and not s.pressed:
        return quiet()
    if not loads and not s.suffers:
        return at_rest(s)
    if host is None:
        return cannot_say("host")
    pressures = (
        max(host.psi_io or 0.0, _own_pressure(s)) >= limits.psi_io,
        (host.iowait_pct or 0.0) >= limits.iowait_pct,
        (host.disk_util_pct or 0.0) >= limits.disk_util_pct,
    )
    shown = (
        ev.host(s, "psi_io", "%", limits.psi_io, "I/O pressure"),
        ev.host(s, "iowait_pct", "%", limits.iowait_pct, "iowait"),
        _disk(s),
        ev.host(s, "disk_read_mb_s", "MB/s", limits.disk_read_mb_s, "read"),
        ev.host(s, "net_mb_s", "MB/s", None, "network"),
        own.reads(s),
        own.time_left(s),
    )
    sm = s.gpus.sm_max
    works = sm is not None and sm >= limits.sm_low_pct
    if loads and s.own.slow_remote(SLOW_READ_RATIO * limits.disk_read_mb_s):
        return fires(2 + any(pressures), *shown, ev.held(s))
    if not any(pressures):
        # a share over a network is on no meter but the pressure
        blind = host.psi_io is None and (_slow_reads(s) if loads else host.iowait_pct is None and not works)
        return cannot_say("psi_io", evidence=shown) if blind else quiet(*shown)
    if loads:
        return _slow_start(s, sum(pressures), shown)
    if sum(pressures) < 2 or works:
        return quiet(*shown)
    memory = (
        ev.host(s, "psi_mem", "%", limits.psi_io, "memory pressure"),
        ev.host(s, "mem_used_pct", "%", None, "host memory"),
    )
    swaps = memory if fits.swaps(s) else ()
    return fires(sum(pressures) + (sm is not None) - 1, *swaps, *shown, ev.sm(s, limits.sm_low_pct, "<"))


@ev.line
def _disk(s: Signals) -> Evidence | None:
    known = ev.host(s, "disk_util_pct", "%", s.thresholds.disk_util_pct, "disk busy")
    if known is None or not fits.over_network(s):
        return known
    return replace(known, text=f"{known.text}: reads come over the network")


def _own_pressure(s: Signals) -> float:
    return (s.own.reading.psi_io if s.own.reading is not None else None) or 0.0


def _read_rate(s: Signals) -> float | None:
    """What comes in, in MB/s, from disk and network; its own reads count what the page cache served too."""
    if s.disk_mb_s is None and s.net_mb_s is None:
        return None
    return max((s.disk_mb_s or 0.0) + (s.net_mb_s or 0.0), s.own.reads_mb_s() or 0.0)


def _slow_reads(s: Signals) -> bool:
    rate = _read_rate(s)
    return rate is not None and rate < SLOW_READ_RATIO * s.thresholds.disk_read_mb_s


def _slow_start(s: Signals, pressures: int, shown: tuple[Evidence | None, ...]) -> Outcome:
    """A disk or share that is busy at a low rate is slow; at a high rate it does its work."""
    rate = _read_rate(s)
    if rate is not None and rate >= s.thresholds.disk_read_mb_s:
        return quiet(*shown)
    slow = _slow_reads(s)
    host = s.host
    blind = tuple(
        name for name in ("psi_io", "iowait_pct") if host is not None and getattr(host, name) is None
    )
    if pressures < 2 and not slow and blind:
        return cannot_say(*blind, evidence=shown)
    if pressures < 2 and not slow:
        return quiet(*shown)
    return fires(pressures + slow, *shown, ev.gpu_used(s), ev.held(s))
