"""What no host could show: figures of a scene that contradict each other, or their units."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

from tests.ui.scene_past import ENGINE_PAST, GPU_PAST, HOST_PAST
from tui.model.settings import ProbeSpec, Thresholds
from tui.model.status import Observed, SourceState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.readings import EngineReading, GpuReading, HostReading, ProbeReading
    from tui.model.snapshot import EngineView
    from tui.ui.view import View

LATENCIES = ("queue", "ttft", "e2e")
"""Each is a part of the next."""


def ordered(*figures: float | None, slack: float = 1.0) -> bool:
    """Those that are known do not fall."""
    known = [figure for figure in figures if figure is not None]
    return all(low <= high * slack for low, high in itertools.pairwise(known))


def ranges(reading: Any) -> Iterator[str]:
    """By the units that are in the names."""
    for field in dataclasses.fields(reading):
        value = getattr(reading, field.name)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            continue
        ratio = field.name.endswith(("_ratio", "_active", "_occupancy")) or field.name.startswith("kv_usage")
        # of one core where it is a process's
        percent = field.name.endswith("_pct") and not field.name.startswith("busiest_process")
        highest = 1.0 if ratio else 100.0 if percent else float("inf")
        if not 0 <= value <= highest:
            yield f"{field.name} {value}"


def engine_faults(r: EngineReading) -> Iterator[str]:
    for name in (*LATENCIES, "itl", "tpot"):
        if not ordered(*(getattr(r, f"{name}_{q}_s") for q in ("p50", "p95", "p99"))):
            yield f"percentiles of {name} fall"
    for quantile in ("p50", "p95", "p99"):
        if not ordered(*(getattr(r, f"{name}_{quantile}_s") for name in LATENCIES)):
            yield f"{quantile}: {', '.join(LATENCIES)} are not each a part of the next"
    if not ordered(r.kv_usage, r.kv_usage_max):
        yield "mean KV usage above its maximum"
    if not ordered(r.running, r.max_num_seqs):
        yield "more running than seats"
    if r.waiting_by_reason and sum(r.waiting_by_reason.values()) != r.waiting:
        yield "the reasons to wait do not add up"
    for name in ("running", "waiting") if r.ranks else ():
        if sum(getattr(rank, name) or 0.0 for rank in r.ranks) != getattr(r, name):
            yield f"the ranks' {name} do not add up"
    yield from flow_faults(r)


def flow_faults(r: EngineReading) -> Iterator[str]:
    """Each running request makes a token in each time between tokens, and each request some tokens."""
    if r.stalled_s and (r.gen_tok_s or r.prompt_tok_s or r.req_s or r.since_last_step_s != r.stalled_s):
        yield "it stands still and makes tokens"
    if r.running == 0 and r.gen_tok_s:
        yield "tokens of no request"
    if r.running and r.gen_tok_s and r.itl_p50_s and r.itl_p95_s:
        least, most = r.running / r.itl_p95_s / 1.5, r.running / r.itl_p50_s * 1.5
        if not least <= r.gen_tok_s <= most:
            yield f"{r.gen_tok_s} tok/s of {r.running} requests, not {least:.0f} to {most:.0f}"
    if r.req_s and r.e2e_p95_s and (r.running or 0.0) > r.req_s * r.e2e_p95_s * 1.5:
        yield "more running than come in the time that they take"


def gpu_faults(g: GpuReading) -> Iterator[str]:
    if not ordered(g.mem_used_mib, g.mem_total_mib):
        yield "more memory used than there is"
    if not ordered(g.power_w, g.power_limit_w, slack=1.1):
        yield "power above its limit"
    if not ordered(g.clock_sm_mhz, g.clock_max_mhz):
        yield "clock above its highest"
    if not ordered(g.pcie_gen, g.pcie_gen_max) or not ordered(g.pcie_width, g.pcie_width_max):
        yield "a link better than its best"
    if not ordered(g.nvlinks_up, g.nvlinks):
        yield "more links up than there are"
    active = None if g.gpm_sm_active is None else 100 * g.gpm_sm_active
    if not ordered(active, g.sm_pct) or not ordered(g.gpm_sm_occupancy, g.gpm_sm_active):
        yield "SMs busy while no kernel ran"
    if not ordered(g.gpm_tensor_active, g.gpm_sm_active):
        yield "tensor cores busier than their SMs"
    if g.sm_pct is not None and not ordered(g.mem_ctrl_pct, g.sm_pct + 5):
        yield "memory busy while no kernel ran"
    if g.processes and sum(p.mem_mib or 0.0 for p in g.processes) > (g.mem_used_mib or 0.0):
        yield "processes hold more than is used"
    if not all(
        ordered(p.sm_pct, g.sm_pct) and ordered(p.mem_ctrl_pct, g.mem_ctrl_pct) for p in g.processes or ()
    ):
        yield "a process busier than its card"
    if (g.stale_s is not None) != (g.state != "ok"):
        yield "old figures of a card that answers"
    if g.throttle and any("thermal" in name for name in g.throttle) and (g.temp_c or 0.0) < 80:
        yield "held down for heat while it is cool"


def host_faults(h: HostReading) -> Iterator[str]:
    cores, total = h.cpu_cores or 0, h.cpu_pct_total or 0.0
    if (
        h.mem_used_mib
        and h.mem_total_mib
        and abs(100 * h.mem_used_mib / h.mem_total_mib - (h.mem_used_pct or 0)) > 1
    ):
        yield "memory used is not that percentage"
    if h.cpu_pct_per_core is not None and (
        len(h.cpu_pct_per_core) != cores or abs(sum(h.cpu_pct_per_core) / cores - total) > 1
    ):
        yield f"the cores' mean is {sum(h.cpu_pct_per_core) / cores:.1f}, not {total}"
    if not ordered(h.busiest_thread_cpu_pct, h.busiest_process_cpu_pct, total * cores):
        yield "a thread busier than the busiest process, or that than all cores"
    if total + (h.iowait_pct or 0.0) > 100:
        yield "cores busy and waiting at once"
    if h.net_mb_s is not None and abs((h.net_rx_mb_s or 0) + (h.net_tx_mb_s or 0) - h.net_mb_s) > 0.2:
        yield "network is not in and out"
    for name, figure in (("read_mb_s", h.disk_read_mb_s), ("write_mb_s", h.disk_write_mb_s)):
        if h.disks and abs(sum(getattr(d, name) or 0.0 for d in h.disks) - (figure or 0.0)) > 0.2:
            yield f"the disks' {name} do not add up"
    if h.disks and max(disk.util_pct or 0.0 for disk in h.disks) != h.disk_util_pct:
        yield "the busiest disk is another"


def probe_faults(p: ProbeReading, spec: ProbeSpec, wall: float) -> Iterator[str]:
    name = p.kind
    if not ordered(p.latency_p50_s, p.latency_p99_s, p.latency_max_s) or not ordered(
        p.latency_s, p.latency_max_s
    ):
        yield f"{name}: percentiles fall"
    if p.latency_max_s and p.latency_max_s > spec.timeout_s * 1.05:
        yield f"{name}: slower than its timeout lets it be"
    if p.ok is not None and (p.ok != (p.streak > 0) or p.ok != (p.recent[-1:] == (True,))):
        yield f"{name}: {p.status}, streak {p.streak}, last result {p.recent[-1:]}"
    alike = sum(1 for _ in itertools.takewhile(lambda passed: passed is p.ok, reversed(p.recent)))
    if p.recent and alike != min(abs(p.streak), len(p.recent)):
        yield f"{name}: streak {p.streak}, {alike} alike at the end"
    if len(p.recent) != min(p.results, 120):
        yield f"{name}: latencies of {p.results} results, {len(p.recent)} shown"
    if p.span_s is not None and abs(p.span_s - (p.results - 1) * spec.period_s) > spec.period_s:
        yield f"{name}: {p.results} results in {p.span_s} s, one each {spec.period_s} s"
    if (p.decided_at is None) != (p.decisions == 0) or (p.decided_at or 0.0) > wall:
        yield f"{name}: decided {p.decisions} times, last at {p.decided_at}"
    if p.decided_at is not None and p.streak > 0 and wall - p.decided_at < p.streak * spec.period_s:
        yield f"{name}: decided within its streak"


def view_faults(view: View) -> Iterator[str]:
    """Of the sources' statuses, and of verdicts and the strips of their past."""
    shown = view.snapshot
    sources: list[Observed[Any]] = [shown.gpus, shown.host, *(engine.engine for engine in shown.engines)]
    for observed in sources:
        status = observed.status
        if (status.failures > 0) != (status.state is SourceState.FAILED) and status.reason != "no_driver":
            yield f"{status.failures} failures in a row, {status.state}"
        if status.ok and not (observed.reading and status.age_s is not None and status.age_s < 2):
            yield "fresh without a fresh reading"
        if (status.since or 0.0) > shown.taken_at:
            yield "a status of the future"
    for engine in shown.engines:
        refused = engine.engine.status.reason == "refused"
        if refused and any(probe.status != "refused" for probe in engine.probes):
            yield f"{engine.url} refuses scrapes but not probes"
    for verdict in view.judgement.verdicts:
        line = view.timelines.get(verdict.scope, ())
        if list(line) != sorted(line) or (line and line[-1][0] > shown.wall):
            yield f"{verdict.scope}: the strip is out of order"
        if line and verdict.since is not None and line[-1] != (verdict.since, verdict.verdict):
            yield f"{verdict.scope}: {verdict.verdict} since {shown.wall - verdict.since:.0f} s, strip {line[-1]}"


