"""The lint of a running engine: settings in force and measured figures in, findings out."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tui.lint.live import Load, Seen, Settings, lint
from tui.lint.measured import Figures, ProbeFigure
from tui.model.places import ContainerReading, Healthcheck, UnitReading
from tui.model.settings import ProbeSpec

if TYPE_CHECKING:
    from tui.model.verdicts import Finding

URL = "http://127.0.0.1:8000"
STARTED = 1_800_000_000.0
ARTICLE = ProbeSpec("/health", initial_delay_s=30.0, period_s=10.0, timeout_s=5.0)
"""The article's 30/10/3."""
READY = ProbeSpec("/health", period_s=5.0, timeout_s=5.0, failure_threshold=2)
DRAINS = {"shutdown-timeout": "20"}
DOCKER = ContainerReading("c" * 64, name="llm", restart_policy="always", stop_timeout_s=60.0)
UNIT = UnitReading("llm.service", restart="always", stop_timeout_s=90.0, kill_mode="mixed")


def settings(**changes: Any) -> Settings:
    return replace(Settings(URL, "vllm", "0.32.0", DRAINS, ("vllm", "serve", "m")), **changes)


def probed(p99: float, kind: str = "liveness", longest: float | None = None) -> Figures:
    worst = p99 if longest is None else longest
    return Figures(probes=(ProbeFigure(kind, "/health", 200, worst, p99, 0),))


def found(in_force: Settings, seen: Seen = Seen()) -> dict[str, Finding]:  # noqa: B008  # frozen
    findings = lint(in_force, seen)
    assert all(finding.scope == URL for finding in findings)
    return {finding.id: finding for finding in findings}


# ---------------------------------------------------------------------------------------- loads


def clock(after_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(STARTED + after_s))


def loads(took_s: float, known_s: float | None = None, *, over: bool = True) -> Seen:
    return Seen(Figures(load_s=known_s), load=Load(STARTED, took_s, over))


def test_a_load_of_90_s_under_the_articles_liveness_is_a_restart_loop() -> None:
    finding = found(settings(probes={"liveness": ARTICLE}), loads(90.0))["P01"]
    assert finding.level == "error"
    assert finding.text == (
        f"would be killed from {clock(50)} on, restart loop: liveness allows 50 s, a load takes 90 s"
    )
    assert finding.arithmetic.startswith("30 + (3-1) * 10 = 50 s < 1.2 * 90 s = 108 s; killed 50-60 s after")
    assert "startupProbe" in finding.instead


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (loads(45.0, over=False), None),
        (loads(75.0, over=False), f"would be killed from {clock(50)} on, restart loop: .* takes 75 s so far"),
        (
            loads(10.0, 90.0, over=False),
            f"would be killed from {clock(50)} on, restart loop: .* a load takes 90 s",
        ),
        (
            loads(60.0, 90.0, over=False),
            f"would be killed from {clock(50)} on, restart loop: .* a load takes 90 s",
        ),
        (loads(20.0), None),
        (
            loads(20.0, 90.0),
            "would be killed from 50 s after its start on, restart loop: .* a load takes 90 s",
        ),
        (
            Seen(Figures(load_s=90.0)),
            "would be killed from 50 s after its start on, restart loop: .* takes 90 s",
        ),
        (
            loads(45.0),
            "can be killed from 50 s after its start on, near a restart loop: .* a load takes 45 s",
        ),
        (Seen(), None),
    ],
)
def test_what_is_said_of_a_load(seen: Seen, text: str | None) -> None:
    finding = found(settings(probes={"liveness": ARTICLE}), seen).get("P01")
    if text is None:
        assert finding is None
    else:
        assert finding is not None
        assert re.fullmatch(text, finding.text), finding.text


def test_a_startup_probe_is_held_against_the_load_and_liveness_no_longer() -> None:
    startup = ProbeSpec("/health", period_s=10.0, failure_threshold=10, timeout_s=5.0)
    probes = {"liveness": ARTICLE, "startup": startup}
    short = found(settings(probes=probes), loads(80.0))
    assert "P01" not in short
    assert short["P02"].level == "warning"
    assert short["P02"].arithmetic == "0 + (10-1) * 10 = 90 s < 1.5 * 80 s = 120 s"
    assert found(settings(probes=probes), loads(100.0))["P02"].level == "error"
    assert "P02" not in found(settings(probes=probes), loads(60.0))


# ---------------------------------------------------------------------------------------- probes


def test_a_timeout_below_the_p99_is_an_error_and_said_once() -> None:
    spec = replace(ARTICLE, timeout_s=1.0)
    given = found(settings(probes={"liveness": spec}), Seen(probed(1.4)))
    assert (given["P03"].level, given["P03"].arithmetic) == ("error", "timeout 1 s < 2 * p99 1.4 s")
    assert given["P03"].text == "timeout 1 s < probe p99 1.4 s: a busy server looks dead to liveness"
    assert "P04" not in given


def test_too_few_results_make_it_milder_and_say_so() -> None:
    spec = replace(ARTICLE, timeout_s=1.0)
    seen = Seen(probed(1.4), early=frozenset(("liveness",)))
    finding = found(settings(probes={"liveness": spec}), seen)["P03"]
    assert finding.level == "warning"
    assert "1.4 s so far" in finding.text
    mild = found(settings(probes={"liveness": spec}), replace(seen, figures=probed(0.7)))["P03"]
    assert (mild.level, mild.text[:35]) == ("info", "timeout 1 s < 2 * probe p99 0.7 s s")


