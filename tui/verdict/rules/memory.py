"""Bottlenecks of memory: the KV cache, the device, and a prefix cache that no longer hits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.units import count
from tui.model.verdicts import Evidence
from tui.verdict import evidence as ev
from tui.verdict.fits import WORST_CASE
from tui.verdict.outcome import Outcome, at_rest, cannot_say, fires, quiet
from tui.verdict.progress import BUSY_MB_S, memory_held

if TYPE_CHECKING:
    from tui.verdict.signals import Signals

LEAST_WAITING = 5.0
HALF_KV = 0.5
HELD_RATIO = 0.25
"""Of a device whose server is gone: more than any context or desktop holds."""
SWING_KV = 0.5
"""A pool under thrash swings between 0.6 and 1."""
PREEMPTS_ALONE_KV = 0.3
"""Preemptions happen in a full pool only: a mean as low as this can still hide one full rank."""


def kv_cache(s: Signals) -> Outcome:
    """The pool is exhausted: requests are thrown out of it, or wait for it with seats to spare."""
    limits = s.thresholds
    if not s.running and not s.flow:
        return quiet(ev.kv(s, limits.kv_usage_full))  # usage without a runner is a stale gauge or a leak
    if s.flow is False and (s.generate == "ok" or s.gpus_at_rest()):
        return quiet(ev.kv(s, limits.kv_usage_full), ev.tokens(s))  # as stale as the other gauges
    if s.flow is None and s.gpus_at_rest():
        return cannot_say("gen_tok_s", evidence=(ev.kv(s, limits.kv_usage_full), ev.running(s)))
    if (s.paused and not s.flow) or (s.counts_requests and s.running is None):
        return quiet()  # nothing is admitted; or plain models, which have no such cache
    preempts = bool(s.preempts)
    waits = (s.waiting or 0.0) > 0
    shown = (
        ev.kv(s, limits.kv_usage_warn),
        ev.waiting(s),
        ev.preempting(s),
        ev.preempted(s),
        ev.running(s),
    )
    latency = ev.worst_latency(s) if s.over else None
    if s.kv is not None and _over(s):
        return quiet(ev.kv(s, limits.kv_usage_warn), ev.waiting(s))
    if s.kv is None:
        if preempts and waits:
            return fires(2, *shown, latency, missing=("kv_usage",))
        return quiet() if s.calm and not preempts else cannot_say("kv_usage")
    if s.kv >= limits.kv_usage_warn and preempts:
        return fires(2 + waits + s.over, *shown, latency)
    short = (ev.kv_short(s), *shown[1:])
    if preempts and s.pressed and s.kv >= PREEMPTS_ALONE_KV:
        several = len(s.gpus.loaded) > 1 or s.kv >= 0.7
        return fires(2 if several else 1, *short, latency)
    if waits and not s.calm and s.seats_full is not True:
        found = _admission(s)
        if found:
            return fires(found, *short, latency, ev.sm(s, limits.sm_high_pct, "<"))
    admits_late = s.kv >= limits.kv_usage_early or s.picture.kind in WORST_CASE
    if s.waiting is None and admits_late and s.over and not s.seats_full:
        return cannot_say("waiting", evidence=shown)
    if s.kv >= limits.kv_usage_warn and not s.calm:
        unknown = [
            name for name, v in (("preemptions_per_s", s.preempts), ("waiting", s.waiting)) if v is None
        ]
        if unknown:
            return cannot_say(*unknown, evidence=shown)
    return quiet(*shown)


def _over(s: Signals) -> bool:
    """The worst of the last half minute has passed: the pool has room now and nobody waits for it."""
    now = s.engine.kv_usage if s.engine else None
    return now is not None and now < SWING_KV and s.waiting == 0 and not (s.engine and s.engine.ranks[1:])


def _admission(s: Signals) -> int:
    """Points for requests that wait for blocks although seats are free; 0 for no such sign."""
    limits, trends = s.thresholds, s.picture.trends
    kv = s.kv or 0.0
    if kv >= limits.kv_usage_full:
        return 1 + (s.seats_full is False) + s.pressed
    down, up = trends.running_change, trends.waiting_change
    if kv >= limits.kv_usage_early and down is not None and up is not None and down < 0:
        finishing = s.engine is not None and (s.engine.req_s or 0.0) > 0
        if up >= -0.8 * down and not finishing:
            return 2  # vLLM counts a preemption only when its victim runs again, up to 20 s later
    if not s.queueing or s.gpu_working():
        return 0
    if kv >= limits.kv_usage_early and (s.many_waiting or (s.waiting or 0.0) >= LEAST_WAITING):
        return 1 + (s.seats_full is False)
    if s.picture.kind in WORST_CASE and s.seats_full is not True and not _explained(s, kv):
        # seats that nobody knows could be what ends first
        return 1 if s.gpus.sm_max is None or (s.seats_full is None and kv < HALF_KV) else 2
    return 0


def _explained(s: Signals, kv: float) -> bool:
    """Something else than admission by worst case makes requests wait; a short queue needs no reason.

    A full thread of the front explains a queue before the scheduler, while little of the pool is in use.
    """
    limits = s.thresholds
    return (
        not s.many_waiting
        or (s.waiting or 0.0) < LEAST_WAITING
        or (s.errors or 0.0) >= limits.error_ratio
        or (s.gpus.sm_max or 0.0) >= limits.sm_high_pct
        or (s.net_mb_s or 0.0) >= limits.net_mb_s
        or s.switches_high()
        or bool(s.throttled)
        or s.cores_full()
        or (s.front_full and kv < HALF_KV)
    )


def gpu_memory(s: Signals) -> Outcome:
    """Device memory is short outside the KV pool: allocations fail, or the dead still hold it."""
    limits, picture = s.thresholds, s.picture
    free = s.gpus.free_mib_min
    processes = picture.processes
    if processes is not None and processes.orphans and not processes.http_alive:
        orphans = Evidence(
            "orphans", float(len(processes.orphans)), "", ">", 0.0, _orphans(processes.orphans)
        )
        return fires(2 + (memory_held(s) is True), orphans, ev.gpu_used(s))
    if s.all_refused and picture.phase == "down" and (s.held_ratio or 0.0) >= HELD_RATIO:
        return fires(1, ev.memory_released(s), *ev.probes(s))  # by whom, only the driver's pids tell
    if free is None:
        return quiet() if s.calm or not (s.work or s.flow) else cannot_say("gpus.mem_used_mib")
    short = free < limits.gpu_mem_free_mib
    shown = (
        ev.gpu_free(s),
        *ev.failures(s),
        ev.kv(s, limits.kv_usage_full, "<"),
        ev.probe(s, "generate"),
    )
    if not short:
        return quiet(ev.gpu_free(s))
    if s.all_refused and picture.phase == "loading":
        moving = (
            (s.disk_mb_s or 0.0) >= BUSY_MB_S or (s.net_mb_s or 0.0) >= BUSY_MB_S or (s.thread or 0.0) >= 50.0
        )
        return quiet(*shown) if moving or s.thread is None else fires(2, ev.gpu_free(s), ev.thread(s))
    if not (s.running or s.flow):
        return quiet(*shown)
    if s.kv is not None and s.kv >= limits.kv_usage_full:
        return quiet(*shown)
    rejected = s.engine.http_503_ratio if s.engine else None
    fails = (
        (s.errors or 0.0) >= limits.error_ratio
        or (rejected or 0.0) >= limits.http_503_ratio
        or s.generate == "5xx"
    )
    if fails:
        return fires(2 + (s.kv is not None), *shown)
    if s.errors is None and not s.calm:
        return cannot_say("error_ratio", evidence=shown)
    return fires(1, *shown, ev.worst_latency(s)) if s.pressed else quiet(*shown)


def _orphans(pids: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, pids[:4])) + (", ..." if len(pids) > 4 else "")
    return f"orphaned engine processes: pid {shown}"


CLEARLY_BAD_HIT_RATIO = 0.15
PREFILLS_SM_PCT = 25.0
"""A device that computes prompts over and over is busier than this."""


def degraded_cache(s: Signals) -> Outcome:
    """Prompts are computed again that used to hit: the first token is late, the others are on time."""
    engine, limits = s.engine, s.thresholds
    if engine is None:
        return quiet()
    if not s.suffers:
        return at_rest(s, ev.hits(s))
    ratio, itl = engine.prefix_hit_ratio, engine.itl_p95_s
    on_time = "ttft" in s.latency and s.latency["ttft"][0] <= s.latency["ttft"][1]
    if on_time or (itl is not None and not s.decode_in_target) or s.preempts:
        return quiet(ev.hits(s))
    evicting = (engine.evictions_per_s or 0.0) > 0
    shown = (ev.hits(s), ev.latency(s, "ttft"), ev.waiting(s))
    if _late_for_another_reason(s, evicting=evicting):
        return quiet(*shown)
    usual = s.picture.trends.usual_prefix_hit_ratio
    fell = (
        ratio is not None and usual is not None and usual >= limits.prefix_hit_ratio and ratio < 0.5 * usual
    )
    low = ratio is not None and ratio < limits.prefix_hit_ratio and usual is None
    clear = evicting and (ratio is None or ratio < CLEARLY_BAD_HIT_RATIO)
    if (ratio is not None and not (fell or low)) or (s.many_waiting and not clear):
        return quiet(*shown)
    known = {"prefix_hit_ratio": ratio, "ttft_p95_s": s.latency.get("ttft"), "itl_p95_s": itl}
    if lacks := [name for name, value in known.items() if value is None]:
        return cannot_say(*lacks, evidence=shown)
    evictions = None
    if engine.evictions_per_s is not None:
        text = f"evicting {count(engine.evictions_per_s)}/s" if evicting else "nothing is evicted"
        evictions = Evidence("evictions_per_s", engine.evictions_per_s, "1/s", ">", 0.0, text)
    bad = fell or (ratio is not None and ratio < CLEARLY_BAD_HIT_RATIO)
    return fires(1 + (evicting or fell) + bad, *shown[:2], ev.latency(s, "itl"), evictions)


def _late_for_another_reason(s: Signals, *, evicting: bool) -> bool:
    """Seats that are all taken, a full thread, or a device that hardly computes explain late first tokens."""
    full = bool(s.seats_full) and (s.waiting or 0.0) > 0
    idle = s.gpus.sm_max is not None and s.gpus.sm_max < PREFILLS_SM_PCT
    return full or idle or (s.thread_full and not evicting)
