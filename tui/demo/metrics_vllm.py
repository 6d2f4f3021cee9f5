"""vLLM 0.32's metrics, moved by what the engine core tells and by nothing else.

The habits are the real ones: gauges change only with a step's output, per-request histograms only when
a request finishes, preemptions when the victim produces again, and clients that hang up leave no trace.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tui.demo.registry import Family, Histogram, Labels, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.demo.http import Exchange
    from tui.demo.spec import EngineSpec
    from tui.demo.updates import Finished, Update

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"

_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
    640, 2560,
)  # fmt: skip
_ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_REQUEST = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
)  # fmt: skip
_HIGHR = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
)  # fmt: skip
_UNCOUNTED_PATHS = frozenset(("/metrics", "/health", "/load", "/ping", "/version", "/server_info"))


class VllmMetrics:
    """The registry of one API server."""

    content_type = CONTENT_TYPE

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._engine: Labels = (("engine", "0"), ("model_name", spec.model))
        self._process = _process_families()
        self._gauges = self._make_gauges()
        self._counters = self._make_counters()
        self._histograms = self._make_histograms()
        self._info = _cache_info(spec)
        self._http_count = Family(
            "http_requests_total", "counter", "Requests by method, status and handler.", created=True
        )
        self._http_sizes = [
            Histogram(
                f"http_{what}_size_bytes", (), f"Content length of {what}s.", created=True, kind="summary"
            )
            for what in ("request", "response")
        ]
        self._http_highr = Histogram("http_request_duration_highr_seconds", _HIGHR, "Latency.", created=True)
        self._http_highr.touch()
        self._http_duration = Histogram(
            "http_request_duration_seconds", (0.1, 0.5, 1), "Latency by handler.", created=True
        )

    # ------------------------------------------------------------------------------ what moves them

    def apply(self, update: Update, streaming: Callable[[int], bool]) -> None:
        """Take in what the core did; ``streaming`` tells a request's kind, which vLLM does not care for."""
        engine, gauges, totals = self._engine, update.gauges, update.totals
        for name, value in (
            ("num_requests_running", gauges.running),
            ("num_requests_waiting", gauges.waiting),
            ("kv_cache_usage_perc", gauges.kv_usage),
        ):
            self._gauges[name].set(value, engine)
        self._gauges["num_requests_waiting_by_reason"].set(gauges.waiting, (*engine, ("reason", "capacity")))
        cached = totals.hit_tokens
        for name, value in (
            ("prompt_tokens_total", totals.prompt_tokens),
            ("generation_tokens_total", totals.generated_tokens),
            ("num_preemptions_total", totals.preemptions_counted),
            ("prefix_cache_queries_total", totals.query_tokens),
            ("prefix_cache_hits_total", cached),
            ("prompt_tokens_cached_total", cached),
        ):
            self._counters[name].set(value, engine)
        by_source = self._counters["prompt_tokens_by_source_total"]
        by_source.set(cached, (*engine, ("source", "local_cache_hit")))
        # a prompt counts as computed when its first token is out, its cache hit at admission: between
        # the two the difference must not fall
        computed = (*engine, ("source", "local_compute"))
        by_source.set(max(by_source.value(computed), totals.prompt_tokens - cached), computed)
        self._counters["prompt_tokens_cached_by_source_total"].set(cached, (*engine, ("source", "device")))
        for _, ttft_s, _ in update.first:
            self._histograms["time_to_first_token_seconds"].observe(ttft_s, engine)
        for latency_s, times in update.itl:
            self._histograms["inter_token_latency_seconds"].observe(latency_s, engine, times)
        for tokens in update.iterations:
            self._histograms["iteration_tokens_total"].observe(tokens, engine)
        for finished in update.finished:
            self._finished(finished)

    def _finished(self, request: Finished) -> None:
        engine = self._engine
        self._counters["request_success_total"].add(1, (*engine, ("finished_reason", request.reason)))
        observed = {
            "request_prompt_tokens": request.prompt_tokens,
            "request_generation_tokens": request.generated_tokens,
            "request_max_num_generation_tokens": request.generated_tokens,
            "request_params_n": 1,
            "request_params_max_tokens": request.max_tokens,
            "e2e_request_latency_seconds": request.e2e_s,
            "request_queue_time_seconds": request.queue_s,
            "request_inference_time_seconds": request.prefill_s + request.decode_s,
            "request_prefill_time_seconds": request.prefill_s,
            "request_decode_time_seconds": request.decode_s,
            "request_num_preemptions": request.preemptions,
            "request_prefill_kv_computed_tokens": request.prompt_tokens - request.cached_tokens,
            "request_time_per_output_token_seconds": request.decode_s / max(1, request.generated_tokens - 1),
        }
        for name, value in observed.items():
            self._histograms[name].observe(value, engine)

    def rejected(self, reason: str) -> None:
        """An admission limit turned a request away."""
        self._counters["admission_rejections_total"].add(
            1, (("model_name", self._spec.model), ("reason", reason))
        )

    def aborted(self) -> None:
        """A client hung up: vLLM counts nothing."""

    def received(self, exchange: Exchange) -> None:
        """A request came in: vLLM counts completed ones only."""

    def responded(self, exchange: Exchange) -> None:
        """An answer began: vLLM counts it when it ends."""

    def answered(self, exchange: Exchange, *, known: bool) -> None:
        """An answer is complete; routes that do not exist share the handler ``none``."""
        if exchange.path in _UNCOUNTED_PATHS or exchange.status is None:
            return
        took_s = time.monotonic() - exchange.started_s
        handler = ("handler", exchange.path if known else "none")
        method = ("method", exchange.method)
        self._http_count.add(1, (handler, method, ("status", f"{exchange.status // 100}xx")))
        for histogram, size in zip(self._http_sizes, (len(exchange.body), exchange.sent), strict=True):
            histogram.observe(size, (handler,))
        self._http_highr.observe(took_s)
        self._http_duration.observe(took_s, (handler, method))

    def change(self, spec: EngineSpec) -> None:
        """Take new settings: the cache's size is told as labels."""
        self._spec = spec
        self._info = _cache_info(spec)

    def render(self) -> bytes:
        """The exposition."""
        _read_process(self._process)
        families: list[Family | Histogram] = list(self._process.values())
        if not self._spec.disable_log_stats:
            families += [
                *self._gauges.values(),
                *self._counters.values(),
                *self._histograms.values(),
                self._info,
            ]
        families += [self._http_count, *self._http_sizes, self._http_highr, self._http_duration]
        return render(families)

    # ------------------------------------------------------------------------------ their tables

    def _make_gauges(self) -> dict[str, Family]:
        gauges = {name: Family(f"vllm:{name}", "gauge", text) for name, text in _GAUGES.items()}
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
            gauges[name].set(0, self._engine)
        for reason in ("capacity", "deferred"):
            gauges["num_requests_waiting_by_reason"].set(0, (*self._engine, ("reason", reason)))
        for state in ("awake", "weights_offloaded", "discard_all"):
            gauges["engine_sleep_state"].set(state == "awake", (*self._engine, ("sleep_state", state)))
        return gauges

    def _make_counters(self) -> dict[str, Family]:
        counters = {}
        for name, (text, label, values) in _COUNTERS.items():
            family = counters[name] = Family(f"vllm:{name}", "counter", text, created=True)
            base = (
                (("model_name", self._spec.model),) if name == "admission_rejections_total" else self._engine
            )
            for value in values:
                family.set(0, (*base, (label, value)))
            if not values:
                family.set(0, base)
        return counters

    def _make_histograms(self) -> dict[str, Histogram]:
        histograms = {}
        for name, (bounds, text) in _HISTOGRAMS.items():
            histograms[name] = Histogram(f"vllm:{name}", bounds, text, created=True)
            histograms[name].touch(self._engine)
        return histograms


