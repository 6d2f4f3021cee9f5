"""Labelled incidents: the given ones, and our own with their near misses."""

from __future__ import annotations

import copy
import json
import operator
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import cards
from tui.model.settings import Slo, Thresholds
from tui.verdict.observation import classify, classify_line
from tui.verdict.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

SCENARIOS = Path(__file__).parent.parent / "fixtures" / "scenarios"
LIMITS, SLO = Thresholds(), Slo()
LEVELS = ("low", "medium", "high")
SOURCES = ("gpus", "engine", "host", "probes")


def load(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SCENARIOS / name).read_text().splitlines()]


GIVEN, OURS = load("labelled.jsonl"), load("cases.jsonl")
ALL = GIVEN + OURS


def right(case: dict[str, Any], verdict: str) -> bool:
    return verdict == case["verdict"] or verdict in case.get("acceptable", ())


@pytest.mark.parametrize("case", ALL, ids=[case["id"] for case in ALL])
def test_case_gets_its_label_and_no_foreign_secondary(case: dict[str, Any]) -> None:
    found = classify_line(json.dumps(case))
    assert right(case, found["verdict"]), (found, case["why"])
    allowed = {*case["secondary"], *case.get("acceptable", ())}
    assert set(found["secondary"]) <= allowed
    assert found["id"] == case["id"]


def test_labels_are_not_looked_at() -> None:
    for case in ALL:
        bare = {"engine": case["engine"], "observations": case["observations"]}
        assert classify(bare, LIMITS, SLO)["verdict"] == classify(case, LIMITS, SLO)["verdict"]


def test_every_verdict_has_at_least_three_cases() -> None:
    count = Counter(case["verdict"] for case in OURS)
    assert {rule.id for rule in RULES} == set(count)
    assert min(count.values()) >= 3, count


def test_decided_cases_carry_two_pieces_of_evidence_and_advice() -> None:
    for case in ALL:
        found = classify(case, LIMITS, SLO)
        assert len(found["evidence"]) >= 2, case["id"]
        assert all(e["text"] for e in found["evidence"])
        assert bool(found["advice"]) == (found["verdict"] not in ("healthy", "idle"))


# ---------------------------------------------------------------------------------------- missing inputs


def without(case: dict[str, Any], where: str) -> dict[str, Any]:
    changed = copy.deepcopy(case)
    cards.remove_field(changed["observations"], where)
    return changed


def single_removals(case: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for where in (*cards.fields(case["observations"]), *SOURCES):
        if where.partition(".")[0] in case["observations"]:
            yield where, without(case, where)


def test_one_missing_input_never_makes_a_sick_host_surely_calm() -> None:
    for case in (case for case in ALL if case["verdict"] not in ("healthy", "idle")):
        for where, changed in single_removals(case):
            found = classify(changed, LIMITS, SLO)
            if found["verdict"] in ("healthy", "idle"):
                assert found["confidence"] != "high", (case["id"], where)
                assert found["missing"], (case["id"], where)


def test_a_missing_source_lowers_confidence_and_is_named() -> None:
    for case in ALL:
        before = classify(case, LIMITS, SLO)
        for source in (source for source in SOURCES if source in case["observations"]):
            after = classify(without(case, source), LIMITS, SLO)
            if after["verdict"] == before["verdict"] and before["confidence"] != "low":
                lower = LEVELS.index(after["confidence"]) < LEVELS.index(before["confidence"])
                assert lower, (case["id"], source)
            if after["verdict"] in ("healthy", "idle", "unknown"):
                assert after["missing"], (case["id"], source)


def test_calm_cases_are_not_called_sick_when_a_figure_is_missing() -> None:
    wrong = [
        (case["id"], where, found)
        for case in ALL
        if case["verdict"] in ("healthy", "idle")
        for where, changed in single_removals(case)
        if (found := classify(changed, LIMITS, SLO)["verdict"]) not in ("healthy", "idle", "unknown")
    ]
    # a stale gauge is told from a hang by a request that is served, and by nothing else
    assert {(name, where) for name, where, _ in wrong} <= {("H05", "probes.generate"), ("H05", "probes")}


HOLDS = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
}


@pytest.mark.parametrize("case", ALL, ids=[case["id"] for case in ALL])
def test_what_evidence_says_of_figure_and_threshold_is_true(case: dict[str, Any]) -> None:
    for found in classify(case, LIMITS, SLO)["evidence"]:
        value, limit, comparison = found["value"], found["threshold"], found["comparison"]
        if comparison and isinstance(value, float | int) and isinstance(limit, float | int):
            assert HOLDS[comparison](value, limit), found
