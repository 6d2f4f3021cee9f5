"""SGLang 0.5.23's metrics and its load snapshot, moved by what the scheduler tells.

The habits are the real ones: gauges are published every 40 decode steps and on prefill, token and
request counters jump when a request ends, ``gen_throughput`` keeps its last value when idle, and some
families do not exist before their first event. Multiprocess form: no ``process_*``, no ``_created``.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tui.demo.registry import Family, Histogram, Labels, render
from tui.demo.updates import Update

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.demo.http import Exchange
    from tui.demo.spec import EngineSpec
    from tui.demo.updates import Finished

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
_DECODE_LOG_INTERVAL = 40

_LATENCY = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_ITL = (
    0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6,
    0.8, 1, 2, 4, 6, 8,
)  # fmt: skip
_QUEUE = (
    0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100,
    200, 300, 400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000,
)  # fmt: skip
_TOKENS = (
    100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12500, 15000,
    17500, 20000, 22500, 25000, 27500, 30000, 35000, 40000, 60000, 80000, 100000, 200000, 300000, 400000,
    600000, 800000, 1000000, 1100000,
)  # fmt: skip


class SglangMetrics:
    """The registry of one server, and what ``/v1/loads`` says."""

    content_type = CONTENT_TYPE

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._tokenizer: Labels = (("engine_type", "unified"), ("model_name", spec.model))
        ranks = (("moe_ep_rank", "0"), ("pp_rank", "0"), ("tp_rank", "0"))
        self._scheduler: Labels = (*self._tokenizer, *ranks)
        self._cache: Labels = (
            ("cache_type", "UnifiedRadixCache"), ("dp_rank", "0"), ("pp_rank", "0"), ("tp_rank", "0"),
        )  # fmt: skip
        self._gauges = {name: Family(f"sglang:{name}", "gauge", text) for name, text in _GAUGES.items()}
        self._counters = {name: Family(f"sglang:{name}", "counter", text) for name, text in _COUNTERS.items()}
        self._histograms = {
            name: Histogram(f"sglang:{name}", bounds, text) for name, (bounds, text) in _HISTOGRAMS.items()
        }
        self._latest = Update()
        self._taken_s: float | None = None  # wall clock of the latest update
        self._published = Update()
        self._gen_throughput = 0.0
        self._hit_rate = 0.0
        self._idle_s = 0.0
        self._set_constants()

    # ------------------------------------------------------------------------------ what moves them

    def apply(self, update: Update, streaming: Callable[[int], bool]) -> None:
        """Take in what the scheduler did; ``streaming`` tells a request's kind."""
        if self._latest.totals.steps == update.totals.steps and update.gauges.running == 0:
            self._idle_s += update.at_s - self._latest.at_s if self._latest.at_s else 0.0
        if update.at_s != self._latest.at_s:
            # once for each: converted again at every question it would move by the clocks' jitter in a hang
            self._taken_s = time.time() - (time.monotonic() - update.at_s)
        self._latest = update
        for _, new, cached in update.batches:
            self._hit_rate = cached / (new + cached)
        for request_id, ttft_s, queue_s in update.first:
            self._histograms["time_to_first_token_seconds"].observe(ttft_s, self._kind(streaming(request_id)))
            self._histograms["queue_time_seconds"].observe(queue_s, self._scheduler)
        for latency_s, times in update.itl:
            self._histograms["inter_token_latency_seconds"].observe(latency_s, self._tokenizer, times)
        for finished in update.finished:
            self._finished(finished, self._kind(streaming(finished.id)))
        decoded = update.totals.steps - self._published.totals.steps >= _DECODE_LOG_INTERVAL
        stale = update.gauges.running == 0 and self._published.gauges != update.gauges
        if decoded or update.batches or stale:
            self._publish(update, decoded)

    def _kind(self, streaming: bool) -> Labels:
        return (*self._tokenizer, ("is_streaming", "true" if streaming else "false"))

    def _publish(self, update: Update, decoded: bool) -> None:
        """The scheduler's report of every so many steps."""
        totals, gauges = update.totals, update.gauges
        took_s = update.at_s - self._published.at_s
        if decoded and took_s > 0:
            tokens = totals.generated_tokens - self._published.totals.generated_tokens
            self._gen_throughput = tokens / took_s
        capacity = self._spec.kv_tokens
        free = capacity - gauges.used_tokens - gauges.evictable_tokens
        for name, value in (
            ("num_running_reqs", gauges.running),
            ("num_queue_reqs", gauges.waiting),
            ("token_usage", round(gauges.kv_usage, 2)),
            ("full_token_usage", gauges.kv_usage),
            ("num_used_tokens", gauges.used_tokens),
            ("kv_used_tokens", gauges.used_tokens),
            ("kv_available_tokens", max(0, free)),
            ("kv_evictable_tokens", gauges.evictable_tokens),
            ("decode_sum_seq_lens", gauges.context_tokens),
            ("gen_throughput", self._gen_throughput),
            ("cache_hit_rate", self._hit_rate),
            ("new_token_ratio", gauges.new_token_ratio),
        ):
            self._gauges[name].set(value, self._scheduler)
        for mode, tokens in (
            ("prefill_compute", totals.computed_tokens),
            ("decode", totals.generated_tokens),
            ("prefill_cache", totals.hit_tokens),
        ):
            self._counters["realtime_tokens_total"].set(tokens, (*self._scheduler, ("mode", mode)))
        for name, value, labels in (
            ("num_retracted_requests_total", totals.preemptions, self._scheduler),
            ("num_retracted_input_tokens_total", totals.preempted_input_tokens, self._scheduler),
            ("num_retracted_output_tokens_total", totals.preempted_output_tokens, self._scheduler),
            ("evicted_tokens_total", totals.evicted_tokens, self._cache),
        ):
            if value:
                self._counters[name].set(value, labels)
        retracted = totals.preemptions - self._published.totals.preemptions
        pid = (*self._scheduler, ("pid", str(os.getpid())))
        self._gauges["num_retracted_reqs"].set(retracted, pid)
        self._published = update

    def _finished(self, request: Finished, kind: Labels) -> None:
        for name, amount in (
            ("prompt_tokens_total", request.prompt_tokens),
            ("generation_tokens_total", request.generated_tokens),
            ("num_requests_total", 1),
        ):
            self._counters[name].add(amount, kind)
        if request.cached_tokens:
            source = (*self._tokenizer, ("cache_source", "device"))
            self._counters["cached_tokens_total"].add(request.cached_tokens, source)
        self._histograms["e2e_request_latency_seconds"].observe(request.e2e_s, kind)
        if request.generated_tokens > 1:
            tpot_s = request.decode_s / (request.generated_tokens - 1)
            self._histograms["request_time_per_output_token_seconds"].observe(tpot_s, kind)
        for name, tokens in (
            ("prompt_tokens_histogram", request.prompt_tokens),
            ("uncached_prompt_tokens_histogram", request.prompt_tokens - request.cached_tokens),
            ("generation_tokens_histogram", request.generated_tokens),
        ):
            self._histograms[name].observe(tokens, self._tokenizer)

    def rejected(self, reason: str) -> None:
        """The queue was full: SGLang counts an abort."""
        self.aborted()

    def aborted(self) -> None:
        """A client hung up."""
        self._counters["num_aborted_requests_total"].add(1, self._tokenizer)

    def received(self, exchange: Exchange) -> None:
        """A request came in."""
        route = (("endpoint", exchange.path), ("method", exchange.method))
        self._counters["http_requests_total"].add(1, route)
        self._gauges["http_requests_active"].add(1, route)

    def responded(self, exchange: Exchange) -> None:
        """An answer began: a stream's first status is the one that counts."""
        labels = (
            ("endpoint", exchange.path), ("method", exchange.method), ("status_code", str(exchange.status)),
        )  # fmt: skip
        self._counters["http_responses_total"].add(1, labels)

    def answered(self, exchange: Exchange, *, known: bool) -> None:
        """An answer is complete, or its client is gone."""
        route = (("endpoint", exchange.path), ("method", exchange.method))
        self._gauges["http_requests_active"].add(-1, route)

    def change(self, spec: EngineSpec) -> None:
        """Take new settings."""
        self._spec = spec
        self._set_constants()

    # ------------------------------------------------------------------------------ what is said

    def loads(self, *, core_only: bool) -> dict[str, Any]:
        """The answer of ``/v1/loads``: the scheduler's last snapshot, with the time it was taken."""
        gauges, totals = self._latest.gauges, self._latest.totals
        load: dict[str, Any] = {
            "timestamp": time.time() if self._taken_s is None else self._taken_s,
            "dp_rank": 0,
            "num_running_reqs": gauges.running,
            "num_waiting_reqs": gauges.waiting,
            "num_waiting_uncached_tokens": 0,
            "num_used_tokens": gauges.used_tokens,
            "num_total_tokens": gauges.context_tokens,
            "num_active_tokens": gauges.context_tokens,
            "num_prealloc_ready_tokens": 0,
            "max_total_num_tokens": self._spec.kv_tokens,
            "max_running_requests": self._spec.max_num_seqs,
            "token_usage": round(gauges.kv_usage, 4),
            "gen_throughput": round(self._gen_throughput, 2),
            "cache_hit_rate": round(self._hit_rate, 4),
            "utilization": 0.0,
            "total_prefill_uncached_tokens": totals.computed_tokens,
            "total_prefill_busy_us": 0,
        }
        if not core_only:
            load["memory"] = {
                "weight_gb": 14.96, "kv_cache_gb": 48.0, "graph_gb": 0.0,
                "token_capacity": self._spec.kv_tokens,
            }  # fmt: skip
            load["queues"] = {
                "waiting": gauges.waiting, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0,
            }  # fmt: skip
        return {
            "timestamp": datetime.now(timezone.utc).isoformat(),
            "version": self._spec.version,
            "accelerator": None,
            "num_accelerators": 1,
            "loads": [load],
        }

    def render(self) -> bytes:
        """The exposition; a family without series is left out."""
        self._counters["scheduler_idle_seconds_total"].set(self._idle_s, self._scheduler)
        for component in ("tokenizer", "detokenizer"):
            cpu_s = time.process_time() if component == "tokenizer" else 0.0
            self._counters["process_cpu_seconds_total"].set(cpu_s, (("component", component),))
        families: tuple[Family | Histogram, ...] = (
            *self._histograms.values(), *self._counters.values(), *self._gauges.values(),
        )  # fmt: skip
        return render(family for family in families if not family.empty)

    def _set_constants(self) -> None:
        spec, scheduler = self._spec, self._scheduler
        pages = spec.kv_tokens // spec.block_size
        for name, value in (
            ("max_total_num_tokens", pages * spec.block_size),
            ("page_size", spec.block_size),
            ("num_pages", pages),
            ("context_len", spec.max_model_len),
            ("num_grammar_queue_reqs", 0),
        ):
            self._gauges[name].set(value, scheduler)
        for phase, share in (("load_weight", 0.5), ("kv_cache_allocation", 0.1), ("scheduler_e2e", 0.8)):
            labels = (*self._tokenizer, ("phase", phase))
            self._gauges["startup_time_seconds"].set(round(spec.load_s * share, 3), labels)
        for name in ("num_running_reqs", "num_queue_reqs", "token_usage", "gen_throughput", "cache_hit_rate"):
            self._gauges[name].add(0, scheduler)


