"""A host for each conclusion, with the figures of which the rules conclude it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.ui.scene_parts import FRESH, NOW, URLS, WALL, engine, gpu, host, probes, snapshot
from tests.ui.scene_past import history, settled
from tui.model.history import History
from tui.model.readings import DiskReading, EngineProcess, GpuSet
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed, SourceState, SourceStatus
from tui.ui.charts import Trends
from tui.ui.view import Mode, View
from tui.verdict.judge import judge_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.readings import GpuReading
    from tui.model.snapshot import EngineView, HostSnapshot

SINCE_S = {"loading": 41.0, "draining": 9.0}
"""For how long each has held, where not for 210 s."""
_SLOW: dict[str, Any] = {"ttft_p95_s": 6.2, "queue_p95_s": 4.1}


def _cards(count: int = 4, **changes: Any) -> tuple[GpuReading, ...]:
    """Busy ones, each with the process of the one engine."""
    found = []
    for index in range(count):
        settled = {"sm_pct": 55.0 - index, "power_w": 380.0 - 3 * index, "throttle_share": ()}
        card = gpu(index, **{**settled, **changes})
        found.append(replace(card, processes=tuple(replace(p, pid=4000) for p in card.processes or ())))
    return tuple(found)


def _host(cards: tuple[GpuReading, ...], one: EngineView, **changes: Any) -> HostSnapshot:
    quiet = {"net_mb_s": 11.0, "net_rx_mb_s": 9.0, "net_tx_mb_s": 2.0, "busiest_thread_cpu_pct": 61.0,
             "ctx_switches_s": 38_000.0}  # fmt: skip
    return replace(
        snapshot(gpus=0, engines=0),
        gpus=Observed(GpuSet(cards, "550.54.15"), FRESH),
        host=Observed(host(**{**quiet, **changes}), FRESH),
        engines=(one,),
    )


def _gpu_memory() -> HostSnapshot:
    cards = _cards(mem_used_mib=81_280.0)
    return _host(cards, engine(0, error_ratio=0.31, running=12.0, gen_tok_s=420.0))


def _scheduler_limit() -> HostSnapshot:
    return _host(
        _cards(sm_pct=72.0),
        engine(0, running=64.0, max_num_seqs=64.0, waiting=118.0, gen_tok_s=2900.0, **_SLOW),
    )


def _compute() -> HostSnapshot:
    cards = _cards(
        sm_pct=99.0, mem_ctrl_pct=71.0, power_w=688.0, clock_sm_mhz=1905.0, gpm_sm_active=0.94,
        gpm_tensor_active=0.66, gpm_dram_active=0.72,
    )  # fmt: skip
    return _host(
        cards,
        engine(
            0, running=180.0, itl_p50_s=0.03, itl_p95_s=0.19, gen_tok_s=6100.0, prompt_tok_s=41_000.0, **_SLOW
        ),
    )


def _power_thermal() -> HostSnapshot:
    hot: dict[str, Any] = {"throttle": ("hw_thermal_slowdown", "hw_slowdown"), "clock_sm_mhz": 810.0, "temp_c": 91.0, "mem_temp_c": 98.0,
           "throttle_share": (("hw_thermal_slowdown", 0.97),), "sm_pct": 98.0, "power_w": 402.0}  # fmt: skip
    cards = tuple(
        replace(card, **(hot if card.index == 2 else {})) for card in _cards(8, sm_pct=96.0, power_w=455.0)
    )
    return _host(cards, engine(0, running=38.0, itl_p95_s=0.18, ttft_p95_s=3.1, gen_tok_s=340.0))


def _cpu() -> HostSnapshot:
    one = engine(0, running=88.0, itl_p95_s=0.16, ttft_p95_s=3.4, gen_tok_s=910.0)
    return _host(_cards(sm_pct=41.0), one, busiest_thread_cpu_pct=99.0, busiest_thread="vllm", busiest_thread_pid=4000,
        busiest_process_cpu_pct=141.0,
    )  # fmt: skip


def _lock_contention() -> HostSnapshot:
    one = engine(0, running=60.0, itl_p95_s=0.21, ttft_p95_s=4.4, gen_tok_s=480.0)
    return _host(
        _cards(sm_pct=33.0), one, cpu_pct_total=47.0, busiest_thread_cpu_pct=63.0, busiest_process_cpu_pct=2700.0,
        ctx_switches_s=910_000.0,
    )  # fmt: skip


def _io_disk() -> HostSnapshot:
    one = engine(0, running=14.0, itl_p95_s=0.42, ttft_p95_s=11.0, gen_tok_s=49.0)
    return _host(
        _cards(sm_pct=18.0, power_w=190.0), one, iowait_pct=38.0, psi_io=71.0, disk_util_pct=98.0, disk_read_mb_s=212.0,
        busiest_thread_cpu_pct=31.0, disk_write_mb_s=0.1, disks=(DiskReading("sda", 830.0, 2.0, 212.0, 0.1, 98.0, 47.0),),
    )  # fmt: skip


def _network() -> HostSnapshot:
    one = engine(0, running=44.0, itl_p95_s=0.31, ttft_p95_s=6.1, gen_tok_s=270.0)
    return _host(
        _cards(8, sm_pct=34.0, power_w=260.0), one, net_mb_s=2950.0, net_rx_mb_s=1480.0, net_tx_mb_s=1470.0
    )


def _queueing_upstream() -> HostSnapshot:
    one = engine(0, running=2.0, kv_usage=0.03, kv_usage_max=0.04, gen_tok_s=60.0, prompt_tok_s=400.0,
                 error_ratio=0.38, http_503_ratio=0.36, ttft_p95_s=0.3, missing=())  # fmt: skip
    return _host(_cards(sm_pct=8.0, power_w=140.0), one, busiest_thread_cpu_pct=12.0)


def _degraded_cache() -> HostSnapshot:
    one = engine(0, running=52.0, prefix_hit_ratio=0.04, ttft_p95_s=4.8, itl_p95_s=0.041, queue_p95_s=0.2,
                 prompt_tok_s=38_000.0, evictions_per_s=9_200.0, kv_usage=0.71)  # fmt: skip
    return _host(_cards(sm_pct=78.0), one)


def _idle() -> HostSnapshot:
    none: dict[str, Any] = dict.fromkeys(
        ("running", "waiting", "gen_tok_s", "prompt_tok_s", "req_s", "kv_usage", "kv_usage_max"), 0.0
    )
    unknown = dict.fromkeys(("ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "itl_p50_s", "itl_p95_s", "e2e_p95_s"))
    one = engine(0, **none, **unknown, queue_p95_s=None, error_ratio=None, prefix_hit_ratio=None)
    cards = _cards(1, sm_pct=0.0, power_w=118.0, temp_c=34.0, clock_sm_mhz=345.0)
    return _host(
        cards, one, cpu_pct_total=1.0, busiest_thread_cpu_pct=3.0, busiest_process_cpu_pct=4.0,
        net_mb_s=0.1, net_rx_mb_s=0.1, net_tx_mb_s=0.0,
    )  # fmt: skip


def _starting(one: EngineView, **changes: Any) -> EngineView:
    """It was started 41 s ago and does not listen yet."""
    refused = SourceStatus(SourceState.FAILED, "refused", since=NOW - 41, failures=20)
    started = EngineProcess(4000, 1, "vllm", "api_server", "vllm", started_at=WALL - 41, port=8000)
    waiting = probes(
        URLS[0], status="refused", latency_s=0.001, latency_p50_s=0.001, latency_p99_s=0.002, latency_max_s=0.002,
        results=2, span_s=10.0, streak=-2, threshold=3, recent=(False,) * 2, would="restart", would_in_s=6.0,
    )  # fmt: skip
    return replace(
        one,
        engine=Observed(None, refused),
        processes=(started,),
        ever_served=False,
        probes=waiting[:1],
        **changes,
    )


def _loading() -> HostSnapshot:
    found = _host(_cards(1, sm_pct=0.0, mem_used_mib=31_000.0, power_w=122.0), _starting(engine(0)))
    disk = DiskReading("nvme0n1", 7600.0, 1.0, 1900.0, 0.1, 61.0, 0.9)
    busy = host(
        disk_read_mb_s=1900.0,
        disk_write_mb_s=0.1,
        disk_util_pct=61.0,
        disks=(disk,),
        busiest_thread_cpu_pct=74.0,
    )
    return replace(found, host=Observed(busy, FRESH))


def _draining() -> HostSnapshot:
    one = engine(0, running=6.0, gen_tok_s=310.0)
    live, ready = probes(URLS[0])
    ready = replace(
        ready,
        status=503,
        streak=-2,
        threshold=3,
        recent=(*(True,) * 118, False, False),
        would="unready",
        would_in_s=6.0,
    )
    return _host(_cards(), replace(one, probes=(live, ready)))


SNAPSHOTS: dict[str, Callable[[], HostSnapshot]] = {
    "loading": _loading,
    "draining": _draining,
    "gpu_memory": _gpu_memory,
    "scheduler_limit": _scheduler_limit,
    "compute": _compute,
    "power_thermal": _power_thermal,
    "cpu": _cpu,
    "lock_contention": _lock_contention,
    "io_disk": _io_disk,
    "network": _network,
    "queueing_upstream": _queueing_upstream,
    "degraded_cache": _degraded_cache,
    "idle": _idle,
}


def judged(name: str, **mode: Any) -> View:
    """The picture with what the rules say of it, as if it had held for a while."""
    found = SNAPSHOTS[name]()
    judgement = judge_all(found, History(), Thresholds(), Slo())
    since = WALL - SINCE_S.get(name, 210.0)
    verdicts = tuple(replace(verdict, since=since) for verdict in judgement.verdicts)
    held = int(WALL - since)
    before: tuple[tuple[float, str], ...] = ((WALL - 1500, "healthy"),)
    if name == "loading":  # this program began to watch with it
        before, figures = (), history(found, held)
    else:
        cards = len(found.gpus.reading.gpus) if found.gpus.reading else 0
        figures = history(snapshot(cards, 1), late=settled(found, held))
    lines = {v.scope: (*before, (since, v.verdict)) for v in verdicts}
    return View(found, replace(judgement, verdicts=verdicts), Trends(figures), lines, Mode(**mode))