def evidence_faults(view: View) -> Iterator[str]:
    """A figure that decided is the one that the panes show."""
    readings: dict[str, Any] = {e.url: e.engine.reading for e in view.snapshot.engines if e.engine.reading}
    for verdict in view.judgement.verdicts:
        for one in verdict.evidence:
            shown = getattr(readings.get(verdict.scope), one.signal, None)
            worst = getattr(readings.get(verdict.scope), f"{one.signal}_max", None)
            if isinstance(shown, (int, float)) and one.value not in (shown, worst):
                yield f"{verdict.scope}: {one.signal} {one.value}, shown {shown}"


def past_faults(view: View) -> Iterator[str]:
    """A chart ends at the figure beside it."""
    shown = view.snapshot
    now: dict[str, Any] = {"host": shown.host.reading if shown.host.status.ok else None}
    for engine in shown.engines:
        now[engine.url] = engine.engine.reading if engine.engine.status.ok else None
    for gpu in shown.gpus.reading.gpus if shown.gpus.reading else ():
        fresh = shown.gpus.status.ok and gpu.state == "ok"
        now[f"gpu:{gpu.uuid}"] = gpu if fresh else None
    for scope, signal in itertools.product(now, (*ENGINE_PAST, *GPU_PAST, *HOST_PAST)):
        series = view.trends._history.get(scope, signal)
        if series is None or (now[scope] is None and series.last() is None):
            continue
        figure = getattr(now[scope], signal, None)
        last = series.last()
        if (figure is None) != (last is None) or abs((figure or 0.0) - (last or 0.0)) > 0.01 * (
            figure or 0.0
        ):
            yield f"{scope} {signal}: {figure}, its chart ends at {last}"


def spec_of(engine: EngineView, probe: ProbeReading) -> ProbeSpec:
    if probe.kind == "generate":
        return ProbeSpec(timeout_s=Thresholds().generate_timeout_s, period_s=30.0)
    return engine.probe_specs.get(probe.kind, ProbeSpec())


def faults(view: View) -> Iterator[str]:
    """Each contradiction in a picture, for a person."""
    shown = view.snapshot
    if (host := shown.host.reading) is not None:
        yield from itertools.chain(ranges(host), host_faults(host))
    for gpu in shown.gpus.reading.gpus if shown.gpus.reading else ():
        yield from (f"GPU {gpu.index}: {fault}" for fault in itertools.chain(ranges(gpu), gpu_faults(gpu)))
    for engine in shown.engines:
        reading = engine.engine.reading
        found = itertools.chain(
            () if reading is None else itertools.chain(ranges(reading), engine_faults(reading)),
            *(probe_faults(probe, spec_of(engine, probe), shown.wall) for probe in engine.probes),
        )
        yield from (f"{engine.url}: {fault}" for fault in found)
    yield from itertools.chain(view_faults(view), evidence_faults(view), past_faults(view))
