"""What else is wrong, beside the verdict: worst first, each once, and never in its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui import scenes
from tests.ui.test_panes import rows
from tui.model.verdicts import Finding, Judgement, Level
from tui.ui.draw import as_text

ONE, TWO = scenes.URLS[0], scenes.URLS[1]
LOST = "SIGTERM loses running requests: --shutdown-timeout is 0, its default"


def shown(findings: list[Finding], size: tuple[int, int]) -> str:
    judgement = Judgement((scenes.HOST_IDLE, scenes.kv_cache()), tuple(findings))
    return as_text(replace(scenes.sick_view(), judgement=judgement), *size)


def test_what_is_true_of_several_engines_is_said_once() -> None:
    text = shown([Finding("D03", "error", ONE, LOST), Finding("D03", "error", TWO, LOST)], (160, 45))
    assert rows(text, rf"also +!! {LOST} \(2 engines\)")
    assert text.count("SIGTERM") == 1
    assert "engines)" not in shown([Finding("D03", "error", ONE, LOST)], (160, 45))


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (40, 12)])
def test_a_crowd_of_findings_takes_no_line_of_the_verdict(size: tuple[int, int]) -> None:
    quiet = shown([], size).splitlines()
    levels: list[Level] = ["info", "warning", "error"]
    crowd = [Finding(f"P{n}", levels[n % 3], ONE, f"finding {n} of {'many ' * 20}") for n in range(30)]
    crowded = shown(crowd, size).splitlines()
    until = next(n for n, line in enumerate(quiet) if "KV CACHE FULL" in line) + 2
    assert [line.rstrip() for line in crowded[:until]] == [line.rstrip() for line in quiet[:until]]


def test_an_item_that_is_longer_than_the_line_leaves_room_for_how_many_there_are() -> None:
    findings = [Finding("D03", "error", ONE, LOST), Finding("P09", "warning", ONE, "something else")]
    assert rows(shown(findings, (60, 15)), r"also +!! SIGTERM loses running requests: --.*… +\+\d more")
    warnings_last = shown(findings[::-1], (160, 45))
    assert warnings_last.index("SIGTERM") < warnings_last.index("something else")


def test_many_engines_that_are_well_are_counted() -> None:
    text = as_text(scenes.crowded_view(), 160, 45)
    assert rows(text, r"also .* 11 others healthy")
    assert not rows(text, ":8001 healthy")
    assert rows(as_text(scenes.sick_view(), 160, 45), ":8001 healthy")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_advice_that_finds_no_room_is_counted_not_cut(width: int) -> None:
    advice = tuple(f"do the thing number {n} that takes most of one line" for n in range(6))
    view = scenes.sick_view()
    verdicts = tuple(replace(v, advice=advice) for v in view.judgement.verdicts)
    text = as_text(replace(view, judgement=Judgement(verdicts)), width, 24)
    assert rows(text, r"^.? ?do +do the thing number 0")
    assert rows(text, r"\+\d more")
    assert "takes…" not in text
