"""How sure a verdict is, and why: signals that agree, sources that gave nothing, what is not ruled out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui.model.units import seconds
from tui.verdict.outcome import LEVELS, confidence
from tui.verdict.words import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.verdicts import Confidence, VerdictName

_NAMED = 3
"""Inputs and rules that are named; more say nothing to a person."""


class Certainty(NamedTuple):
    """What raises and lowers the confidence of one verdict."""

    points: int
    """Independent signals that agree, less inputs of the rule itself that are missing."""
    missing: tuple[str, ...] = ()
    """Inputs that the rule itself lacks: its points are fewer by them already, and it is never high."""
    unsure: tuple[VerdictName, ...] = ()
    """Rules that cannot say, beside a calm verdict: it is never high."""
    disputed: tuple[VerdictName, ...] = ()
    """Rules that fire beside a calm verdict."""
    open: tuple[str, ...] = ()
    """Other explanations that are not ruled out, if the verdict is not calm; together they cost a level."""
    open_without: tuple[str, ...] = ()
    """The inputs that would rule them out."""
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
        if self.unsure or self.disputed or self.missing:
            level = min(level, LEVELS.index("medium"))
        costs = (
            *self.absent,
            *(doubt for doubt in (self.open, self.edge, self.brief_s is not None) if doubt),
        )
        return LEVELS[max(0, level - len(costs))]

    @property
    def words(self) -> tuple[str, ...]:
        """The same for a person: why it is not higher, one reason each, then what agrees."""
        doubts = self.doubts
        return (*doubts, _agreement(self.points, "" if not doubts else "known "))

    @property
    def doubts(self) -> tuple[str, ...]:
        """What lowers it, in words."""
        return tuple(self._doubts())

    def _doubts(self) -> Iterator[str]:
        if self.missing:
            yield f"lacks {_listed(named(self.missing))}"
        if self.disputed:
            yield f"{_rules(self.disputed)} {'fires' if len(self.disputed) == 1 else 'fire'} as well"
        if self.unsure:
            yield f"{_rules(self.unsure)} cannot say"
        if self.open:
            without = f" without {_listed(named(self.open_without))}" if self.open_without else ""
            yield f"{_rules(self.open)} not ruled out{without}"
        if self.absent:
            yield f"nothing from {' or '.join(named(self.absent))}"
        if self.edge:
            yield f"{_listed(named(self.edge))} close to the limit"
        if self.brief_s is not None:
            yield f"seen for {seconds(self.brief_s)} only"


def _agreement(points: int, which: str) -> str:
    if points <= 0:
        return "no signal decides by itself"
    if points == 1:
        return f"one {which}signal says so"
    return f"{points} {which or 'independent '}signals agree"


def _rules(names: tuple[str, ...]) -> str:
    return _listed(tuple(name.replace("_", " ") for name in names))


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
