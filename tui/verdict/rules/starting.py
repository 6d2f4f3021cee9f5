"""An engine that is on its way up or down: not to be restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.verdict import evidence as ev
from tui.verdict import own_evidence as own
from tui.verdict.death import our_test, stopping
from tui.verdict.outcome import Outcome, cannot_say, fires, quiet
from tui.verdict.progress import compilers_busy, memory_held, start_evidence, start_signs, starting
from tui.verdict.signals import PREFILL_S

if TYPE_CHECKING:
    from tui.verdict.signals import Signals


def loading(s: Signals) -> Outcome:
    """Not serving since its start, and something moves: bytes, device memory, compilers."""
    phase = s.picture.phase
    stuck = s.work is True and s.generate in ("timeout", "5xx")
    if s.flow or s.generate == "ok" or (s.answers.get("readiness") == "ok" and not stuck):
        return quiet(ev.probe(s, "readiness"), ev.tokens(s))
    signs = start_signs(s)
    closed = s.all_refused or "5xx" in s.status_answers or "refused" in s.status_answers
    moving, held = start_evidence(s), (own.reads(s), own.time_left(s), ev.gpu_used(s), ev.held(s))
    if phase == "loading":
        if s.answers.get("liveness") == "ok" and s.work is not None and not (closed or stuck):
            return quiet(*ev.probes(s))  # it serves: the supervisor has not noticed
        points = 1 + (1 if closed else 0) + bool(s.picture.our_test) + min(2, len(signs))
        held_s, only = s.picture.held_s, signs == ["cpu"] and s.gpus_at_rest() and not compilers_busy(s)
        if only and held_s is not None and held_s >= s.thresholds.loading_stuck_s:
            points = 1  # a thread that polls is no progress
        return fires(
            points,
            our_test(s),
            ev.phase(s),
            *ev.probes(s),
            *moving,
            *held,
        )
    if s.work and s.generate in ("timeout", "5xx") and compilers_busy(s) and s.stalled_for() < PREFILL_S:
        busy = ev.host(s, "busiest_process_cpu_pct", "%", None, "process")
        return fires(1, busy, *ev.probes(s), ev.running(s), *moving, missing=("phase",))  # kernels, on demand
    if starting(s):
        return fires(min(2, len(signs)), *ev.probes(s), *moving, *held, missing=("phase",))
    if phase is None and not s.answers and s.engine is None:
        return cannot_say("phase", "probes")
    return quiet(*ev.probes(s))


def draining(s: Signals) -> Outcome:
    """A stop was asked for, or readiness is off while running requests go on to their end."""
    phase = s.picture.phase
    ready = s.answers.get("readiness")
    off = ready in ("5xx", "refused", "reset")
    rejects = s.generate in ("5xx", "refused", "reset")
    running = (s.running or 0.0) > 0
    change = s.picture.trends.running_change
    falling = change is not None and change < 0
    shown = (ev.probe(s, "readiness"), ev.probe(s, "generate"), ev.running(s), ev.tokens(s))
    if phase == "draining":
        if s.all_refused and memory_held(s) is False:
            return quiet(*shown)  # it has gone
        told = bool(s.picture.stopping)
        facts = (told, off or rejects, running or s.flow is True, falling, s.waiting == 0, s.all_refused)
        return fires(1 + sum(facts), stopping(s) or ev.phase(s), *shown, ev.held(s))
    if off and running and s.flow is not False and not s.slow_5xx():
        if s.picture.kind in ("sglang", "triton"):
            grows = (s.waiting or 0.0) > 0  # a failed health check turns readiness off as well
            return fires(2 + (1 if (s.flow or falling) and not grows else 0), *shown)
        if s.flow and (rejects or s.answers.get("liveness") == "ok"):
            return fires(1 + (1 if rejects else 0), *shown, missing=("phase",))
    return quiet(*shown)
