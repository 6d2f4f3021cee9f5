"""The samples of one scrape, picked and combined as a table says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tui.exposition.parse import Series
    from tui.sources.engines.tables import Combine, Source

    Samples = Mapping[str, list[tuple[Series, float]]]
    """By canonical sample name."""


def select(samples: Samples, source: Source) -> list[tuple[Series, float]] | None:
    """The samples of a quantity; None where none of its families is in the scrape."""
    for name in source.samples:
        found = samples.get(name)
        if found is not None:
            if not source.where:
                return found
            where = source.where.items()
            return [sample for sample in found if all(sample[0].labels.get(k) == v for k, v in where)]
    return None


def by_label(samples: Samples, source: Source, label: str, default: str) -> dict[str, float]:
    """A quantity for each value of a label; values that are no finite number are unknown and left out."""
    grouped: dict[str, list[float]] = {}
    for series, value in select(samples, source) or ():
        if math.isfinite(value):
            grouped.setdefault(series.labels.get(label, default), []).append(value * source.scale)
    return {key: combined(values, source.within) for key, values in grouped.items()}


def combined(values: Iterable[float], how: Combine) -> float:
    """One figure of several, of which there is at least one."""
    known = list(values)
    return sum(known) / len(known) if how == "mean" else _COMBINE[how](known)


_COMBINE: Mapping[str, Callable[[list[float]], float]] = {"sum": sum, "max": max}
