"""``once`` for people: the verdict first, then the figures, one row each, columns aligned."""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING

from tui.model import units
from tui.model.readings import GpuReading
from tui.model.status import SourceState
from tui.report.columns import table
from tui.report.once_memory import engine_memory, orphans
from tui.verdict.words import named

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.readings import EngineReading, ProbeReading
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.model.status import SourceStatus
    from tui.model.verdicts import Finding, Judgement, Verdict


def render(snapshot: HostSnapshot, judgement: Judgement) -> str:
    """Lines without any terminal control; text from outside was cleaned where it came in.

    What is all simulated is marked as a whole; one simulated engine among others in its own rows.
    """
    lines = []
    if snapshot.simulated and not snapshot.simulated_engines:
        lines += ["SIMULATED", ""]
    lines += conclusions(snapshot, judgement)
    parts = (_gpus, _engines, orphans, _host, _probes)
    lines += [line for part in parts if (found := part(snapshot)) for line in ("", *found)]
    return "\n".join(lines).strip("\n") + "\n"


def conclusions(snapshot: HostSnapshot, judgement: Judgement) -> list[str]:
    """Verdicts with evidence and advice, then the findings, in lines."""
    lines: list[str] = []
    for verdict in judgement.verdicts:
        if len(judgement.verdicts) == 2 and verdict.scope == "host":
            continue  # one engine: the host's verdict repeats it
        lines += _verdict(verdict, _mark(next((v for v in snapshot.engines if v.url == verdict.scope), None)))
    return lines + [line for finding in judgement.findings for line in _finding(finding, snapshot)]


def _mark(view: EngineView | None) -> str:
    """Behind the name of a simulated engine."""
    return " SIMULATED" if view is not None and view.simulated else ""


def _verdict(verdict: Verdict, mark: str) -> list[str]:
    head = f"{verdict.title}  {verdict.scope}{mark}  confidence {verdict.confidence}"
    if verdict.secondary:
        head += f"  also {', '.join(verdict.secondary)}"
    lines = [head]
    because = "   ".join(e.text for e in verdict.evidence if e.text)
    if because:
        lines.append(f"  because  {because}")
    if verdict.certainty and verdict.confidence != "high":
        lines.append(f"  certain  {verdict.confidence}: {'; '.join(verdict.certainty)}")
    if verdict.missing:
        lines.append(f"  missing  {'; '.join(named(verdict.missing))}")
    lines += [f"  do       {advice}" for advice in verdict.advice]
    return lines


def _finding(finding: Finding, snapshot: HostSnapshot) -> list[str]:
    """What is wrong, of which of several engines, by which sum, and what to set instead."""
    which = f"{finding.scope}: " if len(snapshot.engines) > 1 and finding.scope != "host" else ""
    sum_ = f" ({finding.arithmetic})" if finding.arithmetic else ""
    line = f"{finding.level}: {which}{finding.text}{sum_}"
    return [line, f"  instead  {finding.instead}"] if finding.instead else [line]


def _failure(what: str, status: SourceStatus) -> str:
    if status.state is SourceState.PENDING:
        return f"{what}: not read yet"
    return f"{what}: {status.detail or status.reason or status.state.value}"


def _gpus(snapshot: HostSnapshot) -> list[str]:
    reading = snapshot.gpus.reading
    if reading is None or not reading.gpus:
        others = [f"  {text}" for text in reading.other_gpus] if reading else []
        none = _failure("GPUs", snapshot.gpus.status) if reading is None else "GPUs: the driver counts none"
        return [none, *others]
    rows = [["#", "GPU", "SM %", "mem %", "GiB", "of", "W", "of", "C", "SM MHz", "state"]]
    rows += [_gpu(gpu) for gpu in reading.gpus]
    told = dict.fromkeys(  # instances share what ails their card
        f"  GPU {gpu.index}: {gpu.detail or gpu.reason}" for gpu in reading.gpus if gpu.detail or gpu.reason
    )
    return [*table(rows, left=2), *told, *(f"  {text}" for text in (*reading.other_gpus, *reading.notes))]


