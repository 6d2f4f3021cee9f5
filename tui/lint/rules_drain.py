"""D rules: what happens to requests, and to the GPU, when the server is told to stop?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tui.lint.engines import DRAIN_VERSION
from tui.lint.rule import Need, hit, s, shown
from tui.lint.texts import NEED_DRAIN, NEED_REQUEST
from tui.probing import arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.lint.rule import Case, Outcome

EXIT_S = 6.0
"""A real vLLM needed 5.6 s from its last request to its exit."""
REMOVAL_S = 5.0
"""Until proxies in a cluster have dropped an endpoint, where it was not measured."""
LONG_GRACE_S = 60.0
READINESS_LATE_S = 2.0

_GRACE = ("terminationGracePeriodSeconds", "stop_grace_period", "TimeoutStopSec", "TimeoutSec")
_DRAIN_OPTIONS = {"vllm": "--shutdown-timeout", "triton": "--exit-timeout-secs"}


def d01(case: Case) -> Iterator[Outcome]:
    """The longest request does not fit behind the pre-stop hook."""
    grace, hook = case.workload.grace_s, case.pre_stop_s
    longest, least = case.figures.longest_request_s, case.figures.request_at_least_s
    known = longest if longest is not None else least
    if grace is None or hook is None:
        return
    if known is not None and hook + known > grace:
        yield hit(
            case.workload.at(*_GRACE),
            f"{_before(hook)}{'' if longest is not None else 'at least '}{shown(known)}"
            f" = {s(hook + known)} > grace {s(grace)};"
            f" window {s(arithmetic.termination(grace, hook).window_s)}",
            longest=known,
            better=math.ceil(hook + known + EXIT_S),
        )
    elif longest is None:
        yield Need(
            NEED_REQUEST,
            case.workload.at(*_GRACE),
            f"window {s(max(grace - hook, arithmetic.LEAST_GRACE_S))}",
        )


def d02(case: Case) -> Iterator[Outcome]:
    """The engine's own drain does not fit."""
    engine, grace, hook = case.engine, case.workload.grace_s, case.pre_stop_s
    if engine.kind is None or engine.drain_s == 0 or grace is None or hook is None:
        return
    line = case.workload.at(*_GRACE)
    option = "" if engine.drain_s is None else _DRAIN_OPTIONS[engine.kind]
    need = case.figures.exit_s if engine.drain_s is None else engine.drain_s
    if need is None:
        yield Need(NEED_DRAIN, line, f"window {s(max(grace - hook, arithmetic.LEAST_GRACE_S))}")
        return
    slack = grace - hook - need
    if slack >= EXIT_S:
        return
    room = math.floor(grace - hook - EXIT_S)
    yield hit(
        line,
        f"{_before(hook)}{option or 'measured exit'} {shown(need)} = {s(hook + need)}; grace {s(grace)};"
        f" slack {s(slack)} < {s(EXIT_S)} that an exit takes",
        "error" if slack <= 0 else "warning",
        room=f"{s(slack)} to spare" if slack >= 0 else f"{s(-slack)} short",
        advice=f"a grace period of {math.ceil(hook + need + EXIT_S)} s"
        + (f", or {option} {room}" if option and room > 0 else ""),
    )


def _before(hook_s: float) -> str:
    return f"preStop {shown(hook_s)} + " if hook_s else ""


def d03(case: Case) -> Iterator[Outcome]:
    """The engine throws its running requests away."""
    engine, figures = case.engine, case.figures
    if figures.in_flight and figures.lost == 0:
        return  # a drain was seen to finish everything
    option = "SGLANG_FORCE_SHUTDOWN" if "SGLANG_FORCE_SHUTDOWN" in engine.env else "SGL_FORCE_SHUTDOWN"
    if engine.kind == "sglang" and engine.env.get(option, "").lower() in ("1", "true"):
        yield hit(case.container.line, why=f"{option} makes it exit at once")
        return
    if engine.kind != "vllm":
        return
    if engine.drain_s is None and not (engine.options and "shutdown-timeout" in engine.options):
        yield Need("the engine's command line: --shutdown-timeout is not in this file", case.container.line)
    elif engine.drain_s == 0:
        old = engine.version is not None and engine.version < DRAIN_VERSION
        why = "this version has no drain" if old else "--shutdown-timeout is 0, its default"
        lost = f"measured: {figures.lost} of {figures.in_flight} requests lost" if figures.lost else ""
        yield hit(case.container.lines.get("args", case.container.line), lost, why=why)


def d04(case: Case) -> Iterator[Outcome]:
    """New requests still arrive when the server stops."""
    hook = case.pre_stop_s
    line = case.container.line if case.container.pre_stop is None else case.container.pre_stop.line
    if hook is None:
        yield Need("the run time of the preStop hook", line)
        return
    delays = [(g.deregistration_s, g.name) for g in case.workload.gateways if g.deregistration_s is not None]
    wanted, why = max(delays, default=(REMOVAL_S, "removal from the proxies, not measured"))
    wanted, why = max((REMOVAL_S, "removal from the proxies, not measured"), (wanted, why))
    if hook < wanted:
        yield hit(line, f"preStop {s(hook)} < {s(wanted)} ({why})", hook=hook, better=math.ceil(wanted) + 5)


def d05(case: Case) -> Iterator[Outcome]:
    """The pre-stop hook takes the whole grace period."""
    grace, hook = case.workload.grace_s, case.pre_stop_s
    if grace is None or hook is None or hook < grace:
        return
    ends = arithmetic.termination(grace, hook)
    line = case.workload.at(*_GRACE) if case.container.pre_stop is None else case.container.pre_stop.line
    yield hit(
        line,
        f"preStop {s(hook)} >= grace {s(grace)}:"
        f" stop signal at {s(ends.signal_at)}, KILL at {s(ends.kill_at)}",
        better=math.ceil(hook + 30),
    )


