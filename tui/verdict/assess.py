"""Which of the rules that fire is the verdict, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tui.model.readings import EngineReading, HostReading
from tui.model.verdicts import CALM, Verdict
from tui.verdict import evidence as ev
from tui.verdict.advice import advice
from tui.verdict.certainty import Certainty
from tui.verdict.changes import on_the_edge
from tui.verdict.outcome import Outcome, fires
from tui.verdict.rules import RULES
from tui.verdict.signals import Signals
from tui.verdict.texts import TEXTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.settings import Slo, Thresholds
    from tui.model.verdicts import VerdictName
    from tui.verdict.outcome import Rule
    from tui.verdict.picture import Picture

_WORST_FIRST: tuple[VerdictName, ...] = (
    "gpu_fault", "engine_down", "engine_hung", "loading", "draining",
    "kv_cache", "gpu_memory", "power_thermal", "network", "io_disk", "degraded_cache", "lock_contention",
    "cpu", "queueing_upstream", "scheduler_limit", "compute",
    "unknown", "healthy", "idle",
)  # fmt: skip
RANK: dict[VerdictName, int] = {name: place for place, name in enumerate(_WORST_FIRST)}
"""Worst first. Among bottlenecks, what must be excluded before another stands above it."""
CAUSES: dict[VerdictName, tuple[VerdictName, ...]] = {"loading": ("io_disk", "gpu_memory")}
"""A start that one of these explains is reported by its cause."""
CONSEQUENCES: dict[VerdictName, tuple[VerdictName, ...]] = {
    "gpu_fault": ("engine_down", "engine_hung"),
    "engine_down": ("gpu_memory",),
}
"""Verdicts that the main one brings about, worth a word beside it when they fire as well."""
MOST_MISSING = 8


@dataclass(frozen=True, slots=True)
class Assessment:
    """Every rule's outcome on one picture, and the verdict that follows."""

    picture: Picture
    verdict: Verdict
    outcomes: Mapping[VerdictName, Outcome]
    errors: tuple[str, ...] = ()
    """Rules that failed, each with its error: faults of this program."""


def judge(picture: Picture, thresholds: Thresholds, slo: Slo) -> Verdict:
    """The verdict of one picture, without memory: ``since`` is None."""
    return assess(picture, thresholds, slo).verdict


def called(picture: Picture, thresholds: Thresholds, slo: Slo) -> VerdictName:
    """The bare name of the verdict of one picture: a fifth of the cost of ``judge``."""
    signals = Signals(picture, thresholds, slo)
    return _main({rule.id: _ask(rule, signals, []) for rule in RULES})[0]


def assess(
    picture: Picture,
    thresholds: Thresholds,
    slo: Slo,
    rules: tuple[Rule, ...] = RULES,
    *,
    explain: bool = False,
) -> Assessment:
    """All outcomes and the verdict of one picture.

    Args:
        picture: what was seen.
        thresholds: the limits in force.
        slo: the latency targets in force.
        rules: those to ask.
        explain: every outcome has its evidence, not only those behind the verdict.
    """
    signals = Signals(picture, thresholds, slo)
    signals.explaining = explain
    errors: list[str] = []
    outcomes = {rule.id: _ask(rule, signals, errors) for rule in rules}
    name, secondary = _main(outcomes)
    if not explain:
        signals.explaining = True
        for rule in rules:
            if rule.id == name or (name == "unknown" and outcomes[rule.id].state == "cannot_say"):
                outcomes[rule.id] = _ask(rule, signals, errors)
    own = next((rule for rule in rules if rule.id == name), None)
    verdict = _verdict(signals, outcomes, own, name, secondary)
    return Assessment(picture, verdict, outcomes, tuple(errors))


def _ask(rule: Rule, signals: Signals, errors: list[str]) -> Outcome:
    try:
        return rule.judge(signals)
    except Exception as error:  # noqa: BLE001  # one faulty rule must not blind the others: it is a finding
        errors.append(f"{rule.id}: {type(error).__name__}: {error}")
        return Outcome("cannot_say", missing=(f"rule {rule.id}",))


def _main(outcomes: Mapping[VerdictName, Outcome]) -> tuple[VerdictName, tuple[VerdictName, ...]]:
    firing = [name for name, outcome in outcomes.items() if outcome.state == "fires"]
    name: VerdictName = min(firing, key=lambda name: _order(name, outcomes[name]), default="unknown")
    for cause in CAUSES.get(name, ()):
        if cause in firing:
            return cause, (name,)
    return name, tuple(n for n in CONSEQUENCES.get(name, ()) if n in firing)


