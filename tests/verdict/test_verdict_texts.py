"""Every rule has words, and the machinery around rules holds."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests.verdict import made
from tui.model.engine_host import EngineHostReading
from tui.model.history import History
from tui.model.readings import EngineReading, GpuReading, HostReading
from tui.model.settings import Slo, Thresholds
from tui.verdict import texts
from tui.verdict.assess import RANK, assess
from tui.verdict.findings import findings
from tui.verdict.live import pictures
from tui.verdict.outcome import Outcome, Rule
from tui.verdict.picture import Picture, Processes, Trends
from tui.verdict.rules import RULES

if TYPE_CHECKING:
    from tui.verdict.signals import Signals

LIMITS, SLO = Thresholds(), Slo()


def test_rule_without_texts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    texts.check_complete([rule.id for rule in RULES])
    without = {name: t for name, t in texts.TEXTS.items() if name != "cpu"}
    monkeypatch.setattr(texts, "TEXTS", without)
    with pytest.raises(LookupError, match="cpu"):
        texts.check_complete([rule.id for rule in RULES])


def test_advice_for_one_engine_only_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    half = dataclasses.replace(texts.TEXTS["kv_cache"], flags={"vllm": ("x",)})
    monkeypatch.setattr(texts, "TEXTS", {**texts.TEXTS, "kv_cache": half})
    with pytest.raises(LookupError, match=r"kv_cache.*sglang"):
        texts.check_complete(["kv_cache"])


def test_every_verdict_has_a_rank_and_fits_the_headline() -> None:
    assert set(RANK) == {rule.id for rule in RULES} | {"unknown"} == set(texts.TEXTS)
    assert all(len(t.title) <= 20 and t.title == t.title.upper() for t in texts.TEXTS.values())
    for name in RANK:
        for kind in (*texts.ENGINES, None):
            for line in texts.advice(name, Picture("x", kind)):
                assert "{" not in line
                assert len(line) <= 110


def test_declared_inputs_exist() -> None:
    owners = {
        "engine": EngineReading, "gpus": GpuReading, "host": HostReading, "trends": Trends, "processes": Processes,
        "own": EngineHostReading,
    }  # fmt: skip
    for rule in RULES:
        for name in rule.inputs:
            section, _, field = name.partition(".")
            if section == "probes":
                assert field in ("liveness", "readiness", "generate")
                continue
            owner = owners[section] if field else Picture
            assert (field or section) in {f.name for f in dataclasses.fields(owner)}, name


def _broken(signals: Signals) -> Outcome:
    raise ZeroDivisionError(f"broken {signals.picture.scope[:0]}[red]")


def test_rule_that_fails_is_a_finding_and_the_others_still_judge() -> None:
    view = made.view()
    snapshot = made.snapshot(view)
    picture = pictures(snapshot, History())[0]
    rules = tuple(dataclasses.replace(r, judge=_broken) if r.id == "cpu" else r for r in RULES)
    found = assess(picture, LIMITS, SLO, rules)
    assert (found.verdict.verdict, found.verdict.confidence) == ("healthy", "medium")
    assert found.errors == ("cpu: ZeroDivisionError: broken [red]",)
    shown = findings(snapshot, (found,), LIMITS)
    assert [(f.id, f.level, f.scope) for f in shown] == [("rule-error", "error", made.URL)]


def test_rules_are_data() -> None:
    assert all(isinstance(rule, Rule) and rule.inputs and rule.judge.__doc__ for rule in RULES)
