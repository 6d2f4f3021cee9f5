"""The verdict in words: where it is not certain, why."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verdict import made
from tui.model.history import History
from tui.model.settings import Slo, Thresholds
from tui.report.once_text import conclusions
from tui.verdict.judge import judge_all


def lines(reading: Any) -> list[str]:
    snapshot = made.snapshot(made.view(reading))
    return conclusions(snapshot, judge_all(snapshot, History(), Thresholds(), Slo()))


def test_a_verdict_that_is_not_certain_says_why() -> None:
    found = lines(made.nothing_to_do())
    assert found[0].endswith("confidence medium")
    assert "  certain  medium: lacks generate probe; 2 known signals agree" in found
    assert "  missing  generate probe" in found


@pytest.mark.parametrize("reading", [made.reading(), made.full_cache()])
def test_one_that_is_certain_needs_no_reasons(reading: Any) -> None:
    found = lines(reading)
    assert found[0].endswith("confidence high")
    assert not any(line.startswith("  certain") for line in found)
