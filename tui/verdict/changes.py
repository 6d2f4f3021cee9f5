"""What would change a rule's mind: it is asked again with a figure or two on the other side of a limit."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from tui.model.explanations import Change, Move
from tui.verdict.figures import FIGURES
from tui.verdict.signals import Signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tui.model.settings import Slo, Thresholds
    from tui.model.verdicts import Evidence, VerdictName
    from tui.verdict.figures import Figure
    from tui.verdict.outcome import Outcome, Rule
    from tui.verdict.picture import Picture

MOST = 2
"""Single figures that are named; the nearest is what matters."""
EDGE_RATIO = 0.01
"""A figure this near to a limit will be on its other side in a moment."""
_COUNTS = frozenset(("running", "waiting"))
MARGIN = 1e-6
"""So far beyond a limit that no rule takes it for the limit itself."""


FURTHER = 0.1
"""What is claimed of a figure beyond a limit is proved just beyond it and this share further, too."""


class _Step(NamedTuple):
    figure: Figure
    move: Move
    target: float
    """Just beyond the limit."""
    further: float
    distance: float


class OtherPictures:
    """One picture, and what it would be if its figures were others: shared by all rules that are asked.

    Args:
        signals: of the picture as it is.
        call: names a picture.
    """

    def __init__(self, signals: Signals, call: Callable[[Picture], VerdictName]) -> None:
        self._picture = signals.picture
        self._call = call
        self._thresholds: Thresholds = signals.thresholds
        self._slo: Slo = signals.slo
        self._steps = tuple(step for figure in FIGURES for step in _steps(figure, signals))
        self._seen: dict[tuple[_Step, ...], Signals] = {}

    def changes(self, rule: Rule, *, fires: bool) -> tuple[Change, ...]:
        """What would turn the rule around, the nearest first.

        Args:
            rule: the rule.
            fires: whether it fires on the picture as it is.
        """
        inputs = frozenset(rule.inputs)
        steps = [step for step in self._steps if step.figure.inputs & inputs]
        single = itertools.islice(self._turning(rule, ((step,) for step in steps), fires=fires), MOST)
        if found := tuple(single):
            return found
        apart = (pair for pair in itertools.combinations(steps, 2) if pair[0].figure is not pair[1].figure)
        return tuple(itertools.islice(self._turning(rule, apart, fires=fires), 1))

    def _turning(self, rule: Rule, sets: Iterator[tuple[_Step, ...]], *, fires: bool) -> Iterator[Change]:
        """The nearest first, each set of figures once; what does not hold further on is not claimed."""
        found = [steps for steps in sets if _fires(rule, self._with(steps)) is (not fires)]
        named: set[tuple[str, ...]] = set()
        for steps in sorted(found, key=_distance):
            signals = tuple(step.move.signal for step in steps)
            beyond = tuple(step._replace(target=step.further) for step in steps)
            if signals not in named and _fires(rule, self._with(beyond)) is (not fires):
                named.add(signals)
                moves = tuple(step.move for step in steps)
                yield Change(moves, _distance(steps), self._call(self._with(steps).picture))

    def _with(self, steps: tuple[_Step, ...]) -> Signals:
        found = self._seen.get(steps)
        if found is None:
            picture: Picture = self._picture
            for step in steps:
                picture = step.figure.write(picture, step.target)
            found = self._seen[steps] = Signals(picture, self._thresholds, self._slo)
        return found


def on_the_edge(rule: Rule, outcome: Outcome, signals: Signals) -> tuple[str, ...]:
    """Figures that hardly differ from a limit on whose other side the rule would not fire.

    Args:
        rule: one that fires.
        outcome: what it said, with its evidence.
        signals: of the picture.
    """
    close = [e.signal for e in outcome.evidence if e.threshold and e.value and _is_close(e)]
    if not close:
        return ()
    steps = (step for figure in FIGURES if figure.signal in close for step in _steps(figure, signals))
    return tuple(
        dict.fromkeys(
            step.move.signal
            for step in steps
            if step.distance <= EDGE_RATIO and _fires(rule, _with(step, signals)) is False
        )
    )


def _with(step: _Step, signals: Signals) -> Signals:
    picture = step.figure.write(signals.picture, step.target)
    return Signals(picture, signals.thresholds, signals.slo)


def _is_close(evidence: Evidence) -> bool:
    """Counts are not: seats that are all taken are no close call."""
    value, limit = evidence.value, evidence.threshold
    if not isinstance(value, float | int) or not isinstance(limit, float | int) or not limit:
        return False
    return evidence.signal not in _COUNTS and abs(value - limit) <= EDGE_RATIO * abs(limit)


def _fires(rule: Rule, signals: Signals) -> bool | None:
    try:
        return rule.judge(signals).state == "fires"
    except Exception:  # noqa: BLE001  # figures that nobody has seen must not take the screen with them
        return None


def _distance(steps: tuple[_Step, ...]) -> float:
    return sum(step.distance for step in steps)


def _steps(figure: Figure, signals: Signals) -> Iterator[_Step]:
    value = figure.read(signals)
    if value is None or not math.isfinite(value):
        return
    for limit in dict.fromkeys(figure.limits(signals)):
        if limit is None or not math.isfinite(limit):
            continue
        comparison, target, further = _beyond(figure, value, limit)
        shown = float(math.ceil(limit)) if figure.whole else limit
        move = Move(figure.signal, value, comparison, shown, figure.unit)
        distance = abs(target - value) / max(abs(value), abs(limit), MARGIN)
        yield _Step(figure, move, target, further, min(1.0, distance))


def _beyond(figure: Figure, value: float, limit: float) -> tuple[str, float, float]:
    """What would hold of the figure, where it would have to be, and a place further on."""
    if limit == 0.0:
        return ("=", 0.0, 0.0) if value > 0 else (">", figure.least, figure.least * (1 + FURTHER))
    if value >= limit:
        target = math.ceil(limit) - 1.0 if figure.whole else limit * (1 - MARGIN)
        return "<", target, target * (1 - FURTHER)
    target = float(math.ceil(limit)) if figure.whole else limit * (1 + MARGIN)
    return ">=", target, min(figure.most, target * (1 + FURTHER))
