"""Nothing is wrong: work that goes well, or no work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.verdict import alarms
from tui.verdict import evidence as ev
from tui.verdict.gpu_signals import HARMLESS, clock_ratio
from tui.verdict.outcome import Outcome, cannot_say, fires, quiet

if TYPE_CHECKING:
    from tui.model.readings import ProbeKind
    from tui.model.verdicts import Evidence
    from tui.verdict.signals import Signals

GENERATE = "generate probe"
PROVING: tuple[ProbeKind, ...] = ("liveness", "readiness", "generate")


def _disturbed(s: Signals) -> bool:
    """Something that is not calm, whatever the figures say."""
    if "5xx" in s.status_answers or s.generate in ("5xx", "timeout", "refused", "reset"):
        return True
    if s.all_refused or (
        s.picture.phase in ("loading", "down", "draining") and not s.flow and s.generate != "ok"
    ):
        return s.answers.get("readiness") != "ok"
    errors, rejected = s.errors, s.engine.http_503_ratio if s.engine else None
    limits = s.thresholds
    return (errors or 0.0) >= limits.error_ratio or (rejected or 0.0) >= limits.http_503_ratio


def _work(s: Signals) -> tuple[Evidence | None, ...]:
    latencies = [ev.latency(s, name) for name in s.latency]
    figures = (ev.tokens(s), ev.prompts_alone(s), ev.requests(s), ev.errors(s), ev.paused(s))
    return (ev.running(s), ev.waiting(s), *latencies, *figures)


def _undecided(s: Signals) -> str | None:
    """What is busy here is harmless only well inside the targets, unless a figure that is missing says so."""
    if s.well_inside or not s.latency or s.picture.no_devices:
        return None
    if s.front_full and s.gpus.sm_max is None:
        return "gpus.sm_pct"
    capped = any(set(g.throttle or ()) - HARMLESS and clock_ratio(g) is None for g in s.gpus.loaded)
    return "gpus.clock_sm_mhz" if capped else None


def healthy(s: Signals) -> Outcome:
    """Work, tokens, latency in target, no errors, nobody waiting: whatever SM, KV or a cap flag show."""
    shown = _work(s) if s.explaining else ()
    if s.work is False and not s.flow:
        return quiet(*shown)
    if s.over or s.queueing or _disturbed(s) or (s.work and s.flow is False):
        return quiet(*shown)
    if s.work is None and not s.flow:
        return cannot_say("running", "waiting", evidence=shown)
    if lacks := _undecided(s):
        return cannot_say(lacks, evidence=shown)
    missing = []
    if s.flow is None:
        if not s.latency:
            return cannot_say("gen_tok_s", "ttft_p95_s", evidence=shown)
        missing.append("gen_tok_s")
    if not s.latency and s.waiting is None:
        return cannot_say("waiting", "ttft_p95_s", evidence=shown)
    engine = s.engine
    if s.own_ttft is None:
        missing.append("ttft_p95_s")
    if engine is None or engine.itl_p95_s is None:
        missing.append("itl_p95_s")
    if s.waiting is None:
        missing.append("waiting")
    if s.errors is None:
        missing.append("error_ratio")
    if s.picture.phase is None or (s.picture.phase == "unknown" and not s.picture.live):
        missing.append("phase")
    if not s.picture.live:
        # a probe that an observation leaves out may be the one that fails
        missing += [f"{kind} probe" for kind in PROVING if kind not in s.answers]
    beside = alarms.of_work(s) if s.explaining else ()
    return fires(2 if missing else 3, *shown, *beside, missing=tuple(missing))


def idle(s: Signals) -> Outcome:
    """No work and no tokens: whatever SM or CPU show. That it would work, only a request can prove."""
    tokens = (ev.tokens(s), ev.requests(s))
    shown = (ev.running(s), ev.waiting(s), *tokens, ev.probe(s, "generate"), ev.paused(s))
    if s.flow or _disturbed(s):
        return quiet(*shown)
    served = s.generate == "ok"
    beside = alarms.of_rest(s) if s.explaining else ()
    if s.work:
        if s.flow is False and served and not s.over:
            if s.gpus.sm_max is None or s.gpus_at_rest() or s.gpu_spinning():
                return fires(2, *shown, *beside)  # the gauges are stale: a fresh request is served
            if s.engine is not None and s.engine.prompt_tok_s is None:
                return cannot_say("prompt_tok_s", evidence=shown)  # embeddings generate no token
        return quiet(*shown)
    if s.work is None:
        unknown = tuple(name for name, v in (("running", s.running), ("waiting", s.waiting)) if v is None)
        if served and s.flow is False:
            return fires(2, *shown, *beside, missing=unknown)
        if s.counts_requests and s.flow is False and s.picture.live:
            return fires(2, *shown, *beside, missing=(*unknown, GENERATE))
        return cannot_say(*unknown, evidence=shown)
    missing = [] if served else [GENERATE]
    if s.flow is None:
        missing.append("gen_tok_s")
    if s.errors is None and not s.picture.live:
        missing.append("error_ratio")
    if s.picture.phase is None or (s.picture.phase == "unknown" and not s.picture.live):
        missing.append("phase")
    unproven = not served and s.flow is None
    return fires(1 if unproven else 2 if missing else 3, *shown, *beside, missing=tuple(missing))