def d06(case: Case) -> Iterator[Outcome]:
    """No pre-stop hook, and the port closes at once."""
    # SGLang goes on serving in a drain, and a draining vLLM keeps its port open
    stays_open = case.engine.kind == "sglang" or (
        case.engine.kind == "vllm" and (case.engine.drain_s or 0) > 0
    )
    if case.container.pre_stop is None and not stays_open:
        yield hit(case.container.line)


def d07(case: Case) -> Iterator[Outcome]:
    """Process 1 keeps the stop signal to itself."""
    line = case.container.lines.get("command", case.container.lines.get("entrypoint", case.container.line))
    unit = case.workload.platform == "systemd"
    if (
        case.engine.command.init
        or case.container.init
        or (unit and case.workload.kill_mode == "control-group")
    ):
        return
    if case.engine.shell == "compound":
        yield hit(line, "process 1 is a shell with several commands, and does not exec the server")
    elif case.engine.shell == "single":
        yield hit(line, "process 1 is a shell: dash, the sh of Debian and Ubuntu, stays even for one command")


def d08(case: Case) -> Iterator[Outcome]:
    """A hung container blocks for the whole grace period."""
    liveness, grace = case.probe("liveness"), case.workload.grace_s
    if liveness is not None and liveness.grace_s is None and grace is not None and grace > LONG_GRACE_S:
        yield hit(
            liveness.line,
            f"grace {s(grace)} > {s(LONG_GRACE_S)}, and the livenessProbe has none of its own",
            grace=grace,
        )


def d09(case: Case) -> Iterator[Outcome]:
    """A pre-stop hook that waits for a server that does not answer."""
    hook = case.container.pre_stop
    if hook is not None and hook.waits:
        yield hit(hook.line)


def d10(case: Case) -> Iterator[Outcome]:
    """Routers by readiness learn late of the end."""
    readiness, off = case.probe("readiness"), case.figures.readiness_off_s
    if readiness is None:
        return
    if off is None:
        yield Need("readiness after SIGTERM (drain-test)", readiness.line)
    elif off > READINESS_LATE_S:
        seen = "it never failed" if math.isinf(off) else f"it failed after {s(off)}"
        yield hit(readiness.line, f"after SIGTERM {seen}")


def d11(case: Case) -> Iterator[Outcome]:
    """Gateways that give up early, or hold on too long."""
    grace, longest = case.workload.grace_s, case.figures.longest_request_s or case.figures.request_at_least_s
    if not case.workload.gateways:
        yield Need(
            "the gateway's read timeout and deregistration delay (an Ingress or Service in the same file)"
        )
    for gateway in case.workload.gateways:
        read, delay = gateway.read_timeout_s, gateway.deregistration_s
        if read is not None and longest is None:
            yield Need(NEED_REQUEST, gateway.line)
        elif read is not None and longest is not None and read < longest:
            sum_text = f"{gateway.name} {s(read)} < longest request {s(longest)}"
            yield hit(gateway.line, sum_text, what="cuts requests before they end")
        if delay is not None and grace is not None and delay > grace:
            sum_text = f"{gateway.name} {s(delay)} > grace {s(grace)}"
            yield hit(gateway.line, sum_text, what="sends requests to a pod that is gone")


def d12(case: Case) -> Iterator[Outcome]:
    """Docker kills before the requests end."""
    grace = case.workload.grace_s
    longest = case.figures.longest_request_s or case.figures.request_at_least_s
    wanted = [v for v in (longest, case.figures.exit_s) if v is not None]
    line = case.workload.at("stop_grace_period")
    if grace is None:
        yield Need("the value of stop_grace_period", line)
    elif not wanted:
        yield Need(f"{NEED_REQUEST}, or the exit time", line, f"stop timeout {s(grace)}")
    elif grace < max(wanted):
        yield hit(
            line,
            f"stop timeout {s(grace)} < {s(max(wanted))}",
            grace=grace,
            better=math.ceil(max(wanted) + EXIT_S),
        )


def d13(case: Case) -> Iterator[Outcome]:
    """KillMode against an engine of many processes."""
    mode = case.workload.kill_mode
    many = case.engine.kind in ("vllm", "sglang", "trtllm")
    client = (case.container.command or ("",))[0].rpartition("/")[2] in ("docker", "podman", "nerdctl")
    line = case.workload.at("KillMode", "ExecStart")
    if mode in ("process", "none"):
        yield hit(line, "", "error", what="leaves workers behind that hold GPU memory")
    elif mode == "control-group" and many and not client:
        default = "" if "KillMode" in case.workload.lines else " (the default)"
        yield hit(
            line, f"KillMode={mode}{default}", what="sends SIGTERM to the workers too, which spoils a drain"
        )


def d14(case: Case) -> Iterator[Outcome]:
    """The next start finds the GPU memory taken."""
    left, held = case.figures.gpu_leftovers, case.figures.gpu_held_s
    # a first restart comes at once under Kubernetes, but loads no GPU memory before its imports are done
    wait = 10.0 if case.workload.platform == "kubernetes" else max(1.0, case.workload.restart_delay_s)
    line = case.workload.at("restart", "RestartSec", "restartPolicy")
    if left is None and held is None:
        yield Need("leftovers and the time until GPU memory is free (drain-test)", line)
    elif left:
        yield hit(line, f"{left} processes left over that hold GPU memory")
    elif held is not None and held > wait:
        yield hit(line, f"GPU memory free {s(held)} after the exit > {s(wait)} until the restart")