def _gpu(gpu: GpuReading) -> list[str]:
    """A row; one that does not answer has no figures, for its last ones are not the present ones."""
    known = gpu if gpu.state == "ok" else GpuReading(gpu.index)
    return [
        str(gpu.index) if gpu.parent_uuid is None else "",
        (gpu.name or units.DASH) if gpu.parent_uuid is None else f"  {gpu.mig_name or 'MIG'}",
        units.percent(known.sm_pct),
        units.percent(known.mem_ctrl_pct),
        units.gib(known.mem_used_mib),
        units.gib(known.mem_total_mib),
        units.number(known.power_w),
        units.number(known.power_limit_w),
        units.number(known.temp_c),
        units.number(known.clock_sm_mhz),
        gpu.state if gpu.state != "ok" else ",".join(gpu.throttle or ()) or "ok",
    ]


def _engines(snapshot: HostSnapshot) -> list[str]:
    hidden = [f"  {snapshot.hidden}"] if snapshot.hidden else []
    if not snapshot.engines:
        return ["engines: none found on this host; name one: infertop once http://HOST:PORT", *hidden]
    rows = [
        ["engine", "model", "run", "wait", "kv %", "hit %", "ttft p95", "itl p95", "tok/s", "req/s", "state"]
    ]
    rows += [_engine(view) for view in snapshot.engines]
    return [*table(rows, left=2), *(line for view in snapshot.engines for line in _below(view)), *hidden]


def _engine(view: EngineView) -> list[str]:
    reading, status = view.engine.reading, view.engine.status
    if reading is None or status.state is SourceState.FAILED:
        known = view.known or reading
        kind = (known.engine if known else None) or (view.processes[0].engine if view.processes else "engine")
        name = f"{kind} {view.url}{_mark(view)}"
        return [
            name,
            (known.model if known else None) or units.DASH,
            *[units.DASH] * 8,
            status.detail or status.reason or status.state.value,
        ]
    version = f" {reading.version}" if reading.version else ""
    return [
        f"{reading.engine or 'engine'}{version} {view.url}{_mark(view)}",
        reading.model or units.DASH,
        units.count(reading.running),
        units.count(reading.waiting),
        units.ratio_as_percent(reading.kv_usage),
        units.ratio_as_percent(reading.prefix_hit_ratio),
        _latency(reading, "ttft_p95_s"),
        _latency(reading, "itl_p95_s"),
        units.count(reading.gen_tok_s),
        units.count(reading.req_s),
        reading.detail or reading.reason or "ok",
    ]


def _latency(reading: EngineReading, field: str) -> str:
    return units.bounded(units.seconds(getattr(reading, field)), reading.bounds.get(field, ""))


def _below(view: EngineView) -> list[str]:
    """Exact means with the window of all latencies, and what would bring what a verdict needs."""
    reading = view.engine.reading
    via = [f"  {view.url} read through the proxy {view.proxy}; probes go past it"] if view.proxy else []
    lines = [*via, *engine_memory(view), *_end(view)]
    if reading is None or view.engine.status.state is SourceState.FAILED:
        return lines
    means = {name: getattr(reading, f"{name}_mean_s") for name in ("ttft", "itl", "tpot", "e2e", "queue")}
    exact = "  ".join(f"{name} {units.seconds(mean)}" for name, mean in means.items() if mean is not None)
    if exact:
        window = units.seconds(reading.latency_window_s)
        lines.append(f"  {view.url} percentiles of the last {window}, means of the same: {exact}")
    wanted: dict[str, list[str]] = {}
    for gap in reading.missing:
        if gap.field in _NEEDED and gap.enable:
            wanted.setdefault(f"{gap.why}: {gap.enable}", []).append(gap.field)
    return lines + [f"  {view.url} without {', '.join(fields)}: {how}" for how, fields in wanted.items()]


def _end(view: EngineView) -> list[str]:
    """Why it went, as far as that is not in the verdict's one line, and what would tell more."""
    death = view.death.reading
    if death is None:
        return []
    lines = [f"  {view.url} kernel: {line.text}" for line in death.kernel]
    lines += [f"  {view.url} {death.log_origin}: {line}" for line in death.log]
    return lines + [
        f"  {view.url} {_NOT_KNOWN[gap.field]}: {gap.why} ({gap.enable})" for gap in death.missing
    ]