def test_the_default_timeout_is_named_only_where_an_answer_took_long() -> None:
    probes = {"liveness": replace(ARTICLE, timeout_s=1.0)}
    assert found(settings(probes=probes), Seen(probed(0.1, longest=0.7)))["P04"].level == "warning"
    assert "P04" not in found(settings(probes=probes), Seen(probed(0.1)))
    assert "P04" not in found(settings(probes=probes))


def test_two_probes_with_one_fault_are_one_finding() -> None:
    spec = replace(ARTICLE, timeout_s=1.0)
    figures = Figures(probes=probed(1.4).probes + probed(1.4, "readiness").probes)
    findings = lint(settings(probes={"liveness": spec, "readiness": spec}), Seen(figures))
    (finding,) = [f for f in findings if f.id == "P03"]
    assert finding.text.endswith("looks dead to liveness and readiness")


PROBES = {"liveness": ARTICLE, "readiness": READY}


@pytest.mark.parametrize(
    ("rule", "in_force", "figures"),
    [
        ("P05", settings(probes={**PROBES, "liveness": replace(ARTICLE, failure_threshold=1)}), Figures()),
        ("P06", settings(probes=PROBES), Figures(longest_step_s=40.0)),
        ("P07", settings(probes={"liveness": replace(ARTICLE, failure_threshold=1)}), Figures()),
        ("P08", settings(probes={"readiness": replace(READY, path="/v1/models")}), Figures()),
        ("P09", settings(probes=PROBES), Figures()),
        ("P11", settings(probes=PROBES, kind="sglang", version="0.5.23"), Figures()),
        ("P12", settings(probes={"readiness": replace(READY, timeout_s=6.0)}), Figures()),
        ("P13", settings(probes={"readiness": replace(READY, failure_threshold=20)}), Figures()),
        (
            "P14",
            settings(probes=PROBES),
            Figures(probes=(ProbeFigure("readiness", "/health", 503, 0.1, 0.1, -2),), tokens_per_s=500.0),
        ),
        (
            "P22",
            settings(probes={"readiness": replace(READY, path="/v1/models")}),
            Figures(probes=(ProbeFigure("readiness", "/v1/models", 401),)),
        ),
        ("R05", settings(probes={"liveness": ARTICLE}), Figures(load_s=90.0, load_least_s=30.0)),
        ("D03", settings(options={}), Figures()),
        ("D03", settings(version="0.11.0"), Figures()),
        ("D02", settings(container=replace(DOCKER, stop_timeout_s=None)), Figures()),
        ("D12", settings(container=DOCKER), Figures(request_at_least_s=90.0)),
        ("D01", settings(unit=UNIT), Figures(request_at_least_s=95.0)),
        ("D13", settings(unit=replace(UNIT, kill_mode="control-group")), Figures()),
        ("D14", settings(unit=UNIT), Figures(gpu_leftovers=1)),
        ("B01", settings(container=replace(DOCKER, healthcheck=Healthcheck(("CMD", "x")))), Figures()),
        ("B02", settings(container=replace(DOCKER, restart_policy="no")), Figures()),
        ("B02", settings(unit=replace(UNIT, restart="no")), Figures()),
        ("B03", settings(unit=replace(UNIT, restart="on-failure")), Figures()),
        (
            "B04",
            settings(container=replace(DOCKER, healthcheck=Healthcheck(("CMD", "x"), retries=1))),
            Figures(load_s=90.0),
        ),
    ],
)
def test_rules_that_settings_and_figures_decide(rule: str, in_force: Settings, figures: Figures) -> None:
    assert rule in found(in_force, Seen(figures))
    quiet = settings(probes={"liveness": replace(ARTICLE, path="/h")}, container=DOCKER)
    assert rule not in found(quiet), "the same rule says nothing of settings that are right"


def test_a_good_place_and_good_settings_are_quiet() -> None:
    assert lint(settings(container=DOCKER), Seen(Figures(request_at_least_s=30.0))) == ()
    assert lint(settings(unit=UNIT), Seen(Figures(request_at_least_s=30.0))) == ()


def test_without_the_operators_probes_only_the_place_and_the_command_are_judged() -> None:
    bad = settings(options={}, container=replace(DOCKER, restart_policy="no"))
    assert set(found(bad, Seen(probed(30.0)))) == {"D03", "B02"}


def test_a_rule_that_lacks_its_measured_input_is_silent() -> None:
    findings = lint(settings(probes=PROBES, container=DOCKER, options=None), Seen())
    assert not [f for f in findings if "not judged" in f.text or f.id in ("D03", "P06", "D12")]


def test_a_probe_that_is_not_there_counts_only_where_all_are_known() -> None:
    alone = settings(probes={"liveness": ARTICLE})
    assert "P15" not in found(alone)
    assert found(replace(alone, complete=True))["P15"].level == "error"


def test_a_drain_that_was_seen_to_finish_everything_ends_the_alarm() -> None:
    in_force = settings(options={})
    assert "D03" not in found(in_force, Seen(Figures(in_flight=8, lost=0)))
    assert "8 of 8" in found(in_force, Seen(Figures(in_flight=8, lost=8)))["D03"].arithmetic
