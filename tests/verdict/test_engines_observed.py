"""What runs against real engines taught: pauses, probes' own tokens, slow steps, engines without tokens."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.captures import text
from tests.verdict import made
from tui.model.history import History
from tui.model.readings import EngineReading, GpuSet
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed, SourceState, SourceStatus
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.triton import TRITON
from tui.verdict.advice import advice
from tui.verdict.judge import judge_all
from tui.verdict.picture import Picture
from tui.verdict.signals import Signals

if TYPE_CHECKING:
    from tui.model.readings import HostReading
    from tui.model.snapshot import EngineView
    from tui.model.verdicts import Judgement, Verdict

IDLE_GPU: Observed[GpuSet] = Observed(GpuSet((made.gpu(sm_pct=0.0, mem_ctrl_pct=0.0),)), made.FRESH)
NO_GPU: Observed[GpuSet] = Observed(None, SourceStatus(SourceState.UNSUPPORTED, "no_driver"))


def judged(found: EngineReading | EngineView, **changes: Any) -> Judgement:
    view = made.view(found) if isinstance(found, EngineReading) else found
    return judge_all(made.snapshot(view, **changes), History(), Thresholds(), Slo())


def verdict_of(found: EngineReading | EngineView, **changes: Any) -> Verdict:
    return judged(found, **changes).verdicts[1]


def stalled(seconds: float, **changes: Any) -> EngineReading:
    still: dict[str, Any] = {
        "gen_tok_s": 0.0, "prompt_tok_s": 0.0, "ttft_p95_s": None, "itl_p95_s": None, "queue_p95_s": None,
        "req_s": 0.0, "error_ratio": None, "stalled_scrapes": int(seconds) + 1, "stalled_s": seconds,
        "since_last_step_s": seconds, "window_s": min(seconds, 10.0), "progress": 900.0,
    }  # fmt: skip
    return made.reading(**(still | changes))


# ---------------------------------------------------------------------------------------- preempted now


def full_trtllm(**changes: Any) -> EngineReading:
    full = dataclasses.replace(made.full_cache(), engine="trtllm", preemptions_per_s=None, preempted=4.0)
    return dataclasses.replace(full, **changes)


def test_requests_that_are_paused_now_show_a_full_cache_where_pauses_are_not_counted() -> None:
    verdict = verdict_of(full_trtllm(waiting=0.0))
    assert verdict.verdict == "kv_cache"
    assert any(e.text == "4 preempted" for e in verdict.evidence)
    assert verdict_of(full_trtllm(waiting=0.0, preempted=0.0, ttft_p95_s=0.2, itl_p95_s=0.02, queue_p95_s=0.1)).verdict == "healthy"  # fmt: skip


def test_sglangs_last_report_does_not_outweigh_its_counter() -> None:
    calm = made.reading(
        engine="sglang", kv_usage=0.93, kv_usage_max=0.93, preemptions_per_s=0.0, preempted=2.0
    )
    assert verdict_of(calm).verdict == "healthy"
    assert verdict_of(dataclasses.replace(calm, preemptions_per_s=None)).verdict == "kv_cache"


# ---------------------------------------------------------------------------------------- paused, asleep


@pytest.mark.parametrize(("state", "word"), [("paused", "paused"), ("asleep", "asleep")])
@pytest.mark.parametrize("kind", ["vllm", "sglang"])
@pytest.mark.parametrize("seconds", [2.0, 60.0])
def test_an_engine_that_was_told_to_wait_is_not_hung(
    kind: str, state: str, word: str, seconds: float
) -> None:
    found = judged(stalled(seconds, engine=kind, waiting=20.0, **{state: True}))
    verdict = found.verdicts[1]
    assert verdict.verdict == "unknown"
    assert verdict.missing[0] == "the engine to go on"
    assert any(e.text.startswith(word) for e in verdict.evidence)
    assert any(f.id == state for f in found.findings)


def test_requests_held_back_by_a_pause_are_a_warning_and_an_empty_pause_is_a_note() -> None:
    held, empty = stalled(9.0, paused=True), made.nothing_to_do(paused=True)
    assert [f.level for f in judged(held).findings if f.id == "paused"] == ["warning"]
    assert [f.level for f in judged(empty).findings if f.id == "paused"] == ["info"]
    verdict = verdict_of(empty)
    assert verdict.verdict == "idle"
    assert any(e.signal == "paused" for e in verdict.evidence)


def test_a_probe_that_a_pause_leaves_unanswered_is_no_hang() -> None:
    probes = (*made.probes(), made.probe("generate", "timeout", latency_s=60.0))
    verdict = verdict_of(made.view(made.nothing_to_do(paused=True), probes=probes))
    assert (verdict.verdict, verdict.missing[0]) == ("unknown", "the engine to go on")


def test_a_health_route_that_waited_for_a_paused_scheduler_in_vain_is_no_hang() -> None:
    found = made.nothing_to_do(engine="sglang", paused=True)
    probes = (made.probe("liveness", 503, latency_s=20.0), made.probe("readiness", 503))
    verdict = verdict_of(made.view(found, probes=probes))
    assert (verdict.verdict, verdict.missing[0]) == ("unknown", "the engine to go on")
    assert verdict.evidence[0].signal == "paused"


@pytest.mark.parametrize("running", [0.0, 2.0])
@pytest.mark.parametrize("age_s", [30.0, 90000.0])
def test_sglang_that_is_unready_because_it_is_paused_neither_starts_nor_drains_nor_is_down(
    running: float, age_s: float
) -> None:
    found = made.nothing_to_do(engine="sglang", running=running, paused=True)
    probes = (made.probe("liveness", 200), made.probe("readiness", 503))
    view = made.view(found, probes=probes, processes=made.tree(started_at=made.WALL - age_s))
    assert verdict_of(view).verdict in ("idle", "unknown", "healthy")


# ---------------------------------------------------------------------------------------- work that no gauge shows


def test_a_stall_is_work_although_no_gauge_shows_any() -> None:
    unseen = stalled(15.0, engine="sglang", running=0.0, waiting=0.0, progress=2.0)
    assert verdict_of(unseen, gpus=IDLE_GPU).verdict == "unknown"
    later = dataclasses.replace(unseen, progress=900.0)
    assert verdict_of(later, gpus=IDLE_GPU).verdict == "engine_hung"


def test_a_drain_refuses_at_once_and_a_hung_scheduler_only_after_its_wait() -> None:
    found = made.reading(engine="sglang")
    slow = made.view(
        found, probes=(made.probe("liveness", 503, latency_s=20.0), made.probe("readiness", 503))
    )
    assert verdict_of(slow).verdict == "unknown"
    fast = made.view(found, probes=(made.probe("liveness", 503), made.probe("readiness", 503)))
    assert verdict_of(fast).verdict == "draining"


# ---------------------------------------------------------------------------------------- probes' own tokens


def test_the_token_of_a_health_route_is_no_work() -> None:
    trickle = made.nothing_to_do(engine="sglang", gen_tok_s=1.0, prompt_tok_s=1.0, window_s=1.0)
    verdict = verdict_of(trickle)
    assert (verdict.verdict, verdict.confidence) == ("idle", "medium")
    assert verdict_of(dataclasses.replace(trickle, gen_tok_s=40.0)).verdict == "healthy"
    assert verdict_of(dataclasses.replace(trickle, running=1.0)).verdict == "healthy"


def test_the_token_of_a_generate_probe_is_no_work_and_a_strangers_is() -> None:
    trickle = made.nothing_to_do(gen_tok_s=0.7, prompt_tok_s=4.0)
    assert verdict_of(trickle).verdict == "healthy"
    asked = made.view(trickle, probes=(*made.probes(), made.probe("generate", 200)))
    assert verdict_of(asked).verdict == "idle"


# ---------------------------------------------------------------------------------------- slow steps


def test_a_stall_is_a_hang_when_it_is_longer_than_any_normal_step() -> None:
    def after(seconds: float, longest: float) -> str:
        return verdict_of(stalled(seconds, longest_stall_s=longest), gpus=IDLE_GPU).verdict

    assert after(5.1, 0.0) == "engine_hung"
    assert after(5.1, 1.0) == "engine_hung"
    assert after(9.0, 4.0) == "unknown"
    assert after(12.1, 4.0) == "engine_hung"
    assert after(29.0, 25.0) == "unknown"
    assert after(31.0, 25.0) == "engine_hung"


def test_the_evidence_names_the_limit_in_force() -> None:
    verdict = verdict_of(stalled(13.0, longest_stall_s=4.0), gpus=IDLE_GPU)
    assert next(e.threshold for e in verdict.evidence if e.signal == "stalled_s") == 12.0


def busy(pid: int, pct: float = 99.0) -> Observed[HostReading]:
    return Observed(made.host(busiest_process_pid=pid, busiest_process_cpu_pct=pct), made.FRESH)


def test_without_devices_a_core_that_computes_is_in_a_long_step() -> None:
    core, server = 101, 100
    assert verdict_of(stalled(6.0), gpus=NO_GPU, host=busy(core)).verdict == "unknown"
    assert verdict_of(stalled(31.0), gpus=NO_GPU, host=busy(core)).verdict == "engine_hung"
    assert verdict_of(stalled(6.0), gpus=NO_GPU, host=busy(core, 3.0)).verdict == "engine_hung"
    assert verdict_of(stalled(6.0), gpus=NO_GPU, host=busy(server)).verdict == "engine_hung"
    assert verdict_of(stalled(6.0), gpus=IDLE_GPU, host=busy(core)).verdict == "engine_hung"  # it busy-polls


# ---------------------------------------------------------------------------------------- no token counters


def plain_triton(**changes: Any) -> EngineView:
    plain: dict[str, Any] = {
        "engine": "triton", "running": None, "kv_usage": None, "kv_usage_max": None, "preemptions_per_s": None,
        "ttft_p95_s": None, "itl_p95_s": None, "queue_p95_s": None, "gen_tok_s": None, "prompt_tok_s": None,
        "max_num_seqs": None, "since_last_step_s": None, "stalled_s": None, "stalled_scrapes": None,
        "req_s": 3.0,
    }  # fmt: skip
    tree = tuple(dataclasses.replace(p, engine="triton") for p in made.tree()[:1])
    return made.view(made.reading(**(plain | changes)), processes=tree)


def test_requests_that_end_are_the_flow_where_no_tokens_are_counted() -> None:
    verdict = verdict_of(plain_triton())
    assert (verdict.verdict, verdict.confidence) == ("healthy", "medium")
    assert any(e.text == "3 req/s" for e in verdict.evidence)


def test_no_request_that_ends_or_waits_is_idle_with_what_would_prove_it() -> None:
    verdict = verdict_of(plain_triton(req_s=0.0, error_ratio=None))
    assert (verdict.verdict, verdict.confidence) == ("idle", "medium")
    assert {"running", "generate probe"} <= set(verdict.missing)


def test_a_recorded_triton_without_requests_is_idle() -> None:
    reader, body = EngineReader(TRITON, made.URL), text("triton-2.51/metrics-idle.txt")
    found = [reader.feed(body, made.NOW + second) for second in range(3)][-1]
    verdict = verdict_of(dataclasses.replace(plain_triton(), engine=Observed(found, made.FRESH)))
    assert (verdict.verdict, verdict.confidence) == ("idle", "medium")


def test_requests_that_wait_and_none_that_ends_are_not_calm() -> None:
    waiting = plain_triton(req_s=0.0, waiting=5.0, error_ratio=None)
    assert verdict_of(waiting).verdict not in ("healthy", "idle")
    failing = plain_triton(req_s=0.0, error_ratio=1.0)
    assert verdict_of(failing).verdict not in ("healthy", "idle")


def test_a_first_scrape_knows_no_flow() -> None:
    assert verdict_of(plain_triton(req_s=None, error_ratio=None)).verdict == "unknown"


# ---------------------------------------------------------------------------------------- words


def test_vllms_drain_is_told_as_it_is() -> None:
    words = " ".join(advice("draining", Signals(Picture("x", "vllm"), Thresholds(), Slo())))
    assert "0.18" in words
    assert "silent" in words
    assert "cuts" not in words
