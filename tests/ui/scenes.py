"""Pictures of a host in every state worth seeing, all figures fixed."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tui.model.history import History
from tui.model.places import ContainerReading
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
from tui.model.settings import ProbeSpec, Slo, Thresholds
from tui.model.snapshot import EngineView, HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import Evidence, Finding, Judgement, Verdict
from tui.ui.charts import Trends
from tui.ui.view import Mode, View
from tui.verdict.judge import judge_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.readings import ProbeKind

NOW = 100_000.0
WALL = 1_760_012_585.0
FRESH = SourceStatus(SourceState.FRESH, since=NOW - 500, age_s=0.4)
URLS = tuple(f"http://127.0.0.1:{8000 + i}" for i in range(12))


def gpu(index: int, **changes: Any) -> GpuReading:
    base = GpuReading(
        index=index,
        uuid=f"GPU-{index}",
        name="NVIDIA H100 80GB HBM3",
        sm_pct=96.0 - 3 * index,
        mem_ctrl_pct=68.0 - index,
        mem_used_mib=73_830.0 + 11 * index,
        mem_total_mib=81_559.0,
        power_w=640.0 - 9 * index,
        power_limit_w=700.0,
        temp_c=71.0 - index,
        throttle=(),
        clock_sm_mhz=1755.0,
        clock_max_mhz=1980.0,
        clock_mem_mhz=2619.0,
        ecc_uncorrected=0,
        pcie_gen=5,
        pcie_gen_max=5,
        pcie_width=16,
        pcie_width_max=16,
        processes=(GpuProcess(4100 + index, "VLLM::Worker_TP", 73_100.0, 94.0, 61.0),),
        gpm_sm_active=0.83,
        gpm_sm_occupancy=0.41,
        gpm_tensor_active=0.37,
        gpm_dram_active=0.62,
        mem_temp_c=80.0 - index,
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
        throttle_share=(("sw_power_cap", 0.4),),
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
    base = EngineReading(
        url=url,
        engine="vllm",
        version="0.32.0",
        model="meta-llama/Llama-3.1-70B-Instruct",
        running=41.0,
        waiting=0.0,
        waiting_by_reason={"capacity": 0.0},
        kv_usage=0.42,
        kv_usage_max=0.47,
        kv_capacity_tokens=412_000.0,
        preemptions_per_s=0.0,
        prefix_hit_ratio=0.31,
        ttft_p50_s=0.18,
        ttft_p95_s=0.41,
        ttft_p99_s=0.9,
        itl_p50_s=0.021,
        itl_p95_s=0.034,
        e2e_p95_s=9.1,
        queue_p95_s=0.02,
        gen_tok_s=1840.0,
        prompt_tok_s=9200.0,
        req_s=7.4,
        error_ratio=0.0,
        max_num_seqs=256.0,
        since_last_step_s=0.2,
        missing=(Missing("http_503_ratio", "the status label is grouped", "admission_rejections_total"),),
    )
    return replace(base, **changes)


def probes(url: str, **liveness: Any) -> tuple[ProbeReading, ...]:
    live = ProbeReading(
        url, "liveness", "/health", 200, 0.003, 0.012, 412, "none",
        latency_p50_s=0.003, latency_max_s=0.031, results=200, span_s=1990.0, threshold=1,
        recent=(True,) * 120, age_s=4.0,
    )  # fmt: skip
    ready = replace(live, kind="readiness", latency_s=0.004, latency_p99_s=0.015)
    return (replace(live, **liveness), ready)


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
    url = URLS[index]
    reading = engine_reading(url) if age_s is not None else None
    status = SourceStatus(SourceState.FAILED, reason, since=NOW - 12, age_s=age_s, failures=6)
    failing = probes(
        url, status="refused", latency_s=0.001, streak=-2, threshold=3, would="restart", would_in_s=8.0,
        recent=(True,) * 118 + (False, False),
    )  # fmt: skip
    return EngineView(url=url, engine=Observed(reading, status), probes=failing, local=True, ever_served=True)


def host(**changes: Any) -> HostReading:
    base = HostReading(
        cpu_pct_total=22.0,
        cpu_cores=64,
        cpu_pct_per_core=tuple(float((7 * i) % 61) for i in range(64)),
        load1=14.2,
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
        net_mb_s=352.0,
        net_rx_mb_s=340.0,
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


def healthy(url: str = URLS[0]) -> Verdict:
    return Verdict(
        scope=url,
        verdict="healthy",
        title="HEALTHY",
        confidence="high",
        since=WALL - 1260,
        evidence=(
            Evidence("ttft_p95_s", 0.41, "s", "<=", 2.0, "ttft 0.41s (target 2.0s)"),
            Evidence("itl_p95_s", 0.034, "s", "<=", 0.1, "itl 34ms (target 0.10s)"),
            Evidence("waiting", 0.0, "", "<=", 0.0, "nobody waiting"),
            Evidence("kv_usage", 0.42, "", "<", 0.9, "kv 0.42 (limit 0.90)"),
        ),
    )


def kv_cache(url: str = URLS[0]) -> Verdict:
    return Verdict(
        scope=url,
        verdict="kv_cache",
        title="KV CACHE FULL",
        secondary=("compute",),
        confidence="high",
        since=WALL - 85,
        evidence=(
            Evidence("kv_usage", 0.99, "", ">=", 0.9, "kv 0.99 (limit 0.90)"),
            Evidence("waiting", 37.0, "", ">", 0.0, "waiting 37 rising"),
            Evidence("preemptions_per_s", 3.1, "1/s", ">", 0.0, "preempting 3.1/s"),
            Evidence("sm_pct", 61.0, "%", "<", 90.0, "SM 61 % (high is 90 %)"),
            Evidence("cpu_pct_total", 22.0, "%", "<", 80.0, "cpu 22 %"),
        ),
        missing=("network: no link counters",),
        advice=(
            "lower --max-num-seqs (now 256)",
            "shorter --max-model-len",
            "--kv-cache-dtype fp8 where the model allows it",
            "add a replica",
        ),
    )


HOST_IDLE = Verdict("host", "healthy", "HEALTHY", confidence="high", since=WALL - 1700)
FINDINGS = (
    Finding(
        "P03",
        "warning",
        URLS[0],
        "timeout 1 s < probe p99 1.4 s: a busy server looks dead to liveness",
        "1.0 < 1.4",
    ),
    Finding("T01", "info", "host", "drain never tested"),
)
CALM = Judgement((HOST_IDLE, healthy(URLS[0]), healthy(URLS[1])))
SICK = Judgement((HOST_IDLE, kv_cache(), healthy(URLS[1])), FINDINGS)


class Late(NamedTuple):
    """What a series did of late in place of its usual wave."""

    scope: str
    signal: str
    lasts_s: int
    value: float | None
    slope: float = 0.0
    """Added each second."""


def filled(url: str) -> tuple[Late, ...]:
    """Two minutes of a full KV cache."""
    return (
        Late(url, "gen_tok_s", 120, 600.0),
        Late(url, "waiting", 120, 0.0, 1 / 3),
        Late(url, "kv_usage", 120, 0.99),
    )


@functools.lru_cache(maxsize=64)
def history(
    engines: int = 2, gpus: int = 8, seconds: int = 1800, late: tuple[Late, ...] = filled(URLS[0])
) -> History:
    """Smooth figures at one a second, with one gap of the engines'; shared, nobody adds to it."""
    found = History()
    lately = {(one.scope, one.signal): one for one in late}

    def add(scope: str, signal: str, second: int, value: float | None) -> None:
        left = seconds - second
        if (one := lately.get((scope, signal))) is not None and left < one.lasts_s:
            value = None if one.value is None else one.value + one.slope * (one.lasts_s - left)
        found.add(scope, signal, NOW - left + 0.5, value)

    for second in range(seconds):
        wave = (second % 600) / 600
        gap = 300 < seconds - second <= 360
        for url in URLS[:engines]:
            add(url, "gen_tok_s", second, None if gap else 1500 + 500 * wave)
            add(url, "waiting", second, None if gap else 0.0)
            add(url, "kv_usage", second, None if gap else 0.3 + 0.3 * wave)
        for index in range(gpus):
            add(f"gpu:GPU-{index}", "sm_pct", second, 40 + 50 * wave)
            add(f"gpu:GPU-{index}", "power_w", second, 300 + 300 * wave)
        add("host", "cpu_pct_total", second, 10 + 20 * wave)
        add("host", "disk_util_pct", second, 5 + 10 * wave)
        add("host", "net_mb_s", second, 200 + 200 * wave)
    return found


