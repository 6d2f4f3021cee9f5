"""Why a figure is null, and what would bring it: the capability line of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.readings import EngineReading, Missing

if TYPE_CHECKING:
    from collections.abc import Collection

    from tui.sources.engines.tables import EngineTable

FIGURES = {
    "running": "running",
    "waiting": "waiting",
    "kv_usage": "kv_usage",
    "kv_usage_max": "kv_usage",
    "kv_capacity_tokens": "capacity",
    "max_num_seqs": "max_num_seqs",
    "asleep": "awake",
    "started_at": "started",
    "since_last_step_s": "heartbeat",
    "stalled_s": "heartbeat",
    "preemptions_per_s": "preemptions",
    "evictions_per_s": "evictions",
    "gen_tok_s": "generation_tokens",
    "prompt_tok_s": "prompt_tokens",
    "req_s": "finished",
    "prefix_hit_ratio": "prefix_queries",
    "error_ratio": "finished",
    "http_503_ratio": "http_503",
    "ttft_p50_s": "ttft",
    "ttft_p95_s": "ttft",
    "ttft_p99_s": "ttft",
    "itl_p50_s": "itl",
    "itl_p95_s": "itl",
    "e2e_p95_s": "e2e",
    "queue_p95_s": "queue",
}
"""Fields of ``EngineReading``, and the quantity of the table that each comes from."""


def missing_figures(
    reading: EngineReading, table: EngineTable, present: Collection[str]
) -> tuple[Missing, ...]:
    """One entry for each figure that is null.

    Args:
        reading: the figures.
        table: of the engine.
        present: canonical sample names of the scrape, those of histograms without their suffix.
    """
    return tuple(
        _missing(field, quantity, reading, table, present)
        for field, quantity in FIGURES.items()
        if getattr(reading, field) is None
    )


def all_missing(table: EngineTable | None, why: str, enable: str = "") -> tuple[Missing, ...]:
    """One entry for each figure where none can be had; what the engine never has keeps its own reason."""
    hints = table.hints if table is not None else {}
    return tuple(
        Missing(field, hints[field].why, hints[field].enable)
        if field in hints
        else Missing(field, why, enable)
        for field in FIGURES
    )


def _missing(
    field: str, quantity: str, reading: EngineReading, table: EngineTable, present: Collection[str]
) -> Missing:
    hint = table.hints.get(field)
    if hint is not None:
        return Missing(field, hint.why, hint.enable)
    source = table.source(quantity)
    if source is None:
        return Missing(field, f"{table.engine} does not report it")
    if not any(name in present for name in source.samples):
        return Missing(field, f"{source.names[0]} is not in /metrics")
    if quantity in table.gauges:
        return Missing(field, f"{source.names[0]} has no usable value")
    if reading.latency_window_s is None:
        return Missing(field, "takes a second scrape")
    return Missing(field, f"nothing to measure in the last {reading.latency_window_s:.0f} s")
