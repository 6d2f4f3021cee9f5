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
    assert judged(made.view(made.nothing_to_do()), found) == verdict


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
