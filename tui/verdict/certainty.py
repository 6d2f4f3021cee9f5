"""How sure a verdict is, and why: signals that agree, sources that gave nothing, rules that disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.model.units import seconds
from tui.verdict.outcome import LEVELS, confidence

if TYPE_CHECKING:
    from tui.model.verdicts import Confidence, VerdictName

_NAMED = 3
"""Inputs and rules that are named; more say nothing to a person."""


@dataclass(frozen=True, slots=True)
class Certainty:
    """What raises and lowers the confidence of one verdict."""

    points: int
    """Independent signals that agree, less inputs of the rule itself that are missing."""
    missing: tuple[str, ...] = ()
    """Inputs that the rule itself lacks: its points are fewer by them already."""
    unsure: tuple[VerdictName, ...] = ()
    """Rules that cannot say, where their word would be needed."""
    disputed: tuple[VerdictName, ...] = ()
    """Rules that fire beside a calm verdict."""
    absent: tuple[str, ...] = ()
    """Whole sources that gave nothing; each costs a level."""
    edge: tuple[str, ...] = ()
    """Figures that decide and hardly differ from their limits; together they cost a level."""
    brief_s: float | None = None
    """The picture has lasted this long only, less than a screen would wait; costs a level."""

    @property
    def level(self) -> Confidence:
        """High, medium or low."""
        level = LEVELS.index(confidence(self.points))
        if self.unsure or self.disputed:
            level = min(level, LEVELS.index("medium"))
        return LEVELS[max(0, level - len(self.absent) - bool(self.edge) - (self.brief_s is not None))]

    @property
    def words(self) -> tuple[str, ...]:
        """The same for a person, one reason each."""
        found = [_agreement(self.points)]
        if self.missing:
            found.append(f"lacks {_listed(self.missing)}")
        if self.disputed:
            found.append(f"{_rules(self.disputed)} {'fires' if len(self.disputed) == 1 else 'fire'} as well")
        if self.unsure:
            found.append(f"{_rules(self.unsure)} cannot say")
        found += [f"nothing from {source}" for source in self.absent]
        if self.edge:
            found.append(f"{_listed(self.edge)} close to the limit")
        if self.brief_s is not None:
            found.append(f"seen for {seconds(self.brief_s)} only")
        return tuple(found)


def _agreement(points: int) -> str:
    if points <= 0:
        return "no signal decides by itself"
    if points == 1:
        return "one signal says so"
    return f"{points} independent signals agree"


def _rules(names: tuple[VerdictName, ...]) -> str:
    return _listed(tuple(name.replace("_", " ") for name in names))


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