_GAUGES = {
    "startup_time_seconds": "Engine startup duration by phase in seconds.",
    "num_retracted_reqs": "The number of retracted requests.",
    "max_total_num_tokens": "Maximum total number of tokens in the KV cache pool.",
    "page_size": "KV cache page size in tokens.",
    "num_pages": "Number of KV cache pages.",
    "context_len": "Maximum context length.",
    "num_running_reqs": "The number of running requests.",
    "num_queue_reqs": "The number of requests in the waiting queue.",
    "num_grammar_queue_reqs": "The number of requests in the grammar waiting queue.",
    "gen_throughput": "The generation throughput (token/s).",
    "cache_hit_rate": "The prefix cache hit rate.",
    "decode_sum_seq_lens": "The sum of all sequence lengths in decode.",
    "token_usage": "The token usage.",
    "full_token_usage": "The token usage for full attention layers.",
    "num_used_tokens": "The number of used tokens.",
    "kv_available_tokens": "Number of free token slots in the KV cache pool.",
    "kv_evictable_tokens": "Number of evictable token slots in the KV cache pool.",
    "kv_used_tokens": "Number of actively used token slots in the KV cache pool.",
    "new_token_ratio": "The new token ratio.",
    "http_requests_active": "Number of currently active HTTP requests",
}
_COUNTERS = {
    "scheduler_idle_seconds_total": "Total wall time without runnable or queued work.",
    "realtime_tokens_total": "Total number of tokens processed (updated on each log interval).",
    "process_cpu_seconds_total": "Total CPU time consumed by this process.",
    "http_requests_total": "Total number of HTTP requests by endpoint and method",
    "http_responses_total": "Total number of HTTP responses by endpoint and status code",
    "prompt_tokens_total": "Number of prefill tokens processed.",
    "generation_tokens_total": "Number of generation tokens processed.",
    "num_requests_total": "Number of requests processed.",
    "cached_tokens_total": "Number of cached prompt tokens by source.",
    "num_aborted_requests_total": "Number of requests aborted.",
    "num_retracted_requests_total": "Total number of retracted requests.",
    "num_retracted_input_tokens_total": "Total number of retracted input tokens.",
    "num_retracted_output_tokens_total": "Total number of retracted output tokens.",
    "evicted_tokens_total": "Number of tokens evicted from the cache.",
}
_HISTOGRAMS: dict[str, tuple[tuple[float, ...], str]] = {
    "queue_time_seconds": (_QUEUE, "Histogram of queueing time in seconds."),
    "time_to_first_token_seconds": (_LATENCY, "Histogram of time to first token in seconds."),
    "e2e_request_latency_seconds": (
        (*_LATENCY, 600, 1200, 1800, 2400), "Histogram of End-to-end request latency in seconds",
    ),
    "request_time_per_output_token_seconds": (_ITL, "Per-request TPOT in seconds."),
    "prompt_tokens_histogram": (_TOKENS, "Histogram of prompt token length."),
    "uncached_prompt_tokens_histogram": (_TOKENS, "Histogram of uncached prompt token length."),
    "generation_tokens_histogram": (_TOKENS, "Histogram of generation token length."),
    "inter_token_latency_seconds": (_ITL, "Histogram of inter-token latency in seconds."),
}  # fmt: skip
