"""Hosts with something old, broken, hung, hidden or forbidden."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.ui.scene_judgements import TIMELINE, turned
from tests.ui.scene_parts import (
    FRESH,
    NOW,
    URLS,
    WALL,
    engine,
    engine_reading,
    failed_engine,
    gpu,
    host,
    instance,
    probes,
    snapshot,
)
from tests.ui.scene_past import ENGINE_PAST, GPU_PAST, Late, history, settled
from tui.model.history import History
from tui.model.places import ContainerReading
from tui.model.readings import GpuSet, Missing
from tui.model.settings import ProbeSpec, Slo, Thresholds
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import Evidence, Judgement, Verdict
from tui.ui.charts import Trends
from tui.ui.view import Mode, View
from tui.verdict.judge import judge_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.model.readings import ProbeKind


def silent(scope: str, signals: Iterable[str], lasts_s: int) -> tuple[Late, ...]:
    """Series that nobody could read of late."""
    return tuple(Late(scope, signal, lasts_s, None) for signal in signals)


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
    untold = Verdict(
        URLS[1], "unknown", "UNKNOWN", since=WALL - 9, missing=("engine figures", "gpus (stuck)")
    )
    judgement = Judgement((replace(down, scope="host"), down, untold))
    lines = {**turned("engine_down", 12), URLS[1]: (*TIMELINE[:2], (WALL - 9, "unknown"))}
    late = [silent(URLS[0], ENGINE_PAST, 12), silent(URLS[1], ENGINE_PAST, 9)]
    late += (silent(f"gpu:GPU-{i}", GPU_PAST, 31) for i in range(8))
    return View(found, judgement, Trends(history(found, late=sum(late, ()))), lines, Mode(**mode))


def broken_view(**mode: Any) -> View:
    """One card lost, one that hangs, one with memory errors, one cut into instances; an AMD GPU beside them."""
    cut_up = gpu(6, mig=True, sm_pct=None, processes=())
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
    late = silent("gpu:GPU-3", GPU_PAST, 12) + silent("gpu:GPU-4", GPU_PAST, 31)
    lines = turned("gpu_fault", 12)
    return View(found, judgement, Trends(history(found, late=late)), lines, Mode(**mode))


def hung_view(**mode: Any) -> View:
    """A hang that liveness cannot see, under the probes of a manifest; the generate probe sees it."""
    live, ready = probes(URLS[0])
    recent = (True,) * 68 + (None, False) + (True,) * 50
    ready = replace(
        ready, threshold=2, streak=50, span_s=995.0, decided_at=WALL - 700, decisions=1, recent=recent
    )
    startup = replace(
        live, kind="startup", path="exec", status=None, latency_s=None, latency_p50_s=None, latency_p99_s=None,
        latency_max_s=None, results=0, streak=0, threshold=None, recent=(), span_s=None,
        note="exec: not run (it would run in the container)",
    )  # fmt: skip
    generate = replace(
        live, kind="generate", path="/v1/completions", status="timeout", latency_s=30.0, latency_p50_s=0.09,
        latency_p99_s=30.0, latency_max_s=30.0, results=41, streak=-1, threshold=3, waiting_s=12.0, age_s=12.0, span_s=1200.0,
        notice_in_s=48.0, recent=(True,) * 40 + (False,),
    )  # fmt: skip
    specs: dict[ProbeKind, ProbeSpec] = {
        "liveness": ProbeSpec("/health", initial_delay_s=30.0),
        "readiness": ProbeSpec("/health", period_s=5.0, success_threshold=2),
        "startup": ProbeSpec(handler="exec", failure_threshold=60),
    }
    stuck = replace(
        engine(0, gen_tok_s=0.0, stalled_s=42.0, stalled_scrapes=42, since_last_step_s=42.0),
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
    # each waits for the others in a kernel: SMs that count as in use, and no work
    spinning = {"sm_pct": 100.0, "mem_ctrl_pct": 1.0, "gpm_sm_active": 0.06, "gpm_sm_occupancy": 0.02,
                "gpm_tensor_active": 0.0, "gpm_dram_active": 0.01}  # fmt: skip
    cards = tuple(gpu(i, power_w=176.0 - i, **spinning) for i in range(8))
    gpus = Observed(GpuSet(cards, "550.54.15"), FRESH)
    found = replace(snapshot(engines=1), gpus=gpus, engines=(stuck,), generate=True)
    judgement = Judgement((replace(verdict, scope="host"), verdict))
    past = history(snapshot(engines=1), late=settled(found, 42))
    return View(found, judgement, Trends(past), turned("engine_hung", 42), Mode(**mode))


def unknown_view(**mode: Any) -> View:
    """An engine that wants a token, on a host without a driver: judged as it is, so nothing can be told."""
    none = SourceStatus(SourceState.UNSUPPORTED, "no_driver", "no NVIDIA driver here", since=NOW - 60)
    wants = SourceStatus(SourceState.FAILED, "401", since=NOW - 60, failures=12)
    locked = replace(engine(0), engine=Observed(None, wants), probes=())
    found = replace(snapshot(engines=1), engines=(locked,), gpus=Observed(None, none))
    judgement = judge_all(found, History(), Thresholds(), Slo())
    timelines = dict.fromkeys(("host", URLS[0]), ((WALL - 60, "unknown"),))
    return View(found, judgement, Trends(history(found)), timelines, Mode(**mode))


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
    judgement = judge_all(found, History(), Thresholds(), Slo())
    timelines = {verdict.scope: ((WALL - 60, verdict.verdict),) for verdict in judgement.verdicts}
    return View(found, judgement, Trends(history(found, 60)), timelines, Mode(**mode))
