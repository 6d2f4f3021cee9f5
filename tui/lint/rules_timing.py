"""P rules on times: do the probes tell a loading and a busy server from a dead one?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tui.lint.engines import route_of
from tui.lint.rule import Need, budget, hit, patience, requests, s, shown
from tui.lint.texts import NEED_LOAD, NEED_PROBES
from tui.probing import arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.lint.rule import Case, Outcome
    from tui.model.settings import ProbeSpec

BLACK_HOLE_S = 60.0
"""Traffic into a hung server for longer than this is worth a warning (P13)."""
LOAD_MARGIN = 1.2
STARTUP_MARGIN = 1.5
STARTS_SHOWN = 5
"""Enough to see the waits between them grow."""
SGLANG_WAIT_S = 20.0
"""SGLANG_HEALTH_CHECK_TIMEOUT: how long its /health waits for a token before it says 503."""


def p01(case: Case) -> Iterator[Outcome]:
    """No startup probe, and liveness kills before the load ends."""
    liveness = case.probe("liveness")
    if liveness is None or case.probe("startup") is not None:
        return
    load, spare = case.figures.load_s, arithmetic.load_budget(liveness.spec)
    if load is None:
        yield Need(NEED_LOAD, liveness.line, f"budget {budget(liveness.spec)}")
    elif spare < LOAD_MARGIN * load:
        yield hit(
            liveness.at("initialDelaySeconds"),
            f"{budget(liveness.spec)} < {LOAD_MARGIN} * {s(load)} = {s(LOAD_MARGIN * load)}"
            + _loop(liveness.spec, load),
            budget=spare,
            load=load,
            failures=_failures(load),
        )


def p02(case: Case) -> Iterator[Outcome]:
    """The startup probe gives up before, or little after, the load ends."""
    startup = case.probe("startup")
    if startup is None:
        return
    load, spare = case.figures.load_s, arithmetic.load_budget(startup.spec)
    if load is None:
        yield Need(NEED_LOAD, startup.line, f"budget {budget(startup.spec)}")
    elif spare < STARTUP_MARGIN * load:
        yield hit(
            startup.at("failureThreshold"),
            f"{budget(startup.spec)} < {STARTUP_MARGIN} * {s(load)} = {s(STARTUP_MARGIN * load)}"
            + _loop(startup.spec, load),
            "error" if spare < load else "warning",
            budget=spare,
            load=load,
            failures=_failures(load, startup.spec.period_s),
        )


def _loop(spec: ProbeSpec, load_s: float) -> str:
    """When it is killed and started again, for a load that cannot end before; empty where it can."""
    kill = arithmetic.first_kill(spec)
    if load_s < kill.worst:
        return ""
    starts = ", ".join(shown(at) for at in arithmetic.crash_loop([kill.worst], STARTS_SHOWN)[1:])
    return f"; killed {shown(kill.best)}-{shown(kill.worst)} s after each start, restarts near {starts} s"


def _failures(load_s: float, period_s: float = 10.0) -> int:
    return math.ceil(STARTUP_MARGIN * load_s / max(period_s, 1.0)) + 1


def p03(case: Case) -> Iterator[Outcome]:
    """A busy server answers too late for the timeout."""
    for probe, _, path in requests(case):
        figure, timeout = case.figure(probe, path), probe.spec.timeout_s
        if figure is None or figure.p99_s is None:
            yield Need(NEED_PROBES.format(path=path), probe.line, f"{probe.kind} timeout {s(timeout)}")
        elif timeout < 2 * figure.p99_s:
            yield hit(
                probe.at("timeoutSeconds"),
                f"timeout {s(timeout)} < 2 * p99 {s(figure.p99_s)}",
                "error" if timeout < figure.p99_s else "warning",
                kind=probe.kind,
                timeout=timeout,
                path=figure.path,
                p99=figure.p99_s,
                better=max(5, math.ceil(3 * figure.p99_s)),
            )


def p04(case: Case) -> Iterator[Outcome]:
    """The default timeout of 1 s."""
    for probe in case.container.probes.values():
        if probe.spec.timeout_s != 1 or any(h.kind == "tcpSocket" for h in probe.handlers):
            continue
        path = next((route_of(h) for h in probe.handlers if route_of(h)), "")
        figure = case.figure(probe, path) if path else None
        worst = (
            None if figure is None else max((v for v in (figure.p99_s, figure.latency_s) if v), default=None)
        )
        if worst is None or worst > 0.5:
            yield hit(
                probe.at("timeoutSeconds"),
                "timeout 1 s"
                + (" (the default)" if "timeoutSeconds" not in probe.lines else "")
                + ("" if worst is None else f", measured {s(worst)}"),
                kind=probe.kind,
            )


def p05(case: Case) -> Iterator[Outcome]:
    """Killed before it is taken out of service."""
    liveness, readiness = case.probe("liveness"), case.probe("readiness")
    if liveness is None or readiness is None:
        return
    kill = arithmetic.hang_noticed(liveness.spec).worst
    unready = arithmetic.hang_noticed(readiness.spec).worst
    if kill <= unready:
        yield hit(
            liveness.line,
            f"liveness {shown(liveness.spec.period_s)} + {patience(liveness.spec)}, in all {s(kill)}"
            f" <= readiness {s(unready)}",
            kill=kill,
            unready=unready,
        )


def p06(case: Case) -> Iterator[Outcome]:
    """One long step looks like a hang."""
    liveness = case.probe("liveness")
    if liveness is None:
        return
    kill, step = arithmetic.hang_noticed(liveness.spec).best, case.figures.longest_step_s
    if step is None:
        yield Need("the longest engine step or prefill", liveness.line, patience(liveness.spec))
    elif kill < step:
        yield hit(
            liveness.line,
            f"{patience(liveness.spec)} < {s(step)}" + _misses(liveness.spec, step),
            kill=kill,
            step=step,
        )


def _misses(spec: ProbeSpec, step_s: float) -> str:
    """How many probes in a row one long step makes fail; empty where they would overlap."""
    if spec.timeout_s >= spec.period_s:
        return ""
    fewest, most = arithmetic.misses_in_stall(spec, step_s, 0.0)
    span = str(fewest) if fewest == most else f"{fewest} to {most}"
    return f"; it makes {span} probes in a row fail, {spec.failure_threshold} kill"


def p07(case: Case) -> Iterator[Outcome]:
    """One miss kills."""
    liveness = case.probe("liveness")
    if liveness is not None and liveness.spec.failure_threshold == 1:
        yield hit(liveness.at("failureThreshold"))


def p10(case: Case) -> Iterator[Outcome]:
    """A generation as liveness waits behind the users' requests."""
    liveness = case.probe("liveness")
    path = next((route_of(h) for h in liveness.handlers if route_of(h)), "") if liveness is not None else ""
    if liveness is None or not path or not case.engine.generates(path):
        return
    queue, ttft, timeout = case.figures.queue_s, case.figures.ttft_s, liveness.spec.timeout_s
    if queue is None or ttft is None:
        yield Need("time in the queue and time to first token (once --json under load)", liveness.line)
    elif timeout < queue + ttft:
        yield hit(
            liveness.at("timeoutSeconds"),
            f"timeout {s(timeout)} < queue {s(queue)} + time to first token {s(ttft)} = {s(queue + ttft)}",
            path=path,
            better=math.ceil(1.5 * (queue + ttft)),
        )


