"""The samples of one scrape, picked and combined as a table says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from tui.exposition.parse import Series
    from tui.sources.engines.table import Combine, EngineTable, Source

    Sample = tuple[Series, float]
    Samples = Mapping[str, list[Sample]]
    """By canonical sample name."""


def select(samples: Samples, source: Source) -> list[Sample] | None:
    """The samples of a quantity; None where none of its families is in the scrape.

    Empty where its family is there and none of its series is: 0 of a counter.
    """
    empty = False
    for place in source.places:
        found = samples.get(place.sample)
        if found is None:
            continue
        if place.matchers:
            found = [sample for sample in found if place.matches(sample[0].labels)]
        if found:
            return found
        empty = True
    return [] if empty or any(name in samples for name in source.zero_with) else None


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


def without_repeats(samples: Samples, table: EngineTable) -> Samples:
    """The samples without those that tell a figure again.

    Of the processes of one rank only the lowest is kept (each of a tensor-parallel group reports the
    whole), and of a gauge with a total beside its parts only the total.
    """
    if not table.replica_labels and not table.total_label:
        return samples
    gauges = table.instantaneous
    kept: dict[str, list[Sample]] = {}
    for name, found in samples.items():
        if len(found) > 1:
            found = _lowest(found, table)
            if name in gauges:
                found = _totals(found, table.total_label)
        kept[name] = found
    return kept


def requests_once(samples: Samples, table: EngineTable, inner: Collection[str]) -> Samples:
    """The samples with each request counted in one of the models that it passes.

    Where a backend tells which models generate, that is there, and of failures only those are left out that
    an ensemble reports (``OTHER``) for its part; else it is where the request came in.

    Args:
        samples: of the scrape.
        table: of the engine.
        inner: models that are known to be parts of ensembles.
    """
    label = table.model_label
    backends = generating(samples, table)
    if not table.front or not (backends or inner):
        return samples
    kept = dict(samples)
    for name in {form for family in table.front for form in (family, f"{family}_bucket", f"{family}_sum")}:
        if name in kept:
            kept[name] = [
                sample
                for sample in kept[name]
                if (
                    sample[0].labels.get(label) in backends
                    or (sample[0].labels.get("reason") or "OTHER") != "OTHER"
                    if backends
                    else sample[0].labels.get(label) not in inner
                )
            ]
    return kept


def generating(samples: Samples, table: EngineTable) -> frozenset[str]:
    """The models that a backend with figures of its own runs."""
    if not table.backend_own:
        return frozenset()
    return frozenset(
        series.labels.get(table.model_label, "")
        for name, found in samples.items()
        if name.startswith(table.backend_own)
        for series, _ in found
    )


def _lowest(found: list[Sample], table: EngineTable) -> list[Sample]:
    labels = table.replica_labels
    if not any(label in found[0][0].labels for label in labels):
        return found
    if all(len({series.labels.get(label) for series, _ in found}) == 1 for label in labels):
        return found
    replicas = [tuple(_number(series.labels.get(label, "")) for label in labels) for series, _ in found]
    lowest: dict[str, tuple[float, ...]] = {}
    ranks = [series.labels.get(table.rank_label, "") for series, _ in found]
    for rank, replica in zip(ranks, replicas, strict=True):
        lowest[rank] = min(replica, lowest.get(rank, replica))
    return [
        sample
        for sample, rank, replica in zip(found, ranks, replicas, strict=True)
        if replica == lowest[rank]
    ]


def _totals(found: list[Sample], label: str) -> list[Sample]:
    totals = [sample for sample in found if not sample[0].labels.get(label)]
    return totals or found


def _number(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 10 else math.inf
