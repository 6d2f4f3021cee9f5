"""What an operator should know beside the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.memory import grouped
from tui.model.status import SourceState
from tui.model.text import clean
from tui.model.units import gib, memory, number, seconds
from tui.model.urls import short_name
from tui.model.verdicts import CALM, LEVELS, Finding
from tui.probing.blindness import by_generating, unseen_hang, why_unseen
from tui.verdict import own_findings
from tui.verdict.gpu_signals import OURS_TO_FIX, clock_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tui.model.settings import Thresholds
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.model.status import SourceStatus
    from tui.model.verdicts import Verdict
    from tui.verdict.assess import Assessment

NO_GPU = frozenset(("no_driver", "not_supported"))
SPIN_SM_PCT = 50.0
HOST_MEMORY_PCT = 95.0
SHOWN = 8
"""Of things that anybody can make any number of."""


def findings(
    snapshot: HostSnapshot, assessments: tuple[Assessment, ...], thresholds: Thresholds
) -> tuple[Finding, ...]:
    """All findings of a snapshot, errors first."""
    found = [
        *_rule_errors(assessments),
        *_sources(snapshot),
        *_devices(snapshot),
        *_host(snapshot, thresholds),
        *_orphans(snapshot),
        *_on_sockets(snapshot),
    ]
    for view, assessment in zip(snapshot.engines, assessments, strict=True):
        found += _engine(view, assessment, thresholds)
        found += _blind_probe(view, assessment, snapshot.wall)
    return tuple(sorted(found, key=lambda f: LEVELS.index(f.level)))


def _rule_errors(assessments: tuple[Assessment, ...]) -> Iterator[Finding]:
    for assessment in assessments:
        for text in assessment.errors:
            yield Finding("rule-error", "error", assessment.picture.scope, clean(f"rule failed: {text}"))


# ---------------------------------------------------------------------------------------- data


def _sources(snapshot: HostSnapshot) -> Iterator[Finding]:
    sources: Mapping[str, SourceStatus] = {"gpus": snapshot.gpus.status, "host": snapshot.host.status}
    for name, status in sources.items():
        if not (name == "gpus" and status.reason in NO_GPU):
            yield from _source(name, "host", status)
    for view in snapshot.engines:
        yield from _source("engine", view.url, view.engine.status)
        yield from _access(view)
        yield from _left_out(view)


def _source(name: str, scope: str, status: SourceStatus) -> Iterator[Finding]:
    if status.state not in (SourceState.STALE, SourceState.FAILED):
        return
    which = short_name(scope) if name == "engine" else ""
    why = f": {status.detail or status.reason}" if status.reason else ""
    age = f", figures {seconds(status.age_s)} old" if status.age_s is not None else ""
    stale = "stale" if status.state is SourceState.STALE else "failed"
    yield Finding(f"{stale}-{name}", "warning", scope, clean(f"{name} {which} figures {stale}{why}{age}"))


def _left_out(view: EngineView) -> Iterator[Finding]:
    reading = view.engine.reading
    if reading is not None and reading.left_out:
        parts = ", ".join(f"{count} of {name}" for name, count in reading.left_out.items())
        text = f"its metrics have too many labels: {parts} are left out here, and counted in the totals"
        yield Finding("too-many-labels", "warning", view.url, text)


def _access(view: EngineView) -> Iterator[Finding]:
    """What a person has to set before the engine lets us read it, and what they have set aside."""
    reading, status = view.engine.reading, view.engine.status
    reason = status.reason or (reading.reason if reading is not None else None)
    if reason in ("401", "403"):
        if view.discovered:
            text = (
                f"the engine wants a token ({reason}), and none is sent to what was only found: "
                f'name it in the config with [[engines]], url = "{view.url}", token_env = "NAME"'
            )
        else:
            text = (
                f"the engine refuses our token, or the lack of one ({reason}): "
                "set token or token_env of its [[engines]], or INFERTOP_TOKEN"
            )
        yield Finding("needs-token", "warning", view.url, text)
    if view.unverified:
        text = "its certificate is not checked (verify = false): anybody on the way can read the token"
        yield Finding("tls-not-verified", "warning", view.url, text)


# ---------------------------------------------------------------------------------------- devices and host


def _devices(snapshot: HostSnapshot) -> Iterator[Finding]:
    reading = snapshot.gpus.reading if snapshot.gpus.status.ok else None
    for gpu in reading.gpus if reading else ():
        if gpu.state != "ok":
            ours = gpu.reason in OURS_TO_FIX
            text = clean(f"GPU {gpu.index} unreadable: {gpu.reason or gpu.detail or 'no figures'}")
            yield Finding("gpu-unreadable", "info" if ours else "error", "host", text)
        if gpu.xid is not None:
            yield Finding("gpu-xid", "warning", "host", f"GPU {gpu.index} reported Xid {gpu.xid}")
        if gpu.remap_pending:
            yield Finding(
                "gpu-remap", "warning", "host", f"GPU {gpu.index} has a row remap pending: reset it when idle"
            )
        yield from own_findings.of_link(gpu)


def _host(snapshot: HostSnapshot, thresholds: Thresholds) -> Iterator[Finding]:
    host = snapshot.host.reading if snapshot.host.status.ok else None
    if host is None:
        return
    if host.mem_used_pct is not None and host.mem_used_pct >= HOST_MEMORY_PCT:
        text = f"host memory {number(host.mem_used_pct)} % used: the kernel may end a process"
        yield Finding("host-memory", "warning", "host", text)
    if host.psi_mem is not None and host.psi_mem >= thresholds.psi_io:
        yield Finding("memory-pressure", "warning", "host", f"memory pressure {number(host.psi_mem)} %")
    yield from own_findings.of_swap(host)


def _orphans(snapshot: HostSnapshot) -> Iterator[Finding]:
    """A line for each with those that end with it; one for memory without a process. No engine can get it."""
    rows = snapshot.orphans or ()
    groups = grouped(rows)
    for group in groups[:SHOWN]:
        head = group.head
        held = f" holds {gib(group.gpu_mem_mib)} GiB" if group.gpu_mem_mib else ""
        age = f", {seconds(head.age_s)} old" if head.age_s is not None else ""
        where = f" of GPU {', '.join(map(str, group.gpus))}" if group.gpus and held else ""
        end = f"; to end it: {head.command}" if head.command else ""
        text = f"{group.text()}{held}{where}{age}: {head.why}{end}"
        yield Finding("orphan", "warning", "host", clean(text))
    if len(groups) > SHOWN:
        text = f"{len(groups) - SHOWN} more such processes, none of which is known to hold more"
        yield Finding("orphan", "warning", "host", text)
    unheld = [orphan for orphan in rows if orphan.pid is None]
    if unheld:
        each = ", ".join(f"GPU {orphan.gpus[0]} {gib(orphan.gpu_mem_mib)} GiB" for orphan in unheld[:SHOWN])
        more = f" and {len(unheld) - SHOWN} more" if len(unheld) > SHOWN else ""
        text = f"memory that no process accounts for: {each}{more}; see fuser -v /dev/nvidia*"
        yield Finding("gpu-memory-unaccounted", "warning", "host", text)


def _on_sockets(snapshot: HostSnapshot) -> Iterator[Finding]:
    """Engines that were found and cannot be watched: nothing says which address leads to them."""
    servers = snapshot.on_sockets
    for server in servers[:SHOWN]:
        path = server.unix_socket
        at = f"unix://{path}" if path.startswith("/") else "unix:///PATH"
        text = (
            f"{server.engine} pid {server.pid} serves on the Unix socket {path} alone and is not watched: "
            f'name it with [[engines]], url = the address of the proxy before it, metrics_url = "{at}"'
        )
        yield Finding("unix-socket", "warning", "host", clean(text))
    if len(servers) > SHOWN:
        text = f"{len(servers) - SHOWN} more engines serve on Unix sockets alone and are not watched"
        yield Finding("unix-socket", "warning", "host", text)


# ---------------------------------------------------------------------------------------- engines


def _engine(view: EngineView, assessment: Assessment, thresholds: Thresholds) -> Iterator[Finding]:
    verdict, picture = assessment.verdict, assessment.picture
    engine, scope = picture.engine, view.url
    if picture.processes is not None and picture.processes.orphans:
        pids = ", ".join(map(str, picture.processes.orphans[:6]))
        yield Finding("orphans", "error", scope, f"engine processes without a server: pid {pids}")
    if picture.own is not None:
        yield from own_findings.of_engine(scope, picture.own, verdict, thresholds)
    if engine is None:
        if picture.engine_reason == "stats_off":
            yield Finding(
                "stats-off", "warning", scope, "the engine exports no figures: its statistics are off"
            )
        return
    usage = engine.kv_usage_max if engine.kv_usage_max is not None else engine.kv_usage
    if usage is not None and usage >= thresholds.kv_usage_warn and verdict.verdict != "kv_cache":
        limit = f"{usage:.2f} >= {thresholds.kv_usage_warn:.2f}"
        yield Finding("kv-high", "warning", scope, f"KV cache {100 * usage:.0f} % used", limit)
    if engine.paused:
        held_up = assessment.outcomes["engine_hung"].state == "cannot_say"
        text = "the engine is paused: requests will not be served until it is told to go on"
        yield Finding("paused", "warning" if held_up else "info", scope, text)
    if engine.asleep:
        yield Finding(
            "asleep", "info", scope, "the engine is asleep: requests will not be served until it wakes"
        )
    yield from _device_notes(assessment, verdict, thresholds)


def _blind_probe(view: EngineView, assessment: Assessment, wall: float) -> Iterator[Finding]:
    """Nothing will restart a hung engine whose liveness passes."""
    text = unseen_hang(view, hung=assessment.outcomes["engine_hung"].state == "fires")
    if not text:
        return
    generating = by_generating(view, wall)
    yield Finding(
        "probe-blind",
        "warning",
        view.url,
        clean(f"{text}; {generating}" if generating else text),
        clean(why_unseen(view, wall), 300),
        "an exec probe that checks progress (infertop check --as liveness), or an outside canary",
    )


def _device_notes(assessment: Assessment, verdict: Verdict, thresholds: Thresholds) -> Iterator[Finding]:
    if verdict.verdict not in CALM:
        return
    scope = assessment.picture.scope
    for gpu in assessment.picture.gpus or ():
        spins = (gpu.sm_pct or 0.0) >= SPIN_SM_PCT
        if verdict.verdict == "idle" and spins and (gpu.mem_ctrl_pct or 0.0) < thresholds.mem_ctrl_low_pct:
            text = f"GPU {gpu.index} spins at SM {number(gpu.sm_pct)} % with nothing to do: busy waiting"
            yield Finding("idle-spin", "info", scope, text)
        ratio = clock_ratio(gpu)
        reasons = [r for r in gpu.throttle or () if r != "idle"]
        if spins and reasons and ratio is not None and ratio < thresholds.clock_low_ratio:
            text = f"GPU {gpu.index} throttled ({', '.join(reasons)}) at {100 * ratio:.0f} % of its clock"
            yield Finding("throttled", "warning", scope, f"{text}; latency does not suffer yet")
        total, used = gpu.mem_total_mib, gpu.mem_used_mib
        if total is not None and used is not None:
            free = total - used - (gpu.mem_reserved_mib or 0.0)
            if free < thresholds.gpu_mem_free_mib:
                text = f"GPU {gpu.index} has {memory(free)} free: a long prefill may fail to allocate"
                yield Finding("gpu-memory-low", "info", scope, text)
