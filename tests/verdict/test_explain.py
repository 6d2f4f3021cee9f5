"""What is told of every rule: its answer, what would change it, and what cannot be known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import pytest

from tests.verdict import cards, made
from tests.verdict.situations import SITUATIONS
from tui.model.history import History
from tui.model.readings import GpuSet, Missing
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import VerdictName
from tui.verdict.assess import assess, judge
from tui.verdict.explain import explain
from tui.verdict.figures import FIGURES
from tui.verdict.judge import Judge
from tui.verdict.live import pictures
from tui.verdict.observation import picture_from_observation
from tui.verdict.outcome import fires, quiet
from tui.verdict.rules import RULES
from tui.verdict.signals import Signals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.explanations import Change, Explanation, RuleAnswer
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.verdict.outcome import Outcome
    from tui.verdict.picture import Picture

LIMITS, SLO = Thresholds(), Slo()
RULE = {rule.id: rule for rule in RULES}


def explained(view: EngineView, **changes: Any) -> Explanation:
    snapshot = made.snapshot(view, **changes)
    return explain(pictures(snapshot, History())[0], view, LIMITS, SLO)


def answer(found: Explanation, rule: VerdictName) -> RuleAnswer:
    return next(a for a in found.answers if a.rule == rule)


def moves(found: RuleAnswer) -> list[list[tuple[str, str, float]]]:
    return [[(m.signal, m.comparison, m.limit) for m in change.moves] for change in found.changes]


def test_every_rule_answers_the_verdicts_own_first_then_by_what_they_say() -> None:
    found = explained(made.view(made.full_cache()))
    assert {a.rule for a in found.answers} == {n for n in get_args(VerdictName) if n != "unknown"}
    assert found.answers[0].rule == found.verdict == "kv_cache"
    states = [a.state for a in found.answers[1:]]
    assert states == sorted(states, key=("fires", "cannot_say", "quiet").index)


def test_what_would_end_a_full_cache_is_usage_and_preemptions_together() -> None:
    found = answer(explained(made.view(made.full_cache())), "kv_cache")
    assert moves(found) == [[("kv_usage", "<", 0.85), ("preemptions_per_s", "=", 0.0)]]
    assert found.changes[0].moves[0].value == 1.0


def test_what_would_end_health_is_the_nearest_target_first() -> None:
    found = answer(explained(made.view(made.reading(itl_p95_s=0.09, ttft_p95_s=0.3))), "healthy")
    assert moves(found)[0] == [("itl_p95_s", ">=", 0.1)]
    assert found.changes[0].distance == pytest.approx(0.1, abs=0.01)


def test_a_rule_that_is_quiet_tells_the_least_that_would_make_it_fire() -> None:
    busy = made.reading(ttft_p95_s=3.0)
    found = explained(made.view(busy), gpus=Observed(GpuSet((made.gpu(sm_pct=60.0),)), made.FRESH))
    assert [("sm_pct", ">=", 90.0)] in moves(answer(found, "compute"))
    assert moves(answer(found, "gpu_fault")) == []  # no figure breaks a card


def moved(picture: Picture, change: Change, by: float) -> Picture:
    """The picture with the change's figures beyond their limits by a share of them."""
    by_name = {figure.signal: figure for figure in FIGURES}
    for move in change.moves:
        figure, limit = by_name[move.signal], move.limit
        if move.comparison == "<":
            target = min(limit * (1 - by), limit - 1.0) if figure.whole else limit * (1 - by)
        else:
            beyond = {">=": limit * (1 + by), "=": 0.0, ">": figure.least}[move.comparison]
            target = min(figure.most, math.ceil(beyond) if figure.whole else beyond)
        picture = figure.write(picture, target)
    return picture


def claims(picture: Picture) -> Iterator[tuple[RuleAnswer, Change]]:
    for found in explain(picture, made.view(), LIMITS, SLO).answers:
        yield from ((found, change) for change in found.changes)


@pytest.mark.parametrize("verdict", cards.BUILDERS)
def test_every_claim_that_is_shown_is_true(verdict: str) -> None:
    """Judged anew just beyond the limits, and a little further: the rule turns, and the verdict is the one named."""
    for case in cards.cases(verdict, 4):
        picture = picture_from_observation(case.line)
        before = judge(picture, LIMITS, SLO).verdict
        for found, change in claims(picture):
            near = assess(moved(picture, change, 0.0001), LIMITS, SLO)
            assert near.verdict.verdict == change.verdict, (found.rule, change)
            assert found.rule != before or change.verdict != before, (found.rule, change)
            for after in (near, assess(moved(picture, change, 0.08), LIMITS, SLO)):
                turned = after.outcomes[found.rule].state == "fires"
                assert turned is not (found.state == "fires"), (found.rule, change)


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_claim_of_a_live_picture_is_true(name: str) -> None:
    (picture,) = pictures(SITUATIONS[name].at(made.NOW), History())
    for found, change in claims(picture):
        after = assess(moved(picture, change, 0.0001), LIMITS, SLO)
        assert (after.outcomes[found.rule].state == "fires") is not (found.state == "fires")
        assert after.verdict.verdict == change.verdict


