"""Draws whatever floats there are; run in a process of its own, since what it tests for is its death."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui.ui.widgets import plotext_chart

ANY = st.floats(allow_nan=True, allow_infinity=True)
SPECIAL = st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e300, 1e8, -0.0, 5e-324])
VALUES = st.none() | ANY | SPECIAL | st.floats(0, 100)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(
    st.lists(st.tuples(ANY | st.floats(-1800, 0), VALUES), max_size=300),
    st.integers(-2, 130),
    st.integers(-2, 40),
    ANY | st.floats(0.1, 1e6),
    ANY | st.floats(1, 3600),
    VALUES,
)
def always_an_exact_block(
    points: list[tuple[float, float | None]],
    width: int,
    height: int,
    top: float,
    span_s: float,
    limit: float | None,
) -> None:
    rows = plotext_chart.plot(points, width, height, top=top, span_s=span_s, limit=limit)
    assert len(rows) == max(0, height)
    for row in rows:
        assert len(row) == max(0, width)
        assert row.isprintable()


if __name__ == "__main__":
    assert plotext_chart.load()
    always_an_exact_block()
