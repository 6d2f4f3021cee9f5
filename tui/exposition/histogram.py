"""Quantiles and means of a histogram over a span: from differences of its buckets, never since start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Side = Literal["", "<", ">"]


@dataclass(frozen=True, slots=True)
class Quantile:
    """An estimate, or a bound where the buckets cannot tell more."""

    value: float
    side: Side = ""
    """``<``: in the first bucket, so the true value is below; ``>``: in the last, open one, so above."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations of a span: how many were at or below each upper bound, ascending, the last infinite."""

    bounds: tuple[float, ...]
    cumulative: tuple[float, ...]
    total: float | None = None
    """Sum of the observations; None where it is not known."""

    @property
    def count(self) -> float:
        """Observations."""
        return self.cumulative[-1]

    def quantile(self, q: float) -> Quantile | None:
        """The value below which a share ``q`` (0-1) of the observations lies.

        Linear inside a bucket, as Prometheus does it; nothing is invented outside: in the first and
        in the open bucket the one bound that is known is given. None without observations.
        """
        if self.count <= 0:
            return None
        rank = q * self.count
        index = next(i for i, seen in enumerate(self.cumulative) if seen >= rank)
        if index == len(self.bounds) - 1:
            return Quantile(self.bounds[index - 1], ">") if index else None
        upper = self.bounds[index]
        if index == 0:
            return Quantile(upper, "<")
        lower, below = self.bounds[index - 1], self.cumulative[index - 1]
        return Quantile(lower + (upper - lower) * (rank - below) / (self.cumulative[index] - below))

    def mean(self) -> float | None:
        """The exact mean; None without observations or without their sum."""
        return None if self.total is None or self.count <= 0 else self.total / self.count


def between(
    older: Mapping[float, float], newer: Mapping[float, float], total: float | None = None
) -> Histogram | None:
    """The observations between two states of one histogram, each upper bound -> cumulative count.

    A bound that only one of the two has is left out: the counts at the others stay exact. Buckets are
    not read at one instant, so a count below its predecessor is raised to it.

    Args:
        older: at the start of the span, from the same process as ``newer``: counts never fall.
        newer: at its end.
        total: sum of the observations of the span.

    Returns:
        None where there is no infinite bound in common.
    """
    bounds = tuple(sorted(bound for bound in newer if bound in older))
    if not bounds or bounds[-1] != math.inf:
        return None
    counts = accumulate((max(0.0, newer[bound] - older[bound]) for bound in bounds), max)
    return Histogram(bounds, tuple(counts), total)
