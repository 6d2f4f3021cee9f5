"""Evidence says what was seen, of which card, and why a figure that argues against the verdict does not count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verdict.test_advice_fits import (
    LATE,
    QUIET,
    REFUSED,
    SERVED,
    SILENT,
    TIMEOUT,
    WAITS,
    Seen,
)
from tests.verdict.test_words import all_pictures

NOTHING: dict[str, Any] = {"running": 0, "waiting": 0, "gen_tok_s": 0, "ttft_p95_s": None, "itl_p95_s": None}
REST = {**WAITS, "sm_pct": 0, "mem_ctrl_pct": 0}
USERS_WAIT = {"ttft_p95_s": 3.4, "itl_p95_s": 0.15, "waiting": 4}


def texts(seen: Seen) -> list[str]:
    found = seen.judged()
    assert found["verdict"] == seen.verdict
    return [evidence["text"] for evidence in found["evidence"]]


def seen(verdict: str, kind: str = "vllm", **changes: Any) -> Seen:
    return Seen(verdict, (), (), kind, **changes)


# ---------------------------------------------------------------------------------------- what was seen


def test_a_probes_own_time_is_not_called_that_of_the_users() -> None:
    probes = {**SERVED, "generate": {"status": 200, "latency_s": 4.0}}
    hot = {"clock_sm_mhz": 900, "temp_c": 91, "throttle": ["hw_thermal_slowdown"]}
    found = seen(
        "power_thermal", gpu=hot, engine={"ttft_p95_s": None, "itl_p95_s": None}, probes=probes
    ).judged()
    late = next(e for e in found["evidence"] if e["unit"] == "s")
    assert (late["signal"], late["text"]) == ("generate_s", "one token 4.0s (target 2.0s)")
    assert not any("ttft" in e["text"] for e in found["evidence"])


def test_requests_that_are_turned_away_are_shown_as_such() -> None:
    light = {"running": 1, "kv_usage": 0.02, "http_503_ratio": 0.12, "error_ratio": 0}
    shown = texts(seen("queueing_upstream", gpu={**WAITS, "sm_pct": 8}, engine=light))
    assert "503 for 12 %" in shown
    assert "errors 0 %" not in shown
    short = {"http_503_ratio": 0.2, "kv_usage": 0.4}
    assert "503 for 20 %" in texts(seen("gpu_memory", gpu={**WAITS, "mem_used_mib": 81000}, engine=short))


def test_a_long_prefill_and_embeddings_show_what_moves() -> None:
    prefill = {**SILENT, "running": 1, "gen_tok_s": 0, "prompt_tok_s": 14000}
    assert {"0 tok/s generated", "14.0k tok/s prompt"} <= set(texts(seen("healthy", engine=prefill)))
    decode = {"gen_tok_s": 900, "prompt_tok_s": 3000}
    assert "3.0k tok/s prompt" not in texts(seen("healthy", engine=decode))


def test_tokens_that_the_advice_calls_late_are_shown_as_late() -> None:
    both = {"waiting": 45, "itl_p95_s": 0.16, **LATE}
    found = seen("compute", engine=both).judged()
    shown = [evidence["text"] for evidence in found["evidence"]]
    assert any("tokens come too slowly" in line for line in found["advice"])
    assert {"queue 7.0s (target 1.0s)", "itl 0.16s (target 0.10s)"} <= set(shown)
    alone = texts(seen("compute", engine={"waiting": 4, "itl_p95_s": 0.9}))
    assert alone.count("itl 0.90s (target 0.10s)") == 1


def test_a_braked_card_is_shown_with_its_own_figures_and_its_siblings_clock() -> None:
    siblings = ({"clock_sm_mhz": 1900, "power_w": 600, "sm_pct": 96, "throttle": []},) * 3
    braked = {"clock_sm_mhz": 900, "power_w": 150, "throttle": ["hw_slowdown", "hw_power_brake"]}
    shown = texts(seen("power_thermal", gpu=braked, siblings=siblings, engine=USERS_WAIT))
    assert {"clock 900/1980 MHz, others up to 1900", "power 150/700 W", "SM 99 %"} <= set(shown)


@pytest.mark.parametrize(("throttle", "said"), [(None, "reasons not readable"), ([], "no reason reported")])
def test_reasons_that_cannot_be_read_are_not_none(throttle: list[str] | None, said: str) -> None:
    shown = texts(
        seen(
            "power_thermal",
            gpu={"clock_sm_mhz": 900, "power_w": 150, "throttle": throttle},
            engine=USERS_WAIT,
        )
    )
    assert f"GPU 0 held down: {said}" in shown


def test_the_rank_that_does_not_join_a_collective_is_named() -> None:
    spin = {"mem_ctrl_pct": 0, "power_w": 160, "sm_pct": 100}
    hung = {**SILENT, "waiting": 6}
    apart = seen("engine_hung", gpu=spin, siblings=({}, {}, {"sm_pct": 0}), engine=hung, probes=TIMEOUT)
    assert "SM 0 to 100 %: GPU 3 does not join" in texts(apart)
    together = seen("engine_hung", gpu=spin, siblings=({}, {}), engine=hung, probes=TIMEOUT)
    assert "SM 100 %" in texts(together)


def test_memory_below_a_gibibyte_keeps_its_figure() -> None:
    assert "GPU memory free 44 MiB" in texts(
        seen(
            "gpu_memory", gpu={**WAITS, "mem_used_mib": 81515}, engine={"error_ratio": 0.15, "kv_usage": 0.4}
        )
    )
    gone = seen("engine_down", engine=None, probes=REFUSED, phase="down", gpu={**REST, "mem_used_mib": 3})
    assert "GPU memory released (3 MiB)" in texts(gone)


def test_a_full_line_is_named_with_its_rate() -> None:
    slow = {"itl_p95_s": 0.3, "ttft_p95_s": 6}
    shown = texts(seen("network", gpu={**WAITS, "sm_pct": 15}, engine=slow, host={"net_mb_s": 117}))
    assert "network 117 MB/s: a link of 1 Gbit/s would be full" in shown


def test_swapping_is_shown_by_the_memory_that_is_short() -> None:
    host = {"iowait_pct": 41, "disk_util_pct": 99, "psi_io": 70, "psi_mem": 55, "mem_used_pct": 99}
    shown = texts(
        seen("io_disk", gpu={**WAITS, "sm_pct": 15}, engine={"ttft_p95_s": 11, "waiting": 4}, host=host)
    )
    assert shown[:2] == ["memory pressure 55 %", "host memory 99 %"]


def test_a_disk_that_rests_under_a_share_says_so() -> None:
    share = {"iowait_pct": 45, "disk_util_pct": 2, "psi_io": 80, "net_mb_s": 60}
    shown = texts(seen("io_disk", gpu=REST, engine=None, probes=REFUSED, host=share, phase="loading"))
    assert "disk busy 2 %: reads come over the network" in shown


def test_a_source_that_is_absent_is_missing_once() -> None:
    nothing = seen("unknown", engine=None, probes={})
    found = nothing.judged()
    assert [name for name in found["missing"] if name.startswith("engine")] == ["engine"]
    assert not any(e["signal"] == "held_s" or "still held" in e["text"] for e in found["evidence"])


# ---------------------------------------------------------------------------------------- what argues against


@pytest.mark.parametrize(
    ("kind", "siblings", "engine", "said"),
    [
        ("vllm", ({},) * 7, {"kv_usage": 0.42, "preemptions_per_s": 0.4, "waiting": 228}, "kv 0.42: full on one rank, or in bursts"),
        ("vllm", (), {"kv_usage": 0.72, "preemptions_per_s": 0.4, "waiting": 28}, "kv 0.72: full in bursts"),
        ("trtllm", (), {"kv_usage": 0.55, "waiting": 55}, "kv 0.55: admission by worst case"),
        ("vllm", (), {"kv_usage": 0.88, "waiting": 55}, "kv 0.88: too little for the next"),
        ("vllm", (), {"kv_usage": 0.97, "waiting": 55}, "kv 0.97 (limit 0.90)"),
    ],
)  # fmt: skip
def test_a_pool_that_is_exhausted_below_its_limit_says_how(
    kind: str, siblings: tuple[dict[str, Any], ...], engine: dict[str, Any], said: str
) -> None:
    works = {"sm_pct": 62, "power_w": 420, "mem_ctrl_pct": 44}
    assert said in texts(seen("kv_cache", kind, gpu=works, siblings=siblings, engine={**engine, **LATE}))


def test_a_pool_that_is_nearly_full_beside_full_seats_is_not_called_free() -> None:
    full = {"running": 64, "waiting": 20, "max_num_seqs": 64, "kv_usage": 0.97, **LATE}
    shown = texts(seen("scheduler_limit", gpu=WAITS, engine=full))
    assert "kv 0.97: nearly full too, nobody is preempted" in shown


def test_no_exhausted_pool_is_shown_below_its_limit_without_a_word() -> None:
    for where, found in all_pictures():
        if found.verdict.verdict != "kv_cache":
            continue
        for e in found.verdict.evidence:
            if e.signal == "kv_usage" and isinstance(e.value, float) and isinstance(e.threshold, float):
                assert e.value >= e.threshold or "(limit" not in e.text, (where, e.text)


# ---------------------------------------------------------------------------------------- beside a calm verdict


@pytest.mark.parametrize(
    ("gpu", "engine", "host", "said"),
    [
        (WAITS, {}, {}, "room: 216 seats free, kv 0.30"),
        (WAITS, {"kv_usage": 0.99}, {}, "kv 0.99: full use, nobody waits"),
        (WAITS, {"running": 256}, {}, "all seats taken, nobody waits"),
        ({}, {}, {}, "SM 99 %: busy, latency well inside its target"),
        ({"throttle": ["sw_power_cap"], "clock_sm_mhz": 1750}, {}, {},
         "GPU 0 sw_power_cap, clock 88 % of max: latency well inside its target"),
        ({**WAITS, "temp_c": 88}, {}, {}, "GPU 0 88 °C, clock 100 % of max: latency well inside its target"),
        ({**WAITS, "mem_used_mib": 81239}, {}, {}, "GPU memory free 320 MiB: no request fails"),
        (WAITS, {}, {"busiest_thread_cpu_pct": 100}, "thread 100 %: latency well inside its target"),
        (WAITS, {}, {"disk_util_pct": 97}, "disk busy 97 %: latency well inside its target"),
        (WAITS, {"prefix_hit_ratio": 0.02}, {}, "hits 0.02: first tokens are on time"),
    ],
)  # fmt: skip
def test_what_looks_alarming_beside_healthy_work_is_named(
    gpu: dict[str, Any], engine: dict[str, Any], host: dict[str, Any], said: str
) -> None:
    assert said in texts(seen("healthy", gpu=gpu, engine=engine, host={**QUIET, **host}))


def test_what_looks_alarming_beside_no_work_is_named() -> None:
    spin = {"sm_pct": 100, "mem_ctrl_pct": 0, "power_w": 160}
    shown = texts(
        seen("idle", gpu=spin, siblings=({},), engine=NOTHING, host={"busiest_thread_cpu_pct": 100})
    )
    assert "SM 100 %: it spins while it waits for work, at 320 W" in shown
    assert "thread 100 %: it polls for work" in shown
    stale = {**SILENT, "running": 106, "waiting": 15, "kv_usage": 0.9}
    shown = texts(seen("idle", gpu=REST, engine=stale))
    assert "stale gauges: a new request was served in 0.40s" in shown
    leak = texts(seen("idle", gpu=REST, engine={**NOTHING, "kv_usage": 0.9}))
    assert "kv 0.90 with nothing running: a stale gauge or a leak" in leak


def test_a_quiet_engine_raises_no_alarm() -> None:
    calm = texts(seen("idle", gpu=REST, engine={**NOTHING, "kv_usage": 0}))
    assert calm == ["running 0 of 256 seats", "waiting 0", "0 tok/s generated", "generate 200 after 0.40s"]
