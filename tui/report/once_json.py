"""``once --json``: the contract of schema 1. Unknown is null: never 0, never left out."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from typing import TYPE_CHECKING, Any

from tui.model.history import History
from tui.model.places import Place
from tui.model.readings import DiskReading, EngineReading, GpuReading, HostReading
from tui.model.status import SourceState
from tui.verdict.live import pictures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.memory import Orphan
    from tui.model.readings import ProbeReading
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.model.verdicts import Judgement, Verdict

SCHEMA = 1
ORPHANS_MAX = 64
"""Those that hold most; anybody can leave any number behind."""

_HOST_KEYS = (
    "cpu_pct_total", "cpu_cores", "load1", "busiest_process_cpu_pct", "busiest_process",
    "busiest_thread_cpu_pct", "busiest_thread", "iowait_pct", "disk_util_pct", "disk_read_mb_s",
    "disk_write_mb_s", "mem_used_pct", "psi_cpu", "psi_io", "psi_mem", "ctx_switches_s", "net_mb_s",
    "swap_used_mib", "swap_total_mib", "swap_in_mb_s", "swap_out_mb_s", "oom_kills", "net_busiest",
    "net_busiest_mb_s", "net_speed_mb_s", "net_util_pct", "ib_rx_mb_s", "ib_tx_mb_s", "ib_util_pct",
    "ib_port",
)  # fmt: skip
_GPU_KEYS = (
    "index", "uuid", "name", "sm_pct", "mem_ctrl_pct", "mem_used_mib", "mem_total_mib", "power_w",
    "power_limit_w", "temp_c", "throttle", "clock_sm_mhz", "clock_max_mhz", "clock_mem_mhz",
    "ecc_uncorrected", "remap_pending", "xid", "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max",
    "mig", "gpm_sm_active", "gpm_tensor_active", "gpm_dram_active",
    "mem_reserved_mib", "gpm_sm_occupancy", "mem_temp_c", "energy_j", "persistence", "compute_mode",
    "ecc_corrected", "ecc_aggregate_corrected", "ecc_aggregate_uncorrected", "remap_corrected",
    "remap_uncorrected", "remap_failed", "retired_pages", "retired_pending", "pcie_tx_mb_s", "pcie_rx_mb_s",
    "nvlinks", "nvlinks_up", "nvlink_errors", "nvlink_tx_mb_s", "nvlink_rx_mb_s",
)  # fmt: skip
_GPU_IDENTITY = (
    "index", "uuid", "name", "pci_bus_id", "parent_uuid", "mig_name", "mig_index", "xid", "xid_age_s",
)  # fmt: skip
"""What is true of a device whether it answers or not."""
_ENGINE_KEYS = (
    "running", "waiting", "waiting_by_reason", "kv_usage", "kv_usage_max", "kv_capacity_tokens",
    "preemptions_per_s", "prefix_hit_ratio", "evictions_per_s", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s",
    "itl_p50_s", "itl_p95_s", "e2e_p95_s", "queue_p95_s", "gen_tok_s", "prompt_tok_s", "req_s",
    "http_503_ratio", "error_ratio", "max_num_seqs", "since_last_step_s",
    "scrape_s", "scrape_every_s", "ttft_mean_s", "itl_mean_s", "itl_p99_s", "tpot_p50_s", "tpot_p95_s",
    "tpot_p99_s", "tpot_mean_s", "e2e_p50_s", "e2e_p99_s", "e2e_mean_s", "queue_p50_s", "queue_p99_s",
    "queue_mean_s", "http_429_ratio", "preempted", "spec_accept_ratio", "spec_accept_length", "stalled_s",
    "stalled_scrapes", "asleep", "paused", "restarts",
)  # fmt: skip

_EXIT_KEYS = (
    "source", "name", "code", "ended_at", "result", "oom_killed", "error", "policy", "restarts", "grace_s",
    "mem_limit_mib",
)  # fmt: skip


def document(snapshot: HostSnapshot, judgement: Judgement) -> dict[str, Any]:
    """The whole answer as plain data, ready for ``json.dumps``."""
    gpus = snapshot.gpus.reading
    phases = {picture.scope: picture.phase for picture in pictures(snapshot, History())}
    return {
        "schema": SCHEMA,
        "taken_at": instant(snapshot.wall),
        "simulated": snapshot.simulated,
        "host": _host(snapshot),
        "gpus": _gpus(snapshot),
        "gpus_reason": snapshot.gpus.status.reason,
        "gpus_detail": snapshot.gpus.status.detail or None,
        "other_gpus": list(gpus.other_gpus) if gpus else [],
        "driver_version": gpus.driver_version if gpus else None,
        "engines": [_engine(view, phases[view.url] or "unknown") for view in snapshot.engines],
        "probes": [_probe(probe) for view in snapshot.engines for probe in view.probes],
        "verdicts": [verdict(v) for v in judgement.verdicts],
        "processes_hidden": snapshot.hidden or None,
        "orphans": [_orphan(orphan) for orphan in (snapshot.orphans or ())[:ORPHANS_MAX]],
        "orphans_left_out": max(0, len(snapshot.orphans or ()) - ORPHANS_MAX),
        "findings": [dataclasses.asdict(finding) for finding in judgement.findings],
    }


def instant(epoch_s: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    at = dt.datetime.fromtimestamp(epoch_s, dt.timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def verdict(found: Verdict) -> dict[str, Any]:
    """One verdict as the contract has it."""
    return {
        "scope": found.scope,
        "verdict": found.verdict,
        "secondary": list(found.secondary),
        "confidence": found.confidence,
        "state": found.state,
        "since": None if found.since is None else instant(found.since),
        "evidence": [_plain(dataclasses.asdict(evidence)) for evidence in found.evidence],
        "missing": list(found.missing),
        "advice": list(found.advice),
    }


def _plain(value: Any) -> Any:
    """Floats to a sensible length and never NaN or infinite, which JSON does not have."""
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _host(snapshot: HostSnapshot) -> dict[str, Any]:
    reading = snapshot.host.reading or HostReading()
    found = {key: _plain(getattr(reading, key)) for key in _HOST_KEYS}
    disks = [
        {field.name: _plain(getattr(disk, field.name)) for field in dataclasses.fields(DiskReading)}
        for disk in reading.disks or ()
    ]
    return {
        "name": snapshot.hostname or None,
        **found,
        "disks": None if reading.disks is None else disks,
        "missing": [dataclasses.asdict(m) for m in reading.missing],
    }


def _gpus(snapshot: HostSnapshot) -> list[dict[str, Any]]:
    reading = snapshot.gpus.reading
    return [_gpu(gpu, snapshot) for gpu in (reading.gpus if reading else ())]


def _gpu(gpu: GpuReading, snapshot: HostSnapshot) -> dict[str, Any]:
    """A row; one that does not answer keeps who it is, but last figures are not its present ones."""
    status = snapshot.gpus.status
    failed = status.state is SourceState.FAILED
    state = "error" if failed and gpu.state == "ok" else gpu.state
    known = gpu if state == "ok" else GpuReading(gpu.index)
    processes = None
    if known.processes is not None:
        processes = [_plain(dataclasses.asdict(process)) for process in known.processes]
    shares = known.throttle_share
    return {
        **{key: _plain(getattr(known, key)) for key in _GPU_KEYS},
        **{key: _plain(getattr(gpu, key)) for key in _GPU_IDENTITY},
        "xid_text": gpu.xid_text or None,
        "throttle_share": None if shares is None else _plain(dict(shares)),
        "processes": processes,
        "state": state,
        "reason": gpu.reason or (status.reason if failed else None),
        "detail": gpu.detail or (status.detail if failed else "") or None,
        "stale_s": _plain(gpu.stale_s if gpu.stale_s is not None or not failed else status.age_s),
        "recovered_s": _plain(gpu.recovered_s),
        "missing": [dataclasses.asdict(m) for m in gpu.missing],
    }


def _engine(view: EngineView, phase: str) -> dict[str, Any]:
    status = view.engine.status
    # the figures of a server that no longer answers are not its present ones
    reading = view.engine.reading
    figures = (
        reading if reading is not None and status.state is not SourceState.FAILED else EngineReading(view.url)
    )
    known = view.known or reading or figures
    tree = view.processes
    kind = known.engine or (tree[0].engine if tree else None)
    return {
        "url": view.url,
        "engine": kind,
        "version": known.version,
        "model": known.model,
        "simulated": known.simulated,
        "pid": tree[0].pid if tree else None,
        "pids": None if tree is None else [{"pid": p.pid, "role": p.role} for p in tree],
        "discovered": view.discovered,
        "memory": None if view.memory is None else _plain(dataclasses.asdict(view.memory)),
        "place": None if view.place is None else _place(view),
        "probe_settings": _probe_settings(view),
        "tls_verified": not view.unverified if view.url.startswith("https:") else None,
        "proxy": view.proxy or None,
        "args": _told(view.args),
        "defaults": _told(view.defaults),
        "own": _plain(dataclasses.asdict(view.own.reading))
        if view.own.reading and view.own.status.ok
        else None,
        "state": phase,
        "reason": status.reason or figures.reason,
        "detail": status.detail or figures.detail or None,
        "age_s": _plain(status.age_s),
        "window_s": _plain(figures.window_s),
        "latency_window_s": _plain(figures.latency_window_s),
        **{key: _plain(getattr(figures, key)) for key in _ENGINE_KEYS if key != "waiting_by_reason"},
        "waiting_by_reason": _told(figures.waiting_by_reason),
        "finish_reasons": _told(figures.finish_reasons),
        "rejections": _told(figures.rejections),
        "bounds": dict(figures.bounds),
        "started_at": None if figures.started_at is None else instant(figures.started_at),
        "ranks": [
            {
                "rank": r.rank,
                "running": r.running,
                "waiting": r.waiting,
                "kv_usage": _plain(r.kv_usage),
                "stalled_s": _plain(r.stalled_s),
            }
            for r in figures.ranks
        ]
        or None,
        "missing": [dataclasses.asdict(m) for m in (*figures.missing, *view.untold)],
        "stopping": view.stopping or None,
        "exit": _exit(view),
    }


def _exit(view: EngineView) -> dict[str, Any] | None:
    """How its last end came about; null where none was seen."""
    death = view.death.reading
    if death is None:
        return None
    ended = death.exit
    told = {} if ended is None else {key: _plain(getattr(ended, key)) for key in _EXIT_KEYS}
    return {
        **dict.fromkeys(_EXIT_KEYS),
        **told,
        "ended_at": None if ended is None or ended.ended_at is None else instant(ended.ended_at),
        "error": None if ended is None else ended.error or None,
        "asked_to_stop": death.asked_to_stop,
        "core_crashed": death.core_crashed,
        "restarted": death.restarted,
        "kernel": [
            {"kind": line.kind, "text": line.text, "at": None if line.at is None else instant(line.at)}
            for line in death.kernel
        ],
        "log": list(death.log),
        "log_origin": death.log_origin or None,
        "missing": [dataclasses.asdict(m) for m in death.missing],
    }


def _told(table: Mapping[str, Any]) -> dict[str, Any] | None:
    """A table of figures; null where the engine said none."""
    found: dict[str, Any] | None = _plain(dict(table)) or None
    return found


def _place(view: EngineView) -> dict[str, Any]:
    container, unit = view.container, view.unit
    return {
        **dataclasses.asdict(view.place or Place()),
        "container": None if container.reading is None else _plain(dataclasses.asdict(container.reading)),
        "container_reason": container.status.reason,
        "systemd": None if unit.reading is None else _plain(dataclasses.asdict(unit.reading)),
        "systemd_reason": unit.status.reason,
    }


def _orphan(orphan: Orphan) -> dict[str, Any]:
    return {
        "pid": orphan.pid,
        "name": orphan.name,
        "age_s": _plain(orphan.age_s),
        "gpu_mem_mib": _plain(orphan.gpu_mem_mib),
        "command": orphan.command,
        "gpus": list(orphan.gpus),
        "why": orphan.why,
        "user": orphan.user or None,
        "ends_with": orphan.ends_with,
    }


def _probe_settings(view: EngineView) -> dict[str, Any] | None:
    """Those in force, without their headers, which may hold a token."""
    if not view.probe_origin:
        return None
    specs = {}
    for kind, spec in view.probe_specs.items():
        fields = (field.name for field in dataclasses.fields(spec) if field.name != "headers")
        specs[kind] = {name: _plain(getattr(spec, name)) for name in fields}
    return {
        "origin": view.probe_origin,
        "platform": view.probe_platform,
        "requests_per_min": view.probe_requests,
        "probes": specs,
    }


def _probe(probe: ProbeReading) -> dict[str, Any]:
    return {
        "url": probe.url,
        "kind": probe.kind,
        "path": probe.path,
        "status": probe.status,
        "latency_s": _plain(probe.latency_s),
        "latency_p99_s": _plain(probe.latency_p99_s),
        "streak": probe.streak,
        # "unhealthy" restarts nothing, so by the contract's words nothing would follow
        "would": {
            "action": "none" if probe.would == "unhealthy" else probe.would,
            "in_s": None if probe.would == "unhealthy" else _plain(probe.would_in_s),
        },
        "unhealthy_in_s": _plain(probe.would_in_s) if probe.would == "unhealthy" else None,
        "latency_p50_s": _plain(probe.latency_p50_s),
        "latency_max_s": _plain(probe.latency_max_s),
        "results": probe.results,
        "span_s": _plain(probe.span_s),
        "threshold": probe.threshold,
        "age_s": _plain(probe.age_s),
        "waiting_s": _plain(probe.waiting_s),
        "decided_at": None if probe.decided_at is None else instant(probe.decided_at),
        "notice_in_s": _plain(probe.notice_in_s),
        "failed": probe.ok is False,
        "note": probe.note or None,
    }
