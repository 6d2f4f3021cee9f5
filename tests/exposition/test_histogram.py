from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.exposition.histogram import Histogram, Quantile, between

BOUNDS = (0.1, 0.2, 0.4, math.inf)


def states(*counts: float) -> dict[float, float]:
    return dict(zip(BOUNDS, counts, strict=True))


def span(older: dict[float, float], newer: dict[float, float], total: float | None = None) -> Histogram:
    found = between(older, newer, total)
    assert found is not None
    return found


def test_only_the_difference_counts() -> None:
    # 1000 slow ones long ago; 10 in the span: 2 below 0.1, 6 up to 0.2, 2 up to 0.4
    found = span(states(0, 0, 0, 1000), states(2, 8, 10, 1010), 1.8)
    assert found.count == 10
    assert found.quantile(0.5) == Quantile(pytest.approx(0.1 + 0.1 * 3 / 6))  # type: ignore[arg-type]
    assert found.quantile(0.95) == Quantile(pytest.approx(0.2 + 0.2 * 1.5 / 2))  # type: ignore[arg-type]
    assert found.mean() == pytest.approx(0.18)


def test_in_the_first_and_the_open_bucket_only_a_bound_is_known() -> None:
    low = span(states(0, 0, 0, 0), states(9, 9, 9, 9))
    assert low.quantile(0.95) == Quantile(0.1, "<")
    high = span(states(0, 0, 0, 0), states(0, 0, 1, 10))
    assert high.quantile(0.5) == Quantile(0.4, ">")
    assert high.quantile(0.05) == Quantile(pytest.approx(0.3))  # type: ignore[arg-type]


def test_nothing_observed_is_unknown() -> None:
    found = span(states(1, 2, 3, 4), states(1, 2, 3, 4), 0.0)
    assert found.quantile(0.5) is None
    assert found.mean() is None
    assert span({math.inf: 0}, {math.inf: 5}).quantile(0.5) is None
    assert between({}, {}) is None
    assert between({0.1: 1}, {0.1: 2}) is None
    assert between({math.inf: 1, 0.1: 1}, {0.1: 2}) is None
    assert span(states(0, 0, 0, 0), states(1, 1, 1, 1)).mean() is None


def test_bounds_of_one_side_only_are_left_out() -> None:
    found = span({0.1: 0, 0.3: 0, math.inf: 0}, {0.1: 5, 0.2: 9, math.inf: 10})
    assert found.bounds == (0.1, math.inf)
    assert found.quantile(0.5) == Quantile(0.1, "<")


def test_buckets_that_were_not_read_at_one_instant_are_put_in_order() -> None:
    found = span(states(0, 0, 0, 0), states(5, 4, 6, 6))
    assert found.cumulative == (5, 5, 6, 6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0.01, 1))
def test_the_true_value_is_inside_the_bucket_that_is_named(observed: list[float], q: float) -> None:
    newer = {bound: float(sum(value <= bound for value in observed)) for bound in BOUNDS}
    found = span(states(0, 0, 0, 0), newer).quantile(q)
    assert found is not None
    true = sorted(observed)[max(0, math.ceil(q * len(observed)) - 1)]
    if found.side == "<":
        assert true <= 0.1
    elif found.side == ">":
        assert true > 0.4
    else:
        index = next(i for i, bound in enumerate(BOUNDS) if true <= bound)
        assert (BOUNDS[index - 1] if index else 0.0) - 1e-9 <= found.value <= BOUNDS[index] + 1e-9
