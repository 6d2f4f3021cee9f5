from __future__ import annotations

import math

import pytest

from tests.support.servers import Handler, Reply, json_reply, serve
from tui.model.settings import EngineTarget
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.source import EngineSource
from tui.sources.engines.trtllm import TRTLLM

WHO = 'model_name="llama",engine_type="trtllm"'
LATENCIES = ("e2e_request_latency", "time_to_first_token", "time_per_output_token", "request_queue_time")


def histograms(prefix: str, count: int) -> str:
    return "".join(
        f'{prefix}{name}_seconds_bucket{{{WHO},le="{le}"}} {count if bound > 0.15 else 0}\n'
        for name in LATENCIES
        for le, bound in (("0.1", 0.1), ("0.2", 0.2), ("+Inf", math.inf))
    )


def basic(done: int, prefix: str = "") -> str:
    """What 1.1 and 1.2 have: five families without a prefix."""
    who = 'model_name="undefined",engine_type="undefined"'
    return f'{prefix}request_success_total{{{who},finished_reason="stop"}} {done}\n' + histograms(
        prefix, done
    )


def full(at: int, *, errors: bool = False, prefix: str = "trtllm_") -> str:
    figures = {
        "num_requests_running": 4, "num_requests_waiting": 9, "kv_cache_utilization": 0.6,
        "kv_cache_max_blocks": 100, "kv_cache_used_blocks": 60, "kv_cache_tokens_per_block": 32,
        "max_num_active_requests": 2048, "max_batch_size_static": 64, "max_batch_size_runtime": 32,
        "num_paused_requests": 2, "generation_tokens_total": 500 * at, "prompt_tokens_total": 200 * at,
        "prompt_cached_tokens_total": 50 * at, "kv_cache_reused_blocks_total": 7 * at,
        "kv_cache_missed_blocks_total": 3 * at, "kv_cache_hit_rate": 0.9,
        "spec_decode_num_draft_tokens_total": 40 * at, "spec_decode_num_accepted_tokens_total": 30 * at,
        "spec_decode_acceptance_length": 2.5, "iteration_latency_seconds": 0.02,
    }  # fmt: skip
    body = "".join(f"{prefix}{name}{{{WHO}}} {value}\n" for name, value in figures.items())
    body += f'{prefix}request_success_total{{{WHO},finished_reason="length"}} {7 * at}\n'
    if errors:
        body += f'{prefix}request_error_total{{{WHO},http_code="503"}} 2\n'
        body += f'{prefix}request_error_total{{{WHO},http_code="500"}} 1\n'
        body += f'{prefix}request_error_total{{{WHO},http_code="400"}} 50\n'
    return body + histograms(prefix, 10 * at)


@pytest.mark.parametrize("prefix", ["trtllm_", "trtllm:"])
def test_all_figures(prefix: str) -> None:
    engine = EngineReader(TRTLLM, "u")
    engine.feed(full(0, prefix=prefix), 0.0)
    found = engine.feed(full(1, prefix=prefix), 1.0)
    assert (found.running, found.waiting, found.preempted, found.max_num_seqs) == (4, 9, 2, 32)
    assert (found.kv_usage, found.kv_usage_max, found.kv_capacity_tokens) == (0.6, 0.6, 3200)
    assert (found.gen_tok_s, found.prompt_tok_s, found.req_s, found.prefix_hit_ratio) == (500, 200, 7, 0.25)
    assert (found.spec_accept_ratio, found.spec_accept_length) == (0.75, 2.5)
    assert found.ttft_p50_s == found.tpot_p50_s == found.queue_p50_s == found.e2e_p50_s
    assert found.ttft_p50_s == pytest.approx(0.15)
    assert (found.model, found.finish_reasons, found.error_ratio) == ("llama", {"length": 7}, 0.0)


def test_the_first_errors_count_by_code() -> None:
    engine = EngineReader(TRTLLM, "u")
    engine.feed(full(0), 0.0)
    found = engine.feed(full(1, errors=True), 1.0)
    assert found.error_ratio == pytest.approx(0.3)
    assert found.http_503_ratio == pytest.approx(0.2)
    assert found.http_429_ratio == 0.0


