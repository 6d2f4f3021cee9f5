from __future__ import annotations

from tui.model.history import History, Series


def test_keeps_the_newest_points_and_gaps_stay_gaps() -> None:
    series = Series(capacity=10)
    for i in range(1000):
        series.add(float(i), None if i % 3 == 0 else float(i * 2))
    assert len(series) == 10
    assert next(iter(series)) == (990.0, None)
    assert list(series)[-2:] == [(998.0, 1996.0), (999.0, None)]
    assert series.last() is None


def test_since_is_inclusive_and_never_reaches_behind_the_capacity() -> None:
    series = Series(capacity=4)
    for i in range(6):
        series.add(float(i), float(i))
    assert series.since(4.0) == [(4.0, 4.0), (5.0, 5.0)]
    assert series.since(-1.0) == [(2.0, 2.0), (3.0, 3.0), (4.0, 4.0), (5.0, 5.0)]
    assert series.since(99.0) == []


def test_what_is_not_finite_is_a_gap() -> None:
    series = Series()
    series.add(0.0, float("inf"))
    assert list(series) == [(0.0, None)]


def test_a_quantity_never_seen_has_no_series() -> None:
    history = History()
    history.add("host", "psi_io", 0.0, None)
    assert history.get("host", "psi_io") is None
    history.add("host", "psi_io", 1.0, 5.0)
    history.add("host", "psi_io", 2.0, None)
    history.add("host", "psi_io", 3.0, 7.0)
    assert history.values("host", "psi_io", 0.0) == [5.0, 7.0]
    history.forget("host")
    assert len(history) == 0


def test_what_has_ended_is_forgotten() -> None:
    history = History()
    history.add("gpu:old", "sm_pct", 10.0, 5.0)
    history.add("gpu:there", "sm_pct", 10.0, 5.0)
    history.add("gpu:there", "sm_pct", 99.0, None)  # a gap: it is there and not read
    history.forget_before(50.0)
    assert history.get("gpu:old", "sm_pct") is None
    assert history.values("gpu:there", "sm_pct", 0.0) == [5.0]


def test_the_change_over_a_window_leaves_gaps_out_and_wants_three_points() -> None:
    series = Series(10)
    for at, value in enumerate((9.0, None, 4.0, 5.0, None)):
        series.add(float(at), value)
    assert series.change(0.0) == -4.0
    assert series.change(1.0) == 1.0
    assert series.change(3.0) is None
    gaps = Series(10)
    for at in range(4):
        gaps.add(float(at), None)
    assert gaps.change(0.0) is None
