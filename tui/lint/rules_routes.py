"""P rules on routes: do the probes see what they should, and reach it?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tui.lint.commandline import curl_passes_errors, script_of
from tui.lint.engines import route_of
from tui.lint.rule import Need, hit, requests, s, shown
from tui.lint.shape import Handler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.lint.rule import Case, Outcome

_CANNOT_FAIL = re.compile(r"(?:\S*/)?(?:true|:)|exit 0|(?:\S*/)?echo\b.*")
_LEAVES = re.compile(r"[;&\n]|\bexit\b")
"""What may end a script, or a part of it, before its last command."""
_HEAVY = re.compile(r"\bpython[0-9.]*\b|\bnvidia-smi\b")


def p08(case: Case) -> Iterator[Outcome]:
    """A probe that a hung server passes."""
    for probe in case.container.probes.values():
        for handler in probe.handlers:
            why = _blind(case, handler)
            # a startup probe only has to see the port open, which these do
            if why and (probe.kind != "startup" or handler.kind == "exec"):
                yield hit(handler.line, kind=probe.kind, why=why)
    health = case.container.health
    if health is not None and (why := _blind(case, Handler("exec", health.line, words=health.words))):
        yield hit(health.lines.get("test", health.line), kind="HEALTHCHECK", why=why)


def _blind(case: Case, handler: Handler) -> str:
    if handler.kind == "tcpSocket":
        return "tcpSocket: the kernel accepts for a hung process"
    path = route_of(handler)
    if path and case.engine.static(path):
        return f"{path} is answered without the engine"
    script = script_of(handler.words)
    command = (" ".join(handler.words)[:20_000] if script is None else script).strip()
    if handler.kind != "exec":
        return ""
    if _cannot_fail(command):
        return "the command always succeeds"
    return "curl without -f succeeds on any answer, a 503 too" if curl_passes_errors(handler.words) else ""


def _cannot_fail(command: str) -> bool:
    before, otherwise, last = command.rpartition("||")
    if _CANNOT_FAIL.fullmatch(command):
        return True
    return bool(otherwise and _CANNOT_FAIL.fullmatch(last.strip(" ;")) and not _LEAVES.search(before))


def p09(case: Case) -> Iterator[Outcome]:
    """A hung engine core leaves vLLM's /health at 200."""
    handlers = [h for probe in case.container.probes.values() for h in probe.handlers]
    routes = {route_of(h) if h.kind in ("httpGet", "exec") else h.kind for h in handlers}
    if case.engine.kind != "vllm" or "/health" not in routes:
        return
    if all(route in ("/health", "tcpSocket") or case.engine.static(route) for route in routes):
        line = next(h.line for h in handlers if route_of(h) == "/health")
        yield hit(line)


def p14(case: Case) -> Iterator[Outcome]:
    """Readiness fails while tokens flow."""
    readiness = case.probe("readiness")
    if readiness is None:
        return
    seen = [f for f in case.figures.probes if f.kind == "readiness" and f.streak is not None]
    if not seen or case.figures.tokens_per_s is None:
        yield Need("readiness results and token rate under load (once --json)", readiness.line)
        return
    misses = max(-(f.streak or 0) for f in seen)
    if misses >= readiness.spec.failure_threshold and case.figures.tokens_per_s > 0:
        yield hit(
            readiness.line,
            f"{misses} misses in a row >= failureThreshold {readiness.spec.failure_threshold}"
            f" at {shown(case.figures.tokens_per_s)} tokens/s",
        )


def p15(case: Case) -> Iterator[Outcome]:
    """No readiness probe."""
    if case.probe("readiness") is None:
        yield hit(case.container.line)


def p16(case: Case) -> Iterator[Outcome]:
    """The readiness route answers before the engine does."""
    readiness = case.probe("readiness")
    if readiness is None:
        return
    path = next((route_of(h) for h in readiness.handlers if route_of(h)), "")
    failed = case.figures.failed_when_ready
    if case.engine.kind == "sglang" and path and case.engine.static(path):
        yield hit(readiness.line, f"{path} is 200 while /health still says 503", path=path)
    elif failed is None:
        yield Need("requests sent between ready and the first token (restart-test)", readiness.line)
    elif failed > 0:
        yield hit(readiness.line, f"{failed} requests failed after the first 200", path=path or "the probe")


