"""The figures of one scrape that need no other: gauges, by rank and in all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tui.model.text import clean
from tui.sources.engines.samples import by_label, combined, select

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.sources.engines.samples import Samples
    from tui.sources.engines.table import EngineTable, Source

ONLY_RANK = "0"
LARGEST = 1e12
"""No count, size or epoch second is larger."""
ROUNDING = 1.001
"""A full cache may come out a hair above 1."""
_MOST = {"kv_usage": 1.0, "prefix_hit_ratio": 1.0, "spec_accept_ratio": 1.0}
_NAMED_MODELS = 3
_NO_MODEL = ("", "undefined")

ByRank = dict[str, float]


class Present:
    """One scrape as its table reads it.

    Args:
        samples: by canonical name, repeats left out.
        table: of the engine.
    """

    def __init__(self, samples: Samples, table: EngineTable) -> None:
        self._samples = samples
        self._table = table

    def ranks(self, quantity: str) -> ByRank:
        """A gauge of each rank; empty where it is not told."""
        source = self._table.gauges.get(quantity)
        return {} if source is None else self._by_rank(source, _MOST.get(quantity, LARGEST))

    def total(self, quantity: str) -> float | None:
        """A gauge of all ranks together."""
        return self.combine(quantity, self.ranks(quantity))

    def combine(self, quantity: str, ranks: ByRank) -> float | None:
        """All ranks together, as the table has it for that quantity; None without any."""
        source = self._table.gauges.get(quantity)
        return combined(ranks.values(), source.across if source is not None else "sum") if ranks else None

    def waiting(self) -> ByRank:
        """Requests that wait; of several queues the sum, unknown where one of them is."""
        if not self._table.queues:
            return self.ranks("waiting")
        together: ByRank = {}
        for reason, source in self._table.queues.items():
            queue = self._by_rank(source)
            if not queue and (
                reason not in self._table.optional_queues or select(self._samples, source) is not None
            ):
                return {}
            for rank, count in queue.items():
                together[rank] = together.get(rank, 0.0) + count
        return together

    def waiting_by_reason(self) -> dict[str, float]:
        """Requests that wait, by why."""
        source = self._table.gauges.get("waiting_by_reason")
        found = {} if source is None else by_label(self._samples, source, "reason", "")
        mandatory = self._table.queues.keys() - self._table.optional_queues
        for reason, queue in (*self._table.queues.items(), *self._table.also_waiting.items()):
            count = sum(self._by_rank(queue).values())
            if count > 0 or (reason in mandatory and self._by_rank(queue)):
                found[reason] = count
        return {clean(reason, 40): count for reason, count in found.items()}

    def kv_usage(self) -> ByRank:
        """0-1 of each rank."""
        if usage := self.ranks("kv_usage"):
            return usage
        used, total = self.ranks("kv_used"), self.ranks("kv_total")
        return {rank: used[rank] / total[rank] for rank in used if total.get(rank, 0.0) > 0}

    def capacity(self) -> float | None:
        """Size of the KV cache in tokens, all ranks together."""
        labels = self._table.capacity_labels
        if not labels:
            blocks, size = self.ranks("capacity_blocks"), self.ranks("capacity_block_tokens")
            tokens = {rank: blocks[rank] * size[rank] for rank in blocks if rank in size}
            return sum(tokens.values()) if tokens else self.total("capacity")
        sizes: ByRank = {}
        source = self._table.gauges["capacity"]
        for series, _ in select(self._samples, source) or ():
            found = _product(series.labels, labels)
            if found is not None:
                sizes[series.labels.get(self._table.rank_label, ONLY_RANK)] = found
        return sum(sizes.values()) if sizes else None

    def asleep(self) -> bool | None:
        """Every rank sleeps."""
        ranks = self.ranks("awake")
        return max(ranks.values()) <= 0 if ranks else None

    def started(self) -> float | None:
        """Epoch seconds at which the newest server process started."""
        return max(self.ranks("started").values(), default=None)

    def positive(self, quantity: str) -> float | None:
        """A gauge that says 0 for "there is nothing to measure"."""
        value = self.total(quantity)
        return value if value is not None and value > 0 else None

    def beats(self) -> list[ByRank]:
        """Each heartbeat figure by rank."""
        return [self._by_rank(source) for source in self._table.heartbeat]

    def model(self) -> str | None:
        """The served models by their label; those of the generating backend first."""
        table = self._table
        sources = (
            *(table.gauges[name] for name in ("running", "kv_usage") if name in table.gauges),
            *table.queues.values(),
            *(table.counters[name] for name in ("finished",) if name in table.counters),
        )
        for source in sources:
            labels = [series.labels for series, _ in select(self._samples, source) or ()]
            names = dict.fromkeys(clean(found.get(table.model_label, "")) for found in labels)
            known = [name for name in names if name not in _NO_MODEL]
            if known:
                more = len(known) - _NAMED_MODELS
                return ", ".join(known[:_NAMED_MODELS]) + (f" +{more}" if more > 0 else "")
        return None

    def _by_rank(self, source: Source, most: float = LARGEST) -> ByRank:
        """What cannot be is not a figure: a count below zero, a share above one."""
        found = by_label(self._samples, source, self._table.rank_label, ONLY_RANK)
        return {rank: min(value, most) for rank, value in found.items() if 0.0 <= value <= most * ROUNDING}


def _product(labels: Mapping[str, str], candidates: tuple[tuple[str, ...], ...]) -> float | None:
    for names in candidates:
        values = [labels.get(name, "") for name in names]
        if all(value.isdecimal() and len(value) < 19 for value in values):  # "None" is a value too
            return math.prod(map(float, values))
    return None
