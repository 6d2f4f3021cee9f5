"""Bottlenecks of admission: seats that are all taken, and load that does not come evenly or at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.verdicts import Evidence
from tui.verdict import evidence as ev
from tui.verdict import own_evidence as own
from tui.verdict.outcome import Outcome, cannot_say, fires, quiet
from tui.verdict.signals import SEATS_FULL_RATIO

if TYPE_CHECKING:
    from tui.verdict.signals import Signals

UNLOADED_SEATS_RATIO = 0.25
UNLOADED_RUNNING = 8.0
"""Where the seats are unknown: any engine runs this many at once without effort."""
UNLOADED_SM_PCT = 50.0
ALL_FAIL_RATIO = 0.9


def scheduler_limit(s: Signals) -> Outcome:
    """Every seat is taken and requests wait, while the KV cache has room."""
    limits = s.thresholds
    if s.running is None and s.waiting and s.pressed and s.flow is not False:
        return cannot_say("running", evidence=(ev.waiting(s),))
    if not s.running or s.flow is False:
        return quiet(ev.running(s))
    kv_free = None if s.kv is None else s.kv < limits.kv_usage_early
    shown = (ev.running(s), ev.waiting(s), ev.kv_room(s))
    if s.waiting is None and s.seats_full is not False and not s.calm:
        return cannot_say("waiting", evidence=shown)
    if not s.waiting or not s.pressed:
        return quiet(*shown)
    if s.preempts and kv_free is False:
        return quiet(*shown, ev.preempting(s), ev.preempted(s))
    worst = ev.worst_latency(s)
    if s.seats_full:
        return fires(1 + (kv_free is True) + s.queueing, *shown, worst)
    deferred = s.engine.waiting_by_reason.get("deferred", 0.0) if s.engine else 0.0
    if s.seats and deferred > 0 and s.running + deferred >= SEATS_FULL_RATIO * s.seats:
        held = Evidence("deferred", deferred, "", ">", 0.0, f"{deferred:.0f} deferred hold seats")
        return fires(2, held, *shown, worst)
    elsewhere = s.gpu_working() or (s.gpus.sm_max or 0.0) >= limits.sm_high_pct or s.front_full
    if kv_free is False or not s.many_waiting:
        return quiet(*shown)
    if elsewhere:
        return quiet(*shown) if s.seats else cannot_say("max_num_seqs", evidence=shown)
    if s.seats is None and s.well_inside and s.waiting < s.running:
        return quiet(*shown, worst)  # a short queue before a quick first token is how a busy engine batches
    if s.seats is None:
        known = kv_free is True and s.gpus.sm_max is not None
        return fires(2 if known else 1, *shown, worst, missing=("max_num_seqs",))
    return fires(1, *shown, worst)  # seats, blocks and device are free: some limit of admission holds


def queueing_upstream(s: Signals) -> Outcome:
    """Clients suffer while this engine has room: the trouble lies before it, or beside it on one rank."""
    if s.engine is None or (s.flow is False and s.work):
        return quiet()
    if s.pressed and s.uneven():
        return fires(2, _spread(s), ev.waiting(s), ev.worst_latency(s))
    unloaded = _unloaded(s)
    if unloaded and s.own.piled() and not s.front_full:
        crowd = s.own.crowded((s.running or 0.0) + (s.waiting or 0.0))
        return fires(2 + crowd, own.backlog(s), own.connections(s), ev.running(s), ev.thread(s))
    if unloaded is False:
        return quiet(ev.running(s), ev.waiting(s))
    rejected = s.engine.http_503_ratio or 0.0
    failing = s.thresholds.error_ratio <= (s.errors or 0.0) < ALL_FAIL_RATIO
    failing = failing or rejected >= s.thresholds.http_503_ratio
    if s.generate == "ok" and (s.errors or 0.0) >= ALL_FAIL_RATIO:
        failing = True  # the engine answers us: others are stopped on their way
    ttft = s.own_ttft
    prompt = s.generate != "ok" or (s.generate_s or 0.0) < s.slo.ttft_p95_s
    late = ttft is not None and ttft > s.slo.ttft_p95_s and prompt
    reset = s.generate == "reset" and "ok" in s.status_answers
    if not (failing or late or reset):
        shown = (*ev.failures(s), ev.worst_latency(s))
        unseen = ttft is None and unloaded is True and s.suffers is True
        return cannot_say("ttft_p95_s", evidence=shown) if unseen else quiet(*shown)
    if unloaded is None:
        return cannot_say("running", evidence=(ev.errors(s),))
    fast = s.generate == "ok" and (s.generate_s or 0.0) < s.slo.ttft_p95_s
    return fires(
        fast + (failing or s.seats is not None) + (s.gpus.sm_max is not None),
        *(ev.failures(s) if failing else (ev.latency(s, "ttft"),)),
        ev.running(s),
        ev.waiting(s),
        ev.probe(s, "generate"),
        ev.sm(s, UNLOADED_SM_PCT, "<"),
        own.backlog(s) if s.own.piled() else None,
        own.connections(s),
    )


def _unloaded(s: Signals) -> bool | None:
    """The engine has room for many more; None where its load is unknown."""
    limits = s.thresholds
    busy = (
        (s.waiting or 0.0) > 0
        or (s.gpus.sm_max or 0.0) >= UNLOADED_SM_PCT
        or (s.kv or 0.0) >= 0.5
        or (s.thread or 0.0) >= limits.cpu_total_pct
        or (s.gpus.free_mib_min is not None and s.gpus.free_mib_min < limits.gpu_mem_free_mib)
        or ("itl" in s.latency and not s.decode_in_target)
        or s.generate in ("5xx", "timeout", "refused")
    )
    if busy:
        return False
    if s.running is None:
        return None
    most = UNLOADED_SEATS_RATIO * s.seats if s.seats else UNLOADED_RUNNING
    return s.running <= most


def _spread(s: Signals) -> Evidence:
    gpus = s.gpus
    ranks = s.engine.ranks if s.engine else ()
    loads = [r.running or 0.0 for r in ranks]
    if len(loads) > 1 and max(loads) > 0:
        text = f"ranks run {min(loads):.0f} to {max(loads):.0f}"
        return Evidence("ranks.running", min(loads), "", "<", max(loads), text)
    text = f"SM {gpus.sm_min or 0:.0f} to {gpus.sm_max or 0:.0f} % across GPUs"
    return Evidence("sm_pct", gpus.sm_min, "%", "<", gpus.sm_max, text)
