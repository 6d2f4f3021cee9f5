"""Snapshots for the tests of live judging: a good engine on a good host, and what to change."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tui.model.readings import (
    EngineProcess,
    EngineReading,
    GpuProcess,
    GpuReading,
    GpuSet,
    HostReading,
    ProbeReading,
)
from tui.model.snapshot import EngineView, HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus

if TYPE_CHECKING:
    from tui.model.readings import EngineKind, ProbeKind, ProbeStatus, ProcessRole
    from tui.model.status import Reason

URL = "http://127.0.0.1:8000"
NOW = 1000.0
WALL = 1_800_000_000.0
FRESH = SourceStatus(SourceState.FRESH, since=0.0, age_s=0.2)


def failed(reason: Reason, since: float = NOW - 1.0) -> SourceStatus:
    return SourceStatus(SourceState.FAILED, reason, since=since, age_s=3.0, failures=3)


def reading(url: str = URL, **changes: Any) -> EngineReading:
    good = EngineReading(
        url=url,
        engine="vllm",
        version="0.32.0",
        model="m",
        window_s=1.0,
        running=12.0,
        waiting=0.0,
        kv_usage=0.3,
        kv_usage_max=0.35,
        preemptions_per_s=0.0,
        ttft_p95_s=0.3,
        itl_p95_s=0.02,
        queue_p95_s=0.01,
        gen_tok_s=800.0,
        prompt_tok_s=900.0,
        req_s=2.0,
        error_ratio=0.0,
        max_num_seqs=256.0,
        since_last_step_s=0.3,
        stalled_s=0.0,
        stalled_scrapes=0,
    )
    return dataclasses.replace(good, **changes)


def nothing_to_do(url: str = URL, **changes: Any) -> EngineReading:
    quiet: dict[str, Any] = {
        "running": 0.0, "waiting": 0.0, "kv_usage": 0.0, "kv_usage_max": 0.0, "gen_tok_s": 0.0, "prompt_tok_s": 0.0,
        "ttft_p95_s": None, "itl_p95_s": None, "queue_p95_s": None, "req_s": 0.0, "error_ratio": None,
        "preemptions_per_s": 0.0,
    }  # fmt: skip
    return reading(url, **(quiet | changes))


def full_cache(url: str = URL) -> EngineReading:
    return reading(
        url, kv_usage=0.99, kv_usage_max=1.0, waiting=30.0, preemptions_per_s=2.0, ttft_p95_s=20.0, itl_p95_s=0.3,
        queue_p95_s=19.0,
    )  # fmt: skip


def probe(kind: ProbeKind, status: ProbeStatus, url: str = URL, latency_s: float = 0.004) -> ProbeReading:
    good = isinstance(status, int) and status < 400
    return ProbeReading(url, kind, "/health", status, latency_s, latency_s, streak=5 if good else -5)


def probes(status: ProbeStatus = 200, url: str = URL) -> tuple[ProbeReading, ...]:
    return probe("liveness", status, url), probe("readiness", status, url)


def process(
    pid: int, role: ProcessRole, parent: int = 1, kind: EngineKind = "vllm", **changes: Any
) -> EngineProcess:
    made = EngineProcess(pid, parent, role, role, kind, started_at=WALL - 500.0)
    return dataclasses.replace(made, **changes)


def tree(started_at: float = WALL - 500.0, pid: int = 100) -> tuple[EngineProcess, ...]:
    return (
        process(pid, "api_server", port=8000, listening=True, started_at=started_at),
        process(pid + 1, "engine_core", pid, started_at=started_at),
        process(pid + 2, "worker", pid + 1, started_at=started_at),
    )


def view(found: EngineReading | None = None, **changes: Any) -> EngineView:
    url = changes.get("url", URL)
    served = found if found is not None else reading(url)
    good = EngineView(
        url=url,
        engine=Observed(served, FRESH),
        probes=probes(url=url),
        local=True,
        processes=tree(),
        ever_served=True,
        served_last=NOW - 0.2,
    )
    return dataclasses.replace(good, **changes)


def gpu(index: int = 0, **changes: Any) -> GpuReading:
    good = GpuReading(
        index=index,
        uuid=f"GPU-{index}",
        name="H100",
        sm_pct=60.0,
        mem_ctrl_pct=45.0,
        mem_used_mib=70000.0,
        mem_total_mib=81559.0,
        power_w=420.0,
        power_limit_w=700.0,
        temp_c=60.0,
        throttle=(),
        clock_sm_mhz=1980.0,
        clock_max_mhz=1980.0,
        processes=(),
    )
    return dataclasses.replace(good, **changes)


def gpu_of(index: int, pid: int, **changes: Any) -> GpuReading:
    return gpu(index, processes=(GpuProcess(pid, "python", 70000.0),), **changes)


def host(**changes: Any) -> HostReading:
    good = HostReading(
        cpu_pct_total=6.0, cpu_cores=64, busiest_process_cpu_pct=45.0, busiest_thread_cpu_pct=40.0, iowait_pct=0.2,
        disk_util_pct=1.0, disk_read_mb_s=0.5, mem_used_pct=30.0, psi_cpu=0.5, psi_io=0.2, psi_mem=0.0,
        ctx_switches_s=30000.0, net_mb_s=3.0,
    )  # fmt: skip
    return dataclasses.replace(good, **changes)


def snapshot(*views: EngineView, at: float = NOW, **changes: Any) -> HostSnapshot:
    good = HostSnapshot(
        taken_at=at,
        wall=WALL + at - NOW,
        hostname="gpu-07",
        gpus=Observed(GpuSet((gpu(),)), FRESH),
        host=Observed(host(), FRESH),
        engines=views,
    )
    return dataclasses.replace(good, **changes)
