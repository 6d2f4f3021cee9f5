"""Observation lines: strict about what is there, tolerant of what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tui.verdict.observation import classify_line, picture_from_observation

KEYS = ["id", "verdict", "secondary", "confidence", "evidence", "missing", "advice"]


def line(**observations: Any) -> str:
    return json.dumps({"id": "x", "engine": "vllm", "observations": observations})


def test_answer_has_the_keys_of_the_contract() -> None:
    found = classify_line(line(engine={"running": 0, "waiting": 0}))
    assert list(found) == KEYS
    assert json.loads(json.dumps(found)) == found


def test_nothing_known_is_unknown_with_what_would_help() -> None:
    found = classify_line(line())
    assert (found["verdict"], found["confidence"]) == ("unknown", "low")
    assert {"gpus", "host", "probes", "engine"} <= set(found["missing"])


def test_null_and_absent_are_the_same_and_never_zero() -> None:
    absent = picture_from_observation({"observations": {"engine": {"running": 3}}})
    null = picture_from_observation(
        {"observations": {"engine": {"running": 3, "waiting": None}, "host": None}}
    )
    assert absent == null
    assert null.engine is not None
    assert null.engine.waiting is None


def test_empty_gpu_is_expected_and_unreadable() -> None:
    picture = picture_from_observation({"observations": {"gpus": [{"sm_pct": 5}, {}]}})
    assert picture.gpus is not None
    assert [(g.index, g.state, g.sm_pct) for g in picture.gpus] == [(0, "ok", 5.0), (1, "error", None)]


def test_unknown_keys_are_tolerated_everywhere() -> None:
    text = json.dumps(
        {
            "later": 1,
            "observations": {
                "x": [],
                "gpus": [{"fan_pct": 30, "sm_pct": 1}],
                "engine": {"y": "z", "running": 1},
                "host": {"q": None},
                "probes": {"other": 5},
            },
        }
    )
    assert classify_line(text)["id"] is None


@pytest.mark.parametrize(
    ("observations", "named"),
    [
        ({"engine": {"kv_usage": 1.4}}, "engine.kv_usage"),
        ({"engine": {"running": -1}}, "engine.running"),
        ({"engine": {"running": "many"}}, "engine.running"),
        ({"engine": {"waiting": True}}, "engine.waiting"),
        ({"engine": {"ttft_p95_s": float("nan")}}, "engine.ttft_p95_s"),
        ({"engine": {"ttft_p95_s": float("inf")}}, "engine.ttft_p95_s"),
        ({"engine": {"gen_tok_s": 10**400}}, "engine.gen_tok_s"),
        ({"engine": []}, "engine"),
        ({"gpus": {}}, "gpus"),
        ({"gpus": [7]}, "gpus[0]"),
        ({"gpus": [{"sm_pct": 250}]}, "gpus[0].sm_pct"),
        ({"gpus": [{}, {"throttle": "sw_power_cap"}]}, "gpus[1].throttle"),
        ({"gpus": [{"throttle": [1]}]}, "gpus[0].throttle"),
        ({"host": {"psi_io": 140}}, "host.psi_io"),
        ({"host": "big"}, "host"),
        ({"probes": {"liveness": 200}}, "probes.liveness"),
        ({"probes": {"liveness": {"status": "gone"}}}, "probes.liveness.status"),
        ({"probes": {"liveness": {"status": 20}}}, "probes.liveness.status"),
        ({"probes": {"liveness": {"status": [200]}}}, "probes.liveness.status"),
        ({"probes": {"generate": {"status": 200, "latency_s": -1}}}, "probes.generate.latency_s"),
        ({"phase": "asleep"}, "phase"),
        ({"phase": ["serving"]}, "phase"),
        ({"duration_s": "long"}, "duration_s"),
    ],
)
def test_wrong_type_or_range_is_refused_by_name(observations: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        classify_line(line(**observations))
    assert str(caught.value).startswith(named + ":")


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", "3", "null", '{"observations": 3}', "{}", '{"observations": null}',
     '{"engine": "llama", "observations": {}}', '{"engine": {}, "observations": {}}', "[" * 100_000],
)  # fmt: skip
def test_line_that_is_no_observation_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        classify_line(text)


@pytest.mark.parametrize(
    ("text", "said"), [('{"id":"a"\n', "column 11"), ('{"id" "a"}\n', "column 7"), ("\n", "column 2")]
)
def test_a_line_that_is_no_json_names_its_column_and_no_other_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as failed:
        classify_line(text)
    assert "line" not in str(failed.value)


def test_text_from_outside_is_made_safe() -> None:
    text = json.dumps(
        {"id": "a\x1b[31mb\n", "observations": {"gpus": [{"sm_pct": 100, "throttle": ["x\x1b]0;y\x07"]}]}}
    )
    found = classify_line(text)
    assert found["id"] == "ab"
    assert "\x1b" not in json.dumps(found)


def test_full_disk_or_core_may_read_a_little_above_100() -> None:
    picture = picture_from_observation({"observations": {"host": {"disk_util_pct": 100.4, "cpu_cores": 3.5}}})
    assert picture.host is not None
    assert (picture.host.disk_util_pct, picture.host.cpu_cores) == (100.0, 4)


def test_health_is_not_sure_while_a_probe_that_may_be_the_one_that_fails_was_not_made() -> None:
    engine = {
        "running": 2, "waiting": 0, "kv_usage": 0.04, "gen_tok_s": 60, "ttft_p95_s": 0.2, "itl_p95_s": 0.014,
        "error_ratio": 0, "max_num_seqs": 256,
    }  # fmt: skip
    card = {
        "sm_pct": 15, "mem_used_mib": 70000, "mem_total_mib": 81559, "clock_sm_mhz": 1980, "clock_max_mhz": 1980,
        "throttle": [], "power_w": 160, "power_limit_w": 700,
    }  # fmt: skip
    well = {"status": 200, "latency_s": 0.2}
    probes: dict[str, Any] = {"liveness": well, "readiness": well, "generate": well}
    seen = {
        "gpus": [card],
        "engine": engine,
        "host": {"cpu_pct_total": 2, "cpu_cores": 64, "busiest_thread_cpu_pct": 20, "ctx_switches_s": 9000},
        "phase": "serving",
        "duration_s": 300,
    }

    def judged(probes: dict[str, Any]) -> tuple[str, str, list[str]]:
        found = classify_line(line(**seen, probes=probes))
        return found["verdict"], found["confidence"], found["missing"]

    assert judged(probes) == ("healthy", "high", [])
    reset = probes | {"generate": {"status": "reset", "latency_s": 5.0}}
    assert judged(reset)[0] == "queueing_upstream"
    for kind in probes:
        rest = {name: probe for name, probe in probes.items() if name != kind}
        assert judged(rest) == ("healthy", "medium", [f"{kind} probe"])