def p18(case: Case) -> Iterator[Outcome]:
    """What the API server does not accept."""
    for probe in case.container.probes.values():
        spec = probe.spec
        faults = [
            (probe.kind != "readiness" and spec.success_threshold != 1, "successThreshold", "must be 1"),
            (spec.success_threshold < 1, "successThreshold", "must be 1 or more"),
            (spec.failure_threshold < 1, "failureThreshold", "must be 1 or more"),
            (spec.period_s < 1, "periodSeconds", "must be 1 or more"),
            (spec.timeout_s < 1, "timeoutSeconds", "must be 1 or more"),
            (spec.initial_delay_s < 0, "initialDelaySeconds", "must be 0 or more"),
        ]
        if probe.grace_s is not None:
            name = "terminationGracePeriodSeconds"
            faults.append((probe.kind == "readiness", name, "is not allowed in a readiness probe"))
            faults.append((probe.kind != "readiness" and probe.grace_s < 1, name, "must be 1 or more"))
        for wrong, name, what in faults:
            if wrong:
                yield hit(probe.at(name), kind=probe.kind, what=f"{name} {what}")
        if len(probe.handlers) != 1:
            names = ", ".join(handler.kind for handler in probe.handlers) or "none"
            what = "one handler is needed, of httpGet, tcpSocket, exec and grpc"
            yield hit(probe.line, f"handlers: {names}", kind=probe.kind, what=what)


def p20(case: Case) -> Iterator[Outcome]:
    """An interpreter or nvidia-smi every few seconds."""
    for probe in case.container.probes.values():
        for handler in probe.handlers:
            command = " ".join(handler.words)
            if handler.kind == "exec" and probe.spec.period_s < 10 and _HEAVY.search(command[:20_000]):
                yield hit(
                    handler.line,
                    f"period {s(probe.spec.period_s)} < 10 s",
                    kind=probe.kind,
                    command=_HEAVY.findall(command[:20_000])[0],
                )


def p21(case: Case) -> Iterator[Outcome]:
    """The probe asks where nobody listens."""
    for probe, handler, _ in requests(case, only_get=True):
        reason = _unreachable(case, handler)
        if reason:
            yield hit(handler.line, kind=probe.kind, reason=reason)


def _unreachable(case: Case, handler: Handler) -> str:
    engine, port = case.engine, handler.port
    if isinstance(port, str):
        named = case.container.ports.get(port)
        if named is None:
            return f"port {port!r} is not one of the container's ports"
        port = named
    if engine.port is not None and port is not None and port != engine.port:
        return f"probe on port {port}, {engine.name} serves on {engine.port}"
    if engine.loopback_only and not handler.host:
        return f"probe to the pod's address, {engine.name} listens on loopback alone ({engine.loopback_only})"
    if engine.tls is not None and engine.tls != (handler.scheme == "HTTPS"):
        return f"scheme {handler.scheme}, {engine.name} serves {'HTTPS' if engine.tls else 'HTTP'}"
    return ""


def p22(case: Case) -> Iterator[Outcome]:
    """The route wants a key that the probe does not send."""
    for probe, handler, path in requests(case):
        figure = case.figure(probe, path)
        if case.engine.protects(path):
            if handler.kind == "httpGet" and "authorization" not in handler.headers:
                yield hit(handler.line, kind=probe.kind, path=path)
        elif figure is None or figure.status is None:
            yield Need(f"the status of {path} (once --json)", probe.line)
        elif figure.status in (401, 403):
            yield hit(handler.line, f"status {figure.status}", kind=probe.kind, path=path)


def p23(case: Case) -> Iterator[Outcome]:
    """A redirect counts as a success."""
    for probe, handler, path in requests(case):
        figure = case.figure(probe, path)
        if figure is None or figure.status is None:
            yield Need(f"the status of {path} (once --json)", probe.line)
        elif isinstance(figure.status, int) and 300 <= figure.status < 400:
            yield hit(handler.line, f"status {figure.status}", kind=probe.kind, path=path)
