"""Everything behind one engine's verdict, for the operator who asks why: made only when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.explanations import Explanation, RuleAnswer
from tui.verdict.assess import RANK, assess, called
from tui.verdict.changes import OtherPictures
from tui.verdict.lacking import lacking
from tui.verdict.outcome import cannot_say
from tui.verdict.rules import RULES
from tui.verdict.signals import Signals

if TYPE_CHECKING:
    from tui.model.settings import Slo, Thresholds
    from tui.model.snapshot import EngineView
    from tui.verdict.outcome import Outcome, Rule
    from tui.verdict.picture import Picture

_STATES = ("fires", "cannot_say", "quiet")
_SOURCES = ("engine", "gpus", "host", "probes")


def explain(picture: Picture, view: EngineView, thresholds: Thresholds, slo: Slo) -> Explanation:
    """Every rule's answer on one picture, what would change it, and what cannot be known here.

    Costs some 30 ms, so it is for the one engine that is looked at.

    Args:
        picture: what was seen.
        view: the engine that it is of, for why its figures are missing.
        thresholds: the limits in force.
        slo: the latency targets in force.
    """
    found = assess(picture, thresholds, slo, explain=True)
    others = OtherPictures(Signals(picture, thresholds, slo), lambda other: called(other, thresholds, slo))
    main = found.verdict.verdict
    outcomes = {rule.id: _sighted(rule, found.outcomes[rule.id], picture) for rule in RULES}
    rules = sorted(RULES, key=lambda r: (r.id != main, _STATES.index(outcomes[r.id].state), RANK[r.id]))
    missing = [*found.verdict.missing, *(m for o in found.outcomes.values() for m in o.missing)]
    return Explanation(
        scope=picture.scope,
        verdict=main,
        answers=tuple(_answer(rule, outcomes[rule.id], others) for rule in rules),
        lacking=lacking(tuple(dict.fromkeys(missing)), picture, view),
        gpus=tuple(f"gpu:{gpu.uuid or gpu.index}" for gpu in picture.gpus or ()),
    )


def _sighted(rule: Rule, outcome: Outcome, picture: Picture) -> Outcome:
    """As the rule says; but one that is quiet because nothing of what it looks at is known cannot say."""
    if outcome.state != "quiet" or outcome.evidence or any(_known(picture, name) for name in rule.inputs):
        return outcome
    sections = dict.fromkeys(name.partition(".")[0] for name in rule.inputs if "." in name)
    return cannot_say(*(name for name in sections if name in _SOURCES))


def _known(picture: Picture, name: str) -> bool:
    section, _, field = name.partition(".")
    if section == "probes":
        return field in picture.probes
    if section == "gpus":
        return any(getattr(gpu, field) is not None for gpu in picture.gpus or ())
    owner = getattr(picture, section) if field else picture
    return owner is not None and getattr(owner, field or section) is not None


def _answer(rule: Rule, outcome: Outcome, others: OtherPictures) -> RuleAnswer:
    changes = () if outcome.state == "cannot_say" else others.changes(rule, fires=outcome.state == "fires")
    return RuleAnswer(
        rule=rule.id,
        state=outcome.state,
        confidence=outcome.confidence,
        evidence=tuple(dict.fromkeys(outcome.evidence)),
        missing=outcome.missing,
        changes=changes,
    )
