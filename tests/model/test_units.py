from __future__ import annotations

import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.model import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
        (0, "0"),
        (7, "7"),
        (85.12, "85.1"),
        (99.97, "100"),
        (610, "610"),
        (999.6, "1.0k"),
        (4123, "4.1k"),
        (16500, "16.5k"),
        (99_960, "100k"),
        (2_100_000, "2.1M"),
        (3.2e9, "3.2G"),
    ],
)
def test_count(value: float | None, text: str) -> None:
    assert units.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0ms"),
        (0.003, "3ms"),
        (0.0996, "0.10s"),
        (0.21, "0.21s"),
        (0.9996, "1.0s"),
        (1.44, "1.4s"),
        (9.96, "10s"),
        (28, "28s"),
        (119.6, "2m"),
        (720, "12m"),
        (11000, "3.1h"),
        (9 * 86400, "9d"),
    ],
)
def test_seconds(value: float | None, text: str) -> None:
    assert units.seconds(value) == text


@given(st.floats(0, 1e11))
def test_no_figure_is_wider_than_its_column(value: float) -> None:
    assert len(units.count(value)) <= 5
    assert len(units.seconds(value)) <= 5 or value > 9999 * 86400


def test_units_scale() -> None:
    rates = (None, 0.0, 180.4, 999.4, 999.6, 1900.0)
    assert [units.data_rate(v) for v in rates] == [
        "–",
        "0 MB/s",
        "180 MB/s",
        "999 MB/s",
        "1.0 GB/s",
        "1.9 GB/s",
    ]
    assert units.gib(73830.4) == "72.1"
    assert units.ratio_as_percent(0.253968) == "25"
    assert units.percent(None) == units.gib(None) == units.ratio_as_percent(None) == "–"


@pytest.mark.parametrize(
    ("text", "side", "shown"),
    [
        ("25ms", "<", "<25ms"),
        ("80s", ">", ">80s"),
        ("0.25s", "<", "<.25s"),
        ("9.9s", ">", ">9.9s"),
        ("3ms", "", "3ms"),
    ],
)
def test_a_bound_is_marked_and_no_wider(text: str, side: Literal["", "<", ">"], shown: str) -> None:
    assert units.bounded(text, side) == shown
    assert len(shown) <= 5
