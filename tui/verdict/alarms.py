"""What looks alarming beside a calm verdict, and why it is none: a line each, so that it is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.units import count, memory, number, seconds
from tui.model.verdicts import Evidence
from tui.verdict.gpu_signals import clock_ratio
from tui.verdict.signals import BUSY_POLLERS

if TYPE_CHECKING:
    from tui.verdict.signals import Signals

HALF_KV = 0.5


def of_work(s: Signals) -> tuple[Evidence | None, ...]:
    """Beside work that goes well."""
    return (
        _room(s),
        _full_cache(s),
        _full_seats(s),
        _busy_gpu(s),
        _held_down(s),
        _full_memory(s),
        _thread(s),
        _disk(s),
        _misses(s),
    )


def of_rest(s: Signals) -> tuple[Evidence | None, ...]:
    """Beside an engine that nobody asks for anything."""
    return (_stale(s), _unused_cache(s), _spin(s), _thread(s))


# ---------------------------------------------------------------------------------- work


def _room(s: Signals) -> Evidence | None:
    """What is left of seats and cache."""
    seats = None if s.seats is None or s.running is None or s.seats_full else s.seats - s.running
    kv = s.kv if s.kv is not None and s.kv < s.thresholds.kv_usage_warn else None
    parts = [f"{count(seats)} seats free"] if seats is not None else []
    parts += [f"kv {s.kv_most}{kv:.2f}"] if kv is not None else []
    if not parts:
        return None
    signal, value = ("kv_usage", kv) if kv is not None else ("running", s.running)
    return Evidence(signal, value, text=f"room: {', '.join(parts)}")


def _full_cache(s: Signals) -> Evidence | None:
    limit = s.thresholds.kv_usage_warn
    if s.kv is None or s.kv < limit or s.preempts:
        return None
    why = "nobody waits" if s.waiting == 0 else "nobody is preempted" if s.preempts is False else "no queue"
    return Evidence("kv_usage", s.kv, "", ">=", limit, f"kv {s.kv_most}{s.kv:.2f}: full use, {why}")


def _full_seats(s: Signals) -> Evidence | None:
    if not s.seats_full or s.waiting != 0:
        return None
    return Evidence("running", s.running, "", ">=", s.full_at, "all seats taken, nobody waits")


def _busy_gpu(s: Signals) -> Evidence | None:
    busiest, limit = s.gpus.sm_max, s.thresholds.sm_high_pct
    if busiest is None or busiest < limit:
        return None
    return Evidence("sm_pct", busiest, "%", ">=", limit, f"SM {number(busiest)} %: busy, {_in_time(s)}")


def _held_down(s: Signals) -> Evidence | None:
    """A clock that is held down a little, or a card that is hot, while users do not notice."""
    for gpu in s.gpus.loaded:
        reasons = [reason for reason in gpu.throttle or () if reason != "idle"]
        hot = gpu.temp_c is not None and gpu.temp_c >= s.thresholds.temp_high_c
        if not reasons and not hot:
            continue
        ratio = clock_ratio(gpu)
        clock = "" if ratio is None else f", clock {100 * ratio:.0f} % of max"
        heat = f" {number(gpu.temp_c)} °C" if hot else ""
        text = f"GPU {gpu.index}{heat} {', '.join(reasons)}".rstrip() + f"{clock}: {_in_time(s)}"
        return Evidence("throttle", ", ".join(reasons) or "hot", text=text)
    return None


def _full_memory(s: Signals) -> Evidence | None:
    free, limit = s.gpus.free_mib_min, s.thresholds.gpu_mem_free_mib
    if free is None or free >= limit:
        return None
    fails = (
        "no request fails"
        if s.errors == 0
        else "few requests fail"
        if s.errors is not None
        else "no 5xx seen"
    )
    return Evidence("gpu_mem_free_mib", free, "MiB", "<", limit, f"GPU memory free {memory(free)}: {fails}")


def _disk(s: Signals) -> Evidence | None:
    busy, limit = (s.host.disk_util_pct if s.host else None), s.thresholds.disk_util_pct
    if busy is None or busy < limit:
        return None
    return Evidence("disk_util_pct", busy, "%", ">=", limit, f"disk busy {number(busy)} %: {_in_time(s)}")


def _misses(s: Signals) -> Evidence | None:
    ratio, limit = (s.engine.prefix_hit_ratio if s.engine else None), s.thresholds.prefix_hit_ratio
    if ratio is None or ratio >= limit or "ttft" not in s.latency:
        return None
    return Evidence("prefix_hit_ratio", ratio, "", "<", limit, f"hits {ratio:.2f}: first tokens are on time")


def _in_time(s: Signals) -> str:
    return (
        "latency well inside its target"
        if s.well_inside
        else "latency in target"
        if s.latency
        else "nobody waits"
    )


# ---------------------------------------------------------------------------------- rest


def _stale(s: Signals) -> Evidence | None:
    """Gauges that show work which is not there."""
    if not s.work or s.generate != "ok":
        return None
    after = f" in {seconds(s.generate_s)}" if s.generate_s is not None else ""
    return Evidence("generate_s", s.generate_s, "s", text=f"stale gauges: a new request was served{after}")


def _unused_cache(s: Signals) -> Evidence | None:
    if s.work is not False or s.kv is None or s.kv < HALF_KV:
        return None
    return Evidence(
        "kv_usage", s.kv, text=f"kv {s.kv_most}{s.kv:.2f} with nothing running: a stale gauge or a leak"
    )


def _spin(s: Signals) -> Evidence | None:
    """Kernels that wait for work, and what that costs."""
    busiest, limit = s.gpus.sm_max, s.thresholds.sm_high_pct
    if busiest is None or busiest < limit:
        return None
    watts = [gpu.power_w for gpu in s.gpus.loaded if gpu.power_w is not None]
    cost = f", at {number(sum(watts))} W" if watts else ""
    text = f"SM {number(busiest)} %: it spins while it waits for work{cost}"
    return Evidence("sm_pct", busiest, "%", ">=", limit, text)


# ---------------------------------------------------------------------------------- both


def _thread(s: Signals) -> Evidence | None:
    if not s.thread_full:
        return None
    if s.work is False:
        why = "it polls for work"
    elif s.thread_elsewhere:
        why = "none of this engine's"
    else:
        why = "it polls" if s.thread_role in BUSY_POLLERS else _in_time(s)
    text = f"thread {number(s.thread)} %: {why}"
    return Evidence("busiest_thread_cpu_pct", s.thread, "%", ">=", s.thresholds.thread_busy_pct, text)