TIMELINE = (
    (WALL - 1750, "idle"),
    (WALL - 1500, "healthy"),
    (WALL - 900, "kv_cache"),
    (WALL - 840, "healthy"),
)
CALM_TIMELINES = {"host": ((WALL - 1700, "healthy"),), URLS[0]: TIMELINE, URLS[1]: TIMELINE[:2]}
SICK_TIMELINES = {**CALM_TIMELINES, URLS[0]: (*TIMELINE, (WALL - 85, "kv_cache"))}


def calm_view(**mode: Any) -> View:
    return View(snapshot(), CALM, Trends(history(late=())), CALM_TIMELINES, Mode(**mode))


def sick_engine(index: int = 0) -> EngineView:
    """Its KV cache is full."""
    return engine(
        index,
        running=41.0,
        waiting=37.0,
        waiting_by_reason={"capacity": 37.0},
        kv_usage=0.99,
        kv_usage_max=1.0,
        preemptions_per_s=3.1,
        ttft_p95_s=28.0,
        itl_p95_s=0.21,
        gen_tok_s=610.0,
        prefix_hit_ratio=0.12,
        probing=probes(URLS[index], latency_p99_s=1.4),
    )


def sick_snapshot() -> HostSnapshot:
    gpus = tuple(gpu(i, sm_pct=61.0 - i, mem_ctrl_pct=48.0) for i in range(8))
    return replace(
        snapshot(), engines=(sick_engine(), engine(1)), gpus=Observed(GpuSet(gpus, "550.54.15"), FRESH)
    )