_GAUGES = {
    "num_requests_running": "Number of requests in model execution batches.",
    "num_requests_waiting": "Number of requests waiting to be processed.",
    "num_requests_waiting_by_reason": "Number of waiting requests by reason.",
    "engine_sleep_state": "Engine sleep state.",
    "kv_cache_usage_perc": "KV-cache usage. 1 means 100 percent usage.",
}
_SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
_REASONS = ("stop", "length", "abort", "error", "repetition")
_LIMITS = ("max_num_queued_reqs", "max_num_queued_tokens")
_COUNTERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "estimated_flops_per_gpu_total": ("Estimated floating point operations per GPU.", "", ()),
    "estimated_read_bytes_per_gpu_total": ("Estimated bytes read from memory per GPU.", "", ()),
    "estimated_write_bytes_per_gpu_total": ("Estimated bytes written to memory per GPU.", "", ()),
    "prefix_cache_queries_total": ("Prefix cache queries, in tokens.", "", ()),
    "prefix_cache_hits_total": ("Prefix cache hits, in tokens.", "", ()),
    "external_prefix_cache_queries_total": ("External prefix cache queries, in tokens.", "", ()),
    "external_prefix_cache_hits_total": ("External prefix cache hits, in tokens.", "", ()),
    "mm_cache_queries_total": ("Multi-modal cache queries, in items.", "", ()),
    "mm_cache_hits_total": ("Multi-modal cache hits, in items.", "", ()),
    "num_preemptions_total": ("Cumulative number of preemption from the engine.", "", ()),
    "prompt_tokens_total": ("Number of prefill tokens processed.", "", ()),
    "prompt_tokens_by_source_total": ("Number of prompt tokens by source.", "source", _SOURCES),
    "prompt_tokens_cached_total": ("Number of cached prompt tokens.", "", ()),
    "prompt_tokens_cached_by_source_total": ("Prefix-cache hit tokens by tier.", "source", _TIERS),
    "generation_tokens_total": ("Number of generation tokens processed.", "", ()),
    "request_success_total": ("Count of successfully processed requests.", "finished_reason", _REASONS),
    "admission_rejections_total": ("Admission attempts rejected by a queue limit.", "reason", _LIMITS),
}
_HISTOGRAMS: dict[str, tuple[tuple[float, ...], str]] = {
    "request_prompt_tokens": (_TOKENS, "Number of prefill tokens processed."),
    "request_generation_tokens": (_TOKENS, "Number of generation tokens processed."),
    "iteration_tokens_total": (
        (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
        "Histogram of number of tokens per engine_step.",
    ),
    "request_max_num_generation_tokens": (_TOKENS, "Maximum number of requested generation tokens."),
    "request_params_n": ((1, 2, 5, 10, 20), "The n request parameter."),
    "request_params_max_tokens": (_TOKENS, "The max_tokens request parameter."),
    "time_to_first_token_seconds": (_TTFT, "Time to first token in seconds."),
    "inter_token_latency_seconds": (_ITL, "Inter-token latency in seconds."),
    "request_time_per_output_token_seconds": (_ITL, "Time per output token of a request in seconds."),
    "e2e_request_latency_seconds": (_REQUEST, "End to end request latency in seconds."),
    "request_queue_time_seconds": (_REQUEST, "Time spent in WAITING phase."),
    "request_inference_time_seconds": (_REQUEST, "Time spent in RUNNING phase."),
    "request_prefill_time_seconds": (_REQUEST, "Time spent in PREFILL phase."),
    "request_decode_time_seconds": (_REQUEST, "Time spent in DECODE phase."),
    "request_num_preemptions": ((1, 2, 3, 4, 5, 10, 20), "How often a request was preempted."),
    "request_prefill_kv_computed_tokens": (_TOKENS, "New KV tokens computed during prefill."),
}


def _cache_info(spec: EngineSpec) -> Family:
    blocks = spec.kv_tokens // spec.block_size
    labels = {
        "engine": "0",
        "block_size": str(spec.block_size),
        "cache_dtype": "auto",
        "enable_prefix_caching": str(spec.prefix_caching),
        "gpu_memory_utilization": "0.92",
        "kv_cache_max_concurrency": str(round(spec.kv_tokens / spec.max_model_len, 2)),
        "kv_cache_size_tokens": str(blocks * spec.block_size),
        "num_cpu_blocks": "None",
        "num_gpu_blocks": str(blocks),
        "num_gpu_blocks_override": "None",
        "sliding_window": "None",
    }
    family = Family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
    family.set(1, tuple(labels.items()))
    return family


def _process_families() -> dict[str, Family]:
    texts = {
        "process_virtual_memory_bytes": "Virtual memory size in bytes.",
        "process_resident_memory_bytes": "Resident memory size in bytes.",
        "process_start_time_seconds": "Start time of the process since unix epoch in seconds.",
        "process_cpu_seconds_total": "Total user and system CPU time spent in seconds.",
        "process_open_fds": "Number of open file descriptors.",
        "process_max_fds": "Maximum number of open file descriptors.",
    }
    families = {"python_info": Family("python_info", "gauge", "Python platform information")}
    version = sys.version_info
    python = {
        "implementation": "CPython",
        "major": str(version.major),
        "minor": str(version.minor),
        "patchlevel": str(version.micro),
        "version": f"{version.major}.{version.minor}.{version.micro}",
    }
    families["python_info"].set(1, tuple(python.items()))
    for name, text in texts.items():
        families[name] = Family(name, "counter" if name.endswith("_total") else "gauge", text)
    # told once: the wall clock is corrected while a process runs, and a start that moves is a restart
    boot_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    started_s = boot_s + int(_stat_fields()[19]) / os.sysconf("SC_CLK_TCK")
    families["process_start_time_seconds"].set(round(started_s, 2))
    families["process_max_fds"].set(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return families


def _stat_fields() -> list[str]:
    return Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _read_process(families: dict[str, Family]) -> None:
    fields = _stat_fields()
    for name, value in (
        ("process_virtual_memory_bytes", int(fields[20])),
        ("process_resident_memory_bytes", int(fields[21]) * os.sysconf("SC_PAGESIZE")),
        ("process_cpu_seconds_total", (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")),
        ("process_open_fds", sum(1 for _ in Path("/proc/self/fd").iterdir())),
    ):
        families[name].set(value)
