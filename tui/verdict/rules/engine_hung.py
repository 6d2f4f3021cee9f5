"""An engine that is alive, has work and makes no step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.readings import WARM_UP_STEPS
from tui.verdict import evidence as ev
from tui.verdict.outcome import Outcome, cannot_say, fires, quiet
from tui.verdict.picture import HELD_SHOWN
from tui.verdict.progress import CONTEXT_MIB, compilers_busy, host_quiet, start_evidence, start_signs
from tui.verdict.signals import MODEL_ROLES, PREFILL_S, SLOW_5XX_S, SPINNING_START_S, slow_5xx

if TYPE_CHECKING:
    from tui.verdict.picture import HeldProcess
    from tui.verdict.signals import Signals

HEARTBEAT = "step heartbeat over 5 s from 3 scrapes (once: --samples 7)"
LONG_S = 30.0
COMPUTING_PCT = 50.0
"""An engine process on a host without devices that is this busy works at a step; a stopped one is at 0."""


def engine_hung(s: Signals) -> Outcome:
    """Work present and no step for longer than any normal one, or a request that nothing answers."""
    picture, limits = s.picture, s.thresholds
    if stuck := _stuck(s):
        return _cannot_run(s, stuck)
    if s.all_refused:
        return _stuck_start(s)
    if s.generate == "ok" or s.flow:
        return quiet(ev.probe(s, "generate"), ev.tokens(s))
    if s.paused:
        shown = (ev.paused(s), ev.running(s), ev.waiting(s))
        held_up = s.work or s.generate == "timeout" or s.slow_5xx()
        return cannot_say("the engine to go on", evidence=shown) if held_up else quiet(*shown)
    if s.generate == "5xx" and (s.generate_s or 0.0) < SLOW_5XX_S:
        return quiet(ev.probe(s, "generate"))
    if picture.phase == "loading" and start_signs(s) and not s.gpu_spinning():
        return quiet(ev.phase(s), *start_evidence(s))  # a first request may wait for compilers
    if s.engine is None or (picture.phase == "loading" and not s.work):
        return _silent(s)
    unanswered = _unanswered(s)
    stalled = s.stalled_s is not None and s.stalled_s >= s.stall_limit_s and s.work is True
    if picture.live:
        stalled = stalled and s.stalled_scrapes >= limits.stalled_scrapes
    if not stalled and not unanswered:
        return _undecided(s)
    quiet_gpu = s.gpu_spinning() or (s.gpus.sm_max is not None and s.gpus.sm_max < 10.0)
    held = s.stalled_for()
    if _first_steps(s) and not unanswered and held < PREFILL_S:
        return cannot_say("a longer look (the first steps may compile)", evidence=(ev.stalled(s),))
    if _computing(s) and not unanswered and held < LONG_S:
        return cannot_say("a longer look (its process computes)", evidence=(ev.stalled(s),))
    if s.gpu_working() and held < PREFILL_S:
        return cannot_say("a longer look (a long prefill looks the same)", evidence=(ev.stalled(s),))
    if not stalled and s.gpus_move() and not s.slow_5xx():
        # ours may wait in the queue like everybody's: 54 s were seen
        return cannot_say("generate probe with a timeout longer than the queue", evidence=ev.probes(s))
    compile_ = compilers_busy(s)
    if compile_ and held < PREFILL_S:
        busy = ev.host(s, "busiest_process_cpu_pct", "%", None, "process")
        return cannot_say("a longer look (compilers are busy)", evidence=(ev.stalled(s), busy, *ev.probes(s)))
    facts = (stalled, stalled and held >= LONG_S, unanswered, "ok" in s.status_answers, quiet_gpu)
    points = sum(facts) + (1 if stalled and picture.live else 0)
    return fires(
        min(points, 2) if compile_ else points,
        ev.running(s),
        ev.waiting(s),
        ev.stalled(s) if stalled else ev.tokens(s),
        *ev.probes(s),
        ev.sm_joined(s),
        ev.host(s, "busiest_process_cpu_pct", "%", None, "process") if compile_ else None,
        ev.mem_ctrl(s) if s.gpu_spinning() else None,
        missing=_unproven(s) if stalled else ("step heartbeat",),
    )


def _unproven(s: Signals) -> tuple[str, ...]:
    """Gauges that say "work" may be stale, which a request tells, or devices that wait at it."""
    seen = s.generate is not None or s.slow_5xx() or (s.picture.live and s.gpu_spinning())
    return () if seen else ("generate probe",)


def _stuck(s: Signals) -> tuple[HeldProcess, ...]:
    """Processes that cannot run; one that is blocked or dead may yet be no loss, if steps are made."""
    processes = s.picture.processes
    if processes is None or not processes.http_alive or processes.core in ("gone", "zombie"):
        return ()
    phase = s.picture.phase
    works = s.flow or s.generate == "ok" or phase == "draining" or (phase == "loading" and start_signs(s))
    return tuple(p for p in processes.held if p.how in ("stopped", "traced") or not works)


def _cannot_run(s: Signals, stuck: tuple[HeldProcess, ...]) -> Outcome:
    """Seen at once, also of an engine that nobody asks for anything."""
    certain = any(p.how == "stopped" for p in stuck)
    return fires(
        3 if certain else 2,
        *(ev.held_process(s, p) for p in stuck[:HELD_SHOWN]),
        ev.running(s),
        ev.waiting(s),
        ev.stalled(s) if s.work and s.flow is False else None,
        *ev.probes(s),
    )


def _unanswered(s: Signals) -> bool:
    """A probe waited for the engine in vain, and no step was made meanwhile: those of others keep it busy."""
    for kind, probe in s.picture.probes.items():
        if kind == "generate":
            long = s.generate_s is None or s.generate_s >= s.thresholds.generate_timeout_s
            waited = (s.generate == "timeout" and long) or s.generate == "5xx"
        else:
            waited = slow_5xx(probe)
        if waited and not s.stepped_during(probe):
            return True
    return False


def _first_steps(s: Signals) -> bool:
    progress = None if s.engine is None else s.engine.progress
    return s.picture.live and progress is not None and progress < WARM_UP_STEPS


def _computing(s: Signals) -> bool:
    """Without devices the steps are the CPU's: the busiest process of the host is at one."""
    host, processes = s.host, s.picture.processes
    if host is None or processes is None or host.busiest_process_pid is None:
        return False
    model = processes.roles.get(host.busiest_process_pid) in MODEL_ROLES
    return s.picture.no_devices and model and (host.busiest_process_cpu_pct or 0.0) >= COMPUTING_PCT