def sick_view(**mode: Any) -> View:
    return View(sick_snapshot(), SICK, Trends(history()), SICK_TIMELINES, Mode(**mode))


def bare_view(**mode: Any) -> View:
    """No GPU, no engine: a laptop."""
    status = SourceStatus(
        SourceState.UNSUPPORTED,
        "no_driver",
        "no NVIDIA driver here: libnvidia-ml.so.1 cannot be loaded",
        since=NOW - 60,
    )
    found = replace(snapshot(engines=0), gpus=Observed(None, status))
    verdict = Verdict(
        "host", "unknown", "UNKNOWN", confidence="low", missing=("no GPU figures", "no engine found")
    )
    return View(
        found, Judgement((verdict,)), Trends(history(0, 0)), {"host": ((WALL - 60, "unknown"),)}, Mode(**mode)
    )


def stale_view(**mode: Any) -> View:
    """One engine refuses, one is slow, the driver hangs."""
    stuck = SourceStatus(
        SourceState.FAILED,
        "stuck",
        "stuck in nvmlDeviceGetUtilizationRates for 31 s",
        since=NOW - 31,
        age_s=31.0,
        failures=4,
    )
    slow = SourceStatus(SourceState.STALE, since=NOW - 900, age_s=9.0)
    base = snapshot()
    found = replace(
        base,
        gpus=Observed(base.gpus.reading, stuck),
        engines=(
            failed_engine(0, "refused"),
            replace(engine(1), engine=Observed(engine_reading(URLS[1]), slow)),
        ),
    )
    down = Verdict(
        URLS[0],
        "engine_down",
        "ENGINE DOWN",
        confidence="high",
        since=WALL - 12,
        evidence=(
            Evidence("scrape", "refused", text="connection refused at :8000"),
            Evidence("process", "gone", text="process 4000 gone"),
        ),
        advice=("restart the engine", "look for the reason of its exit: dmesg for an OOM kill, its log"),
    )
    judgement = Judgement(
        (replace(HOST_IDLE, verdict="unknown", title="UNKNOWN", confidence="low"), down, healthy(URLS[1]))
    )
    lines = {**CALM_TIMELINES, URLS[0]: (*TIMELINE, (WALL - 12, "engine_down"))}
    silent = tuple(Late(URLS[0], signal, 12, None) for signal in ("gen_tok_s", "waiting", "kv_usage"))
    stuck_for = tuple(
        Late(f"gpu:GPU-{i}", signal, 31, None) for i in range(8) for signal in ("sm_pct", "power_w")
    )
    return View(found, judgement, Trends(history(late=silent + stuck_for)), lines, Mode(**mode))