def p11(case: Case) -> Iterator[Outcome]:
    """SGLang's generating route needs a second at least, and up to 20."""
    if case.engine.kind != "sglang":
        return
    for probe, handler, path in requests(case):
        if not case.engine.generates(path):
            continue
        timeout, period = probe.spec.timeout_s, probe.spec.period_s
        if period < SGLANG_WAIT_S or timeout < SGLANG_WAIT_S + 1:
            never = timeout <= 1
            yield hit(
                probe.at("timeoutSeconds") if never else handler.line,
                f"period {s(period)} (20 s at least), timeout {s(timeout)} (21 s at least)"
                + ("; no answer comes in under 1.0 s" if never else ""),
                "error" if never else None,
                kind=probe.kind,
                path=path,
                what="never passes" if never else "overlaps itself, and is wrong in both directions",
            )


def p12(case: Case) -> Iterator[Outcome]:
    """A timeout longer than the period stretches the detection."""
    for probe in case.container.probes.values():
        spec = probe.spec
        if spec.timeout_s > spec.period_s:
            worst = arithmetic.hang_noticed(spec).worst
            yield hit(
                probe.at("timeoutSeconds"),
                f"({spec.failure_threshold}-1) * {shown(spec.timeout_s)} + {shown(spec.timeout_s)}"
                f" + {shown(spec.period_s)} = {s(worst)}",
                kind=probe.kind,
                timeout=spec.timeout_s,
                worst=worst,
            )


def p13(case: Case) -> Iterator[Outcome]:
    """Traffic goes into a hung server for long."""
    readiness = case.probe("readiness")
    if readiness is None:
        return
    worst = arithmetic.hang_noticed(readiness.spec).worst
    if worst > BLACK_HOLE_S:
        yield hit(
            readiness.line,
            f"{shown(readiness.spec.period_s)} + {patience(readiness.spec)},"
            f" in all {s(worst)} > {s(BLACK_HOLE_S)}",
            worst=worst,
        )


def p17(case: Case) -> Iterator[Outcome]:
    """An initial delay beside a startup probe."""
    if case.probe("startup") is None:
        return
    for probe in case.container.probes.values():
        if probe.kind != "startup" and probe.spec.initial_delay_s > 0:
            yield hit(
                probe.at("initialDelaySeconds"),
                f"initialDelaySeconds {shown(probe.spec.initial_delay_s)}",
                kind=probe.kind,
            )


def p19(case: Case) -> Iterator[Outcome]:
    """Several successes delay the return to traffic."""
    readiness = case.probe("readiness")
    if readiness is None:
        return
    spec = readiness.spec
    more = (spec.success_threshold - 1) * spec.period_s
    if more > 10:
        yield hit(
            readiness.at("successThreshold"),
            f"({spec.success_threshold}-1) * {shown(spec.period_s)} = {s(more)}",
            more=more,
        )
