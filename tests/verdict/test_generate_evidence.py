"""What a generation proves: that an idle engine hangs, that a busy one does not, and nothing of later stalls."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests.verdict import made
from tui.model.history import History
from tui.model.readings import GpuSet, ProbeReading
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed
from tui.verdict.judge import judge_all
from tui.verdict.signals import answer

if TYPE_CHECKING:
    from tui.model.snapshot import EngineView

QUIET_GPU = Observed(GpuSet((made.gpu(sm_pct=0.0, mem_ctrl_pct=0.0),)), made.FRESH)


def judged(view: EngineView, generate: ProbeReading) -> str:
    view = dataclasses.replace(view, probes=(*made.probes(), generate))
    snapshot = made.snapshot(view, gpus=QUIET_GPU)
    return next(
        v.verdict for v in judge_all(snapshot, History(), Thresholds(), Slo()).verdicts if v.scope == made.URL
    )


def generate(
    status: int | str, latency_s: float, age_s: float = 0.1, *, failed: bool = False
) -> ProbeReading:
    return ProbeReading(
        made.URL,
        "generate",
        "/v1/completions",
        status,  # type: ignore[arg-type]
        latency_s,
        age_s=age_s,
        failed=failed,
    )


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (generate("timeout", 30.0), "engine_hung"),
        (generate("timeout", 5.0), "unknown"),  # given up too early to prove anything
        (generate(200, 0.02), "idle"),
    ],
)
def test_an_idle_engine_that_answers_no_generation_hangs(found: ProbeReading, verdict: str) -> None:
    still = made.nothing_to_do(since_last_step_s=40.0)
    assert judged(made.view(still), found) == verdict


@pytest.mark.parametrize(
    ("since_last_step_s", "age_s", "verdict"),
    [
        (12.0, 0.1, "unknown"),  # others' work kept it waiting, and ended
        (12.0, 20.0, "unknown"),
        (0.3, 20.0, "unknown"),  # it has gone on since
        (29.5, 0.1, "engine_hung"),  # that step was of before the question, seen a scrape late
        (40.0, 0.1, "engine_hung"),
        (None, 0.1, "engine_hung"),  # nothing tells of steps
    ],
)
def test_a_step_during_the_wait_is_a_queue_and_no_hang(
    since_last_step_s: float | None, age_s: float, verdict: str
) -> None:
    found = made.view(made.nothing_to_do(since_last_step_s=since_last_step_s))
    assert judged(found, generate("timeout", 30.0, age_s)) == verdict


def test_a_status_route_that_waited_while_steps_were_made_shows_no_hang() -> None:
    slow = dataclasses.replace(made.probe("liveness", 503, latency_s=20.0), age_s=0.1)
    for since_last_step_s, hangs in ((5.0, False), (40.0, True)):
        still = made.nothing_to_do(engine="sglang", since_last_step_s=since_last_step_s)
        view = dataclasses.replace(made.view(still), probes=(slow, made.probe("readiness", 200)))
        found = judge_all(made.snapshot(view, gpus=QUIET_GPU), History(), Thresholds(), Slo()).verdicts[1]
        assert (found.verdict == "engine_hung") == hangs


def test_one_that_makes_tokens_is_busy_however_long_ours_waits() -> None:
    assert judged(made.view(made.reading()), generate("timeout", 30.0)) != "engine_hung"


def test_a_token_of_before_the_stall_hides_no_hang() -> None:
    still = made.reading(
        gen_tok_s=0.0, prompt_tok_s=0.0, stalled_scrapes=9, stalled_s=9.0, since_last_step_s=9.0
    )
    assert judged(made.view(still), generate(200, 0.02, age_s=20.0)) == "engine_hung"
    assert judged(made.view(still), generate(200, 0.02, age_s=2.0)) != "engine_hung"


def test_a_stream_without_a_token_is_no_success() -> None:
    assert generate(200, 0.02, failed=True).ok is False
    assert answer(generate(200, 0.02, failed=True)) == "4xx"


def test_what_was_never_answered_is_no_evidence() -> None:
    asked = ProbeReading(made.URL, "generate", "/v1/completions", waiting_s=12.0)
    assert judged(made.view(made.nothing_to_do()), asked) == "idle"
