"""Why a figure is null, and what would bring it: the capability line of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.exposition.parse import canonical
from tui.model.readings import EngineReading, Missing

if TYPE_CHECKING:
    from collections.abc import Collection

    from tui.sources.engines.table import EngineTable, Hint, Source

FIGURES = {
    "running": "running",
    "waiting": "waiting",
    "kv_usage": "kv_usage",
    "kv_usage_max": "kv_usage",
    "kv_capacity_tokens": "capacity",
    "max_num_seqs": "max_num_seqs",
    "asleep": "awake",
    "paused": "paused",
    "started_at": "started",
    "since_last_step_s": "heartbeat",
    "stalled_s": "heartbeat",
    "preemptions_per_s": "preemptions",
    "evictions_per_s": "evictions",
    "gen_tok_s": "generation_tokens",
    "prompt_tok_s": "prompt_tokens",
    "req_s": "finished",
    "prefix_hit_ratio": "prefix_hits",
    "error_ratio": "http_5xx",
    "http_503_ratio": "http_503",
    "http_429_ratio": "http_429",
    "ttft_p50_s": "ttft",
    "ttft_p95_s": "ttft",
    "ttft_p99_s": "ttft",
    "itl_p50_s": "itl",
    "itl_p95_s": "itl",
    "tpot_p50_s": "tpot",
    "tpot_p95_s": "tpot",
    "e2e_p95_s": "e2e",
    "queue_p95_s": "queue",
}
"""Fields of ``EngineReading`` that any engine may have, and the table's quantity that each comes from."""

_SPARE = {"kv_usage": "kv_used", "capacity": "capacity_blocks", "generation_tokens": "gen_tok_s"}


def missing_figures(
    reading: EngineReading, table: EngineTable, present: Collection[str], off: Hint | None = None
) -> tuple[Missing, ...]:
    """One entry for each figure that is null.

    Args:
        reading: the figures.
        table: of the engine.
        present: canonical sample names of the scrape, those of histograms without their suffix.
        off: why there are no metrics at all, where other routes told what is known.
    """
    return tuple(
        _missing(field, quantity, reading, table, present, off)
        for field, quantity in FIGURES.items()
        if getattr(reading, field) is None and field not in table.inapplicable
    )


def all_missing(table: EngineTable, why: str, enable: str = "") -> tuple[Missing, ...]:
    """One entry for each figure where none can be had; what the engine never has keeps its own reason."""
    return tuple(
        Missing(field, table.hints[field].why, table.hints[field].enable)
        if field in table.hints
        else Missing(field, why, enable)
        for field in FIGURES
        if field not in table.inapplicable
    )


def _missing(
    field: str,
    quantity: str,
    reading: EngineReading,
    table: EngineTable,
    present: Collection[str],
    off: Hint | None,
) -> Missing:
    sources = [found for name in (quantity, _SPARE.get(quantity, "")) if (found := table.source(name))]
    source = next((found for found in sources if _is_there(found, present)), None)
    if source is None:
        return _absent(field, sources, table, present, off)
    if quantity in table.gauges or quantity in ("waiting", "heartbeat"):
        return Missing(field, f"{_named(source)} has no usable value")
    if reading.latency_window_s is None:
        return Missing(field, "takes a second scrape")
    span = reading.latency_window_s
    return Missing(field, f"nothing to measure in the last {span:.{int(span < 1)}f} s")


def _absent(
    field: str, sources: list[Source], table: EngineTable, present: Collection[str], off: Hint | None
) -> Missing:
    family, instead = table.instead.get(field, ("", None))
    if instead is not None and canonical(family) in present:
        return Missing(field, instead.why, instead.enable)
    if (hint := table.hints.get(field)) is not None:
        return Missing(field, hint.why, hint.enable)
    if not sources:
        return Missing(field, f"{table.engine} does not report it")
    since = next((source.since for source in sources if source.since), "")
    enable = f"{since} or newer" if since else ""
    name = _named(sources[0])
    if not name:
        return Missing(field, "/v1/loads does not tell it", enable)
    if off is not None:
        return Missing(field, off.why, off.enable)
    return Missing(field, f"{name} is not in {table.path}", enable)


def _is_there(source: Source, present: Collection[str]) -> bool:
    return any(name in present for name in source.samples)


def _named(source: Source) -> str:
    """The newest name in the metrics; empty where only another route has it."""
    return next((written for written in source.selectors if not written.startswith("loads:")), "")
