"""Triton with the TensorRT-LLM backend (``nv_trt_llm_*``) and with any other models (``nv_inference_*``).

A rank is a model. Counters have no ``_total``; durations are cumulative microseconds, one histogram is in
milliseconds. All of it is on the metrics port.
"""

from __future__ import annotations

from tui.sources.engines.table import EngineTable, Hint, Source

_US = 1e-6
_MS = 1e-3
_REQUESTS = "nv_trt_llm_request_metrics"
_BLOCKS = "nv_trt_llm_kv_cache_block_metrics"
_FAILED = 'nv_inference_request_failure{reason!~"CANCELED"}'
_NO_TOKENS = Hint("Triton does not count tokens")
_NO_STEPS = Hint("no step counter without the TensorRT-LLM backend", "a generate probe tells: generate_path")

TRITON = EngineTable(
    engine="triton",
    path="/metrics",
    own=("nv_",),
    off=Hint("no nv_inference family: no model is loaded", "load a model"),
    absent=None,
    rank_label="model",
    gauges={
        "running": Source((f'{_REQUESTS}{{request_type="scheduled"}}',)),
        "kv_usage": Source((f'{_BLOCKS}{{kv_cache_block_type="fraction"}}',), within="max", across="mean"),
        "kv_used": Source((f'{_BLOCKS}{{kv_cache_block_type="used"}}',)),
        "kv_total": Source((f'{_BLOCKS}{{kv_cache_block_type="max"}}',)),
        "capacity_blocks": Source((f'{_BLOCKS}{{kv_cache_block_type="max"}}',)),
        "capacity_block_tokens": Source((f'{_BLOCKS}{{kv_cache_block_type="tokens_per"}}',), within="max"),
        "max_num_seqs": Source((f'{_REQUESTS}{{request_type="max"}}',), within="max", across="max"),
        "queue_p95_s": Source(('nv_inference_queue_summary_us{quantile="0.95"}',), _US, "max", "max"),
        "e2e_p95_s": Source(('nv_inference_request_summary_us{quantile="0.95"}',), _US, "max", "max"),
    },
    counters={
        "finished": Source(("nv_inference_request_success",)),
        "http_5xx": Source((_FAILED,)),
        "e2e_sum": Source(("nv_inference_request_duration_us",), _US),
        "queue_sum": Source(("nv_inference_queue_duration_us",), _US),
    },
    histograms={"ttft": Source(("nv_inference_first_response_histogram_ms",), _MS)},
    heartbeat=(Source(('nv_trt_llm_general_metrics{general_type="iteration_counter"}',)),),
    queues={
        "executor": Source((f'{_REQUESTS}{{request_type="waiting"}}',)),
        "triton": Source(("nv_inference_pending_request_count",)),
    },
    optional_queues=frozenset(("executor",)),
    finish_reasons=(
        (Source(("nv_inference_request_success",)), "=success"),
        (Source(('nv_inference_request_failure{reason!~"REJECTED"}',)), "reason"),
    ),
    rejections=((Source(('nv_inference_request_failure{reason="REJECTED"}',)), "reason"),),
    model_label="model",
    front=(
        "nv_inference_request_success",
        "nv_inference_request_failure",
        "nv_inference_request_duration_us",
        "nv_inference_queue_duration_us",
        "nv_inference_first_response_histogram_ms",
        "nv_inference_queue_summary_us",
        "nv_inference_request_summary_us",
    ),
    backend_own="nv_trt_llm_",
    inapplicable=frozenset(("asleep", "paused")),
    hints={
        "gen_tok_s": _NO_TOKENS,
        "prompt_tok_s": _NO_TOKENS,
        "prefix_hit_ratio": Hint("Triton does not count prefix cache hits"),
        "preemptions_per_s": Hint("Triton does not count pauses"),
        "evictions_per_s": Hint("Triton does not count evictions"),
        "itl_p50_s": Hint("Triton has no inter-token latency"),
        "itl_p95_s": Hint("Triton has no inter-token latency"),
        "tpot_p50_s": Hint("Triton has no time per output token"),
        "tpot_p95_s": Hint("Triton has no time per output token"),
        "ttft_p50_s": Hint("off by default", "--metrics-config histogram_latencies=true, decoupled models"),
        "ttft_p95_s": Hint("off by default", "--metrics-config histogram_latencies=true, decoupled models"),
        "ttft_p99_s": Hint("off by default", "--metrics-config histogram_latencies=true, decoupled models"),
        "e2e_p95_s": Hint("off by default; the mean is known", "--metrics-config summary_latencies=true"),
        "queue_p95_s": Hint("off by default; the mean is known", "--metrics-config summary_latencies=true"),
        "http_503_ratio": Hint("Triton does not count HTTP codes; a full queue moves no counter at all"),
        "http_429_ratio": Hint("Triton does not count HTTP codes"),
        "since_last_step_s": _NO_STEPS,
        "stalled_s": _NO_STEPS,
        "running": Hint("Triton does not count running requests without the TensorRT-LLM backend"),
        "kv_usage": Hint("only the TensorRT-LLM backend has a KV cache"),
        "kv_usage_max": Hint("only the TensorRT-LLM backend has a KV cache"),
        "kv_capacity_tokens": Hint("only the TensorRT-LLM backend has a KV cache"),
        "max_num_seqs": Hint("only the TensorRT-LLM backend has seats"),
        "started_at": Hint("Triton does not say when it started"),
    },
)
