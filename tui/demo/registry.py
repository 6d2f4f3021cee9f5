"""Metric families and their Prometheus text form, laid out as prometheus_client lays it out."""

from __future__ import annotations

import bisect
import itertools
import time
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Labels = tuple[tuple[str, str], ...]


def label_text(labels: Iterable[tuple[str, str]]) -> str:
    """Label pairs as the text form writes them: sorted by name, values escaped; empty for none."""
    pairs = [f'{name}="{_escape(value)}"' for name, value in sorted(labels)]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def number(value: float) -> str:
    """A value as prometheus_client writes it: from a million on with an exponent."""
    text = repr(float(value))
    point = text.find(".")
    if value <= 0 or point <= 6 or "e" in text:
        return text
    digits = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
    return f"{digits}e+{point - 1:02d}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class Family:
    """A counter, gauge or summary-less family: one value per label set.

    Args:
        name: as exposed (``_total`` included).
        kind: the type that the text form declares.
        help_text: the engine's own words.
        created: whether ``_created`` samples go with it, as in a single-process registry.
    """

    def __init__(
        self, name: str, kind: Literal["counter", "gauge"], help_text: str, *, created: bool = False
    ) -> None:
        self.name, self.kind, self.help_text = name, kind, help_text
        self._created = created
        self._values: dict[Labels, float] = {}
        self._texts: dict[Labels, str] = {}
        self._born: dict[Labels, float] = {}

    def set(self, value: float, labels: Labels = ()) -> None:
        """Set a series, making it if need be."""
        if labels not in self._values:
            self._texts[labels] = label_text(labels)
            self._born[labels] = time.time()
        self._values[labels] = float(value)

    def add(self, amount: float, labels: Labels = ()) -> None:
        """Add to a series, making it if need be."""
        self.set(self._values.get(labels, 0.0) + amount, labels)

    def value(self, labels: Labels = ()) -> float:
        """A series' value, 0 if there is none yet."""
        return self._values.get(labels, 0.0)

    @property
    def empty(self) -> bool:
        """Whether no series exists yet."""
        return not self._values

    def lines(self) -> Iterable[str]:
        """The text form."""
        yield from _title(self.name, self.kind, self.help_text)
        for labels, value in self._values.items():
            yield f"{self.name}{self._texts[labels]} {number(value)}"
        if self._created and self._born:
            base = self.name.removesuffix("_total")
            yield from _title(f"{base}_created", "gauge", self.help_text)
            for labels, born in self._born.items():
                yield f"{base}_created{self._texts[labels]} {number(born)}"


class _Series:
    __slots__ = ("born", "buckets", "heads", "sum", "tail")

    def __init__(self, name: str, bounds: Sequence[str], labels: Labels) -> None:
        self.heads = [f"{name}_bucket{label_text((*labels, ('le', bound)))}" for bound in (*bounds, "+Inf")]
        self.tail = label_text(labels)
        self.buckets = [0] * len(self.heads)
        self.sum = 0.0
        self.born = time.time()


class Histogram:
    """A histogram family with the bucket bounds of the real one."""

    def __init__(
        self,
        name: str,
        bounds: Sequence[float],
        help_text: str,
        *,
        created: bool = False,
        kind: Literal["histogram", "summary"] = "histogram",
    ) -> None:
        self.name, self.help_text, self._kind = name, help_text, kind
        self._bounds = tuple(bounds)
        self._created = created
        self._series: dict[Labels, _Series] = {}

    def touch(self, labels: Labels = ()) -> _Series:
        """The series for a label set, made with nothing observed if there is none."""
        series = self._series.get(labels)
        if series is None:
            texts = [number(bound) for bound in self._bounds]
            series = self._series[labels] = _Series(self.name, texts, labels)
        return series

    def observe(self, value: float, labels: Labels = (), times: int = 1) -> None:
        """Count ``value``, ``times`` times over."""
        series = self.touch(labels)
        series.buckets[bisect.bisect_left(self._bounds, value)] += times
        series.sum += value * times

    def count(self, labels: Labels = ()) -> int:
        """Observations of a series."""
        return sum(self.touch(labels).buckets)

    @property
    def empty(self) -> bool:
        """Whether no series exists yet."""
        return not self._series

    def lines(self) -> Iterable[str]:
        """The text form."""
        yield from _title(self.name, self._kind, self.help_text)
        for series in self._series.values():
            total = 0
            if self._kind == "histogram":
                for head, total in zip(series.heads, itertools.accumulate(series.buckets), strict=True):
                    yield f"{head} {number(total)}"
            else:
                total = sum(series.buckets)
            yield f"{self.name}_count{series.tail} {number(total)}"
            yield f"{self.name}_sum{series.tail} {number(series.sum)}"
        if self._created and self._series:
            yield from _title(f"{self.name}_created", "gauge", self.help_text)
            for series in self._series.values():
                yield f"{self.name}_created{series.tail} {number(series.born)}"


def _title(name: str, kind: str, help_text: str) -> tuple[str, str]:
    return f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"


def render(families: Iterable[Family | Histogram]) -> bytes:
    """The text form of all families, in their order."""
    return ("\n".join(itertools.chain.from_iterable(family.lines() for family in families)) + "\n").encode()
