"""Advice is for the picture at hand: what would make it worse, or cannot help, is not said."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.verdict.situations import thread
from tests.verdict.test_live_removal import picture_of
from tests.verdict.test_verdict_texts import said
from tui.model.readings import RankReading
from tui.verdict.observation import DEFAULT_SLO, DEFAULT_THRESHOLDS, classify
from tui.verdict.picture import Processes

H100: dict[str, Any] = {
    "sm_pct": 99, "mem_ctrl_pct": 65, "mem_used_mib": 74000, "mem_total_mib": 81559, "power_w": 690,
    "power_limit_w": 700, "temp_c": 66, "throttle": [], "clock_sm_mhz": 1950, "clock_max_mhz": 1980,
}  # fmt: skip
WAITS = {"sm_pct": 35, "mem_ctrl_pct": 20, "power_w": 260, "clock_sm_mhz": 1980}
WORKS: dict[str, Any] = {
    "running": 40, "waiting": 0, "kv_usage": 0.3, "preemptions_per_s": 0, "gen_tok_s": 1200, "error_ratio": 0,
    "ttft_p95_s": 0.4, "itl_p95_s": 0.03, "max_num_seqs": 256,
}  # fmt: skip
QUIET: dict[str, Any] = {"cpu_pct_total": 4, "cpu_cores": 64, "busiest_thread_cpu_pct": 50}
SERVED: dict[str, Any] = {
    "liveness": {"status": 200, "latency_s": 0.004}, "generate": {"status": 200, "latency_s": 0.4},
}  # fmt: skip
SILENT = {"gen_tok_s": 0, "ttft_p95_s": None, "itl_p95_s": None}
TIMEOUT = {**SERVED, "generate": {"status": "timeout", "latency_s": 60}}
REFUSED = {kind: {"status": "refused", "latency_s": 0.001} for kind in ("liveness", "readiness")}
LATE = {"ttft_p95_s": 9, "queue_p95_s": 7}


@dataclass
class Seen:
    """One observation, and what its advice must and must not speak of."""

    verdict: str
    says: tuple[str, ...]
    never: tuple[str, ...]
    kind: str | None = "vllm"
    gpu: dict[str, Any] = field(default_factory=dict)
    engine: dict[str, Any] | None = field(default_factory=dict)
    host: dict[str, Any] = field(default_factory=dict)
    probes: dict[str, Any] = field(default_factory=lambda: SERVED)
    phase: str = "serving"
    siblings: tuple[dict[str, Any], ...] = ()
    """What other cards of the engine show that differs from the first."""

    def judged(self) -> dict[str, Any]:
        observations = {
            "gpus": [{**H100, **self.gpu, **other} for other in ({}, *self.siblings)],
            "engine": {} if self.engine is None else {**WORKS, **self.engine},
            "host": {**QUIET, **self.host},
            "probes": self.probes,
            "phase": self.phase,
            "duration_s": 300,
        }
        line = {"id": "x", "engine": self.kind, "observations": observations}
        return classify(line, DEFAULT_THRESHOLDS, DEFAULT_SLO)


_FULL = {"kv_usage": 0.97, "preemptions_per_s": 0.8, "waiting": 18, "running": 22, **LATE}
_WORST_CASE = {"kv_usage": 0.55, "waiting": 55, "running": 30, **LATE}
_NO_ROOM = {"sm_pct": 62, "power_w": 420, "mem_ctrl_pct": 44}
_SLOW_CLOCK = {"clock_sm_mhz": 900, "power_w": 349}
_USERS_WAIT = {"ttft_p95_s": 3.4, "itl_p95_s": 0.15, "waiting": 4}

CASES: dict[str, Seen] = {
    "prompts wait, tokens come on time: a larger budget": Seen(
        "compute", ("raise --max-num-batched-tokens",), ("lower --max", "no budget"),
        engine={"waiting": 30, "running": 12, "prompt_tok_s": 26000, "gen_tok_s": 200, "itl_p95_s": 0.05, **LATE},
    ),
    "prompts crowd out decode: a smaller budget": Seen(
        "compute", ("lower --chunked-prefill-size",), ("raise --", "max-running-requests"), "sglang",
        engine={"prompt_tok_s": 26000, "gen_tok_s": 200, "itl_p95_s": 0.3},
    ),
    "prompts make all tokens late: no budget helps": Seen(
        "compute", ("no budget of prompts helps both",), ("lower --max-num-b", "raise --max-num-b"),
        engine={"prompt_tok_s": 24000, "gen_tok_s": 18, "itl_p95_s": 0.5, "waiting": 90, **LATE},
    ),
    "pure decode: no budget of prompts": Seen(
        "compute", ("lower max_batch_size (now 256) below the 40 that run",), ("max_num_tokens",), "trtllm",
        engine={"itl_p95_s": 0.19},
    ),
    "pauses: not the policy that pauses": Seen(
        "kv_cache", ("GUARANTEED_NO_EVICT", "lower max_batch_size (now 256) below the 22 that run"),
        ("MAX_UTILIZATION",), "trtllm", engine=_FULL,
    ),
    "admission by worst case: not fewer seats, which are free": Seen(
        "kv_cache", ("MAX_UTILIZATION", "max_tokens"), ("GUARANTEED", "lower max_batch_size"), "trtllm",
        gpu=_NO_ROOM, engine=_WORST_CASE,
    ),
    "retractions: more caution": Seen(
        "kv_cache", ("raise --schedule-conservativeness",), ("lower --schedule",), "sglang", engine=_FULL
    ),
    "reservations: less caution": Seen(
        "kv_cache", ("lower --schedule-conservativeness",), ("raise --schedule", "lower --max-running"), "sglang",
        gpu=_NO_ROOM, engine=_WORST_CASE,
    ),
    "two long requests are no crowd": Seen(
        "kv_cache", ("--max-model-len", "--gpu-memory-utilization"), ("--max-num-seqs",),
        engine={**_FULL, "running": 2},
    ),
    "a device without room gets no larger pool": Seen(
        "kv_cache", ("--max-model-len",), ("--gpu-memory-utilization",), engine=_FULL, gpu={"mem_used_mib": 81000}
    ),
    "a quota that is used up: no more processes": Seen(
        "cpu", ("raise the CPU quota",), ("--api-server-count",), gpu=WAITS, engine=_USERS_WAIT,
        host={"cpu_pct_total": 98, "cpu_cores": 4, "psi_cpu": 64, "busiest_thread_cpu_pct": 70},
    ),
    "one full thread with free cores: more processes": Seen(
        "cpu", ("--api-server-count",), ("CPU quota",), gpu=WAITS, engine=_USERS_WAIT,
        host={"busiest_thread_cpu_pct": 100},
    ),
    "a hang on devices at rest is no spin": Seen(
        "engine_hung", ("(py-spy dump)",), ("SM 100 %", "prefill", "key g", "ends by itself"), gpu={**WAITS, "sm_pct": 0, "mem_ctrl_pct": 0},
        engine={**SILENT, "waiting": 6}, probes=TIMEOUT,
    ),
    "a hang on devices at work": Seen(
        "engine_hung", ("rule out one long prefill",), ("SM 100 %",), engine={**SILENT, "waiting": 6}, probes=TIMEOUT
    ),
    "stacks of C++": Seen(
        "engine_hung", ("gdb", "SM 100 %"), ("(py-spy dump)",), "triton", gpu={"mem_ctrl_pct": 0, "power_w": 160},
        engine={**SILENT, "waiting": 6}, probes=TIMEOUT,
    ),
    "compilers end by themselves": Seen(
        "engine_hung", ("ends by itself",), (), gpu={**WAITS, "sm_pct": 0, "mem_ctrl_pct": 0},
        engine={**SILENT, "running": 1}, probes=TIMEOUT, host={"busiest_process_cpu_pct": 7000},
    ),
    "gauges alone: ask for a token before any restart": Seen(
        "engine_hung", ("ask for one token first",), (), gpu={**WAITS, "sm_pct": 0, "mem_ctrl_pct": 0},
        engine={**SILENT, "waiting": 15}, probes={"liveness": {"status": 200, "latency_s": 0.004}},
    ),
    "heat": Seen(
        "power_thermal", ("air flow",), ("find the reason", "power limit", "BMC", "set the clocks"),
        gpu={**_SLOW_CLOCK, "temp_c": 91, "throttle": ["hw_thermal_slowdown"]}, engine=_USERS_WAIT,
    ),
    "a power cap": Seen(
        "power_thermal", ("enforced power limit",), ("air flow", "BMC", "set the clocks"),
        gpu={**_SLOW_CLOCK, "throttle": ["sw_power_cap"], "power_limit_w": 350}, engine=_USERS_WAIT,
    ),
    "a power brake": Seen(
        "power_thermal", ("BMC",), ("air flow", "enforced power limit", "set the clocks"),
        gpu={**_SLOW_CLOCK, "throttle": ["hw_slowdown", "hw_power_brake"]}, engine=_USERS_WAIT,
    ),
    "a clock that somebody set": Seen(
        "power_thermal", ("set the clocks",), ("air flow", "enforced power limit", "BMC"),
        gpu={**_SLOW_CLOCK, "throttle": []}, engine=_USERS_WAIT,
    ),
    "reasons that cannot be read": Seen(
        "power_thermal", ("find the reason first",), ("air flow", "enforced power limit", "BMC", "set the clocks"),
        gpu={**_SLOW_CLOCK, "throttle": None}, engine=_USERS_WAIT,
    ),
    "seats are free: not more of them": Seen(
        "scheduler_limit", ("waiting_by_reason", "something else holds back"), ("raise", "options take effect"),
        gpu=WAITS, engine={"running": 8, "waiting": 40, "kv_usage": 0.1, **LATE},
    ),
    "seats are free, and nothing tells why": Seen(
        "scheduler_limit", ("something else holds back",), ("waiting_by_reason", "raise"), None,
        gpu=WAITS, engine={"running": 8, "waiting": 40, "kv_usage": 0.1, **LATE},
    ),
    "seats that nobody knows": Seen(
        "scheduler_limit", ("see whether running stands at --max-num-seqs",), ("raise --max", "seats are free"),
        gpu=WAITS, engine={"running": 32, "waiting": 70, "max_num_seqs": None, **LATE},
    ),
    "seats are full": Seen(
        "scheduler_limit", ("raise --max-num-seqs (now 64)", "go up in steps"),
        ("seats are free", "deferred", "tokens are late", "preempted"),
        gpu=WAITS, engine={"running": 64, "waiting": 40, "max_num_seqs": 64, **LATE},
    ),
    "seats and pool are full: more seats would be preempted": Seen(
        "scheduler_limit", ("more seats would be preempted",), ("raise --max-num-seqs", "go up in steps"),
        gpu=WAITS, engine={"running": 64, "waiting": 40, "max_num_seqs": 64, "kv_usage": 0.97, **LATE},
    ),
    "seats are full and tokens late": Seen(
        "scheduler_limit", ("tokens are late already",), ("raise --max-num-seqs", "go up in steps"),
        gpu=WAITS, engine={"running": 64, "waiting": 40, "max_num_seqs": 64, **LATE, "itl_p95_s": 0.2},
    ),
    "a host that swaps": Seen(
        "io_disk", ("it swaps",), ("local NVMe", "network share", "streaming loader"),
        gpu={**WAITS, "sm_pct": 15}, engine={"ttft_p95_s": 11, "itl_p95_s": 0.5, "waiting": 4},
        host={"iowait_pct": 41, "disk_util_pct": 99, "psi_io": 70, "psi_mem": 55, "mem_used_pct": 99},
    ),
    "a busy disk under an engine that serves": Seen(
        "io_disk", ("find who reads",), ("local NVMe", "network share", "streaming loader", "swaps"),
        gpu={**WAITS, "sm_pct": 15}, engine={"ttft_p95_s": 11, "itl_p95_s": 0.5, "waiting": 4},
        host={"iowait_pct": 41, "disk_util_pct": 99, "psi_io": 70},
    ),
    "a slow disk under a start": Seen(
        "io_disk", ("local NVMe",), ("find who reads", "network share"), gpu={**WAITS, "sm_pct": 0}, engine=None, probes=REFUSED,
        host={"iowait_pct": 41, "disk_util_pct": 99, "psi_io": 70, "disk_read_mb_s": 110}, phase="loading",
    ),
    "a slow share under a start": Seen(
        "io_disk", ("local NVMe", "network share"), ("find who reads",), gpu={**WAITS, "sm_pct": 0}, engine=None,
        probes=REFUSED, host={"iowait_pct": 45, "disk_util_pct": 2, "psi_io": 80, "net_mb_s": 60}, phase="loading",
    ),
    "a cold cache that throws nothing out": Seen(
        "degraded_cache", ("route by session",), ("--gpu-memory-utilization", "--enable-prefix-caching"),
        gpu={"sm_pct": 85, "power_w": 500}, engine={"prefix_hit_ratio": 0.06, "evictions_per_s": 0, "ttft_p95_s": 5.4},
    ),
    "a cache that never hits": Seen(
        "degraded_cache", ("--enable-prefix-caching",), (),
        gpu={"sm_pct": 85, "power_w": 500}, engine={"prefix_hit_ratio": 0.0, "ttft_p95_s": 5.4},
    ),
    "one rank has all the load": Seen(
        "queueing_upstream", ("spread the load",), ("backlog",), siblings=({"sm_pct": 0, "power_w": 90},) * 3,
        engine={"waiting": 22, **LATE},
    ),
    "clients fail before an engine with room": Seen(
        "queueing_upstream", ("look before the engine",), ("spread the load", "backlog"), gpu={**WAITS, "sm_pct": 8},
        engine={"running": 2, "error_ratio": 0.2, "kv_usage": 0.02},
    ),
    "a server that answers errors only": Seen(
        "engine_down", ("end what is left of it",), ("still alive", "GPU memory first"), gpu=WAITS, engine=None,
        probes={kind: {"status": 500, "latency_s": 0.004} for kind in ("liveness", "readiness", "generate")},
    ),
    "a dead engine on devices that tell nothing": Seen(
        "engine_down", ("if its process is still alive",), ("what is left", "GPU memory first"),
        gpu={"mem_used_mib": None}, engine=None, probes=REFUSED, phase="down",
    ),
    "a cold cache that is too small": Seen(
        "degraded_cache", ("raise --mem-fraction-static",), (), "sglang",
        gpu={"sm_pct": 85, "power_w": 500}, engine={"prefix_hit_ratio": 0.06, "evictions_per_s": 900, "ttft_p95_s": 5.4},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_advice_fits_the_picture(name: str) -> None:
    seen = CASES[name]
    found = seen.judged()
    assert found["verdict"] == seen.verdict
    lines = " | ".join(found["advice"])
    assert [word for word in seen.says if word not in lines] == [], lines
    assert [word for word in seen.never if word in lines] == [], lines


def test_the_memory_of_a_dead_engine_is_freed_before_a_restart() -> None:
    held = Seen("engine_down", (), (), engine=None, probes=REFUSED, phase="down").judged()["advice"]
    first = next(n for n, line in enumerate(held) if "holds the GPU memory" in line)
    assert first < next(n for n, line in enumerate(held) if line.startswith("restart it"))
    gone = Seen("", (), (), engine=None, probes=REFUSED, phase="down", gpu={"mem_used_mib": 3})
    assert not any("GPU memory" in line for line in gone.judged()["advice"])


def test_orphans_are_ended_before_any_option_is_turned() -> None:
    picture = picture_of("gpu_memory")
    assert not any("end " in line for line in said("gpu_memory", picture))
    orphans = replace(picture, processes=Processes(http_alive=False, orphans=(7,)))
    assert said("gpu_memory", orphans)[0].startswith("end the orphaned processes first")
    unknown = said("gpu_memory", replace(picture, processes=None))
    assert any(line.startswith("end processes that hold memory") for line in unknown)


def test_the_thread_that_steps_the_model_gets_no_more_front_processes() -> None:
    picture = picture_of("cpu")
    assert any("--api-server-count" in line for line in said("cpu", picture))
    assert picture.own is not None
    core = replace(picture.own, threads=(thread("engine_core", 99.0),))
    lines = said("cpu", replace(picture, own=core))
    assert lines[0].startswith("the thread that steps the model is full")
    assert not any("--api-server-count" in line for line in lines)


def test_what_waits_at_the_door_is_spoken_of_where_something_does() -> None:
    picture = picture_of("queueing_upstream")
    assert any("longer backlog" in line for line in said("queueing_upstream", picture))


def test_deferred_requests_that_hold_seats_are_spoken_of_where_there_are_some() -> None:
    picture = picture_of("scheduler_limit")
    assert picture.engine is not None
    held = replace(picture.engine, running=100.0, waiting_by_reason={"deferred": 156.0})
    lines = said("scheduler_limit", replace(picture, engine=held))
    assert "deferred requests hold seats: upgrade, or restart" in lines
    assert not any("something else holds back" in line for line in lines)


def test_the_seats_of_a_rank_are_held_against_what_runs_on_one() -> None:
    picture = picture_of("kv_cache")
    assert picture.engine is not None
    ranks = (RankReading("0", running=90.0), RankReading("1", running=30.0))
    lines = said("kv_cache", replace(picture, engine=replace(picture.engine, running=120.0, ranks=ranks)))
    assert any("below the 90 that run" in line for line in lines)


def test_a_process_that_is_known_to_be_gone_is_not_to_be_ended() -> None:
    picture = replace(picture_of("engine_down"), gpus=None, gpus_reason="no_driver")
    assert not any("still alive" in line for line in said("engine_down", picture))
    assert any("still alive" in line for line in said("engine_down", replace(picture, processes=None)))


def test_routing_comes_first_where_nothing_is_thrown_out_and_last_where_it_is() -> None:
    for name, place in (("a cold cache that throws nothing out", 0), ("a cold cache that is too small", 1)):
        lines = CASES[name].judged()["advice"]
        assert [n for n, line in enumerate(lines) if line.startswith("route by session")] == [place]
