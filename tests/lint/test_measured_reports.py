from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tui.lint.measured import NOTHING, Figures, ProbeFigure, ReportError, for_engine, merged, parse


def once(**engine: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "gpus": [{"index": 0}, {"index": 1}],
        "engines": [{"url": "http://127.0.0.1:8000", "engine": "vllm", **engine}],
        "probes": [
            {
                "url": "http://127.0.0.1:8000",
                "kind": "liveness",
                "path": "/health",
                "status": 200,
                "latency_s": 0.2,
                "latency_p99_s": 1.4,
                "streak": -2,
                "would": {"action": "restart", "in_s": 8.0},
            },
            {"url": "http://127.0.0.1:9000", "kind": "liveness", "path": "/health", "status": "timeout"},
        ],
        "verdicts": [],
    }


def test_once_gives_probe_latencies_and_lower_bounds() -> None:
    found = parse(json.dumps(once(e2e_p95_s=12.5, queue_p95_s=3, ttft_p99_s=4.0, gen_tok_s=610.0)))
    assert found == [
        Figures(
            engine="vllm",
            probes=(ProbeFigure("liveness", "/health", 200, 0.2, 1.4, -2),),
            request_at_least_s=12.5,
            queue_s=3.0,
            ttft_s=4.0,
            tokens_per_s=610.0,
            gpus=2,
        )
    ]


def drain() -> dict[str, Any]:
    return {
        "schema": 1,
        "test": "drain",
        "target": {"engine": "vllm"},
        "events": [
            {"t_s": 0.0, "event": "signal_sent"},
            {"t_s": 0.4, "event": "readiness_down"},
            {"t_s": 20.0, "event": "main_exit"},
            {"t_s": 23.5, "event": "gpu_released"},
        ],
        "requests": [
            {"kind": "in_flight", "started_s": -5.0, "ended_s": 10.0, "outcome": "finished"},
            {"kind": "in_flight", "started_s": -5.0, "ended_s": 14.5, "outcome": "finished"},
            {"kind": "new", "started_s": 1.0, "ended_s": 1.1, "outcome": "refused"},
        ],
        "phases": [],
        "downtime_s": 30.0,
        "exit": {"code": 0, "signal": None, "after_s": 20.1},
        "leftovers": [{"pid": 7, "gpu_mem_mib": 800}, {"pid": 8, "gpu_mem_mib": None}],
    }


def test_a_drain_test_gives_exit_requests_readiness_and_gpu_memory() -> None:
    assert parse(json.dumps(drain())) == [
        Figures(
            engine="vllm",
            longest_request_s=19.5,
            request_at_least_s=19.5,
            exit_s=20.1,
            in_flight=2,
            lost=0,
            readiness_off_s=0.4,
            gpu_held_s=3.5,
            gpu_leftovers=1,
            exit_code=0,
        )
    ]


def test_cut_requests_are_a_lower_bound_and_lost() -> None:
    report = drain()
    report["requests"][1]["outcome"] = "cut"
    report["events"] = report["events"][:1]
    found = parse(json.dumps(report))[0]
    assert (found.longest_request_s, found.request_at_least_s, found.lost) == (None, 19.5, 1)
    assert found.readiness_off_s == math.inf


def restart(**changes: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "test": "restart",
        "target": {"engine": "sglang"},
        "events": [
            {"t_s": 3.0, "event": "main_exit"},
            {"t_s": 5.0, "event": "spawned"},
            {"t_s": 95.0, "event": "ready"},
            {"t_s": 97.5, "event": "first_token"},
        ],
        "requests": [
            {"kind": "new", "started_s": 90.0, "ended_s": 90.0, "outcome": "refused"},
            {"kind": "new", "started_s": 95.5, "ended_s": 95.6, "outcome": "error", "http_status": 500},
            {"kind": "new", "started_s": 96.5, "ended_s": 100.5, "outcome": "finished"},
            {"kind": "new", "started_s": 101.0, "ended_s": 102.0, "outcome": "finished"},
            {"kind": "new", "started_s": 102.0, "ended_s": 103.1, "outcome": "finished"},
            {"kind": "new", "started_s": 103.0, "ended_s": 103.9, "outcome": "finished"},
        ],
        "previous": [{"load_s": 40.0}, {"phases": [{"name": "weights", "start_s": 0, "end_s": 120.0}]}],
        **changes,
    }


def test_a_restart_test_gives_the_load_and_the_warm_up() -> None:
    found = parse(json.dumps(restart()))[0]
    assert (found.load_s, found.load_least_s) == (120.0, 40.0)
    assert found.failed_when_ready == 1
    assert found.first_request_s == 4.0
    assert found.steady_request_s == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changes", "load"),
    [
        ({"previous": []}, 90.0),
        (
            {"previous": None, "events": [{"t_s": 3.0, "event": "main_exit"}, {"t_s": 95, "event": "ready"}]},
            92.0,
        ),
        (
            {
                "previous": [],
                "events": [],
                "phases": [
                    {"name": "down", "start_s": 0, "end_s": 4},
                    {"name": "starting", "start_s": 4, "end_s": 10},
                    {"name": "compile", "start_s": 10, "end_s": 80},
                ],
            },
            76.0,
        ),
        ({"previous": [], "events": [], "downtime_s": 99.0}, 99.0),
        ({"previous": [], "events": []}, None),
    ],
)
def test_the_load_time_from_what_is_there(changes: dict[str, Any], load: float | None) -> None:
    assert parse(json.dumps(restart(**changes)))[0].load_s == load


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"test": "other"}', '{"engines": []}', "[" * 100_000, '{"a":' * 100_000]
)
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(ReportError):
        parse(text)


@pytest.mark.parametrize("bad", [None, "x", True, -1, 1e999, 10**400, [], {}, math.nan])
def test_a_figure_that_is_none_is_unknown(bad: object) -> None:
    report = once(e2e_p95_s=bad, queue_p95_s=bad, engine="vllm")
    report["probes"] = [
        {"url": "http://127.0.0.1:8000", "kind": bad, "latency_p99_s": bad, "streak": bad},
        bad,
    ]
    found = parse(json.dumps(report))[0]
    assert (found.request_at_least_s, found.queue_s, found.probes[0].p99_s) == (None, None, None)
    test = restart(events=bad, requests=[bad, {"kind": "new", "started_s": bad}], exit=bad, target=bad)
    test |= {"leftovers": bad, "phases": [bad, {"name": "weights", "start_s": bad}], "previous": bad}
    assert parse(json.dumps(test))[0].load_s is None


def test_reports_on_one_engine_merge_to_the_worst() -> None:
    both = [
        Figures(engine="vllm", load_s=30.0, load_least_s=30.0, exit_s=4.0),
        Figures(engine="vllm", load_s=50.0, load_least_s=20.0, probes=(ProbeFigure("liveness", "/health"),)),
        Figures(engine="sglang", load_s=500.0),
    ]
    found = for_engine(both, "vllm")
    assert (found.load_s, found.load_least_s, found.exit_s, len(found.probes)) == (50.0, 20.0, 4.0, 1)
    assert for_engine(both, "triton") == NOTHING
    assert for_engine(both, None).load_s == 500.0
    assert merged([]) == NOTHING