def _undecided(s: Signals) -> Outcome:
    if s.work and (s.flow is False or s.stalled_scrapes >= 2):
        return cannot_say(HEARTBEAT, evidence=(ev.running(s), ev.waiting(s), ev.stalled(s)))
    if s.generate == "timeout":
        return cannot_say("generate probe with a longer timeout", evidence=ev.probes(s))
    if s.work and s.flow is None:
        return cannot_say("gen_tok_s", evidence=(ev.running(s),))
    return quiet(ev.running(s), ev.waiting(s), ev.tokens(s))


def _silent(s: Signals) -> Outcome:
    """No figures from the engine: only answers that never come can tell."""
    picture = s.picture
    if picture.phase == "loading":
        return _stuck_start(s)
    if picture.phase in ("down", "draining"):
        return quiet(ev.phase(s))
    if s.slow_5xx() or s.generate == "5xx":
        return fires(2, *ev.probes(s), missing=("engine figures",))
    working = (s.gpus.sm_max or 0.0) >= LONG_S and not s.gpu_spinning()
    if s.all_timeout and not working:
        asked = s.generate == "timeout" or (picture.ever_served and _silent_for_long(s)) or not picture.live
        if asked:
            return fires(min(3, 1 + len(s.answers)), *ev.probes(s), ev.held(s), missing=("engine figures",))
    if s.generate == "timeout" and not working:
        return fires(2, *ev.probes(s), ev.held(s), missing=("engine figures",))
    return cannot_say("engine figures", evidence=ev.probes(s))


def _silent_for_long(s: Signals) -> bool:
    return s.picture.silent_s is not None and s.picture.silent_s >= s.thresholds.stalled_s


def _stuck_start(s: Signals) -> Outcome:
    """A start that stands still: ranks that wait for each other, or a process that does nothing at all."""
    picture, held = s.picture, s.picture.held_s
    if picture.phase != "loading" or held is None:
        return quiet(*ev.probes(s))
    moving = (s.disk_mb_s or 0.0) >= 20.0 or (s.net_mb_s or 0.0) >= 20.0
    shown = (ev.phase(s), ev.held(s), ev.sm_joined(s), ev.mem_ctrl(s), ev.power(s))
    if s.gpu_spinning() and not moving and held >= SPINNING_START_S:
        return fires(3 if held >= s.thresholds.loading_stuck_s else 2, *shown)
    still = (s.gpus.used_mib_max or 0.0) >= CONTEXT_MIB and (s.gpus.sm_max or 0.0) < 5.0 and host_quiet(s)
    if still and s.thread is not None and held >= s.thresholds.loading_stuck_s:
        return fires(2, *shown, ev.gpu_used(s), ev.thread(s))
    return quiet(*ev.probes(s))
