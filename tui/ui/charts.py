"""Small charts as text: meters, one-row sparklines, filled braille areas. A gap is blank, a zero is not."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.model.history import History

Value = float | None

_EIGHTHS = "▁▂▃▄▅▆▇█"
_LEFT_DOTS = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT_DOTS = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
"""Braille columns filled from below, by the number of dots."""


def meter(ratio: Value, size: int) -> tuple[str, str]:
    """A bar in half cells: the filled part and the trough, together ``size`` cells.

    Args:
        ratio: 0-1; outside it is pinned; None: blank, so that unknown does not look like zero.
        size: cells.
    """
    if ratio is None or not math.isfinite(ratio):
        return "", " " * size
    halves = round(min(1.0, max(0.0, ratio)) * 2 * size)
    filled = "━" * (halves // 2) + "╸" * (halves % 2)
    return filled, "─" * (size - len(filled))


def spark(values: Sequence[Value], top: float) -> str:
    """One cell a value, by eighths of the fixed range 0 to ``top``."""
    return "".join(
        " " if value is None else _EIGHTHS[min(7, max(0, int(value / top * 8)))] for value in values
    )


@functools.lru_cache(maxsize=128)
def area(values: tuple[Value, ...], height: int, top: float) -> tuple[str, ...]:
    """A filled braille chart of ``height`` rows, two values a cell; a known zero keeps one dot.

    Args:
        values: an even number of them.
        height: rows of four dots.
        top: the value at the upper edge.
    """
    dots = [
        0 if value is None else max(1, min(4 * height, round(value / top * 4 * height))) for value in values
    ]
    return tuple(
        "".join(_cell(dots[i] - floor, dots[i + 1] - floor) for i in range(0, len(dots), 2))
        for floor in range(4 * (height - 1), -1, -4)
    )


def _cell(left: int, right: int) -> str:
    """One braille cell filled to these heights; a space rather than an empty one, a third of its bytes."""
    if left <= 0 and right <= 0:
        return " "
    return chr(0x2800 + _LEFT_DOTS[min(4, max(0, left))] + _RIGHT_DOTS[min(4, max(0, right))])


def nice_top(values: Sequence[Value], least: float = 1.0) -> float:
    """The upper edge for a quantity without a natural one: 1, 2 or 5 times a power of ten."""
    highest = max((value for value in values if value is not None), default=0.0)
    if highest <= least:
        return least
    unit = 10.0 ** math.floor(math.log10(highest))
    return float(next(step * unit for step in (1, 2, 5, 10) if step * unit >= highest * 0.999))


class Trends:
    """Series cut into equal steps, for charts that move a step at a time and not with each reading.

    A chart that shifted every second would be most of what the screen writes.
    """

    __slots__ = ("_cache", "_history")

    def __init__(self, history: History) -> None:
        self._history = history
        self._cache: dict[tuple[object, ...], tuple[int, tuple[Value, ...]]] = {}

    def steps(self, scope: str, signal: str, count: int, step_s: float, now: float) -> tuple[Value, ...]:
        """The means of the last ``count`` whole steps before ``now``, oldest first; None is a gap.

        Args:
            scope: as in ``History``.
            signal: as in ``History``.
            count: steps.
            step_s: length of a step; aligned to multiples of it, so that steps never re-divide.
            now: monotonic seconds.
        """
        last = int(now // step_s)
        key = (scope, signal, count, step_s)
        found = self._cache.get(key)

        def cut() -> tuple[Value, ...]:
            if found is None or last - found[0] >= count or last < found[0]:
                return self._cut(scope, signal, last - count, count, step_s)
            new = last - found[0]  # whole steps never change again: only those since then are cut
            return (*found[1][new:], *self._cut(scope, signal, found[0], new, step_s))

        return self._once(key, last, cut)

    def latest(self, scopes: tuple[str, ...], signal: str) -> Value:
        """The newest figure of several scopes together; None where none is known."""
        series = [found for scope in scopes if (found := self._history.get(scope, signal)) is not None]
        known = [value for one in series if (value := one.last()) is not None]
        return sum(known) if known else None

    def joined(
        self, scopes: tuple[str, ...], signal: str, count: int, step_s: float, now: float, *, mean: bool
    ) -> tuple[Value, ...]:
        """As ``steps`` for several scopes at once: their sum, or their mean."""

        def join() -> tuple[Value, ...]:
            joined: list[Value] = []
            for column in zip(*(self.steps(s, signal, count, step_s, now) for s in scopes), strict=True):
                known = [value for value in column if value is not None]
                joined.append(sum(known) / (len(known) if mean else 1) if known else None)
            return tuple(joined)

        return self._once((scopes, signal, count, step_s, mean), int(now // step_s), join)

    def _once(
        self, key: tuple[object, ...], step: int, make: Callable[[], tuple[Value, ...]]
    ) -> tuple[Value, ...]:
        """What was made in this very step, or made now."""
        found = self._cache.get(key)
        if found is not None and found[0] == step:
            return found[1]
        if len(self._cache) >= 512:
            self._cache.clear()
        values = make()
        self._cache[key] = (step, values)
        return values

    def _cut(self, scope: str, signal: str, first: int, count: int, step_s: float) -> tuple[Value, ...]:
        """Means of steps; one in which nobody looked is as the one before, if a look came after it."""
        first, count = first - 1, count + 1
        sums = [0.0] * count
        known = [0] * count
        looks = [0] * count
        series = self._history.get(scope, signal)
        newest = first
        for at, value in series.since(first * step_s) if series is not None else ():
            newest = int(at // step_s)
            index = newest - first
            if 0 <= index < count:
                looks[index] += 1
                if value is not None:
                    sums[index] += value
                    known[index] += 1
        means = [total / n if n else None for total, n in zip(sums, known, strict=True)]
        for index in range(count - 1, 0, -1):
            # readings may be rarer than steps are long: that is no gap, as one that could not be had is
            if not looks[index] and first + index < newest:
                means[index] = means[index - 1]
        return tuple(means[1:])
