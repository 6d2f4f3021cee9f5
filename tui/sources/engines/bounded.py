"""Tables that a server may fill without end: labels may come from its clients."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.readings import EngineReading, RankReading

MOST_LABELS = 64
MOST_RANKS = 256
_TABLES = ("waiting_by_reason", "finish_reasons", "rejections")


def bounded(reading: EngineReading) -> EngineReading:
    """With the largest entries of each table and the worst ranks only, and how many were left out.

    Totals were made of all of them before.
    """
    kept: dict[str, Any] = {}
    left_out: dict[str, int] = {}
    for name in _TABLES:
        table: Mapping[str, float] = getattr(reading, name)
        if len(table) > MOST_LABELS:
            kept[name] = dict(sorted(table.items(), key=lambda item: -item[1])[:MOST_LABELS])
            left_out[name] = len(table) - MOST_LABELS
    ranks = reading.ranks
    if len(ranks) > MOST_RANKS:
        worst = {id(rank) for rank in sorted(ranks, key=_badness)[:MOST_RANKS]}
        left_out["ranks"] = len(ranks) - MOST_RANKS
        ranks = tuple(rank for rank in ranks if id(rank) in worst)
    return dataclasses.replace(reading, **kept, ranks=ranks, left_out=left_out) if left_out else reading


def _badness(rank: RankReading) -> tuple[float, ...]:
    """Small for those that stand still, wait or are full."""
    figures = (rank.stalled_s, rank.waiting, rank.kv_usage)
    return tuple(-figure if figure is not None and math.isfinite(figure) else 0.0 for figure in figures)
