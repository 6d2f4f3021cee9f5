"""Which lines of advice are right for a picture: each says yes only where the figures do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.verdict.progress import BUSY_MB_S, compilers_busy, memory_held
from tui.verdict.signals import BUSY_POLLERS

if TYPE_CHECKING:
    from tui.verdict.signals import LatencyName, Signals

WORST_CASE = ("sglang", "trtllm", "triton")
"""Engines that admit a request only if its longest possible answer would fit."""
NATIVE = ("trtllm", "triton")
"""Engines whose stacks a Python profiler does not see whole."""
PREFILLS_RATIO = 5.0
"""Prompt tokens for each generated one from which on prefill is most of the work."""
NO_HITS_RATIO = 0.01
"""A prefix cache that is switched on hits at least the system prompts now and then."""
HEAT = frozenset(("hw_thermal_slowdown", "sw_thermal_slowdown"))
BRAKE = "hw_power_brake"
CAP = "sw_power_cap"
SET_CLOCKS = frozenset(("applications_clocks", "sync_boost"))
CROWD = 8.0
HALF_BUSY_PCT = 50.0
AT_REST_SM_PCT = 10.0


def _late(s: Signals, *names: LatencyName) -> bool:
    return any(s.latency[name][0] > s.latency[name][1] for name in names if name in s.latency)


# ---------------------------------------------------------------------------------- availability


def not_asked(s: Signals) -> bool:
    """Nobody has asked for a token: gauges that stand still may be stale ones."""
    return s.generate is None and s.any_answer


def compiles(s: Signals) -> bool:
    """Many cores are busy while the devices rest."""
    return compilers_busy(s)


def native(s: Signals) -> bool:
    """Its stacks are C++."""
    return s.picture.kind in NATIVE


def spins(s: Signals) -> bool:
    """Kernels are resident and move nothing."""
    return s.gpu_spinning()


def may_prefill(s: Signals) -> bool:
    """The devices may be at work on one long prompt."""
    sm = s.gpus.sm_max
    return not s.picture.no_devices and not s.gpu_spinning() and (sm is None or sm >= AT_REST_SM_PCT)


def memory_is_held(s: Signals) -> bool:
    """No server answers, and its devices are still full."""
    return s.all_refused and memory_held(s) is True


def may_be_held(s: Signals) -> bool:
    """No server answers, and nobody knows whether something of it is left."""
    processes = s.picture.processes
    gone = processes is not None and not processes.http_alive
    return s.all_refused and memory_held(s) is None and not gone


def left_over(s: Signals) -> bool:
    """Something still answers, with errors."""
    return not s.all_refused and s.any_answer


# ---------------------------------------------------------------------------------- memory


def preempts(s: Signals) -> bool:
    """Requests lose their seats for want of blocks."""
    return bool(s.preempts)


def crowded(s: Signals) -> bool:
    """Requests lose their seats, and it is their number that does it: a few very long ones are no crowd."""
    return bool(s.preempts) and (s.running is None or s.running >= CROWD)


def by_worst_case(s: Signals) -> bool:
    """Requests wait although the pool has room: their longest answers would not fit."""
    room = s.kv is not None and s.kv < s.thresholds.kv_usage_warn
    return s.picture.kind in WORST_CASE and room and not s.preempts


def device_may_have_room(s: Signals) -> bool:
    """A larger pool may fit on the device."""
    free = s.gpus.free_mib_min
    return free is None or free >= s.thresholds.gpu_mem_free_mib


def orphans(s: Signals) -> bool:
    """Dead engines hold the memory."""
    processes = s.picture.processes
    return processes is not None and bool(processes.orphans)


def may_be_orphans(s: Signals) -> bool:
    """Nobody knows the processes that hold the memory."""
    return s.picture.processes is None


def evicts(s: Signals) -> bool:
    """Prefixes are thrown out for want of room."""
    return s.engine is not None and (s.engine.evictions_per_s or 0.0) > 0


def may_evict(s: Signals) -> bool:
    """Prefixes are thrown out, or nothing counts them."""
    return s.engine is not None and (s.engine.evictions_per_s is None or evicts(s))


def hits_nothing(s: Signals) -> bool:
    """The prefix cache may be off."""
    ratio = s.engine.prefix_hit_ratio if s.engine is not None else None
    return ratio is not None and ratio <= NO_HITS_RATIO


# ---------------------------------------------------------------------------------- devices


def _reasons(s: Signals) -> frozenset[str] | None:
    """Of the device that is held down most; None where the driver's reasons cannot be read."""
    found = s.gpus.throttled(s.thresholds)
    if not found or (found[0].gpu.throttle is None and not found[0].reasons):
        return None
    return frozenset(found[0].reasons)


def heat(s: Signals) -> bool:
    """It is heat that holds the clock down."""
    hottest = s.gpus.hottest
    hot = hottest is not None and (hottest.temp_c or 0.0) >= s.thresholds.temp_high_c
    return hot or not HEAT.isdisjoint(_reasons(s) or ())


