"""What an operator reads is in words and units of the panes: no names of fields, no odd figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import cards, made
from tests.verdict.situations import SITUATIONS
from tests.verdict.test_live_removal import picture_of, removals
from tui.model.settings import Slo, Thresholds
from tui.verdict import evidence as ev
from tui.verdict.assess import assess
from tui.verdict.observation import picture_from_observation
from tui.verdict.rules import RULES
from tui.verdict.signals import Signals
from tui.verdict.words import figure, word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.verdicts import Evidence
    from tui.verdict.assess import Assessment

LIMITS, SLO = Thresholds(), Slo()
_RAW = re.compile(r"[a-z0-9]_[a-z0-9]")
_ODD = (r"\d[kMG] %", r" /s", r"\d[kMG] MB/s", r"\d{4} MiB", r"\d{5,}")
"""A percentage in thousands, a rate torn apart, a unit of a unit, mebibytes, more digits than anybody reads."""


def all_pictures() -> Iterator[tuple[str, Assessment]]:
    for verdict in cards.BUILDERS:
        for case in cards.cases(verdict, 8, remove=verdict != "gpu_fault"):
            yield case.line["id"], assess(picture_from_observation(case.line), LIMITS, SLO, explain=True)
    for situation in SITUATIONS:
        yield situation, assess(picture_of(situation), LIMITS, SLO, explain=True)


def all_evidence() -> Iterator[tuple[str, Evidence]]:
    for where, found in all_pictures():
        for lines in (found.verdict.evidence, *(outcome.evidence for outcome in found.outcomes.values())):
            for evidence in lines:
                yield where, evidence


def test_no_line_of_evidence_has_an_odd_figure() -> None:
    for where, evidence in all_evidence():
        assert not any(re.search(odd, evidence.text) for odd in _ODD), (where, evidence.text)


def test_every_signal_has_a_name_and_every_figure_a_unit() -> None:
    for where, evidence in all_evidence():
        assert not _RAW.search(word(evidence.signal)), (where, evidence.signal)
        if evidence.unit and isinstance(evidence.value, float | int):
            assert not re.fullmatch(r"[\d.kMG]+", figure(evidence.signal, evidence.value)), evidence


def test_every_input_that_may_be_missing_has_a_name() -> None:
    for rule in RULES:
        for given in rule.inputs:
            assert not _RAW.search(word(given)), given
    for _, found in all_pictures():
        for missing in (*found.verdict.missing, *(m for o in found.outcomes.values() for m in o.missing)):
            assert not _RAW.search(word(missing)), missing
        assert not any(_RAW.search(word) for word in found.verdict.certainty), found.verdict.certainty


def test_nothing_is_missing_twice() -> None:
    for situation in SITUATIONS:
        for where, changed in removals(picture_of(situation)):
            missing = [word(m).partition(" (")[0] for m in assess(changed, LIMITS, SLO).verdict.missing]
            assert len(missing) == len(set(missing)), (situation, where, missing)


@pytest.mark.parametrize(
    ("signal", "value", "shown"),
    [
        ("queue_p95_s", 0.21, "0.21s"), ("sm_pct", 96.0, "96 %"), ("kv_usage", 0.995, "99.5 %"),
        ("gpu_mem_free_mib", 512.0, "512 MiB"), ("net_mb_s", 1900.0, "1.9 GB/s"), ("net_mb_s", 80.0, "80 MB/s"),
        ("busiest_process_cpu_pct", 2740.0, "2740 %"), ("ctx_switches_s", 910_000.0, "910k/s"),
        ("gen_tok_s", 4100.0, "4.1k tok/s"), ("running", 41.0, "41"), ("temp_c", 91.0, "91 °C"),
    ],
)  # fmt: skip
def test_figures_are_written_as_in_the_panes(signal: str, value: float, shown: str) -> None:
    assert figure(signal, value) == shown


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("gpus.clock_sm_mhz", "SM clock"),
        ("gpus (no_driver)", "GPUs (no driver)"),
        ("why requests fail: see the engine's log", "why requests fail: see the engine's log"),
        ("a longer look (the first steps may compile)", "a longer look (the first steps may compile)"),
        ("some_new_thing", "some new thing"),
    ],
)
def test_inputs_are_named_and_sentences_left_alone(given: str, said: str) -> None:
    assert word(given) == said


@pytest.mark.parametrize(
    ("host", "signal", "unit", "text"),
    [
        ({"busiest_process_cpu_pct": 2740.0}, "busiest_process_cpu_pct", "%", "x 2740 %"),
        ({"ctx_switches_s": 910_000.0}, "ctx_switches_s", "1/s", "x 910k/s"),
        ({"net_mb_s": 1900.0}, "net_mb_s", "MB/s", "x 1.9 GB/s"),
        ({"net_mb_s": 999.6}, "net_mb_s", "MB/s", "x 1.0 GB/s"),
    ],
)
def test_host_figures_keep_their_units(host: dict[str, Any], signal: str, unit: str, text: str) -> None:
    situation = SITUATIONS["healthy"]
    picture = picture_of("healthy")
    seen = Signals(type(picture)(situation.view.url, host=made.host(**host)), LIMITS, SLO)
    seen.explaining = True
    found = ev.host(seen, signal, unit, None, "x")
    assert found is not None and found.text == text