def broken_view(**mode: Any) -> View:
    """One card lost, one that hangs, one with memory errors, one cut into instances; an AMD GPU beside them."""
    cut_up = gpu(6, mig=True, sm_pct=None, mem_ctrl_pct=None, processes=(), gpm_sm_active=None)
    lost = gpu(
        3,
        state="lost",
        reason="lost",
        detail="on the PCI bus but not counted by the driver; Xid 79: the GPU has fallen off the bus",
        xid=79,
        xid_text="the GPU has fallen off the bus",
        xid_age_s=12.0,
        stale_s=12.0,
    )
    hung = gpu(
        4, state="error", reason="stuck", detail="stuck in nvmlDeviceGetPowerUsage for 31 s", stale_s=31.0
    )
    worn = gpu(
        5,
        ecc_uncorrected=2,
        remap_pending=True,
        detail="2 uncorrected memory errors since the driver was loaded; "
        "memory rows wait to be remapped: reset the GPU",
    )
    back = gpu(7, recovered_s=40.0, missing=(Missing("pcie_tx_mb_s", "old_driver", "driver 450 or newer"),))
    rows = (
        gpu(0), gpu(1), gpu(2), lost, hung, worn, cut_up, instance(cut_up, 0), instance(cut_up, 2), back,
    )  # fmt: skip
    other = ("an AMD GPU is on the PCI bus: not read",)
    notes = ("the cards cannot be remembered for the next run: permission denied",)
    fault = Verdict(
        URLS[0],
        "gpu_fault",
        "GPU FAULT",
        confidence="high",
        since=WALL - 12,
        evidence=(Evidence("xid", 79.0, text="GPU 3 Xid 79"),),
        advice=("drain the host and reset or replace the GPU",),
    )
    found = replace(snapshot(engines=1), gpus=Observed(GpuSet(rows, "550.54.15", other, notes), FRESH))
    judgement = Judgement((replace(fault, scope="host"), fault))
    lines = {**CALM_TIMELINES, URLS[0]: (*TIMELINE, (WALL - 12, "gpu_fault"))}
    return View(found, judgement, Trends(history(late=())), lines, Mode(**mode))


def hung_view(**mode: Any) -> View:
    """A hang that liveness cannot see, under the probes of a manifest; the generate probe sees it."""
    live, ready = probes(URLS[0])
    recent = (True,) * 60 + (None, False, True) + (True,) * 50
    ready = replace(ready, threshold=2, decided_at=WALL - 700, decisions=1, recent=recent)
    startup = replace(
        live, kind="startup", path="exec", status=None, latency_s=None, latency_p50_s=None, latency_p99_s=None,
        latency_max_s=None, results=0, streak=0, threshold=None, recent=(),
        note="exec: not run (it would run in the container)",
    )  # fmt: skip
    generate = replace(
        live, kind="generate", path="/v1/completions", status="timeout", latency_s=30.0, latency_p50_s=0.09,
        latency_p99_s=30.0, latency_max_s=30.0, results=41, streak=-1, threshold=3, waiting_s=12.0,
        notice_in_s=48.0, recent=(True,) * 40 + (False,),
    )  # fmt: skip
    specs: dict[ProbeKind, ProbeSpec] = {
        "liveness": ProbeSpec("/health", initial_delay_s=30.0),
        "readiness": ProbeSpec("/health", period_s=5.0, success_threshold=2),
        "startup": ProbeSpec(handler="exec", failure_threshold=60),
    }
    stuck = replace(
        engine(0, running=41.0, gen_tok_s=0.0, stalled_s=42.0, stalled_scrapes=42, since_last_step_s=42.0),
        probes=(replace(live, decided_at=WALL - 9000, decisions=2), ready, startup, generate),
        probe_specs=specs,
        probe_origin="deploy.yaml:31",
        probe_requests=20,
        container=Observed(ContainerReading("a" * 64, "llm", restarts=3), FRESH),
    )
    verdict = Verdict(
        URLS[0],
        "engine_hung",
        "ENGINE HUNG",
        confidence="high",
        since=WALL - 42,
        evidence=(Evidence("stalled_s", 42.0, "s", ">=", 5.0, "no step for 42s"),),
        advice=("take stacks before anything else: py-spy dump --pid PID of the engine core",),
    )
    found = replace(snapshot(engines=1), engines=(stuck,), generate=True)
    judgement = Judgement((replace(verdict, scope="host"), verdict))
    lines = {**CALM_TIMELINES, URLS[0]: (*TIMELINE, (WALL - 42, "engine_hung"))}
    stopped = (Late(URLS[0], "gen_tok_s", 42, 0.0),)
    return View(found, judgement, Trends(history(late=stopped)), lines, Mode(**mode))


