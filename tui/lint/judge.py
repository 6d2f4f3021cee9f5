"""The table of all rules, and the judging of workloads by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.lint import rules_drain as d
from tui.lint import rules_rollout as rb
from tui.lint import rules_routes as pr
from tui.lint import rules_timing as pt
from tui.lint.engines import engine_of
from tui.lint.measured import for_engine
from tui.lint.rule import Case, Need, Rule
from tui.lint.shape import LintFinding
from tui.lint.texts import TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tui.lint.engines import Engine
    from tui.lint.measured import Figures
    from tui.lint.rule import Outcome
    from tui.lint.shape import Platform, Workload

_K8S: tuple[Platform, ...] = ("kubernetes",)
_ALL: tuple[Platform, ...] = ("kubernetes", "compose", "systemd")
_DOCKER: tuple[Platform, ...] = ("compose",)
_UNIT: tuple[Platform, ...] = ("systemd",)


def _rule(
    check: Callable[[Case], Iterator[Outcome]],
    platforms: tuple[Platform, ...] = _K8S,
    *,
    everyone: bool = False,
    once: bool = False,
) -> Rule:
    name = check.__name__.upper()
    return Rule(name, TEXTS[name], check, frozenset(platforms), everyone, once)


RULES = (
    _rule(pt.p01), _rule(pt.p02), _rule(pt.p03), _rule(pt.p04), _rule(pt.p05), _rule(pt.p06), _rule(pt.p07),
    _rule(pr.p08, _K8S + _DOCKER), _rule(pr.p09), _rule(pt.p10), _rule(pt.p11),
    _rule(pt.p12, everyone=True), _rule(pt.p13), _rule(pr.p14), _rule(pr.p15), _rule(pr.p16),
    _rule(pt.p17, everyone=True), _rule(pr.p18, everyone=True),
    _rule(pt.p19, everyone=True), _rule(pr.p20, everyone=True), _rule(pr.p21), _rule(pr.p22), _rule(pr.p23),
    _rule(d.d01, ("kubernetes", "systemd")), _rule(d.d02, _ALL), _rule(d.d03, _ALL), _rule(d.d04),
    _rule(d.d05, everyone=True), _rule(d.d06), _rule(d.d07, _ALL), _rule(d.d08), _rule(d.d09, everyone=True),
    _rule(d.d10), _rule(d.d11, once=True), _rule(d.d12, _DOCKER), _rule(d.d13, _UNIT), _rule(d.d14, _ALL),
    _rule(rb.r01, once=True), _rule(rb.r02, once=True), _rule(rb.r03, once=True), _rule(rb.r04),
    _rule(rb.r05), _rule(rb.r06, once=True), _rule(rb.b01, _DOCKER), _rule(rb.b02, _ALL, once=True),
    _rule(rb.b03, _ALL, once=True), _rule(rb.b04, _DOCKER), _rule(rb.b05, ("kubernetes", "compose")),
)  # fmt: skip


def judge(workload: Workload, figures: Sequence[Figures] = ()) -> list[LintFinding]:
    """All findings on one workload, in the order of the rules.

    A rule whose measured input is missing yields ``info: not judged, needs ...``.

    Args:
        workload: from a reader, or put together from the settings in force.
        figures: what was measured, one entry an engine; used for the engines of the same kind.
    """
    return [
        _finding(rule, case, workload.label(None if rule.once else case.container), outcome)
        for rule, case, outcome in outcomes(workload, figures)
    ]


def outcomes(
    workload: Workload, figures: Sequence[Figures] = (), engine: Engine | None = None
) -> Iterator[tuple[Rule, Case, Outcome]]:
    """What each rule of the workload's platform says, in the order of the rules.

    Args:
        workload: from a reader, or put together from the settings in force.
        figures: what was measured, one entry an engine; used for the engines of the same kind.
        engine: what its containers run; None: what their commands and images say.
    """
    everyone = _cases(workload, figures, engine)
    serving = _serving(everyone)
    for rule in RULES:
        if workload.platform not in rule.platforms:
            continue
        for case in everyone if rule.everyone else serving[:1] if rule.once else serving:
            for outcome in rule.check(case):
                yield rule, case, outcome


def _cases(workload: Workload, figures: Sequence[Figures], known: Engine | None) -> list[Case]:
    engines = [(container, known or engine_of(container)) for container in workload.containers]
    return [Case(workload, c, engine, for_engine(figures, engine.kind)) for c, engine in engines]


def _serving(cases: list[Case]) -> list[Case]:
    """The containers that serve a model: a known engine, or GPUs, or nothing else is there."""
    found = [case for case in cases if case.engine.kind is not None or case.container.gpus]
    if found or len(cases) != 1:
        return found
    # a Compose file names a dozen services beside the engine's
    return [] if cases[0].workload.platform == "compose" else cases


def _finding(rule: Rule, case: Case, label: str, outcome: Outcome) -> LintFinding:
    prose, file = rule.prose, case.workload.file
    if isinstance(outcome, Need):
        line = case.container.line if outcome.line is None else outcome.line
        text = f"not judged, needs {outcome.what}: {prose.title}"
        return LintFinding(rule.id, "info", file, line, label, text, outcome.arithmetic)
    return LintFinding(
        rule.id,
        outcome.level or prose.level,
        file,
        outcome.line,
        label,
        prose.text.format_map(outcome.values),
        outcome.arithmetic,
        prose.instead.format_map(outcome.values),
    )