def power_cap(s: Signals) -> bool:
    """It is the power limit."""
    return CAP in (_reasons(s) or ())


def power_brake(s: Signals) -> bool:
    """It is the power supply or the board's controller."""
    return BRAKE in (_reasons(s) or ())


def set_clocks(s: Signals) -> bool:
    """Somebody has set the clocks, or nothing else explains them."""
    found = _reasons(s)
    return found is not None and (not found or not SET_CLOCKS.isdisjoint(found))


def reason_unknown(s: Signals) -> bool:
    """The driver's reasons cannot be read, or one stands for two."""
    found = _reasons(s)
    return not heat(s) and (found is None or found == {"hw_slowdown"})


def prefills(s: Signals) -> bool:
    """Prompts are most of the work."""
    engine = s.engine
    return engine is not None and (engine.prompt_tok_s or 0.0) > PREFILLS_RATIO * (engine.gen_tok_s or 0.0)


def _first_late(s: Signals) -> bool:
    return _late(s, "ttft", "queue") or s.many_waiting


def prefill_crowds(s: Signals) -> bool:
    """Only the tokens after the first are late, because of the prompts in each step."""
    return _late(s, "itl") and not _first_late(s) and prefills(s)


def prefill_floods(s: Signals) -> bool:
    """First tokens and the others are late: what a budget of prompts gives to one it takes from the other."""
    return _late(s, "itl") and _first_late(s) and prefills(s)


def prefill_is_slow(s: Signals) -> bool:
    """First tokens alone are late, and prompts are the work."""
    return s.decode_in_target and _first_late(s) and prefills(s)


def decode_is_slow(s: Signals) -> bool:
    """Tokens are late for the number of those that share each step."""
    return _late(s, "itl") and not prefills(s)


# ---------------------------------------------------------------------------------- host


def cores_full(s: Signals) -> bool:
    """All cores together, or the quota, are used up: one more process only takes from the others."""
    host, limits = s.host, s.thresholds
    total = host is not None and (
        (host.cpu_pct_total or 0.0) >= limits.cpu_total_pct or (host.psi_cpu or 0.0) >= limits.psi_cpu
    )
    return total or s.own.throttled() or s.own.starved()


def front_thread(s: Signals) -> bool:
    """One thread of the front may be full, and other cores are free."""
    return not cores_full(s) and not model_thread(s)


def model_thread(s: Signals) -> bool:
    """The full thread is the one that steps the model."""
    return s.thread_full and s.thread_role in BUSY_POLLERS


def swaps(s: Signals) -> bool:
    """The host's memory is short, and the disk pays for it."""
    host = s.host
    return host is not None and (host.psi_mem or 0.0) >= s.thresholds.psi_io


def over_network(s: Signals) -> bool:
    """What it reads comes over the network: the local disk rests."""
    own, host = s.own.reading, s.host
    if own is not None and own.model_fs_remote is not None:
        return own.model_fs_remote
    rests = host is not None and host.disk_util_pct is not None and host.disk_util_pct < HALF_BUSY_PCT
    return rests and (s.net_mb_s or 0.0) >= BUSY_MB_S


def from_share(s: Signals) -> bool:
    """As above, of a start."""
    return not serves(s) and over_network(s)


def serves(s: Signals) -> bool:
    """It serves: what is read is not its weights."""
    return bool(s.running or s.flow)


# ---------------------------------------------------------------------------------- admission


def piled(s: Signals) -> bool:
    """Connections wait to be accepted."""
    return s.own.piled()


def uneven(s: Signals) -> bool:
    """One rank or device has most of the load."""
    return s.uneven()


def _seats_end_first(s: Signals) -> bool:
    return s.seats_full is not False


def more_seats(s: Signals) -> bool:
    """Every seat is taken, the pool has room, and tokens come on time."""
    return bool(s.seats_full) and not pool_is_full_too(s) and not _late(s, "itl")


def may_be_seats(s: Signals) -> bool:
    """The number of seats is not known, and may be what ends."""
    return s.seats is None


def seats_cost_tokens(s: Signals) -> bool:
    """Tokens are late already; with more seats each comes later still."""
    return _seats_end_first(s) and _late(s, "itl")


def pool_is_full_too(s: Signals) -> bool:
    """More seats would only be preempted."""
    return _seats_end_first(s) and s.kv is not None and s.kv >= s.thresholds.kv_usage_early


def deferred(s: Signals) -> bool:
    """Requests that are held back hold seats."""
    return s.engine is not None and s.engine.waiting_by_reason.get("deferred", 0.0) > 0


def seats_are_free(s: Signals) -> bool:
    """Something else than seats holds requests back."""
    return s.seats_full is False and not deferred(s)


def told_why(s: Signals) -> bool:
    """As above, of an engine that counts its waiting requests by reason."""
    return seats_are_free(s) and s.picture.kind == "vllm"
