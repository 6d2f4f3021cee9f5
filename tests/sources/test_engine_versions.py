"""Every sampled release of vLLM and SGLang, by the names that it has: the canonical quantities come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.exposed import SGLANG_RELEASES, VLLM_RELEASES, Moves, exposition, names, version
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.sglang import SGLANG
from tui.sources.engines.vllm import VLLM

if TYPE_CHECKING:
    from tui.model.readings import EngineReading
    from tui.sources.engines.table import EngineTable

SECONDS = 10.0

VLLM_MOVES = {
    "vllm:num_requests_running": (Moves(3, 3),),
    "vllm:num_requests_waiting": (Moves(2, 2),),
    "vllm:num_requests_swapped": (Moves(1, 1),),
    "vllm:num_requests_waiting_by_reason": (
        Moves(1, 1, 'reason="capacity"'),
        Moves(1, 1, 'reason="deferred"'),
    ),
    "vllm:kv_cache_usage_perc": (Moves(0.25, 0.5),),
    "vllm:gpu_cache_usage_perc": (Moves(0.25, 0.5),),
    "vllm:cache_config_info": (Moves(1, 1, 'num_gpu_blocks="100",block_size="16"'),),
    "vllm:engine_sleep_state": (
        Moves(1, 1, 'sleep_state="awake"'),
        Moves(0, 0, 'sleep_state="discard_all"'),
    ),
    "vllm:generation_tokens": (Moves(1000, 1500),),
    "vllm:prompt_tokens": (Moves(1000, 1200),),
    "vllm:num_preemptions": (Moves(5, 9),),
    "vllm:prefix_cache_queries": (Moves(100, 300),),
    "vllm:gpu_prefix_cache_queries": (Moves(100, 300),),
    "vllm:prefix_cache_hits": (Moves(90, 140),),
    "vllm:gpu_prefix_cache_hits": (Moves(90, 140),),
    "vllm:request_success": (
        Moves(10, 17, 'finished_reason="stop"'),
        Moves(1, 4, 'finished_reason="length"'),
    ),
    "vllm:admission_rejections": (Moves(0, 5, 'reason="max_num_queued_reqs"'),),
    "vllm:spec_decode_num_drafts": (Moves(10, 20),),
    "vllm:spec_decode_num_draft_tokens": (Moves(50, 100),),
    "vllm:spec_decode_num_accepted_tokens": (Moves(30, 60),),
    "vllm:time_to_first_token_seconds": (Moves(100, 110),),
    "vllm:inter_token_latency_seconds": (Moves(100, 110),),
    "vllm:time_per_output_token_seconds": (Moves(100, 110),),
    "vllm:request_time_per_output_token_seconds": (Moves(100, 110),),
    "vllm:e2e_request_latency_seconds": (Moves(100, 110),),
    "vllm:request_queue_time_seconds": (Moves(100, 110),),
}

# field, value, first release that has it, last one
VLLM_FIGURES = (
    ("running", 3, "0.5.5", ""),
    ("waiting", 2, "0.5.5", ""),
    ("kv_usage", 0.5, "0.5.5", ""),
    ("kv_usage_max", 0.5, "0.5.5", ""),
    ("kv_capacity_tokens", 1600, "0.5.5", ""),
    ("asleep", False, "0.11.1", ""),
    ("preempted", 1, "0.5.5", "0.9.0"),
    ("gen_tok_s", 50, "0.5.5", ""),
    ("prompt_tok_s", 20, "0.5.5", ""),
    ("preemptions_per_s", 0.4, "0.5.5", ""),
    ("req_s", 1.0, "0.5.5", ""),
    ("prefix_hit_ratio", 0.25, "0.7.3", ""),
    ("ttft_p50_s", 0.15, "0.5.5", ""),
    ("ttft_mean_s", 0.15, "0.5.5", ""),
    ("itl_p50_s", 0.15, "0.5.5", ""),
    ("tpot_p50_s", 0.15, "0.11.0", ""),
    ("e2e_p50_s", 0.15, "0.5.5", ""),
    ("queue_p50_s", 0.15, "0.6.6", ""),
    ("spec_accept_ratio", 0.6, "0.5.5", ""),
    ("spec_accept_length", 4.0, "0.8.5", ""),
    ("since_last_step_s", 0.0, "0.5.5", ""),
)

_RANK = 'tp_rank="0",pp_rank="0",moe_ep_rank="0"'
SGLANG_MOVES = {
    "sglang:num_running_reqs": (Moves(3, 3, _RANK),),
    "sglang:num_queue_reqs": (Moves(2, 2, _RANK),),
    "sglang:num_grammar_queue_reqs": (Moves(0, 0, _RANK),),
    "sglang:num_prefill_bootstrap_queue_reqs": (Moves(0, 0, _RANK),),
    "sglang:num_decode_prealloc_queue_reqs": (Moves(0, 0, _RANK),),
    "sglang:num_decode_transfer_queue_reqs": (Moves(0, 0, _RANK),),
    "sglang:token_usage": (Moves(0.25, 0.5, _RANK),),
    "sglang:max_total_num_tokens": (Moves(1600, 1600, _RANK),),
    "sglang:gen_throughput": (Moves(80, 80, _RANK),),
    "sglang:spec_accept_length": (Moves(3, 3, _RANK),),
    "sglang:spec_accept_rate": (Moves(0.5, 0.5, _RANK),),
    "sglang:avg_request_queue_latency": (Moves(0.3, 0.3, _RANK),),
    "sglang:realtime_tokens": (
        Moves(1000, 1500, f'{_RANK},mode="decode"'),
        Moves(800, 950, f'{_RANK},mode="prefill_compute"'),
        Moves(200, 250, f'{_RANK},mode="prefill_cache"'),
    ),
    "sglang:generation_tokens": (Moves(900, 900),),
    "sglang:prompt_tokens": (Moves(1000, 1200),),
    "sglang:cached_tokens": (Moves(90, 140, 'cache_source="device"'),),
    "sglang:evicted_tokens": (Moves(30, 60, _RANK),),
    "sglang:num_retracted_requests": (Moves(5, 9, _RANK),),
    "sglang:total_retracted_reqs": (Moves(5, 9, _RANK),),
    "sglang:num_retracted_reqs": (Moves(1, 1, _RANK),),
    "sglang:num_requests": (Moves(10, 19),),
    "sglang:http_responses": (
        Moves(10, 18, 'endpoint="/v1/completions",method="POST",status_code="200"'),
        Moves(0, 1, 'endpoint="/v1/completions",method="POST",status_code="503"'),
        Moves(0, 50, 'endpoint="/health",method="GET",status_code="503"'),
    ),
    **{
        f"sglang:{name}": (Moves(100, 110),)
        for name in (
            "time_to_first_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds",
            "request_time_per_output_token_seconds", "e2e_request_latency_seconds", "queue_time_seconds",
            "queue_time_s",
        )
    },
}  # fmt: skip

SGLANG_FIGURES = (
    ("running", 3, "0.4.0", ""),
    ("waiting", 2, "0.4.0", ""),
    ("kv_usage", 0.5, "0.4.0", ""),
    ("kv_capacity_tokens", 1600, "0.5.6", ""),
    ("gen_tok_s", 80, "0.4.0", "0.5.6"),
    ("gen_tok_s", 50, "0.5.7", ""),
    ("prompt_tok_s", 20, "0.4.0", ""),
    ("preempted", 1, "0.5.2", ""),
    ("prefix_hit_ratio", 0.25, "0.4.4", ""),
    ("evictions_per_s", 3.0, "0.5.6", ""),
    ("req_s", 0.9, "0.4.3", ""),
    ("error_ratio", 0.1, "0.5.7", ""),
    ("http_503_ratio", 0.1, "0.5.7", ""),
    ("http_429_ratio", 0.0, "0.5.7", ""),
    ("ttft_p50_s", 0.15, "0.4.0", ""),
    ("itl_p50_s", 0.15, "0.4.0", ""),
    ("tpot_p50_s", 0.15, "0.5.22", ""),
    ("e2e_p50_s", 0.15, "0.4.0", ""),
    ("queue_p50_s", 0.15, "0.5.2", ""),
    ("queue_mean_s", 0.3, "0.4.6", "0.5.1"),
    ("queue_mean_s", 0.15, "0.5.2", ""),
    ("spec_accept_length", 3.0, "0.4.3", ""),
    ("spec_accept_ratio", 0.5, "0.5.4", ""),
    ("since_last_step_s", 0.0, "0.5.7", ""),
)


def read(table: EngineTable, release: str, labels: str) -> EngineReading:
    moves = VLLM_MOVES if table is VLLM else SGLANG_MOVES
    reader = EngineReader(table, "http://127.0.0.1:8000")
    reader.feed(exposition(table.engine, release, moves, labels, after=False), 0.0)
    return reader.feed(exposition(table.engine, release, moves, labels, after=True), SECONDS)


def expected(figures: tuple[tuple[str, float, str, str], ...], release: str) -> dict[str, float | None]:
    at = version(release)
    none: dict[str, float | None] = {field: None for field, *_ in figures}
    return none | {
        field: value
        for field, value, first, last in figures
        if version(first) <= at <= version(last or "current")
    }


@pytest.mark.parametrize("release", VLLM_RELEASES)
def test_vllm(release: str) -> None:
    found = read(VLLM, release, 'model_name="llama",engine="0"')
    wanted = expected(VLLM_FIGURES, release)
    assert {field: getattr(found, field) for field in wanted} == pytest.approx(wanted)
    assert found.finish_reasons == pytest.approx({"stop": 0.7, "length": 0.3})
    at = version(release)
    reasons = {"capacity": 1.0, "deferred": 1.0} if at >= (0, 20) else {}
    assert found.waiting_by_reason == reasons | ({"swapped": 1.0} if at <= (0, 9, 0) else {})
    assert found.rejections == pytest.approx({"max_num_queued_reqs": 0.5} if at >= (0, 32) else {})
    assert (found.model, found.restarts) == ("llama", 0)
    assert all(gap.why for gap in found.missing)


@pytest.mark.parametrize("release", SGLANG_RELEASES)
def test_sglang(release: str) -> None:
    found = read(SGLANG, release, 'model_name="llama"')
    wanted = expected(SGLANG_FIGURES, release)
    assert {field: getattr(found, field) for field in wanted} == pytest.approx(wanted)
    assert found.waiting_by_reason["queue"] == 2
    assert (found.model, found.restarts) == ("llama", 0)


@pytest.mark.parametrize(
    ("release", "rate"),
    [
        ("0.4.9", None),
        ("0.4.10", 0.4),
        ("0.5.2", 0.4),
        ("0.5.3", None),
        ("0.5.4", None),
        ("0.5.7", 0.4),
        ("0.5.23", 0.4),
    ],
)
def test_sglang_counted_retractions_by_three_names_and_for_a_time_not_at_all(
    release: str, rate: float | None
) -> None:
    found = read(SGLANG, release, 'model_name="llama"').preemptions_per_s
    assert found == (rate if rate is None else pytest.approx(rate))


def test_sglang_once_told_retractions_by_request_only() -> None:
    moves = {**SGLANG_MOVES, "sglang:num_retractions": (Moves(20, 40),)}
    reader = EngineReader(SGLANG, "u")
    reader.feed(exposition("sglang", "0.5.6", moves, 'model_name="m"', after=False), 0.0)
    found = reader.feed(exposition("sglang", "0.5.6", moves, 'model_name="m"', after=True), SECONDS)
    assert found.preemptions_per_s == pytest.approx(20 * 0.15 / SECONDS)  # the sum, not the count


@pytest.mark.parametrize(
    ("table", "release", "field", "enable"),
    [
        (VLLM, "0.5.5", "prefix_hit_ratio", "vLLM 0.9.2 counts hits"),
        (VLLM, "0.5.5", "queue_p95_s", "vLLM 0.6.6 or newer"),
        (VLLM, "0.10.2", "tpot_p95_s", "vLLM 0.11.0 or newer"),
        (SGLANG, "0.4.3", "prefix_hit_ratio", "SGLang 0.4.4 counts hits"),
        (SGLANG, "0.5.3", "preemptions_per_s", "SGLang 0.5.7 counts retractions"),
        (SGLANG, "0.5.5", "kv_capacity_tokens", "SGLang 0.5.6 or newer"),
        (SGLANG, "0.5.5", "since_last_step_s", "SGLang 0.5.7 counts tokens as they come"),
    ],
)
def test_what_an_old_release_lacks_says_which_one_brings_it(
    table: EngineTable, release: str, field: str, enable: str
) -> None:
    missing = {gap.field: gap for gap in read(table, release, 'model_name="llama"').missing}
    assert missing[field].enable == enable


@pytest.mark.parametrize("table", [VLLM, SGLANG], ids=["vllm", "sglang"])
def test_every_name_in_a_table_was_a_name_of_some_release(table: EngineTable) -> None:
    prefix = f"{table.engine}:"
    known = {name.removesuffix("_total") for name, *_ in names(table.engine)} | {"vllm:cache_config"}
    suffix = ("_sum", "_count")
    written = {
        place.written.partition("{")[0]
        for source in (*table.gauges.values(), *table.counters.values(), *table.histograms.values(),
                       *table.heartbeat, *table.queues.values(), *table.also_waiting.values())
        for place in source.places
    }  # fmt: skip
    ours = {name for name in written if name.startswith(prefix)}
    assert len(ours) > 20
    for name in ours:
        base = next((name.removesuffix(end) for end in suffix if name.endswith(end)), name)
        assert {name.removesuffix("_total"), base.removesuffix("_total")} & known, name


@pytest.mark.parametrize("form", ["vllm:", "vllm_", "ray_vllm_", "ray_vllm:"])
def test_all_spellings_of_the_prefix_are_one(form: str) -> None:
    labels = 'model_name="llama",engine="0",WorkerId="w",ReplicaId="r"'
    reader = EngineReader(VLLM, "u")
    for after in (False, True):
        body = exposition("vllm", "0.32.0", VLLM_MOVES, labels, after=after).replace("vllm:", form)
        found = reader.feed(body, SECONDS * after)
    wanted = expected(VLLM_FIGURES, "0.32.0")
    assert {field: getattr(found, field) for field in wanted} == pytest.approx(wanted)


def test_counters_without_their_suffix_are_the_same() -> None:
    reader = EngineReader(VLLM, "u")
    for after in (False, True):
        body = exposition("vllm", "0.32.0", VLLM_MOVES, 'engine="0"', after=after).replace("_total{", "{")
        found = reader.feed(body, SECONDS * after)
    assert (found.gen_tok_s, found.preemptions_per_s, found.prefix_hit_ratio) == (50, 0.4, 0.25)
