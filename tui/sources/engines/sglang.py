"""SGLang 0.4 to 0.5.23 (source: ``sglang/srt/observability/metrics_collector.py``).

Names that begin with ``loads:`` are figures of ``/v1/loads`` (``loads.py``): they are there without
``--enable-metrics``, and fresh where the gauges are published every 40 decode steps only.
"""

from __future__ import annotations

from tui.sources.engines.table import EngineTable, Hint, Source, counter

_LIVE = ("sglang:realtime_tokens_total",)
_OFF = Hint("no /metrics", "restart with --enable-metrics")
_RANK = ("pp_rank", "tp_rank", "moe_ep_rank")

SGLANG = EngineTable(
    engine="sglang",
    path="/metrics",
    own=("sglang_", "loads_"),
    off=_OFF,
    absent=_OFF,
    rank_label="dp_rank",
    gauges={
        "running": Source(("loads:num_running_reqs", "sglang:num_running_reqs")),
        "kv_usage": Source(("loads:token_usage", "sglang:token_usage"), within="max", across="mean"),
        "capacity": Source(
            ("loads:max_total_num_tokens", "sglang:max_total_num_tokens"), within="max", since="SGLang 0.5.6"
        ),
        "max_num_seqs": Source(("loads:max_running_requests",), across="max", since="SGLang 0.5.8"),
        "preempted": Source(("loads:retracted", "sglang:num_retracted_reqs"), within="max"),
        "step_age": Source(("loads:age_s",)),
        "gen_tok_s": Source(("loads:gen_throughput", "sglang:gen_throughput")),
        "spec_accept_ratio": Source(("sglang:spec_accept_rate",), across="mean"),
        "spec_accept_length": Source(("loads:accept_length", "sglang:spec_accept_length"), across="mean"),
        "queue_mean_s": Source(("sglang:avg_request_queue_latency",), across="max"),
    },
    counters={
        # generation_tokens_total and prompt_tokens_total jump when a request ends
        "generation_tokens": counter('sglang:realtime_tokens{mode="decode"}'),
        "prompt_tokens": counter('sglang:realtime_tokens{mode=~"prefill_.*"}', "sglang:prompt_tokens"),
        "preemptions": Source(
            (
                "sglang:num_retracted_requests_total",
                "sglang:total_retracted_reqs",
                "sglang:num_retractions_sum",
            ),
            since="SGLang 0.5.7",
            zero_with=_LIVE,
        ),
        "evictions": counter(
            "sglang:evicted_tokens", since="SGLang 0.5.6", zero_with=("sglang:max_total_num_tokens",)
        ),
        "prefix_queries": counter("sglang:prompt_tokens"),
        "prefix_hits": counter(
            "sglang:cached_tokens", since="SGLang 0.4.4", zero_with=("sglang:num_grammar_queue_reqs",)
        ),
        "live_prefix_misses": counter('sglang:realtime_tokens{mode="prefill_compute"}'),
        "live_prefix_hits": counter('sglang:realtime_tokens{mode="prefill_cache"}'),
        "finished": counter("sglang:num_requests"),
        "http_5xx": counter('sglang:http_responses{method="POST",status_code=~"5.."}', since="SGLang 0.5.7"),
        "http_503": counter('sglang:http_responses{method="POST",status_code="503"}', since="SGLang 0.5.7"),
        "http_429": counter('sglang:http_responses{method="POST",status_code="429"}', since="SGLang 0.5.7"),
    },
    histograms={
        "ttft": Source(("sglang:time_to_first_token_seconds",)),
        "itl": Source(("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds")),
        "tpot": Source(("sglang:request_time_per_output_token_seconds",), since="SGLang 0.5.22"),
        "e2e": Source(("sglang:e2e_request_latency_seconds",)),
        "queue": Source(("sglang:queue_time_seconds", "sglang:queue_time_s"), since="SGLang 0.5.2"),
    },
    heartbeat=(
        counter("sglang:realtime_tokens"),
        Source(("loads:timestamp",)),
        Source(("sglang:forward_execution_seconds_total", "sglang:gpu_execution_seconds_total")),
    ),
    queues={
        "queue": Source(("loads:waiting", "sglang:num_queue_reqs")),
        "grammar": Source(("loads:grammar", "sglang:num_grammar_queue_reqs")),
        "prefill_bootstrap": Source(("loads:prefill_bootstrap", "sglang:num_prefill_bootstrap_queue_reqs")),
        "decode_prealloc": Source(("loads:decode_prealloc", "sglang:num_decode_prealloc_queue_reqs")),
        "decode_transfer": Source(("loads:decode_transfer", "sglang:num_decode_transfer_queue_reqs")),
        "decode_retracted": Source(("loads:decode_retracted",)),
    },
    optional_queues=frozenset(
        ("grammar", "prefill_bootstrap", "decode_prealloc", "decode_transfer", "decode_retracted")
    ),
    finish_reasons=(
        (counter("sglang:num_requests"), "=processed"),
        (counter("sglang:num_aborted_requests", zero_with=("sglang:num_grammar_queue_reqs",)), "=abort"),
    ),
    replica_labels=_RANK,
    total_label="priority",
    hints={
        "started_at": Hint("SGLang does not say when it started"),
        "asleep": Hint("SGLang does not say whether its memory is released"),
    },
    instead={
        "prefix_hit_ratio": (
            "sglang:cache_hit_rate",
            Hint("sglang:cache_hit_rate is of the last prefill batch only", "SGLang 0.4.4 counts hits"),
        ),
        "preemptions_per_s": (
            "sglang:num_retracted_reqs",
            Hint("sglang:num_retracted_reqs is a momentary count", "SGLang 0.5.7 counts retractions"),
        ),
        "since_last_step_s": (
            "sglang:generation_tokens_total",
            Hint(
                "sglang:generation_tokens_total moves only when requests end",
                "SGLang 0.5.7 counts tokens as they come",
            ),
        ),
    },
)
