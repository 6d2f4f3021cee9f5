"""Fixed-length series with explicit gaps: a point that could not be read is a gap, never a zero."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Series:
    """One quantity over time: the newest ``capacity`` points, oldest first.

    Args:
        capacity: points kept; 1800 is half an hour at one a second.
    """

    __slots__ = ("_points",)

    def __init__(self, capacity: int = 1800) -> None:
        self._points: deque[tuple[float, float | None]] = deque(maxlen=capacity)

    def add(self, at: float, value: float | None) -> None:
        """Append one point; ``at`` is monotonic seconds, None is a gap."""
        self._points.append((at, value))

    def __len__(self) -> int:
        return len(self._points)

    def __iter__(self) -> Iterator[tuple[float, float | None]]:
        return iter(self._points)

    def since(self, at: float) -> list[tuple[float, float | None]]:
        """Points at or after an instant, oldest first."""
        found: list[tuple[float, float | None]] = []
        for point in reversed(self._points):
            if point[0] < at:
                break
            found.append(point)
        found.reverse()
        return found

    def last(self) -> float | None:
        """The newest value; None for a gap or an empty series."""
        return self._points[-1][1] if self._points else None


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
        return [] if series is None else [v for _, v in series.since(since) if v is not None]

    def forget(self, scope: str) -> None:
        """Drop every series of a scope that has gone."""
        for key in [k for k in self._series if k[0] == scope]:
            del self._series[key]

    def __len__(self) -> int:
        return len(self._series)
