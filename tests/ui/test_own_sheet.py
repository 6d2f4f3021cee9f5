"""What a zoomed engine tells of its own processes, and the host of swap and links."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.ui import scenes
from tui.model.engine_host import EngineHostReading, ThreadUse
from tui.model.readings import Missing
from tui.model.status import Observed, SourceState, SourceStatus
from tui.ui.draw import as_text
from tui.ui.panes.own_sheet import own_facts

FULL = EngineHostReading(
    window_s=2.0,
    threads=(
        ThreadUse(7, 7, "engine_core", "VLLM::EngineCore", 99.6, 0.2),
        ThreadUse(6, 9, "tokenizer", "tokenizer-0", 41.0, 12.0),
    ),
    thread_count=61, busy_threads=2, cpu_pct=141.0, wait_pct=4.0, switches_s=900.0, futex_share=0.31,
    quota_cores=8.0, throttled_share=0.12, cgroup_mem_mib=20480.0, cgroup_mem_max_mib=65536.0, oom_kills=1,
    psi_cpu=12.0, psi_io=0.0, read_mb_s=2100.0, disk_read_mb_s=1900.0, weights_mib=137216.0,
    read_total_mib=40960.0, load_left_s=42.0, model_fs="nfs4", model_fs_remote=True, backlog=3,
    backlog_limit=2048, connections=19, missing=(Missing("futex_share", "hidden", "run as root"),),
)  # fmt: skip


def told(reading: EngineHostReading | None) -> dict[str, str]:
    return {label: "; ".join(parts) for label, parts in own_facts(reading)}


def test_every_figure_is_told_with_its_unit() -> None:
    assert told(FULL) == {
        "threads": "engine core VLLM::EngineCore 100 %; tokenizer tokenizer-0 41 %, waits 12 %",
        "its CPU": "141 % in 61 threads (2 busy); waits for a core 4 %; 900 switches/s; on futexes 31 %",
        "its group": "CPU quota 8.0 cores, used up in 12 % of periods; memory 20.0 of 64.0 GiB; "
        "1 processes ended for memory; pressure cpu 12 %, io 0 %",
        "its reads": "2.1k MB/s, 1.9k of it from disk; weights 40.0 of 134.0 GiB, at least 42s left; "
        "model on nfs4, over a network",
        "its port": "19 connections; 3 of 2048 wait to be accepted",
        "kernel hides": "futex_share: hidden (run as root)",
    }


def test_what_is_not_known_takes_no_line() -> None:
    assert told(None) == {}
    assert not any(told(EngineHostReading()).values())
    unlimited = told(
        replace(FULL, quota_cores=None, throttled_share=None, cgroup_mem_max_mib=None, oom_kills=0)
    )
    assert unlimited["its group"] == "memory 20.0 GiB; pressure cpu 12 %, io 0 %"


FRESH = SourceStatus(SourceState.FRESH, age_s=0.0)


def test_the_zoomed_engine_shows_them_and_hides_what_is_old() -> None:
    found = scenes.calm_view(full="engines")

    def shown(status: SourceStatus) -> str:
        engine = replace(scenes.engine(), own=Observed(FULL, status))
        view = replace(found, snapshot=replace(found.snapshot, engines=(engine,)))
        return as_text(view, 160, 60)

    assert "threads engine core VLLM::EngineCore 100 %  tokenizer tokenizer-0 41 %, waits 12 %" in shown(
        FRESH
    )
    assert "its port 19 connections  3 of 2048 wait to be accepted" in shown(FRESH)
    assert "tokenizer-0" not in shown(SourceStatus(SourceState.STALE, age_s=30.0))


def test_the_host_shows_swap_and_links_that_it_has() -> None:
    def shown(**changes: Any) -> str:
        found = scenes.calm_view(full="host")
        host = Observed(scenes.host(**changes), FRESH)
        return as_text(replace(found, snapshot=replace(found.snapshot, host=host)), 160, 45)

    text = shown(
        swap_used_mib=3072.0, swap_in_mb_s=40.0, swap_out_mb_s=0.5, net_busiest="eth0", net_util_pct=92.0,
        net_speed_mb_s=12500.0, ib_rx_mb_s=900.0, ib_tx_mb_s=46000.0, ib_util_pct=93.0,
    )  # fmt: skip
    assert "swap 3.0 GiB, in/out 40/0.5 MB/s" in text
    assert "eth0  92 % of 100 Gb/s" in text
    assert "InfiniBand 900/46.0k MB/s  93 %" in text
    assert "swap" not in shown(swap_used_mib=2.0)
    assert "InfiniBand" not in shown()
