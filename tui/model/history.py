"""Fixed-length series with explicit gaps: a point that could not be read is a gap, never a zero."""

from __future__ import annotations

import bisect
import math
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Series:
    """One quantity over time: the newest ``capacity`` points, oldest first.

    Kept as two flat arrays, 16 bytes a point: as tuples, half an hour of a host with eight GPUs was 17 MB.

    Args:
        capacity: points kept; 1800 is half an hour at one a second.
    """

    __slots__ = ("_capacity", "_times", "_values")

    def __init__(self, capacity: int = 1800) -> None:
        self._capacity = capacity
        self._times = array("d")
        self._values = array("d")

    def add(self, at: float, value: float | None) -> None:
        """Append one point; ``at`` is monotonic seconds, None (or not finite) is a gap."""
        self._times.append(at)
        self._values.append(math.nan if value is None or not math.isfinite(value) else value)
        if len(self._times) >= self._capacity + 256:  # in one go, so that a point costs no shifting
            del self._times[: -self._capacity]
            del self._values[: -self._capacity]

    def __len__(self) -> int:
        return min(len(self._times), self._capacity)

    def __iter__(self) -> Iterator[tuple[float, float | None]]:
        return iter(self._slice(len(self._times) - len(self)))

    def since(self, at: float) -> list[tuple[float, float | None]]:
        """Points at or after an instant, oldest first."""
        return self._slice(max(len(self._times) - len(self), bisect.bisect_left(self._times, at)))

    def known(self, since: float) -> list[float]:
        """Values at or after an instant, gaps left out, oldest first."""
        start = max(len(self._times) - len(self), bisect.bisect_left(self._times, since))
        return [value for value in self._values[start:] if value == value]  # a gap is NaN, unequal to itself

    def change(self, since: float) -> float | None:
        """The newest known value less the first at or after an instant; None for fewer than three points."""
        values = self._values[max(len(self._times) - len(self), bisect.bisect_left(self._times, since)) :]
        if len(values) < 3:
            return None
        first = next((value for value in values if value == value), None)  # a gap is NaN, unequal to itself
        last = next((value for value in reversed(values) if value == value), None)
        return None if first is None or last is None else last - first

    def held_since(self, at: float, holds: Callable[[float], bool]) -> float | None:
        """The instant from which every known value has held something, gaps left out; no earlier than ``at``.

        None where the newest known value does not, or there is none.
        """
        since = None
        start = max(len(self._times) - len(self), bisect.bisect_left(self._times, at))
        for time, value in zip(reversed(self._times[start:]), reversed(self._values[start:]), strict=True):
            if value == value:  # a gap is NaN, unequal to itself
                if not holds(value):
                    break
                since = time
        return since

    def thinned(self, before: float, step: int) -> list[float]:
        """Every ``step``-th point before an instant, gaps left out, oldest first."""
        first = len(self._times) - len(self)
        end = bisect.bisect_left(self._times, before)
        return [value for value in self._values[first:end:step] if value == value]  # as above

    def last(self) -> float | None:
        """The newest value; None for a gap or an empty series."""
        return None if not self._values or math.isnan(self._values[-1]) else self._values[-1]

    def ended_before(self, at: float) -> bool:
        """Whether the newest point is older than an instant, or there is none."""
        return not self._times or self._times[-1] < at

    def _slice(self, start: int) -> list[tuple[float, float | None]]:
        return [
            (at, value if value == value else None)  # as above: a call for each would double the time
            for at, value in zip(self._times[start:], self._values[start:], strict=True)
        ]


class History:
    """Series by (scope, signal): scope is an engine's URL, ``host``, or ``gpu:UUID``."""

    __slots__ = ("_capacity", "_series")

    def __init__(self, capacity: int = 1800) -> None:
        self._capacity = capacity
        self._series: dict[tuple[str, str], Series] = {}

    def add(self, scope: str, signal: str, at: float, value: float | None) -> None:
        """Append one point to a series, which is made when it is new."""
        key = (scope, signal)
        series = self._series.get(key)
        if series is None:
            if value is None:
                return  # a quantity that never existed here needs no series of gaps
            series = self._series[key] = Series(self._capacity)
        series.add(at, value)

    def get(self, scope: str, signal: str) -> Series | None:
        """The series, or None where no value was ever seen."""
        return self._series.get((scope, signal))

    def values(self, scope: str, signal: str, since: float) -> list[float]:
        """Known values at or after an instant, oldest first."""
        series = self._series.get((scope, signal))
        return [] if series is None else series.known(since)

    def forget(self, scope: str) -> None:
        """Drop every series of a scope that has gone."""
        for key in [k for k in self._series if k[0] == scope]:
            del self._series[key]

    def forget_before(self, at: float) -> None:
        """Drop every series whose newest point, gap or not, is older than an instant."""
        for key in [key for key, series in self._series.items() if series.ended_before(at)]:
            del self._series[key]

    def __len__(self) -> int:
        return len(self._series)
