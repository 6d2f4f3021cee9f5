"""Verdicts from what an engine's own processes, links and adapters say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import made
from tui.model.engine_host import EngineHostReading, ThreadUse
from tui.model.history import History
from tui.model.readings import GpuSet
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed, SourceState, SourceStatus
from tui.verdict.judge import judge_all

if TYPE_CHECKING:
    from tui.model.readings import GpuReading, HostReading, ProcessRole
    from tui.model.snapshot import EngineView
    from tui.model.verdicts import Judgement, Verdict

LIMITS, SLO = Thresholds(), Slo()
LATE: dict[str, Any] = {"ttft_p95_s": 9.0, "itl_p95_s": 0.3, "waiting": 6.0, "queue_p95_s": 4.0}
MODEST = made.gpu(sm_pct=30.0, mem_ctrl_pct=20.0, power_w=200.0)


def thread(role: ProcessRole, cpu_pct: float, name: str = "", **changes: Any) -> ThreadUse:
    return ThreadUse(100, 100, role, name, cpu_pct, **changes)


def own(*threads: ThreadUse, **changes: Any) -> Observed[EngineHostReading]:
    found = sorted(threads, key=lambda t: -t.cpu_pct)
    good = EngineHostReading(
        window_s=2.0, threads=tuple(found), thread_count=40, busy_threads=len(found),
        cpu_pct=sum(t.cpu_pct for t in found), wait_pct=1.0, switches_s=400.0,
    )  # fmt: skip
    return Observed(replace(good, **changes), made.FRESH)


def judged(
    view: EngineView, gpus: tuple[GpuReading, ...] = (MODEST,), host: HostReading | None = None
) -> Judgement:
    snapshot = made.snapshot(
        view, gpus=Observed(GpuSet(gpus), made.FRESH), host=Observed(host or made.host(), made.FRESH)
    )
    return judge_all(snapshot, History(), LIMITS, SLO)


def verdict_of(view: EngineView, *args: Any, **kwargs: Any) -> Verdict:
    return next(v for v in judged(view, *args, **kwargs).verdicts if v.scope == view.url)


def texts(verdict: Verdict) -> str:
    return " | ".join(e.text for e in verdict.evidence)


SPINS = thread("engine_core", 100.0, "VLLM::EngineCore")


# ---------------------------------------------------------------------------------------- cpu


def test_a_full_server_is_seen_behind_a_core_that_spins() -> None:
    host = made.host(busiest_thread_cpu_pct=100.0, busiest_thread="VLLM::EngineCor", busiest_thread_pid=101)
    view = made.view(made.reading(itl_p95_s=0.07), own=own(SPINS, thread("api_server", 98.0, "vllm")))
    found = verdict_of(view, host=host)
    assert found.verdict == "cpu"
    assert "thread 98 % (API server vllm)" in texts(found)
    # by the host's figures alone it is a spinning core like any other
    assert verdict_of(replace(view, own=Observed()), host=host).verdict == "healthy"


def test_a_thread_that_always_wants_a_core_is_full_though_others_take_half_of_it() -> None:
    view = made.view(made.reading(itl_p95_s=0.07), own=own(thread("api_server", 55.0, "vllm", wait_pct=43.0)))
    found = verdict_of(view)
    assert found.verdict == "cpu"
    assert "thread 55 %, waits for a core 43 % (API server vllm)" in texts(found)


@pytest.mark.parametrize("role", ["engine_core", "worker", "scheduler"])
def test_a_core_that_spins_counts_only_while_users_wait(role: ProcessRole) -> None:
    spins = own(thread(role, 100.0))
    assert verdict_of(made.view(made.reading(itl_p95_s=0.07), own=spins)).verdict == "healthy"
    assert verdict_of(made.view(made.reading(**LATE), own=spins)).verdict == "cpu"


@pytest.mark.parametrize("role", ["api_server", "tokenizer", "detokenizer"])
def test_the_threads_of_the_front_count_alone(role: ProcessRole) -> None:
    found = verdict_of(made.view(made.reading(itl_p95_s=0.07), own=own(thread(role, 97.0, "t"))))
    assert found.verdict == "cpu"


def test_the_thread_of_another_program_is_not_this_engines() -> None:
    host = made.host(busiest_thread_cpu_pct=100.0, busiest_thread="backup", busiest_thread_pid=9)
    view = made.view(made.reading(itl_p95_s=0.07), own=own(thread("api_server", 20.0)))
    assert verdict_of(view, host=host).verdict == "healthy"


def test_a_quota_that_runs_out_is_named_with_its_cores() -> None:
    view = made.view(
        made.reading(**LATE), own=own(thread("api_server", 60.0), quota_cores=2.0, throttled_share=0.8)
    )
    found = verdict_of(view)
    assert found.verdict == "cpu"
    assert "CPU quota of 2.0 cores used up in 80 % of periods" in texts(found)
    well = made.view(made.reading(), own=view.own)
    calm = judged(well)
    assert next(v for v in calm.verdicts if v.scope == well.url).verdict == "healthy"
    assert "cpu-throttled" in {f.id for f in calm.findings}


def test_threads_that_find_no_core_count_with_users_waiting() -> None:
    starved = own(thread("api_server", 45.0), thread("engine_core", 50.0), wait_pct=60.0)
    found = verdict_of(made.view(made.reading(**LATE), own=starved))
    assert found.verdict == "cpu"
    assert "wait for a core 60 %" in texts(found)
    assert verdict_of(made.view(made.reading(), own=starved)).verdict == "healthy"


# ---------------------------------------------------------------------------------------- locks


def fight(**changes: Any) -> Observed[EngineHostReading]:
    many = [thread("api_server", 20.0, f"worker-{n}") for n in range(6)]
    return own(
        *many,
        switches_s=40_000.0,
        voluntary_s=30_000.0,
        involuntary_s=500.0,
        **{"futex_share": 0.7, **changes},
    )


def test_threads_that_hand_a_lock_around_are_lock_contention() -> None:
    found = verdict_of(made.view(made.reading(**LATE), own=fight()))
    assert found.verdict == "lock_contention"
    assert "sleep on a futex in 70 %" in texts(found)
    assert "98 % voluntary" in texts(found)


def test_one_of_its_signs_alone_is_none() -> None:
    for quiet in (fight(futex_share=0.05), fight(futex_share=None)):
        assert verdict_of(made.view(made.reading(**LATE), own=quiet)).verdict != "lock_contention"
    assert verdict_of(made.view(made.reading(), own=fight())).verdict == "healthy"


# ---------------------------------------------------------------------------------------- loading


def starts(**changes: Any) -> EngineView:
    return made.view(
        engine=Observed(None, made.failed("refused")), probes=made.probes("refused"), ever_served=False,
        served_last=None, processes=made.tree(started_at=made.WALL - 60.0), **changes,
    )  # fmt: skip


def test_weights_on_their_way_show_rate_and_time_left() -> None:
    view = starts(
        own=own(
            read_mb_s=2400.0, disk_read_mb_s=2400.0, read_total_mib=40_960.0, weights_mib=137_216.0,
            load_left_s=42.0, model_fs="ext4", model_fs_remote=False,
        )
    )  # fmt: skip
    found = verdict_of(view)
    assert found.verdict == "loading"
    assert "reads 2.4 GB/s from ext4" in texts(found)
    assert "weights: 40.0 of 134.0 GiB read, at least 42s left" in texts(found)


def test_a_slow_share_is_what_a_start_waits_for() -> None:
    found = judged(starts(own=own(read_mb_s=90.0, disk_read_mb_s=0.0, model_fs="nfs4", model_fs_remote=True)))
    verdict = found.verdicts[0]
    assert (verdict.verdict, verdict.secondary) == ("io_disk", ("loading",))
    assert "from nfs4, over a network" in texts(verdict)
    fast = judged(starts(own=own(read_mb_s=1900.0, model_fs="nfs4", model_fs_remote=True)))
    assert fast.verdicts[0].verdict == "loading"
    assert "model-remote" in {f.id for f in fast.findings}
    local = judged(starts(own=own(read_mb_s=90.0, model_fs="ext4", model_fs_remote=False)))
    assert local.verdicts[0].verdict == "loading"


def test_weights_from_the_page_cache_are_no_slow_disk() -> None:
    busy = made.host(disk_util_pct=95.0, disk_read_mb_s=20.0, iowait_pct=30.0)
    assert verdict_of(starts(own=own()), host=busy).verdict == "io_disk"
    cached = starts(own=own(read_mb_s=4000.0, disk_read_mb_s=10.0))
    found = verdict_of(cached, host=busy)
    assert found.verdict == "loading"
    assert "mostly from the page cache" in texts(found)


# ---------------------------------------------------------------------------------------- links


PAIR = tuple(made.gpu(i, sm_pct=98.0, mem_ctrl_pct=30.0, power_w=330.0) for i in range(2))


def test_a_full_interface_is_named_with_its_speed() -> None:
    host = made.host(
        net_mb_s=1150.0, net_busiest="eth0", net_busiest_mb_s=1150.0, net_speed_mb_s=1250.0, net_util_pct=92.0
    )
    found = verdict_of(made.view(made.reading(**LATE)), PAIR, host)
    assert (found.verdict, found.confidence) == ("network", "high")
    assert "eth0 1150 of 1250 MB/s (92 %)" in texts(found)


def test_full_infiniband_is_seen_though_no_interface_counts_it() -> None:
    host = made.host(ib_rx_mb_s=46_000.0, ib_tx_mb_s=46_000.0, ib_util_pct=93.0, ib_port="mlx5_0/1")
    found = verdict_of(made.view(made.reading(**LATE)), PAIR, host)
    assert (found.verdict, found.confidence) == ("network", "high")
    assert "mlx5_0/1 at 93 % of its rate" in texts(found)


def test_a_pcie_link_that_carries_all_it_can() -> None:
    narrow = replace(
        MODEST, pcie_gen=4, pcie_gen_max=5, pcie_width=4, pcie_width_max=16, pcie_rx_mb_s=7400.0, sm_pct=60.0
    )
    found = judged(made.view(made.reading(**LATE)), (narrow,))
    assert found.verdicts[0].verdict == "network"
    assert "GPU 0 PCIe link gen4 x4 of gen5 x16" in texts(found.verdicts[0])
    assert [f.text for f in found.findings if f.id == "gpu-pcie-link"] == [
        "GPU 0 PCIe link gen4 x4 of gen5 x16"
    ]


def test_a_link_that_steps_down_while_idle_is_none() -> None:
    idle = replace(MODEST, pcie_gen=1, pcie_gen_max=5, pcie_width=16, pcie_width_max=16, sm_pct=3.0)
    assert "gpu-pcie-link" not in {f.id for f in judged(made.view(made.nothing_to_do()), (idle,)).findings}
    busy = replace(idle, sm_pct=90.0)
    assert "gpu-pcie-link" in {f.id for f in judged(made.view(), (busy,)).findings}


def test_links_between_devices_that_are_down_are_told() -> None:
    lame = replace(MODEST, nvlinks=18, nvlinks_up=16)
    assert "GPU 0 has 16 of 18 NVLinks up" in {f.text for f in judged(made.view(), (lame,)).findings}


# ---------------------------------------------------------------------------------------- devices


def test_the_profiling_counters_tell_work_from_waiting() -> None:
    busy = made.gpu(sm_pct=99.0, mem_ctrl_pct=None, power_w=None)
    works = replace(busy, gpm_sm_active=0.92, gpm_tensor_active=0.6, gpm_dram_active=0.7)
    found = verdict_of(made.view(made.reading(**LATE, running=40.0)), (works,))
    assert found.verdict == "compute"
    assert "SM active 92 %, tensor 60 %, DRAM 70 %" in texts(found)
    waits = replace(busy, gpm_sm_active=0.1, gpm_tensor_active=0.0, gpm_dram_active=0.01)
    assert verdict_of(made.view(made.reading(**LATE, running=40.0)), (waits,)).verdict != "compute"


def test_a_reason_that_lasted_explains_a_low_clock_between_two_flickers() -> None:
    slow = made.gpu(
        sm_pct=98.0, clock_sm_mhz=1400.0, throttle=(), throttle_share=(("sw_thermal_slowdown", 0.7), ("idle", 0.9))
    )  # fmt: skip
    found = verdict_of(made.view(made.reading(**LATE)), (slow,))
    assert found.verdict == "power_thermal"
    assert "sw_thermal_slowdown (70 % of the last minute)" in texts(found)


# ---------------------------------------------------------------------------------------- the port


def test_connections_that_nobody_accepts_are_trouble_before_the_engine() -> None:
    view = made.view(
        made.reading(running=1.0),
        own=own(thread("api_server", 5.0), backlog=60, backlog_limit=2048, connections=300),
    )
    found = verdict_of(view)
    assert (found.verdict, found.confidence) == ("queueing_upstream", "high")
    assert "60 of 2048 connections wait to be accepted" in texts(found)
    assert "300 connections for 1 requests" in texts(found)
    few = replace(view, own=own(thread("api_server", 5.0), backlog=3, backlog_limit=2048, connections=300))
    assert verdict_of(few).verdict == "healthy"


# ---------------------------------------------------------------------------------------- its end


def test_the_end_of_a_server_by_the_kernel_is_told() -> None:
    gone = made.view(
        engine=Observed(None, made.failed("refused")), probes=made.probes("refused"), processes=(),
        own=own(thread_count=0, oom_kills=1, oom_age_s=12.0),
    )  # fmt: skip
    found = judged(gone)
    assert found.verdicts[0].verdict == "engine_down"
    assert "the kernel ended a process of its control group for memory 12s ago" in texts(found.verdicts[0])
    assert "oom-kill" in {f.id for f in found.findings}
    long_ago = replace(gone, own=own(thread_count=0, oom_kills=1, oom_age_s=7200.0))
    assert "for memory" not in texts(judged(long_ago).verdicts[0])


def test_where_only_the_host_counts_kills_it_says_so() -> None:
    gone = made.view(
        engine=Observed(None, made.failed("refused")), probes=made.probes("refused"), processes=()
    )
    found = verdict_of(gone, host=made.host(oom_kills=2, oom_age_s=5.0))
    assert "the kernel ended a process of this host for memory 5.0s ago" in texts(found)


def test_a_host_that_swaps_is_a_finding() -> None:
    swaps = made.host(swap_in_mb_s=40.0, swap_out_mb_s=12.0, swap_used_mib=3072.0)
    assert "the host swaps: in 40 MB/s, out 12 MB/s, 3.0 GiB out" in {
        f.text for f in judged(made.view(), host=swaps).findings
    }


def test_old_figures_of_its_processes_are_no_evidence() -> None:
    stale = Observed(own(thread("api_server", 99.0)).reading, SourceStatus(SourceState.STALE, age_s=30.0))
    assert verdict_of(made.view(made.reading(itl_p95_s=0.07), own=stale)).verdict == "healthy"
