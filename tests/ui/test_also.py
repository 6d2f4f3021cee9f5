"""What else is wrong, beside the verdict: worst first, each once, and never in its place."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.ui import scenes
from tests.ui.test_panes import rows
from tui.model.verdicts import Evidence, Finding, Judgement, Level, Verdict
from tui.ui.draw import as_text, draw
from tui.ui.lines import cut_words, plain

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
    assert rows(shown(findings, (60, 15)), r"also +!! SIGTERM loses running requests: … +\+\d more")
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


def pane(main: Verdict, *findings: Finding, size: tuple[int, int] = (120, 40)) -> list[str]:
    """The lines of the verdict's pane."""
    judgement = Judgement((main,), findings)
    _, panes, _ = draw(replace(scenes.sick_view(), judgement=judgement), *size)
    return [plain(line).rstrip() for line in panes["verdict"]]


def sick(*reasons: str, advice: tuple[str, ...] = ("lower it",)) -> Verdict:
    evidence = tuple(Evidence(f"s{n}", 1.0, text=text) for n, text in enumerate(reasons))
    return Verdict(ONE, "kv_cache", "KV CACHE FULL", since=scenes.WALL - 9, evidence=evidence, advice=advice)


def test_a_long_finding_is_whole_while_lines_are_free() -> None:
    said = f"{LOST}, so a drain test of it fails and so does each restart by a supervisor"
    text = " ".join(
        " ".join(pane(sick("kv 0.99"), Finding("D03", "error", ONE, said))).replace("│", " ").split()
    )
    assert text.count(said) == 1


def test_reasons_take_the_lines_that_nobody_needs() -> None:
    reasons = [f"figure {n} is above its limit of {n} a second" for n in range(5)]
    lines = pane(sick(*reasons))
    assert all(reason in " ".join(lines) for reason in reasons)
    assert not any("more" in line for line in lines)


def test_no_line_is_empty_while_something_is_left_out() -> None:
    reasons = [f"figure {n} {'of many ' * (3 * n)}" for n in range(9)]
    for size in ((160, 45), (120, 40), (80, 24), (60, 15)):
        lines = pane(sick(*reasons), Finding("D03", "error", ONE, LOST), size=size)
        assert any(re.search(r"\+\d", line) for line in lines), size
        assert not [line for line in lines if not line.strip("│ ")], size


def test_what_is_left_out_is_counted_by_items_not_by_lines() -> None:
    """Of nine reasons, so many begin on the pane as the mark says that do not."""
    lines = pane(sick(*(f"reason {n} {'of many words ' * 6}" for n in range(9))), size=(80, 24))
    begun = len(re.findall(r"reason \d", " ".join(lines)))
    (left_out,) = re.findall(r"\+(\d)", " ".join(lines))
    assert begun + int(left_out) == 9


def test_a_sentence_is_cut_behind_a_word() -> None:
    assert cut_words("visible, NVLink or peer access, link width", 36) == "visible, NVLink or peer access, …"
    assert cut_words("GPU memory free 279 MiB", 22) == "GPU memory free …"
    assert cut_words("--gpu-memory-utilization 0.85", 20) == "--gpu-memory-utiliz…"
    assert cut_words("whole", 5) == "whole"
    assert all(len(cut_words("some words of a sentence", size)) <= size for size in range(30))


def test_without_remarks_a_line_goes_to_what_is_wrong_with_a_gpu() -> None:
    text = as_text(scenes.broken_view(), 80, 24)
    assert rows(text, "5 H100 .* !")
    assert rows(text, "^ +2 uncorrected memory errors")
    assert rows(text, "past 30 min")
