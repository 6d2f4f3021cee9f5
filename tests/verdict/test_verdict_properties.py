"""What must hold for any picture at all."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.verdict import cards
from tui.model.settings import Slo, Thresholds
from tui.verdict.assess import assess
from tui.verdict.observation import classify, picture_from_observation

if TYPE_CHECKING:
    from tui.model.verdicts import Confidence

LIMITS, SLO = Thresholds(), Slo()
QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

ratio = st.floats(0, 1)
percent = st.floats(0, 100)
amount = st.one_of(st.just(0.0), st.floats(0, 1e5))
gpu = st.fixed_dictionaries(
    {},
    optional={
        "sm_pct": percent, "mem_ctrl_pct": percent, "mem_used_mib": amount, "mem_total_mib": amount, "power_w": amount,
        "power_limit_w": amount, "temp_c": percent, "clock_sm_mhz": amount, "clock_max_mhz": amount,
        "throttle": st.lists(st.sampled_from(("idle", "sw_power_cap", "hw_slowdown", "something")), max_size=2),
    },
)  # fmt: skip
engine = st.fixed_dictionaries(
    {},
    optional={
        "running": amount, "waiting": amount, "kv_usage": ratio, "preemptions_per_s": amount,
        "prefix_hit_ratio": ratio, "evictions_per_s": amount, "ttft_p95_s": amount, "itl_p95_s": ratio,
        "queue_p95_s": amount, "gen_tok_s": amount, "prompt_tok_s": amount, "http_503_ratio": ratio,
        "error_ratio": ratio, "max_num_seqs": amount,
    },
)  # fmt: skip
host = st.fixed_dictionaries(
    {},
    optional={
        "cpu_pct_total": percent, "cpu_cores": st.integers(0, 256), "busiest_process_cpu_pct": amount,
        "busiest_thread_cpu_pct": percent, "iowait_pct": percent, "disk_util_pct": percent, "disk_read_mb_s": amount,
        "psi_cpu": percent, "psi_io": percent, "psi_mem": percent, "ctx_switches_s": amount, "net_mb_s": amount,
    },
)  # fmt: skip
probe = st.fixed_dictionaries(
    {
        "status": st.sampled_from(
            (200, 204, 302, 401, 404, 500, 503, "timeout", "refused", "reset", "tls", "dns")
        )
    },
    optional={"latency_s": st.floats(0, 120)},
)
observation = st.fixed_dictionaries(
    {},
    optional={
        "gpus": st.lists(gpu, max_size=4),
        "engine": engine,
        "host": host,
        "probes": st.fixed_dictionaries(
            {}, optional={"liveness": probe, "readiness": probe, "generate": probe}
        ),
        "phase": st.sampled_from(("loading", "serving", "draining", "down")),
        "duration_s": st.floats(0, 1e5),
    },
)
line = st.fixed_dictionaries(
    {"observations": observation},
    optional={"engine": st.sampled_from(("vllm", "sglang", "trtllm", "triton"))},
)


@QUICK
@given(line)
def test_no_rule_fails_and_the_verdict_explains_itself(made: dict[str, Any]) -> None:
    found = assess(picture_from_observation(made), LIMITS, SLO, explain=True)
    assert not found.errors
    verdict = found.verdict
    assert all(e.text and "None" not in e.text and "nan" not in e.text for e in verdict.evidence)
    if verdict.verdict == "unknown":
        assert verdict.missing
        assert verdict.confidence == "low"
    for outcome in found.outcomes.values():
        assert outcome.missing or outcome.state != "cannot_say"


@QUICK
@given(line)
def test_explaining_changes_no_verdict(made: dict[str, Any]) -> None:
    picture = picture_from_observation(made)
    assert assess(picture, LIMITS, SLO).verdict == assess(picture, LIMITS, SLO, explain=True).verdict


@QUICK
@given(line)
def test_calm_with_high_confidence_needs_every_source_and_no_open_question(made: dict[str, Any]) -> None:
    picture = picture_from_observation(made)
    found = assess(picture, LIMITS, SLO)
    high: Confidence = "high"
    if found.verdict.verdict not in ("healthy", "idle") or found.verdict.confidence != high:
        return
    assert picture.gpus
    assert picture.engine is not None
    assert picture.host is not None
    assert picture.probes
    assert not any(o.state == "cannot_say" for o in found.outcomes.values())
    assert not any(
        o.state == "fires" for name, o in found.outcomes.items() if name not in ("healthy", "idle")
    )


@QUICK
@given(st.sampled_from(sorted(cards.BUILDERS)), st.integers(0, 10_000), st.data())
def test_any_subset_of_a_card_is_judged_without_false_calm(
    verdict: str, seed: int, data: st.DataObject
) -> None:
    made, _ = cards.BUILDERS[verdict](cards.Maker(seed))
    fields = cards.fields(made["observations"])
    for where in data.draw(st.lists(st.sampled_from(fields), unique=True)):
        cards.remove_field(made["observations"], where)
    found = classify(made, LIMITS, SLO)
    if verdict not in ("healthy", "idle") and found["verdict"] in ("healthy", "idle"):
        assert found["confidence"] != "high"


EACH = 60
SICK = [name for name in cards.BUILDERS if name not in ("healthy", "idle")]


@pytest.mark.parametrize("verdict", SICK)
def test_no_single_field_of_a_card_that_is_gone_makes_it_surely_calm(verdict: str) -> None:
    """A throttle reason that cannot be read was taken for none: a card at half its clock was healthy."""
    wrong = []
    for case in cards.cases(verdict, EACH):
        for where in cards.fields(case.line["observations"]):
            changed = copy.deepcopy(case.line)
            cards.remove_field(changed["observations"], where)
            found = classify(changed, LIMITS, SLO)
            if found["verdict"] in ("healthy", "idle") and found["confidence"] == "high":
                wrong.append((case.line["id"], where))
    assert not wrong


@pytest.mark.parametrize("kind", ["vllm", "sglang", "trtllm", "triton"])
@pytest.mark.parametrize(
    ("running", "seats", "kv", "expected"),
    [
        (31, 32, 0.4, "scheduler_limit"),  # a request has just ended: the next step takes its seat
        (15, 16, 0.4, "scheduler_limit"),
        (31, 32, 0.97, "kv_cache"),  # the pool may be what keeps it free
        (24, 32, 0.97, "kv_cache"),
    ],
)
def test_a_seat_that_is_free_for_a_moment_is_a_full_batch(
    kind: str, running: int, seats: int, kv: float, expected: str
) -> None:
    seen = {
        "gpus": [{"sm_pct": 70, "power_w": 200, "power_limit_w": 300}],
        "engine": {
            "running": running, "waiting": 210, "kv_usage": kv, "preemptions_per_s": 0, "ttft_p95_s": 22,
            "queue_p95_s": 21, "gen_tok_s": 900, "max_num_seqs": seats,
        },
        "phase": "serving",
    }  # fmt: skip
    assert classify({"engine": kind, "observations": seen}, LIMITS, SLO)["verdict"] == expected