def test_a_claim_that_does_not_hold_further_on_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap in a rule at one figure is no limit."""

    def gap(s: Signals) -> Outcome:
        return fires(3) if s.kv is None or not 0.84 < s.kv < 0.86 else quiet()

    rules = tuple(replace(rule, judge=gap) if rule.id == "kv_cache" else rule for rule in RULES)
    monkeypatch.setattr("tui.verdict.explain.RULES", rules)
    found = answer(explained(made.view(made.full_cache())), "kv_cache")
    assert not any(move[0] == "kv_usage" for moved in moves(found) for move in moved)


def test_full_seats_are_not_ended_by_nobody_running() -> None:
    """One seat less leaves a queue before free seats, and a batch that is empty while others wait is no cure."""
    taken = made.reading(running=256.0, waiting=90.0, ttft_p95_s=20.0, queue_p95_s=19.0, itl_p95_s=0.05)
    found = answer(explained(made.view(taken)), "scheduler_limit")
    assert found.state == "fires"
    named = {move[0] for moved in moves(found) for move in moved}
    assert named and not named & {"running", "gen_tok_s"}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.signal)
def test_a_figure_that_is_written_is_what_the_rules_then_read(figure: Any) -> None:
    reading = made.reading(
        stalled_s=0.0, http_503_ratio=0.0, prefix_hit_ratio=0.5, stalled_scrapes=0, running=12.0, waiting=1.0
    )
    snapshot = made.snapshot(
        made.view(reading),
        gpus=Observed(GpuSet((made.gpu(0), made.gpu(1))), made.FRESH),
        host=Observed(made.host(net_util_pct=3.0), made.FRESH),
    )
    picture = pictures(snapshot, History())[0]
    before = Signals(picture, LIMITS, SLO)
    assert figure.read(before) is not None
    for limit in (limit for limit in figure.limits(before) if limit is not None):
        after = Signals(figure.write(picture, limit + 1.0), LIMITS, SLO)
        assert figure.read(after) == pytest.approx(limit + 1.0)


def test_figures_name_inputs_that_rules_declare() -> None:
    declared = {name for rule in RULES for name in rule.inputs}
    for figure in FIGURES:
        assert figure.inputs & declared, figure.signal


def test_a_rule_that_fails_on_figures_nobody_has_seen_takes_nothing_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def picky(s: Signals) -> Outcome:
        if s.kv is not None and s.kv < 0.9:
            raise ZeroDivisionError
        return RULE["kv_cache"].judge(s)

    rules = tuple(replace(rule, judge=picky) if rule.id == "kv_cache" else rule for rule in RULES)
    monkeypatch.setattr("tui.verdict.explain.RULES", rules)
    found = explained(made.view(made.full_cache()))
    asked = [move[0] for moved in moves(answer(found, "kv_cache")) for move in moved]
    assert asked and "kv_usage" not in asked
    assert answer(found, "compute").changes


# ---------------------------------------------------------------------------------------- what is not known


def lacks(found: Explanation) -> dict[str, Missing]:
    return {missing.field: missing for missing in found.lacking}


def test_what_a_source_says_of_its_gaps_is_passed_on() -> None:
    gap = Missing("prefix_hit_ratio", "prefix caching is off", "--enable-prefix-caching")
    unasked = Missing("e2e_p95_s", "nobody asks for it")
    found = explained(made.view(made.reading(prefix_hit_ratio=None, missing=(gap, unasked))))
    assert lacks(found)["prefix_hit_ratio"] == gap
    assert "e2e_p95_s" not in lacks(found)


def test_a_host_without_devices_and_without_a_request_says_what_would_bring_both() -> None:
    none = SourceStatus(SourceState.UNSUPPORTED, "no_driver", since=0.0)
    found = lacks(explained(made.view(made.nothing_to_do()), gpus=Observed(None, none)))
    assert found["gpus"].why == "no NVIDIA driver here"
    assert "host that has the GPUs" in found["gpus"].enable
    assert "--generate" in found["generate probe"].enable


def test_an_engine_elsewhere_is_to_be_looked_at_from_its_own_host() -> None:
    found = lacks(explained(made.view(made.full_cache(), local=False, processes=None)))
    assert found["gpus"].enable == found["host"].enable == "run infertop on its host"


@pytest.mark.parametrize(
    ("reason", "words"), [("401", "token"), ("404", "URL"), ("timeout", "process lives")]
)
def test_metrics_that_cannot_be_had_say_how_to_get_them(reason: Any, words: str) -> None:
    view = made.view(engine=Observed(None, made.failed(reason)), probes=made.probes("timeout"))
    found = lacks(explained(view))
    assert words in found["engine"].enable


def test_a_rule_that_sees_nothing_is_not_told_as_quiet() -> None:
    none: Observed[GpuSet] = Observed(None, SourceStatus(SourceState.UNSUPPORTED, "no_driver", since=0.0))
    view = made.view(engine=Observed(None, made.failed("401")), probes=())
    found = explained(view, gpus=none)
    for rule in ("kv_cache", "compute", "power_thermal", "scheduler_limit"):
        assert answer(found, rule).state == "cannot_say"
    assert answer(found, "compute").missing == ("gpus", "engine")
    assert answer(found, "cpu").state == "quiet"  # it has the host's figures
    assert "running" not in lacks(found)  # the whole engine is what is missing
    reset = explained(made.view(engine=Observed(None, SourceStatus(SourceState.PENDING)), probes=()))
    assert "engine" in lacks(reset)


def test_nothing_is_asked_for_where_nothing_is_missing() -> None:
    served = (*made.probes(), made.probe("generate", 200))
    assert explained(made.view(probes=served)).lacking == ()


# ---------------------------------------------------------------------------------------- certainty


def certain(view: EngineView, **changes: Any) -> tuple[str, tuple[str, ...]]:
    snapshot: HostSnapshot = made.snapshot(view, **changes)
    verdict = assess(pictures(snapshot, History())[0], LIMITS, SLO).verdict
    return verdict.confidence, verdict.certainty


def test_confidence_tells_how_many_signals_agree() -> None:
    level, words = certain(made.view(made.full_cache()))
    assert (level, words) == ("high", ("4 independent signals agree",))


def test_confidence_tells_what_lowers_it() -> None:
    level, words = certain(made.view(made.nothing_to_do()))
    assert (level, words) == ("medium", ("lacks generate probe", "2 known signals agree"))
    none: Observed[GpuSet] = Observed(None, SourceStatus(SourceState.UNSUPPORTED, "no_driver", since=0.0))
    level, words = certain(made.view(made.full_cache()), gpus=none)
    assert level == "medium"
    assert words == ("nothing from GPUs (no driver)", "4 known signals agree")


def test_calm_beside_a_rule_that_cannot_say_or_fires_is_not_certain() -> None:
    """Latency close to its target: what is busy may be what makes it so, and no device tells."""
    close = made.reading(ttft_p95_s=1.8)
    blind = made.gpu(sm_pct=None, power_w=None)
    level, words = certain(made.view(close), gpus=Observed(GpuSet((blind,)), made.FRESH))
    assert level != "high"
    assert any("cannot say" in word for word in words)


def test_a_figure_at_its_limit_is_a_close_call() -> None:
    """One hundredth from the target, and nothing else speaks against health."""
    level, words = certain(made.view(made.reading(itl_p95_s=0.0995)))
    assert (level, words[0]) == ("medium", "ITL p95 close to the limit")
    assert certain(made.view(made.reading(itl_p95_s=0.09)))[0] == "high"


def test_seats_that_are_all_taken_are_no_close_call() -> None:
    taken = made.reading(running=256.0, waiting=90.0, ttft_p95_s=20.0, queue_p95_s=19.0, itl_p95_s=0.05)
    assert certain(made.view(taken))[0] == "high"


def test_a_limit_that_decides_nothing_is_no_close_call() -> None:
    full = made.reading(kv_usage=0.9, kv_usage_max=0.9, waiting=30.0, preemptions_per_s=2.0, ttft_p95_s=20.0)
    assert certain(made.view(full))[0] == "high"  # with preemptions it is a full pool a little below too


def test_the_judge_explains_one_engine_by_name() -> None:
    judge, history = Judge(LIMITS, SLO), History()
    other = made.view(made.full_cache("http://127.0.0.1:8001"), url="http://127.0.0.1:8001")
    snapshot = made.snapshot(made.view(), other)
    judge.update(snapshot, history)
    found = judge.explain("http://127.0.0.1:8001", snapshot, history)
    assert found is not None and found.verdict == "kv_cache"
    assert judge.explain("host", snapshot, history) is None
    assert judge.explain("http://127.0.0.1:9", replace(snapshot, engines=()), history) is None
