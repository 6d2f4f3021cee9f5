"""trtllm-serve of TensorRT-LLM (source: ``tensorrt_llm/metrics/collector.py``).

Only ``/prometheus/metrics``: a GET of ``/metrics`` takes the iteration statistics from whoever reads them.
"""

from __future__ import annotations

from tui.sources.engines.table import EngineTable, Hint, Source, counter

_ENABLE = "restart with return_perf_metrics: true in the --config file"
_FULL = "TensorRT-LLM 1.3"
_ERRORS_SINCE = ("trtllm_prompt_cached_tokens_total",)
_BASIC = (
    "request_success", "e2e_request_latency_seconds", "time_to_first_token_seconds",
    "time_per_output_token_seconds", "request_queue_time_seconds",
)  # fmt: skip
"""What 1.1 and 1.2 have, without a prefix."""

TRTLLM = EngineTable(
    engine="trtllm",
    path="/prometheus/metrics",
    own=("trtllm_", *_BASIC),
    off=Hint("no family of its own in /prometheus/metrics", _ENABLE),
    absent=Hint("no /prometheus/metrics", _ENABLE),
    rank_label="rank",
    gauges={
        "running": Source(("trtllm_num_requests_running",), since=_FULL),
        "waiting": Source(("trtllm_num_requests_waiting",), since=_FULL),
        "kv_usage": Source(("trtllm_kv_cache_utilization",), within="max", across="mean", since=_FULL),
        "kv_used": Source(("trtllm_kv_cache_used_blocks",)),
        "kv_total": Source(("trtllm_kv_cache_max_blocks",)),
        "capacity_blocks": Source(("trtllm_kv_cache_max_blocks",), within="max", since=_FULL),
        "capacity_block_tokens": Source(("trtllm_kv_cache_tokens_per_block",), within="max"),
        "max_num_seqs": Source(
            (
                "trtllm_max_batch_size_runtime",
                "trtllm_max_batch_size_static",
                "trtllm_max_num_active_requests",
            ),
            within="max",
            since=_FULL,
        ),
        "preempted": Source(("trtllm_num_paused_requests",), since=_FULL),
        "spec_accept_length": Source(("trtllm_spec_decode_acceptance_length",), within="max", across="mean"),
    },
    counters={
        "generation_tokens": counter("trtllm_generation_tokens", since=_FULL),
        "prompt_tokens": counter("trtllm_prompt_tokens", since=_FULL),
        "prefix_queries": counter("trtllm_prompt_tokens"),
        "prefix_hits": counter("trtllm_prompt_cached_tokens", since=_FULL),
        "live_prefix_misses": counter("trtllm_kv_cache_missed_blocks"),
        "live_prefix_hits": counter("trtllm_kv_cache_reused_blocks"),
        "finished": counter("trtllm_request_success", "request_success"),
        "http_5xx": counter('trtllm_request_error{http_code=~"5.."}', since=_FULL, zero_with=_ERRORS_SINCE),
        "http_503": counter('trtllm_request_error{http_code="503"}', since=_FULL, zero_with=_ERRORS_SINCE),
        "http_429": counter('trtllm_request_error{http_code="429"}', since=_FULL, zero_with=_ERRORS_SINCE),
        "spec_draft_tokens": counter(
            "trtllm_spec_decode_num_draft_tokens", "trtllm_spec_decode_drafted_tokens"
        ),
        "spec_accepted_tokens": counter(
            "trtllm_spec_decode_num_accepted_tokens", "trtllm_spec_decode_accepted_tokens"
        ),
    },
    histograms={
        "ttft": Source(("trtllm_time_to_first_token_seconds", "time_to_first_token_seconds")),
        "tpot": Source(("trtllm_time_per_output_token_seconds", "time_per_output_token_seconds")),
        "e2e": Source(("trtllm_e2e_request_latency_seconds", "e2e_request_latency_seconds")),
        "queue": Source(("trtllm_request_queue_time_seconds", "request_queue_time_seconds")),
    },
    finish_reasons=((counter("trtllm_request_success", "request_success"), "finished_reason"),),
    inapplicable=frozenset(("paused",)),
    hints={
        "itl_p50_s": Hint("trtllm-serve has no inter-token latency; tpot is the mean of each request"),
        "itl_p95_s": Hint("trtllm-serve has no inter-token latency; tpot is the mean of each request"),
        "preemptions_per_s": Hint("trtllm-serve counts no pauses; preempted is how many are paused now"),
        "evictions_per_s": Hint("trtllm-serve does not count evictions"),
        "since_last_step_s": Hint(
            "trtllm-serve has no step counter", "a generate probe tells: key or --generate"
        ),
        "stalled_s": Hint("trtllm-serve has no step counter", "a generate probe tells: key or --generate"),
        "asleep": Hint("trtllm-serve does not say whether its memory is released"),
        "started_at": Hint("trtllm-serve does not say when it started"),
    },
)
