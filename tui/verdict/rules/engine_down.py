"""A server that is gone, or answers only errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.verdicts import Evidence
from tui.verdict import evidence as ev
from tui.verdict import own_evidence as own
from tui.verdict.death import death, our_test
from tui.verdict.outcome import Outcome, cannot_say, fires, quiet
from tui.verdict.progress import memory_held, nothing_runs, starting
from tui.verdict.signals import SLOW_5XX_S

if TYPE_CHECKING:
    from tui.verdict.signals import Signals

ALL_FAIL_RATIO = 0.9
EMPTY_START_S = 120.0
"""A container may sit quietly this long before its process shows on any meter."""


def engine_down(s: Signals) -> Outcome:
    """Refused, or errors at once for everything, or a dead core; not while it starts or drains."""
    picture = s.picture
    processes = picture.processes
    if processes is not None and processes.http_alive and processes.core in ("gone", "zombie"):
        core = Evidence("core", processes.core, text=f"engine core {processes.core}, server process alive")
        return fires(3, core, *death(s), own.out_of_memory(s), *ev.probes(s))
    if s.flow or s.generate == "ok":
        return quiet(ev.tokens(s), ev.probe(s, "generate"))
    if s.all_refused:
        return _refused(s)
    if picture.phase == "down" and "ok" not in s.answers.values():
        return fires(
            (2 if s.answers else 1) + s.own.ended_for_memory(),
            our_test(s),
            *death(s),
            ev.phase(s),
            own.out_of_memory(s),
            *ev.probes(s),
        )
    if picture.phase in ("loading", "draining"):
        return quiet(ev.phase(s))
    return _failing(s)


def _refused(s: Signals) -> Outcome:
    phase = s.picture.phase
    held = memory_held(s)
    if phase == "draining" and held is not False:
        return quiet(ev.phase(s))  # the port closes before the process ends
    if starting(s) and not (phase == "loading" and _looping(s)):
        return quiet(ev.phase(s), *ev.probes(s))
    processes = s.picture.processes
    gone = processes is not None and not processes.http_alive
    facts = (len(s.answers) > 1, held is False, phase == "down", gone, s.engine is None)
    unsure = phase is None and held is not False  # a drain closes the port as well
    points = 1 + sum(facts) - 2 * unsure
    if not (held is False or gone or s.picture.no_devices):
        points = min(points, 2)  # what has not released its memory may yet live
    return fires(
        points,
        our_test(s),
        *death(s),
        *(ev.probes(s) or (_scrape(s),)),
        own.out_of_memory(s),
        ev.memory_released(s),
        Evidence("process", "none", text="no server process") if gone else None,
        ev.phase(s) if phase == "down" else None,
        ev.held(s),
        missing=("phase",) if phase is None else (),
    )


def _scrape(s: Signals) -> Evidence | None:
    """How the scrape failed: all there is where no probe has been made since."""
    reason = s.picture.engine_reason
    if reason == "refused":
        return Evidence("engine", reason, text="connection refused")
    return Evidence("engine", reason, text="connection reset") if reason == "reset" else None


def _looping(s: Signals) -> bool:
    """The supervisor says "starting", and there is nothing that starts: the pause of a crash loop."""
    held = s.picture.held_s
    return held is not None and held >= EMPTY_START_S and nothing_runs(s)


def _failing(s: Signals) -> Outcome:
    """Errors for everything: 5xx that come at once, from routes of which none waits for the engine."""
    status_5xx = s.status_answers.count("5xx")
    status_ok = "ok" in s.status_answers
    all_fail = s.errors is not None and s.errors >= ALL_FAIL_RATIO
    some_served = s.errors is not None and s.errors < 0.5 and s.flow is None and bool(s.running)
    facts = (status_5xx > 0, status_5xx > 1, all_fail, s.flow is False, memory_held(s) is False)
    points = sum(facts) - (s.picture.phase is None)  # a start answers 503 too
    errors = ev.errors(s) if all_fail else None
    shown: tuple[Evidence | None, ...] = (*ev.probes(s), errors, ev.memory_released(s), ev.held(s))
    if s.slow_5xx() or (some_served and not status_5xx):
        return quiet(*shown)
    if s.generate == "timeout" and not (status_5xx and s.picture.kind != "sglang"):
        return quiet(*shown)  # SGLang turns unready when it hangs; the others only when they are dead
    if s.generate == "5xx" and (s.generate_s or 0.0) < SLOW_5XX_S:
        return fires(1 + points, *shown)
    if status_5xx and not status_ok:
        if s.picture.kind in ("sglang", "triton") and (s.running or 0) > 0 and s.flow is not False:
            return quiet(*shown)  # their readiness goes off in a drain, and running requests end
        return fires(1 + points, *shown)
    if status_5xx and s.answers.get("readiness") == "5xx" and not s.running:
        return fires(points, *shown)
    if all_fail:
        return fires(points, *shown)
    if not s.answers and s.engine is None:
        return cannot_say("probes", evidence=shown)
    return quiet(*ev.probes(s))