def _verdict(
    s: Signals,
    outcomes: Mapping[VerdictName, Outcome],
    rule: Rule | None,
    name: VerdictName,
    secondary: tuple[VerdictName, ...],
) -> Verdict:
    outcome = outcomes[name] if name != "unknown" else _unknown(s, outcomes)
    calm = name in CALM
    unsure = tuple(n for n, o in outcomes.items() if o.state == "cannot_say") if calm else ()
    absent = _absent_sources(s, name)
    others = {} if calm or rule is None else _not_ruled_out(s, outcomes, rule)
    certainty = Certainty(
        points=outcome.points,
        missing=tuple(m for m in outcome.missing if _source(m) not in absent),
        unsure=unsure,
        disputed=tuple(n for n, o in outcomes.items() if o.state == "fires" and n not in CALM)
        if calm
        else (),
        open=tuple(others),
        open_without=tuple(
            dict.fromkeys(m for lacks in others.values() for m in lacks if _source(m) not in absent)
        ),
        absent=tuple(absent.values()),
        edge=() if rule is None or rule.tier == "availability" else on_the_edge(rule, outcome, s),
        brief_s=s.picture.held_s if _brief(s, name) else None,
    )
    missing = dict.fromkeys(
        absent.get("engine" if m == "engine figures" else m, m)
        for m in (
            *outcome.missing,
            *certainty.open_without,
            *certainty.absent,
            *(m for n in unsure for m in outcomes[n].missing),
        )
    )
    return Verdict(
        scope=s.picture.scope,
        verdict=name,
        title=TEXTS[name].title,
        secondary=secondary,
        confidence=certainty.level,
        certainty=certainty.doubts if name == "unknown" else certainty.words,
        evidence=tuple({e.text: e for e in outcome.evidence}.values()),
        missing=tuple(missing)[:MOST_MISSING],
        advice=advice(name, s),
    )


def _brief(s: Signals, name: VerdictName) -> bool:
    """An observation of a bottleneck that has not lasted as long as the screen would wait."""
    held = s.picture.held_s
    return name in _HELD and not s.picture.live and held is not None and held < s.thresholds.hold_s


_HELD = frozenset(rule.id for rule in RULES if rule.tier == "bottleneck")


def _order(name: VerdictName, outcome: Outcome) -> tuple[bool, int]:
    """A bottleneck of low confidence yields to one that is better supported."""
    return name in _HELD and outcome.confidence == "low", RANK[name]


def _unknown(s: Signals, outcomes: Mapping[VerdictName, Outcome]) -> Outcome:
    """No rule fires: what the calm rules lack comes first, then what others could not decide on."""
    lacking = [
        m
        for name in ("engine_hung", "healthy", "idle", *outcomes)
        if outcomes[name].state == "cannot_say"
        for m in outcomes[name].missing
    ]
    cannot = (outcome for outcome in outcomes.values() if outcome.state == "cannot_say")
    seen = [e for outcome in cannot for e in outcome.evidence if e.signal != "held_s"]
    fails = (s.errors or 0.0) >= s.thresholds.error_ratio
    late = ev.worst_latency(s) if s.over else None
    shown = (
        ev.paused(s),
        late,
        ev.errors(s) if fails else None,
        ev.running(s),
        ev.waiting(s),
        *ev.probes(s),
        *seen,
    )
    why = "why requests fail: see the engine's log" if fails else "a figure that explains this picture"
    return fires(1, *shown[:8], missing=tuple(lacking) if lacking and not fails else (why, *lacking))


def _not_ruled_out(
    s: Signals, outcomes: Mapping[VerdictName, Outcome], rule: Rule
) -> dict[str, tuple[str, ...]]:
    """Other explanations that remain, each with the inputs that would rule it out."""
    found: dict[str, tuple[str, ...]] = {}
    for other in rule.excludes:
        outcome = outcomes.get(other.of)  # type: ignore[call-overload]  # a few words are no rule's name
        own = outcome.missing if outcome is not None and outcome.state == "cannot_say" else ()
        if lacks := (*own, *other.lacks(s)):
            found[other.of] = lacks
    return found


def _source(name: str) -> str:
    """The source that an input comes from."""
    section = name.partition(".")[0]
    return section if section in SOURCES else _SOURCE_OF.get(name, "")


SOURCES = ("gpus", "host", "probes", "engine")
_SOURCE_OF = {
    "engine figures": "engine",
    **{field.name: "host" for field in fields(HostReading)},
    **{field.name: "engine" for field in fields(EngineReading)},
}


def _absent_sources(s: Signals, name: VerdictName) -> dict[str, str]:
    """Whole sources that gave nothing, each with its name and the reason where there is one."""
    picture = s.picture
    found = {}
    if not s.gpus.card_count or (
        s.gpus.sm_max is None and s.gpus.used_mib_max is None and name != "gpu_fault"
    ):
        found["gpus"] = _named("gpus", picture.gpus_reason)
    if picture.host is None:
        found["host"] = "host"
    if not s.answers:
        found["probes"] = "probes"
    if picture.engine is None and (not s.all_refused or name == "draining"):
        found["engine"] = _named("engine", picture.engine_reason)
    return found


def _named(source: str, reason: str | None) -> str:
    return f"{source} ({reason})" if reason else source
