"""Pictures of public incidents that were once called something else, each as the kind that it is of."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.verdict import cards
from tui.model.settings import Slo, Thresholds
from tui.verdict.observation import classify

LIMITS, SLO = Thresholds(), Slo()
OK = {"status": 200, "latency_s": 0.004}


def gpu(**changes: Any) -> dict[str, Any]:
    good = {
        "sm_pct": 60, "mem_ctrl_pct": 45, "mem_used_mib": 60000, "mem_total_mib": 81559, "power_w": 420,
        "power_limit_w": 700, "temp_c": 60, "throttle": [], "clock_sm_mhz": 1950, "clock_max_mhz": 1980,
    }  # fmt: skip
    return good | changes


RESTS = gpu(sm_pct=2, mem_ctrl_pct=0, power_w=110)


def line(
    *gpus: dict[str, Any],
    engine: dict[str, Any],
    host: dict[str, Any] | None = None,
    generate: Any = None,
    **more: Any,
) -> dict[str, Any]:
    """A serving engine on a quiet host, and what is to be changed of that."""
    load = {"running": 12, "waiting": 0, "kv_usage": 0.3, "preemptions_per_s": 0, "gen_tok_s": 800, "error_ratio": 0,
            "max_num_seqs": 256, "ttft_p95_s": 0.4, "itl_p95_s": 0.02, "queue_p95_s": 0.1}  # fmt: skip
    quiet = {"cpu_pct_total": 8, "cpu_cores": 64, "busiest_thread_cpu_pct": 40, "busiest_process_cpu_pct": 60,
             "iowait_pct": 0, "psi_io": 0, "psi_cpu": 0, "disk_util_pct": 0, "disk_read_mb_s": 0, "net_mb_s": 2,
             "ctx_switches_s": 20000}  # fmt: skip
    seen = {
        "gpus": list(gpus or (gpu(),)), "engine": load | engine, "host": quiet | (host or {}), "phase": "serving",
        "probes": {"liveness": OK, "readiness": OK}, "duration_s": 90, **more.pop("observations", {}),
    }  # fmt: skip
    if generate is not None:
        seen["probes"] = {**seen["probes"], "generate": generate}
    return {"engine": "vllm", "observations": seen, **more}


def judged(given: dict[str, Any], *removed: str) -> tuple[str, str, list[str]]:
    changed = copy.deepcopy(given)
    for name in removed:
        cards.remove_field(changed["observations"], name)
    found = classify(changed, LIMITS, SLO)
    return found["verdict"], found["confidence"], found["missing"]


STILL = {"gen_tok_s": 0, "prompt_tok_s": 0, "ttft_p95_s": None, "itl_p95_s": None, "queue_p95_s": None}
TIMEOUT = {"status": "timeout", "latency_s": 60}
SERVED = {"status": 200, "latency_s": 0.12}


# ---------------------------------------------------------------------------------------- availability


def test_compilers_at_work_are_no_hang() -> None:
    busy = {"cpu_pct_total": 62, "cpu_cores": 128, "busiest_process_cpu_pct": 7000}
    waits = line(RESTS, engine=STILL | {"running": 1}, host=busy, generate=TIMEOUT)
    assert judged(waits)[:2] == ("loading", "low")
    unasked = line(RESTS, engine=STILL | {"running": 1}, host=busy)
    assert judged(unasked)[0] == "unknown"
    assert "a longer look (compilers are busy)" in judged(unasked)[2]
    long = line(
        RESTS, engine=STILL | {"running": 1}, host=busy, generate=TIMEOUT, observations={"duration_s": 900}
    )
    assert judged(long)[:2] == ("engine_hung", "medium")
    spin = line(RESTS, engine=STILL | {"running": 1}, host={"busiest_process_cpu_pct": 230}, generate=TIMEOUT)
    assert judged(spin)[:2] == ("engine_hung", "high")


def test_a_canary_behind_a_queue_is_no_hang_while_the_device_moves_data() -> None:
    blind = {
        "gen_tok_s": None,
        "prompt_tok_s": None,
        "ttft_p95_s": None,
        "itl_p95_s": None,
        "queue_p95_s": None,
    }
    queued = line(
        gpu(sm_pct=66, mem_ctrl_pct=44, power_w=500), engine=blind | {"running": 64, "waiting": 98, "max_num_seqs": 64},
        generate=TIMEOUT, observations={"duration_s": 400},
    )  # fmt: skip
    assert judged(queued)[0] == "scheduler_limit"
    still = line(RESTS, engine=blind | {"running": 64, "waiting": 98}, generate=TIMEOUT)
    assert judged(still)[0] == "engine_hung"


def test_gauges_alone_are_no_proof_of_a_hang() -> None:
    stale = line(RESTS, engine=STILL | {"running": 106, "waiting": 15}, observations={"duration_s": 600})
    verdict, confidence, missing = judged(stale)
    assert (verdict, confidence) == ("engine_hung", "medium")
    assert "generate probe" in missing


def test_stale_gauges_fill_no_cache() -> None:
    stale = line(
        RESTS, engine=STILL | {"running": 106, "waiting": 15, "kv_usage": 0.97}, generate={"status": 200}
    )
    assert judged(stale)[0] == "idle"


def test_devices_that_work_are_not_idle_with_stale_gauges() -> None:
    embeds = line(gpu(power_w=500), engine=STILL | {"running": 6, "prompt_tok_s": None}, generate=SERVED)
    assert judged(embeds)[0] == "unknown"
    assert "prompt_tok_s" in judged(embeds)[2]


def test_ranks_that_spin_without_a_word_of_tokens_may_hang() -> None:
    spin = gpu(sm_pct=100, mem_ctrl_pct=0, power_w=160)
    waits = line(
        spin, spin, engine=STILL | {"gen_tok_s": None, "prompt_tok_s": None, "running": 9, "waiting": 20}
    )
    assert judged(waits)[0] == "unknown"
    assert "gen_tok_s" in judged(waits)[2]


REFUSED = {"probes": {"liveness": {"status": "refused"}, "readiness": {"status": "refused"}}, "phase": "down",
           "engine": None}  # fmt: skip


def test_memory_that_is_held_after_the_end_is_named_beside_it() -> None:
    gone = line(gpu(sm_pct=0, mem_used_mib=70000), engine={}, observations=REFUSED)
    found = classify(gone, LIMITS, SLO)
    assert (found["verdict"], found["secondary"], found["confidence"]) == (
        "engine_down",
        ["gpu_memory"],
        "medium",
    )
    released = classify(line(gpu(sm_pct=0, mem_used_mib=4), engine={}, observations=REFUSED), LIMITS, SLO)
    assert (released["secondary"], released["confidence"]) == ([], "high")


def test_a_start_in_which_one_thread_polls_for_hours_is_hardly_one() -> None:
    start = {**REFUSED, "phase": "loading", "duration_s": 7200}
    polls = line(gpu(sm_pct=0), engine={}, host={"busiest_thread_cpu_pct": 100}, observations=start)
    assert judged(polls)[:2] == ("loading", "low")
    compiles = {"busiest_thread_cpu_pct": 100, "busiest_process_cpu_pct": 2400}
    assert judged(line(gpu(sm_pct=0), engine={}, host=compiles, observations=start))[:2] == (
        "loading",
        "high",
    )


def test_a_start_of_unknown_age_may_be_stuck() -> None:
    start = {**REFUSED, "phase": "loading", "duration_s": 60}
    young = line(gpu(sm_pct=0), engine={}, host={"disk_read_mb_s": 2500}, observations=start)
    assert judged(young)[:2] == ("loading", "high")
    verdict, confidence, missing = judged(young, "duration_s")
    assert (verdict, confidence) == ("loading", "medium")
    assert "held_s" in missing


def test_a_readiness_that_is_off_before_a_growing_queue_may_be_no_drain() -> None:
    off = {"probes": {"liveness": OK, "readiness": {"status": 503, "latency_s": 0.01}}}
    given = line(engine={"running": 6, "waiting": 18}, observations=off) | {"engine": "sglang"}
    assert judged(given, "phase")[:2] == ("draining", "medium")


# ---------------------------------------------------------------------------------------- bottlenecks

LATE = {"ttft_p95_s": 6.0, "itl_p95_s": 0.2, "queue_p95_s": 0.4, "running": 40}


def test_one_full_rank_of_several_is_uneven_load_not_compute() -> None:
    full, rests = gpu(sm_pct=98, power_w=690, mem_ctrl_pct=70), gpu(sm_pct=27, power_w=210)
    assert judged(line(full, rests, rests, rests, engine=LATE))[0] == "queueing_upstream"
    busy = gpu(sm_pct=80, power_w=500)
    assert judged(line(full, busy, busy, engine=LATE))[:2] == ("compute", "medium")
    assert judged(line(full, full, full, engine=LATE))[:2] == ("compute", "high")


def test_switches_of_one_process_are_held_against_the_cores_that_it_uses() -> None:
    host = {"cpu_cores": 96, "ctx_switches_s": 160_000, "busiest_process_cpu_pct": 1400, "busiest_thread_cpu_pct": 62,
            "cpu_pct_total": 16}  # fmt: skip
    fights = line(gpu(sm_pct=45), engine=LATE, host=host)
    assert judged(fights)[:2] == ("lock_contention", "medium")
    assert (
        judged(line(gpu(sm_pct=45), engine=LATE, host=host | {"busiest_process_cpu_pct": 6000}))[0]
        != "lock_contention"
    )
    stepping = host | {"busiest_thread_cpu_pct": 88}  # a loop of steps, not one of many half-busy threads
    assert judged(line(gpu(sm_pct=45), engine=LATE, host=stepping))[0] != "lock_contention"


def test_a_clock_below_its_maximum_leaves_compute_in_doubt() -> None:
    slow = gpu(sm_pct=100, mem_ctrl_pct=70, power_w=690, clock_sm_mhz=1720)
    assert judged(line(slow, engine=LATE))[:2] == ("compute", "medium")


@pytest.mark.parametrize("gone", ["gpus.throttle", "gpus.clock_sm_mhz"])
def test_throttling_that_is_half_seen_is_not_certain(gone: str) -> None:
    hot = gpu(sm_pct=100, clock_sm_mhz=900, temp_c=93, throttle=["hw_thermal_slowdown"])
    assert judged(line(hot, engine=LATE))[:2] == ("power_thermal", "high")
    verdict, confidence, missing = judged(line(hot, engine=LATE), gone)
    assert (verdict, confidence) == ("power_thermal", "medium")
    assert gone in missing


def test_a_busy_thread_near_the_target_is_not_healthy_while_no_device_tells() -> None:
    near = line(engine={"ttft_p95_s": 1.9, "itl_p95_s": 0.09}, host={"busiest_thread_cpu_pct": 100})
    verdict, _, missing = judged(near, "gpus.sm_pct")
    assert verdict != "healthy"
    assert "gpus.sm_pct" in missing


def test_a_quick_request_of_ours_clears_no_queue_of_others() -> None:
    waits = line(
        engine={"running": 106, "waiting": 15, "ttft_p95_s": None, "itl_p95_s": None, "queue_p95_s": None},
        generate=SERVED, observations={"duration_s": 600},
    )  # fmt: skip
    assert judged(waits)[0] not in ("healthy", "idle")


@pytest.mark.parametrize(
    "found",
    [
        {"gpus": gpu(sm_pct=95, clock_sm_mhz=800, temp_c=93, throttle=["hw_thermal_slowdown"])},
        {"host": {"cpu_pct_total": 95, "psi_cpu": 60}},
    ],
)
def test_what_else_holds_requests_up_is_no_admission_by_worst_case(found: dict[str, Any]) -> None:
    late = LATE | {"waiting": 12, "kv_usage": 0.4, "queue_p95_s": 3.0}
    given = line(found.get("gpus", gpu(sm_pct=40)), engine=late, host=found.get("host")) | {
        "engine": "sglang"
    }
    assert judged(given)[0] in ("power_thermal", "cpu")


def test_one_that_waits_before_a_pool_with_room_is_not_held_up_by_it() -> None:
    cold = {"waiting": 1, "kv_usage": 0.86, "ttft_p95_s": 5.0, "itl_p95_s": 0.04, "queue_p95_s": None,
            "prefix_hit_ratio": 0.05, "evictions_per_s": 2500}  # fmt: skip
    assert judged(line(engine=cold))[0] == "degraded_cache"


def test_a_clearly_bad_hit_ratio_counts_without_evictions() -> None:
    """No figure of vLLM counts them."""
    cold = {"ttft_p95_s": 5.8, "itl_p95_s": 0.04, "queue_p95_s": 0.2, "prefix_hit_ratio": 0.045}
    assert judged(line(engine=cold))[:2] == ("degraded_cache", "medium")
    assert judged(line(engine=cold | {"prefix_hit_ratio": 0.25}))[1] == "low"


def test_quiet_links_are_not_blamed_while_tokens_come_on_time() -> None:
    waits = gpu(sm_pct=30, power_w=200)
    cold = {"ttft_p95_s": 5.0, "itl_p95_s": 0.03, "queue_p95_s": 0.2}
    assert judged(line(waits, waits, engine=cold))[0] != "network"
    assert judged(line(waits, waits, engine=cold | {"itl_p95_s": 0.3}))[0] == "network"


def test_a_polling_core_does_not_hide_that_the_seats_are_full() -> None:
    full = {
        "running": 64,
        "waiting": 180,
        "max_num_seqs": 64,
        "kv_usage": 0.18,
        "ttft_p95_s": 30,
        "queue_p95_s": 29,
    }
    polls = {"busiest_thread_cpu_pct": 100}
    assert judged(line(gpu(sm_pct=50), engine=full, host=polls))[0] == "scheduler_limit"
    slow = {"probes": {"liveness": {"status": 200, "latency_s": 0.4}, "readiness": OK}}
    assert judged(line(gpu(sm_pct=50), engine=full, host=polls, observations=slow))[0] == "cpu"


def test_a_fight_under_pressure_of_unknown_load_may_be_a_full_quota() -> None:
    host = {"cpu_cores": 96, "ctx_switches_s": 900_000, "busiest_process_cpu_pct": 4600, "busiest_thread_cpu_pct": 60,
            "psi_cpu": 66, "cpu_pct_total": 50}  # fmt: skip
    given = line(gpu(sm_pct=30), engine=LATE, host=host)
    assert judged(given)[:2] == ("lock_contention", "high")
    verdict, confidence, missing = judged(given, "host.cpu_pct_total")
    assert verdict == "lock_contention"
    assert (confidence, "cpu_pct_total" in missing) == ("medium", True)


def test_compilers_may_be_at_work_behind_devices_that_nobody_reads() -> None:
    busy = {"cpu_pct_total": 62, "cpu_cores": 128, "busiest_process_cpu_pct": 7000}
    given = line(RESTS, engine=STILL | {"running": 1}, host=busy, generate=TIMEOUT)
    verdict, confidence, missing = judged(given, "gpus.sm_pct")
    assert (verdict, confidence) == ("engine_hung", "medium")
    assert "gpus.sm_pct" in missing


def test_a_pool_of_which_no_token_is_known_to_move_is_not_called_full() -> None:
    stale = line(
        RESTS, engine=STILL | {"running": 106, "waiting": 15, "kv_usage": 0.97}, generate={"status": 200}
    )
    assert judged(stale, "engine.gen_tok_s", "engine.prompt_tok_s")[0] != "kv_cache"
