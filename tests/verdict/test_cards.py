"""The gate: observations made from the verdict cards, with noise and missing fields."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.verdict import cards
from tui.model.settings import Slo, Thresholds
from tui.verdict.observation import classify
from tui.verdict.rules import RULES

EACH = 120
LIMITS, SLO = Thresholds(), Slo()
CALM = ("healthy", "idle")


def test_every_verdict_has_a_card() -> None:
    assert set(cards.BUILDERS) == {rule.id for rule in RULES}


def test_right_verdict_in_97_of_100() -> None:
    wrong = [
        (case.line["id"], found["verdict"])
        for verdict in cards.BUILDERS
        for case in cards.cases(verdict, EACH)
        if (found := classify(case.line, LIMITS, SLO))["verdict"] != verdict
    ]
    assert len(wrong) <= 0.03 * EACH * len(cards.BUILDERS), wrong


@pytest.mark.parametrize("verdict", cards.BUILDERS)
def test_no_card_is_right_less_often_than_19_in_20(verdict: str) -> None:
    found = Counter(classify(case.line, LIMITS, SLO)["verdict"] for case in cards.cases(verdict, EACH))
    assert found[verdict] >= 0.95 * EACH, found


@pytest.mark.parametrize("verdict", CALM)
def test_calm_is_never_called_sick(verdict: str) -> None:
    for remove in (False, True):
        found = Counter(
            classify(case.line, LIMITS, SLO)["verdict"] for case in cards.cases(verdict, 300, remove=remove)
        )
        assert set(found) <= {*CALM, "unknown"}, found


@pytest.mark.parametrize("verdict", [name for name in cards.BUILDERS if name not in CALM])
def test_required_evidence_that_is_gone_never_makes_it_surely_calm(verdict: str) -> None:
    found: Counter[str] = Counter()
    for case in cards.cases(verdict, EACH, remove=True):
        result = classify(case.line, LIMITS, SLO)
        calm = result["verdict"] in CALM
        assert not (calm and result["confidence"] == "high"), case.line["id"]
        found["calm" if calm else "other"] += 1
    assert found["calm"] <= 0.2 * EACH
