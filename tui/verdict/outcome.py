"""What a rule says of a picture, and what a rule is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.verdicts import Confidence, Evidence, VerdictName
    from tui.verdict.signals import Signals

State = Literal["fires", "quiet", "cannot_say"]
Tier = Literal["availability", "bottleneck", "calm"]
LEVELS: tuple[Confidence, ...] = ("low", "medium", "high")


class Outcome(NamedTuple):
    """*Fires* or *quiet*, with the figures that decided it; or *cannot say*, with the inputs it lacks."""

    state: State
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    confidence: Confidence = "low"
    points: int = 0
    """Of one that fires: see ``confidence``."""


_QUIET = Outcome("quiet")


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Another explanation of the picture on which a rule fires, which a known figure would rule out."""

    of: str
    """A verdict's name, or a few words."""
    lacks: Callable[[Signals], tuple[str, ...]] = lambda _: ()
    """The inputs that are missing to rule it out, beside those without which its own rule cannot say."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One verdict as data: its tier, the inputs it looks at, and the condition over them."""

    id: VerdictName
    tier: Tier
    judge: Callable[[Signals], Outcome]
    inputs: tuple[str, ...]
    """By the field names of ``Picture`` and of its readings."""
    excludes: tuple[Exclusion, ...] = ()
    """What else could explain the picture when the rule fires, and must be ruled out first."""


def confidence(points: int) -> Confidence:
    """Points are independent signals that agree, less inputs that are missing: 3 high, 2 medium."""
    return LEVELS[max(0, min(2, points - 1))]


def fires(points: int, *evidence: Evidence | None, missing: tuple[str, ...] = ()) -> Outcome:
    """The condition holds. Evidence that is None could not be read and is left out."""
    return Outcome("fires", tuple(filter(None, evidence)), missing, confidence(points), points)


def quiet(*evidence: Evidence | None) -> Outcome:
    """The condition does not hold, for these figures."""
    known = tuple(filter(None, evidence))
    return Outcome("quiet", known) if known else _QUIET


def at_rest(s: Signals, *evidence: Evidence | None) -> Outcome:
    """For a bottleneck where ``Signals.suffers`` is not true: quiet, or unknown whether there is any work."""
    return quiet(*evidence) if s.suffers is False else cannot_say("running", evidence=evidence)


def cannot_say(*missing: str, evidence: tuple[Evidence | None, ...] = ()) -> Outcome:
    """The inputs named here would decide."""
    return Outcome("cannot_say", tuple(filter(None, evidence)), missing)