def test_what_it_never_tells_says_so() -> None:
    engine = EngineReader(TRTLLM, "u")
    found = [engine.feed(full(at), float(at)) for at in range(3)][-1]
    why = {gap.field: gap.why for gap in found.missing}
    assert found.itl_p95_s is None
    assert found.since_last_step_s is None
    assert found.stalled_scrapes is None
    assert "tpot" in why["itl_p95_s"]
    assert why["since_last_step_s"] == "trtllm-serve has no step counter"


def test_the_older_five_families() -> None:
    engine = EngineReader(TRTLLM, "u")
    engine.feed(basic(0), 0.0)
    found = engine.feed(basic(5), 1.0)
    assert (found.reason, found.req_s, found.model) == (None, 5, None)
    assert found.ttft_p50_s == pytest.approx(0.15)
    assert (found.running, found.kv_usage, found.error_ratio) == (None, None, None)
    enable = {gap.field: gap.enable for gap in found.missing}
    assert enable["running"] == enable["kv_usage"] == enable["gen_tok_s"] == "TensorRT-LLM 1.3 or newer"


def test_without_cached_tokens_blocks_tell_the_hits() -> None:
    engine = EngineReader(TRTLLM, "u")
    bodies = ["".join(x + "\n" for x in full(at).split("\n")[:-1] if "cached" not in x) for at in (0, 1)]
    engine.feed(bodies[0], 0.0)
    assert engine.feed(bodies[1], 1.0).prefix_hit_ratio == 0.7


def serving(metrics: Handler) -> dict[str, Handler]:
    return {
        "/version": json_reply({"version": "1.3.0"}),
        "/v1/models": json_reply({"data": [{"id": "llama", "owned_by": "tensorrt_llm"}]}),
        "/metrics": json_reply([{"iter": 1}]),
        "/perf_metrics": json_reply([]),
        "/kv_cache_events": json_reply([]),
        "/prometheus/metrics": metrics,
    }


@pytest.mark.parametrize("hint", ["auto", "trtllm", "vllm"])
async def test_what_a_get_would_take_away_is_never_asked_for(hint: str) -> None:
    async with serve(serving(Reply(200, full(1)))) as server:
        source = EngineSource(EngineTarget(server.url, engine=hint))  # type: ignore[arg-type]
        for _ in range(5):
            found = await source.read()
        assert (found.engine, found.version, found.model, found.running) == ("trtllm", "1.3.0", "llama", 4)
        taken = [server.count(path) for path in ("/metrics", "/perf_metrics", "/kv_cache_events")]
        assert taken == [0, 0, 0]
        assert server.count("/prometheus/metrics") == 5
        await source.close()


async def test_without_its_metrics_the_option_is_named_and_metrics_are_still_not_taken() -> None:
    async with serve(serving(Reply(404))) as server:
        source = EngineSource(EngineTarget(server.url))
        for _ in range(3):
            found = await source.read()
        assert (found.reason, found.detail) == ("404", "/prometheus/metrics: HTTP 404")
        enable = {gap.field: gap.enable for gap in found.missing}
        assert enable["running"] == "restart with return_perf_metrics: true in the --config file"
        assert server.count("/metrics") == 0
        await source.close()


async def test_a_mount_that_wants_a_slash_is_followed_and_nothing_else_is() -> None:
    slash = {"/prometheus/metrics/": Reply(200, full(1))}
    there = Reply(307, headers={"Location": "http://127.0.0.1/prometheus/metrics/"})
    async with serve({**serving(there), **slash}) as server:
        source = EngineSource(EngineTarget(server.url))
        assert [(await source.read()).running for _ in range(3)] == [4, 4, 4]
        assert server.count("/prometheus/metrics") == 1
        await source.close()
    elsewhere = Reply(307, headers={"Location": "/login?next=/prometheus/metrics/"})
    async with serve(serving(elsewhere)) as server:
        source = EngineSource(EngineTarget(server.url))
        assert (await source.read()).reason == "redirect"
        await source.close()
