"""Why a verdict is what it is: what each rule says, what would change its mind, what cannot be known here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tui.model.readings import Missing
    from tui.model.verdicts import Confidence, Evidence, VerdictName

RuleState = Literal["fires", "quiet", "cannot_say"]


@dataclass(frozen=True, slots=True)
class Move:
    """One figure moved over one limit."""

    signal: str
    value: float
    """As it is now."""
    comparison: str
    """What would have to hold: ``>=``, ``>``, ``<`` or ``=``."""
    limit: float
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """The least that turns a rule's outcome around: found by judging the changed picture, not guessed."""

    moves: tuple[Move, ...]
    distance: float
    """How far the figures are from their limits, as shares of them; the sum where there are two."""
    verdict: VerdictName
    """What the changed picture is called; of the verdict's own rule, never as it is called now."""


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """What one rule says of the newest picture."""

    rule: VerdictName
    state: RuleState
    confidence: Confidence
    """Its own, before missing sources lower it; meant only where it fires."""
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    """What would change its mind, the nearest first; empty where no figure, nor two of them, would."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is behind the verdict of one engine, of the newest picture: nothing here is held."""

    scope: str
    """The engine's URL."""
    verdict: VerdictName
    """Of the newest picture; another than the one shown while that is changing."""
    answers: tuple[RuleAnswer, ...]
    """The verdict's own rule first, then those that fire, cannot say, and are quiet; each worst first."""
    lacking: tuple[Missing, ...] = ()
    """What cannot be known here, why, and what would bring it."""
    gpus: tuple[str, ...] = ()
    """Its devices, by the scope of their series: ``gpu:UUID``."""
