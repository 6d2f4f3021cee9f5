"""vLLM 0.5 to 0.33 (source: ``vllm/v1/metrics/loggers.py``; before V1 ``vllm/engine/metrics.py``)."""

from __future__ import annotations

from tui.sources.engines.table import EngineTable, Hint, Source, counter

_V1 = "vLLM 0.9.2"
_SINCE_START = "only as a mean since start"

VLLM = EngineTable(
    engine="vllm",
    path="/metrics",
    own=("vllm_",),
    off=Hint("no vllm: family in /metrics", "restart without --disable-log-stats"),
    absent=None,
    rank_label="engine",
    gauges={
        "running": Source(("vllm:num_requests_running",)),
        "waiting": Source(("vllm:num_requests_waiting",)),
        "waiting_by_reason": Source(("vllm:num_requests_waiting_by_reason",)),
        # With several API servers 0.9.2-0.11.0 have one series for each pid, most of them stale at 0.
        "kv_usage": Source(
            ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"), within="max", across="mean"
        ),
        "capacity": Source(("vllm:cache_config_info", "vllm:cache_config")),
        "preempted": Source(("vllm:num_requests_swapped",)),
        "awake": Source(('vllm:engine_sleep_state{sleep_state="awake"}',), since="vLLM 0.11.1"),
        "started": Source(("process_start_time_seconds",)),
    },
    counters={
        "generation_tokens": counter("vllm:generation_tokens"),
        "prompt_tokens": counter("vllm:prompt_tokens"),
        "preemptions": counter("vllm:num_preemptions"),
        "prefix_queries": counter(
            "vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries", since="vLLM 0.7.3 (V1)"
        ),
        "prefix_hits": counter("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
        "finished": counter("vllm:request_success"),
        "finished_in_error": counter('vllm:request_success{finished_reason="error"}'),
        "rejected": counter("vllm:admission_rejections"),
        "http_5xx": counter('http_requests{method="POST",status=~"5.."}'),
        "spec_drafts": counter("vllm:spec_decode_num_drafts"),
        "spec_draft_tokens": counter("vllm:spec_decode_num_draft_tokens"),
        "spec_accepted_tokens": counter("vllm:spec_decode_num_accepted_tokens"),
    },
    histograms={
        "ttft": Source(("vllm:time_to_first_token_seconds",)),
        "itl": Source(("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")),
        "tpot": Source(("vllm:request_time_per_output_token_seconds",), since="vLLM 0.11.0"),
        "e2e": Source(("vllm:e2e_request_latency_seconds",)),
        "queue": Source(
            ("vllm:request_queue_time_seconds", "vllm:time_in_queue_requests"), since="vLLM 0.6.6"
        ),
    },
    heartbeat=(
        Source(("vllm:iteration_tokens_total_count",)),  # a histogram, whatever its name says
        counter("vllm:generation_tokens"),
        counter("vllm:prompt_tokens"),
    ),
    also_waiting={"swapped": Source(("vllm:num_requests_swapped",))},
    finish_reasons=((counter("vllm:request_success"), "finished_reason"),),
    rejections=((counter("vllm:admission_rejections"), "reason"),),
    # blocks times their size is wrong for hybrid and sliding-window models
    capacity_labels=(("kv_cache_size_tokens",), ("num_gpu_blocks", "block_size")),
    hints={
        "max_num_seqs": Hint("not in vLLM's metrics", "run on the engine's host: it is on its command line"),
        "http_503_ratio": Hint("vLLM counts HTTP answers by class (5xx), not by code"),
        "http_429_ratio": Hint("vLLM counts HTTP answers by class (4xx), not by code"),
        "evictions_per_s": Hint(
            "vLLM does not count evictions", "--kv-cache-metrics samples the life of blocks (0.12.0)"
        ),
        "paused": Hint("told in development mode only", "VLLM_SERVER_DEV_MODE=1, never in production"),
    },
    instead={
        "prefix_hit_ratio": (
            "vllm:gpu_prefix_cache_hit_rate",
            Hint(f"vllm:gpu_prefix_cache_hit_rate is there {_SINCE_START}", f"{_V1} counts hits"),
        ),
    },
)