def unknown_view(**mode: Any) -> View:
    """An engine that wants a token, on a host without a driver: judged as it is, so nothing can be told."""
    none = SourceStatus(SourceState.UNSUPPORTED, "no_driver", "no NVIDIA driver here", since=NOW - 60)
    wants = SourceStatus(SourceState.FAILED, "401", since=NOW - 60, failures=12)
    locked = replace(engine(0), engine=Observed(None, wants), probes=())
    found = replace(snapshot(engines=1), engines=(locked,), gpus=Observed(None, none))
    judgement = judge_all(found, History(), Thresholds(), Slo())
    timelines = dict.fromkeys(("host", URLS[0]), ((WALL - 60, "unknown"),))
    return View(found, judgement, Trends(history(0, 0)), timelines, Mode(**mode))


def forbidden_view(**mode: Any) -> View:
    """A user who may look at little: no GPU, no thread of others, one engine that sends us away."""
    no_gpus = SourceStatus(
        SourceState.FAILED, "no_permission", "nvmlInit: insufficient permissions", since=NOW - 60, failures=9
    )
    away = SourceStatus(SourceState.FAILED, "403", since=NOW - 60, failures=12)
    shut = replace(engine(0), engine=Observed(None, away))
    unread = Missing("busiest_thread_cpu_pct", "no_permission", "run as the engine's user, or as root")
    partly = host(
        busiest_process=None, busiest_process_cpu_pct=None, busiest_process_pid=None, busiest_thread=None,
        busiest_thread_cpu_pct=None, busiest_thread_pid=None, missing=(unread,),
    )  # fmt: skip
    found = replace(
        snapshot(engines=0),
        gpus=Observed(None, no_gpus),
        host=Observed(partly, FRESH),
        engines=(shut, engine(1)),
    )
    never = tuple(Late(URLS[0], signal, 99, None) for signal in ("gen_tok_s", "waiting", "kv_usage"))
    judgement = judge_all(found, History(), Thresholds(), Slo())
    timelines = {verdict.scope: ((WALL - 60, verdict.verdict),) for verdict in judgement.verdicts}
    return View(found, judgement, Trends(history(2, 0, 60, never)), timelines, Mode(**mode))


def pending_view(**mode: Any) -> View:
    """The first frame: nothing has been read."""
    nothing = HostSnapshot(taken_at=NOW, wall=WALL, hostname="gpu-07", discovery_done=False)
    return View(nothing, Judgement(), Trends(History()), {}, Mode(**mode))


def crowded_view(gpus: int = 16, engines: int = 12, **mode: Any) -> View:
    last = engines - 1
    verdicts = (HOST_IDLE, *(healthy(url) for url in URLS[:last]), kv_cache(URLS[last]))
    found = snapshot(gpus=gpus, engines=last)
    timelines = dict.fromkeys(("host", *URLS[:last]), ((WALL - 700, "healthy"),))
    return View(
        replace(found, engines=(*found.engines, sick_engine(last))),
        Judgement(verdicts, FINDINGS),
        Trends(history(engines, gpus, 700, filled(URLS[last]))),
        {**timelines, URLS[last]: ((WALL - 700, "healthy"), (WALL - 85, "kv_cache"))},
        Mode(**mode),
    )


def wide_view(**mode: Any) -> View:
    """Names of wide characters, combining marks, emoji, and what no two terminals draw alike."""
    shown = snapshot(2, 4, hostname="ホスト-07")
    models = (
        "日本語モデル-カ-70b",
        "cafe\u0301-x\u0336-\U0001f680-instruct",
        "한국어-\U0001f44d\U0001f3fd-8b",
        "नमस्ते",
    )
    engines = tuple(engine(index, model=model) for index, model in enumerate(models))
    shown = replace(shown, engines=engines)
    verdicts = (HOST_IDLE, *(healthy(url) for url in URLS[:4]))
    return View(shown, Judgement(verdicts), Trends(history(4, 2, late=())), CALM_TIMELINES, Mode(**mode))


SCENES: dict[str, Callable[..., View]] = {
    "healthy": calm_view,
    "kv_cache": sick_view,
    "bare": bare_view,
    "stale": stale_view,
    "broken": broken_view,
    "hung": hung_view,
    "unknown": unknown_view,
    "forbidden": forbidden_view,
    "pending": pending_view,
    "crowded": crowded_view,
    "wide": wide_view,
}