_NOT_KNOWN = {
    "exit": "how it ended is not known",
    "kernel": "the kernel's log is not known",
    "log": "its last lines are not known",
}
_NEEDED = frozenset(
    ("running", "waiting", "kv_usage", "ttft_p95_s", "itl_p95_s", "gen_tok_s", "since_last_step_s")
)


def _host(snapshot: HostSnapshot) -> list[str]:
    host = snapshot.host.reading
    if host is None:
        return [_failure("host", snapshot.host.status)]
    pressure = f"cpu {units.number(host.psi_cpu, 1)} io {units.number(host.psi_io, 1)}"
    lines = [
        f"host {snapshot.hostname}: cpu {units.percent(host.cpu_pct_total)} %"
        f" of {host.cpu_cores or units.DASH} cores, iowait {units.percent(host.iowait_pct)} %,"
        f" memory {units.percent(host.mem_used_pct)} %, load {units.number(host.load1, 2)},"
        f" net {units.count(host.net_mb_s)} MB/s",
        f"  busiest process {host.busiest_process or units.DASH}"
        f" {units.percent(host.busiest_process_cpu_pct)} %, thread {host.busiest_thread or units.DASH}"
        f" {units.percent(host.busiest_thread_cpu_pct)} %,"
        f" pressure {pressure} memory {units.number(host.psi_mem, 1)}",
    ]
    if host.disks:
        rows = [["  disk", "r/s", "w/s", "read MB/s", "write MB/s", "util %", "await ms"]]
        rows += [
            [
                f"  {disk.name}",
                units.count(disk.r_s),
                units.count(disk.w_s),
                units.count(disk.read_mb_s),
                units.count(disk.write_mb_s),
                units.percent(disk.util_pct),
                units.number(disk.await_ms, 1),
            ]
            for disk in host.disks
        ]
        lines += table(rows)
    return lines


def _probes(snapshot: HostSnapshot) -> list[str]:
    rows = [["probe", "path", "status", "latency", "p99", "streak", "would"]]
    rows += [
        [
            f"{probe.kind} {probe.url}",
            probe.path,
            str(probe.status) if probe.status is not None else units.DASH,
            units.seconds(probe.latency_s),
            units.seconds(probe.latency_p99_s),
            f"{probe.streak:+d}" if probe.streak else units.DASH,
            _would(probe),
        ]
        for view in snapshot.engines
        for probe in view.probes
    ]
    notes = [
        f"  {probe.kind} {probe.url}: {probe.note}"
        for view in snapshot.engines
        for probe in view.probes
        if probe.note
    ]
    origins = [
        f"  {view.url} probe settings: {view.probe_origin}" for view in snapshot.engines if view.probe_origin
    ]
    return [*table(rows, left=2), *notes, *origins] if len(rows) > 1 else []


def _would(probe: ProbeReading) -> str:
    if probe.would == "none":
        return units.DASH
    return f"{probe.would} in {units.seconds(probe.would_in_s)}" if probe.would_in_s else f"{probe.would} now"


def template(text: str) -> Callable[[HostSnapshot, Judgement], str]:
    """A one-line format, checked before anything is sampled.

    Raises:
        ValueError: a name that does not exist, or braces that do not match.
    """
    _fill(text, dict.fromkeys(_FIELDS, ""))

    def fill(snapshot: HostSnapshot, judgement: Judgement) -> str:
        worst = judgement.verdicts[0]
        for found in judgement.verdicts[1:]:
            if found.verdict == worst.verdict:
                worst = found  # the engine that the host's verdict speaks of
                break
        values = {
            "verdict": worst.verdict,
            "scope": worst.scope,
            "title": worst.title,
            "confidence": worst.confidence,
            "because": "  ".join(e.text for e in worst.evidence if e.text),
            "host": snapshot.hostname,
        }
        return _fill(text, values)

    return fill


_FIELDS = ("verdict", "scope", "title", "confidence", "because", "host")


def _fill(text: str, values: dict[str, str]) -> str:
    parts = []
    for literal, name, spec, conversion in Formatter().parse(text):
        parts.append(literal)
        if name is None:
            continue
        if name not in values or spec or conversion:
            raise ValueError(f"{{{name}}} is not one of {', '.join(f'{{{known}}}' for known in _FIELDS)}")
        parts.append(values[name])
    return "".join(parts)
