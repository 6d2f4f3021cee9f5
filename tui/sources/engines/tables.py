"""Where each canonical quantity is found in an engine's metrics: one line for a name, newest first.

Names are written as their engine writes them; they are compared with colons as underscores. Of a
quantity with several names the first that is present in a scrape is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tui.exposition.parse import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.readings import EngineKind

Combine = Literal["sum", "max", "mean"]


@dataclass(frozen=True, slots=True)
class Source:
    """The samples of one quantity."""

    names: tuple[str, ...]
    """Names on the wire, newest first."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Labels that a sample must carry."""
    scale: float = 1.0
    """Factor to the canonical unit."""
    within: Combine = "sum"
    """How several series of one rank combine."""
    across: Combine = "sum"
    """How ranks combine."""
    samples: tuple[str, ...] = field(init=False)
    """Canonical sample names, in the order of ``names``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", tuple(canonical(name) for name in self.names))


@dataclass(frozen=True, slots=True)
class Hint:
    """Why a figure is missing, and what would bring it."""

    why: str
    enable: str = ""


@dataclass(frozen=True, slots=True)
class EngineTable:
    """All that is read of one engine, by canonical quantity; one that an engine lacks is left out."""

    engine: EngineKind
    own: str
    """Canonical prefix of the engine's own families: without any of them its statistics are off."""
    off: Hint
    """What that means."""
    rank_label: str
    gauges: Mapping[str, Source]
    """``running``, ``waiting``, ``waiting_by_reason`` (by the label ``reason``), ``kv_usage``, ``capacity``
    (an information family), ``max_num_seqs``, ``awake`` (1 while not asleep), ``started`` (epoch seconds)."""
    counters: Mapping[str, Source]
    """``generation_tokens``, ``prompt_tokens``, ``preemptions``, ``evictions``, ``prefix_queries`` and
    ``prefix_hits`` (in one unit), ``finished``, ``finished_in_error`` (a part of it), ``rejected``,
    ``http_5xx``."""
    histograms: Mapping[str, Source]
    """``ttft``, ``itl``, ``e2e``, ``queue``; their names are those without ``_bucket`` and ``_sum``."""
    heartbeat: tuple[Source, ...]
    """Counters of which one moves at every step that does work."""
    capacity_labels: tuple[tuple[str, ...], ...] = ()
    """Labels whose product is the size of the KV cache in tokens; the first set that holds numbers counts."""
    hints: Mapping[str, Hint] = field(default_factory=dict)
    """By field of ``EngineReading``."""

    def wanted(self) -> frozenset[str]:
        """Every sample name to read."""
        plain = (*self.gauges.values(), *self.counters.values(), *self.heartbeat)
        histograms = (name for source in self.histograms.values() for name in source.samples)
        return frozenset(name for source in plain for name in source.samples) | frozenset(
            f"{name}{suffix}" for name in histograms for suffix in ("_bucket", "_sum")
        )

    def source(self, quantity: str) -> Source | None:
        """Where a quantity is found, whatever kind it is; None where the engine lacks it."""
        for kind in (self.gauges, self.counters, self.histograms):
            if quantity in kind:
                return kind[quantity]
        return self.heartbeat[0] if quantity == "heartbeat" and self.heartbeat else None


def counter(*names: str, where: Mapping[str, str] | None = None, scale: float = 1.0) -> Source:
    """A counter, with and without the suffix that clients add to its name."""
    written = tuple(form for name in names for form in (f"{name}_total", name))
    return Source(written, where or {}, scale)


VLLM = EngineTable(
    engine="vllm",
    own="vllm_",
    off=Hint("no vllm: family in /metrics", "restart without --disable-log-stats"),
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
        "awake": Source(("vllm:engine_sleep_state",), where={"sleep_state": "awake"}),
        "started": Source(("process_start_time_seconds",)),
    },
    counters={
        "generation_tokens": counter("vllm:generation_tokens"),
        "prompt_tokens": counter("vllm:prompt_tokens"),
        "preemptions": counter("vllm:num_preemptions"),
        "prefix_queries": counter("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
        "prefix_hits": counter("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
        "finished": counter("vllm:request_success"),
        "finished_in_error": counter("vllm:request_success", where={"finished_reason": "error"}),
        "rejected": counter("vllm:admission_rejections"),
        "http_5xx": counter("http_requests", where={"method": "POST", "status": "5xx"}),
    },
    histograms={
        "ttft": Source(("vllm:time_to_first_token_seconds",)),
        "itl": Source(("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")),
        "e2e": Source(("vllm:e2e_request_latency_seconds",)),
        "queue": Source(("vllm:request_queue_time_seconds",)),
    },
    heartbeat=(
        Source(("vllm:iteration_tokens_total_count",)),  # a histogram, whatever its name says
        counter("vllm:generation_tokens"),
        counter("vllm:prompt_tokens"),
    ),
    # blocks times their size is wrong for hybrid and sliding-window models
    capacity_labels=(("kv_cache_size_tokens",), ("num_gpu_blocks", "block_size")),
    hints={
        "max_num_seqs": Hint("not in vLLM's metrics", "run on the engine's host: it is on its command line"),
        "http_503_ratio": Hint("vLLM counts HTTP answers by class (5xx), not by code"),
        "evictions_per_s": Hint("vLLM does not count evictions"),
    },
)

TABLES: Mapping[EngineKind, EngineTable] = {VLLM.engine: VLLM}
"""The engines whose figures can be read."""
