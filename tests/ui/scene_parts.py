"""What a host is made of, all figures fixed: cards, engines, probes; each figure follows from those given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tui.model.readings import (
    DiskReading,
    EngineProcess,
    EngineReading,
    GpuProcess,
    GpuReading,
    GpuSet,
    HostReading,
    Missing,
    ProbeReading,
)
from tui.model.settings import ProbeSpec
from tui.model.snapshot import EngineView, HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus

NOW = 100_000.0
WALL = 1_760_012_585.0
FRESH = SourceStatus(SourceState.FRESH, since=NOW - 500, age_s=0.4)
URLS = tuple(f"http://127.0.0.1:{8000 + i}" for i in range(12))
_CORES = tuple(float((7 * i) % 61) for i in range(64))
_TOKENS = 248.6
"""Generated for each request."""


def gpu(index: int, **changes: Any) -> GpuReading:
    """A card; what its SMs, memory and sensors do follows from ``sm_pct``, ``mem_used_mib`` and ``temp_c``."""
    sm: float | None = changes.get("sm_pct", 96.0 - 3 * index)
    moved = 68.0 - index if "sm_pct" not in changes else None if sm is None else float(round(0.71 * sm))
    bandwidth: float | None = changes.get("mem_ctrl_pct", moved)
    used: float = changes.get("mem_used_mib", 73_830.0 + 11 * index)
    temp: float = changes.get("temp_c", 71.0 - index)
    active = None if sm is None else round(0.00865 * sm, 2)
    holder = GpuProcess(
        4100 + index,
        "VLLM::Worker_TP",
        max(0.0, used - 730.0),
        None if sm is None else max(0.0, sm - 2),
        None if bandwidth is None else max(0.0, bandwidth - 7),
    )
    base = GpuReading(
        index=index,
        uuid=f"GPU-{index}",
        name="NVIDIA H100 80GB HBM3",
        sm_pct=sm,
        mem_ctrl_pct=bandwidth,
        mem_used_mib=used,
        mem_total_mib=81_559.0,
        power_w=640.0 - 9 * index,
        power_limit_w=700.0,
        temp_c=temp,
        throttle=(),
        clock_sm_mhz=1755.0,
        clock_max_mhz=1980.0,
        clock_mem_mhz=2619.0,
        ecc_uncorrected=0,
        pcie_gen=5,
        pcie_gen_max=5,
        pcie_width=16,
        pcie_width_max=16,
        processes=(holder,),
        gpm_sm_active=active,
        gpm_sm_occupancy=None if active is None else round(0.49 * active, 2),
        gpm_tensor_active=None if active is None else round(0.445 * active, 2),
        gpm_dram_active=None if active is None else round(0.75 * active, 2),
        mem_temp_c=temp + 9,
        energy_j=4.1e8 + 1e6 * index,
        persistence=True,
        compute_mode="default",
        ecc_corrected=0,
        ecc_aggregate_corrected=12 + index,
        ecc_aggregate_uncorrected=0,
        remap_corrected=0,
        remap_uncorrected=0,
        remap_failed=False,
        remap_pending=False,
        pcie_tx_mb_s=812.0,
        pcie_rx_mb_s=2310.0,
        nvlinks=18,
        nvlinks_up=18,
        nvlink_errors=0,
        nvlink_tx_mb_s=104_200.0,
        nvlink_rx_mb_s=103_900.0,
        throttle_share=(("sw_power_cap", 0.4),) if index < 2 else (),
    )
    return replace(base, **changes)


def instance(card: GpuReading, place: int, **changes: Any) -> GpuReading:
    """A MIG instance of a card."""
    base = GpuReading(
        index=card.index,
        uuid=f"MIG-{card.index}-{place}",
        name="NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        mem_used_mib=8_000.0,
        mem_total_mib=9_984.0,
        gpm_sm_active=0.7,
        parent_uuid=card.uuid,
        mig_name="1g.10gb",
        mig_index=place,
        processes=(GpuProcess(5000 + place, "VLLM::Worker", 7_900.0),),
    )
    return replace(base, **changes)


def engine_reading(url: str, **changes: Any) -> EngineReading:
    """Percentiles, rates and reasons that are not given follow from those that are."""
    ttft, token = changes.get("ttft_p95_s", 0.41), changes.get("itl_p95_s", 0.034)
    made, waiting = changes.get("gen_tok_s", 1840.0), changes.get("waiting", 0.0)
    kv = changes.get("kv_usage", 0.42)
    base = EngineReading(
        url=url,
        engine="vllm",
        version="0.32.0",
        model="meta-llama/Llama-3.1-70B-Instruct",
        running=41.0,
        waiting=waiting,
        waiting_by_reason={"capacity": waiting},
        kv_usage=kv,
        kv_usage_max=kv,
        kv_capacity_tokens=412_000.0,
        preemptions_per_s=0.0,
        prefix_hit_ratio=0.31,
        ttft_p50_s=None if ttft is None else round(0.44 * ttft, 3),
        ttft_p95_s=ttft,
        ttft_p99_s=None if ttft is None else round(2.2 * ttft, 3),
        itl_p50_s=None if token is None else round(0.62 * token, 3),
        itl_p95_s=token,
        e2e_p95_s=None if ttft is None or token is None else round(ttft + 256 * token, 2),
        queue_p95_s=0.02,
        gen_tok_s=made,
        prompt_tok_s=5 * made,
        req_s=round(made / _TOKENS, 2),
        error_ratio=0.0,
        max_num_seqs=256.0,
        since_last_step_s=0.2,
        missing=(Missing("http_503_ratio", "the status label is grouped", "admission_rejections_total"),),
    )
    return replace(base, **changes)


def probes(url: str, **both: Any) -> tuple[ProbeReading, ...]:
    """Liveness and readiness, on one route."""
    live = ProbeReading(
        url, "liveness", "/health", 200, 0.003, 0.012, 412, "none",
        latency_p50_s=0.003, latency_max_s=0.031, results=200, span_s=1990.0, threshold=1,
        recent=(True,) * 120, age_s=4.0,
    )  # fmt: skip
    ready = replace(live, kind="readiness", latency_s=0.004, latency_p99_s=0.015)
    return replace(live, **both), replace(ready, **both)


def engine(index: int = 0, *, probing: tuple[ProbeReading, ...] | None = None, **changes: Any) -> EngineView:
    url = URLS[index]
    return EngineView(
        url=url,
        engine=Observed(engine_reading(url, **changes), FRESH),
        probes=probes(url) if probing is None else probing,
        probe_specs={"liveness": ProbeSpec("/health"), "readiness": ProbeSpec("/health")},
        probe_origin="vllm's defaults",
        probe_requests=6,
        local=True,
        processes=(EngineProcess(4000 + index, 1, "vllm", "api_server", "vllm", port=8000 + index),),
        ever_served=True,
    )


def failed_engine(index: int, reason: Any, *, age_s: float | None = 12.0) -> EngineView:
    """One that ended: its process is gone, its probes fail too."""
    url = URLS[index]
    reading = engine_reading(url) if age_s is not None else None
    status = SourceStatus(SourceState.FAILED, reason, since=NOW - 12, age_s=age_s, failures=6)
    live, ready = probes(
        url, status="refused", latency_s=0.001, streak=-2, threshold=3, would="restart", would_in_s=8.0,
        recent=(True,) * 118 + (False, False), age_s=2.0,
    )  # fmt: skip
    failing = (live, replace(ready, would="unready"))
    return replace(engine(index), engine=Observed(reading, status), probes=failing, processes=())


def host(**changes: Any) -> HostReading:
    """The cores and the load follow from ``cpu_pct_total``."""
    cpu: float = changes.get("cpu_pct_total", 22.0)
    share = cpu * len(_CORES) / sum(_CORES)
    base = HostReading(
        cpu_pct_total=cpu,
        cpu_cores=len(_CORES),
        cpu_pct_per_core=tuple(min(100.0, round(core * share)) for core in _CORES),
        load1=round(0.645 * cpu, 1),
        busiest_process_cpu_pct=312.0,
        busiest_process="vllm",
        busiest_process_pid=4000,
        busiest_thread_cpu_pct=88.0,
        busiest_thread="VLLM::EngineCore",
        busiest_thread_pid=4010,
        iowait_pct=1.0,
        disk_util_pct=8.0,
        disk_read_mb_s=12.5,
        disk_write_mb_s=3.1,
        mem_used_pct=43.0,
        mem_used_mib=225_400.0,
        mem_total_mib=524_288.0,
        psi_cpu=3.1,
        psi_io=0.2,
        psi_mem=0.0,
        ctx_switches_s=121_000.0,
        net_mb_s=46.0,
        net_rx_mb_s=34.0,
        net_tx_mb_s=12.0,
        disks=(
            DiskReading("nvme0n1", 220.0, 41.0, 12.4, 2.9, 8.0, 0.21),
            DiskReading("nvme1n1", 0.0, 0.0, 0.0, 0.0, 0.0, None),
            DiskReading("sda", 1.2, 6.0, 0.1, 0.2, 1.0, 4.3),
        ),
    )
    return replace(base, **changes)


def snapshot(gpus: int = 8, engines: int = 2, **changes: Any) -> HostSnapshot:
    base = HostSnapshot(
        taken_at=NOW,
        wall=WALL,
        hostname="gpu-07",
        gpus=Observed(GpuSet(tuple(gpu(i) for i in range(gpus)), "550.54.15"), FRESH),
        host=Observed(host(), FRESH),
        engines=tuple(engine(i) for i in range(engines)),
    )
    return replace(base, **changes)
