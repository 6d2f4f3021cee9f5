from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.model.history import History
from tui.ui.charts import Trends, area, meter, nice_top, spark

ANY = st.none() | st.floats(0, 1000)


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(0.0, "────"), (1.0, "━━━━"), (0.5, "━━──"), (0.6, "━━╸─"), (7.0, "━━━━"), (-1.0, "────")],
)
def test_meter(ratio: float, shown: str) -> None:
    assert "".join(meter(ratio, 4)) == shown


def test_an_unknown_ratio_is_no_empty_meter() -> None:
    assert meter(None, 4) == ("", "    ")
    assert meter(float("nan"), 4) == ("", "    ")


def test_sparkline_has_a_fixed_range_and_gaps() -> None:
    assert spark([0, 50, 100, None, 250, -3], 100.0) == "▁▅█ █▁"


def test_area_fills_from_below_and_leaves_gaps_blank() -> None:
    assert area((None, None, 0.0, 100.0, 50.0, 50.0), 2, 100.0) == (" ⢸ ", " ⣸⣿")


@given(st.lists(ANY, max_size=20).filter(lambda v: len(v) % 2 == 0), st.integers(1, 6), st.floats(0.5, 500))
def test_area_is_an_exact_block(values: list[float | None], height: int, top: float) -> None:
    rows = area(tuple(values), height, top)
    assert len(rows) == height
    assert {len(row) for row in rows} == {len(values) // 2}


@pytest.mark.parametrize(
    ("highest", "top"), [(None, 1), (0.2, 1), (1.0, 1), (37, 50), (50, 50), (51, 100), (1840, 2000), (0, 1)]
)
def test_upper_edge(highest: float | None, top: float) -> None:
    assert nice_top([None, highest, 0.0]) == top


def test_steps_are_means_with_gaps() -> None:
    history = History()
    for at, value in ((10, 1.0), (11, 3.0), (17, None), (21, 8.0), (26, 100.0)):
        history.add("host", "cpu", at, value)
    trends = Trends(history)
    assert trends.steps("host", "cpu", 4, 5.0, 27.0) == (None, 2.0, None, 8.0)
    assert trends.steps("host", "nothing", 2, 5.0, 27.0) == (None, None)


def test_a_step_in_which_nobody_looked_is_no_gap() -> None:
    """Readings each 5 s, a little late each time, and steps of 5 s; what could not be had is a gap."""
    history = History()
    for at, value in ((4.9, 1.0), (9.95, 2.0), (15.0, 3.0), (20.05, None), (30.1, 5.0), (45.0, 6.0)):
        history.add("host", "cpu", at, value)
    steps = Trends(history).steps("host", "cpu", 9, 5.0, 46.0)
    assert steps == (1.0, 2.0, 2.0, 3.0, None, None, 5.0, 5.0, None)


@given(st.lists(st.tuples(st.floats(0.05, 7.0), ANY), min_size=1, max_size=200), st.integers(1, 12))
def test_steps_made_one_by_one_equal_those_made_at_once(
    points: list[tuple[float, float | None]], count: int
) -> None:
    history = History()
    watched = Trends(history)
    at = 100.0
    for wait, value in points:
        at += wait
        history.add("host", "cpu", at, value)
        assert watched.steps("host", "cpu", count, 5.0, at) == Trends(history).steps(
            "host", "cpu", count, 5.0, at
        )


def test_scopes_joined() -> None:
    history = History()
    for scope, value in (("gpu:0", 10.0), ("gpu:1", 30.0)):
        history.add(scope, "sm_pct", 6.0, value)
    history.add("gpu:0", "sm_pct", 11.0, 50.0)
    trends = Trends(history)
    scopes = ("gpu:0", "gpu:1", "gpu:2")
    assert trends.joined(scopes, "sm_pct", 2, 5.0, 15.0, mean=True) == (20.0, 50.0)
    assert trends.joined(scopes, "sm_pct", 2, 5.0, 15.0, mean=False) == (40.0, 50.0)
