"""What counters and histograms did over the last seconds, through restarts and lost series."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tui.exposition.histogram import Histogram, between
from tui.model.text import clean
from tui.sources.engines.samples import select

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tui.exposition.parse import Series
    from tui.sources.engines.samples import Sample, Samples
    from tui.sources.engines.table import EngineTable, Source

RATE_WINDOW_S = 10.0
LATENCY_WINDOW_S = 60.0
_MAX_FOLLOWED = 50_000
_RESTART_S = 1.0


@dataclass(frozen=True, slots=True)
class _Step:
    """At one scrape: what everything grew by since the first one, lost or not."""

    at: float
    present: frozenset[str]
    """Counters and histograms that the scrape has."""
    counters: Mapping[str, float]
    words: Mapping[str, Mapping[str, float]]
    buckets: Mapping[str, Mapping[float, float]]
    sums: Mapping[str, float]


class Windows:
    """Differences over time. A counter that fell is a restart: everything starts anew from that scrape.

    Growth is followed series by series: one that is missing from a scrape makes nothing fall and nothing
    jump when it is back, and one that is new began at 0 (many do not exist before their first event), unless
    its quantity had another name until then.

    Args:
        table: names the counters and histograms.
    """

    def __init__(self, table: EngineTable) -> None:
        self.restarts = 0
        self._table = table
        self._by_word = {"finish_reasons": table.finish_reasons, "rejections": table.rejections}
        histograms = [name for source in table.histograms.values() for name in source.samples]
        words = [source for pairs in self._by_word.values() for source, _ in pairs]
        self._sources = (*table.counters.values(), *words)
        counters = [name for source in self._sources for name in source.samples]
        self._monotonic = tuple(dict.fromkeys((*counters, *(f"{name}_bucket" for name in histograms))))
        self._followed = (*self._monotonic, *(f"{name}_sum" for name in histograms))
        self._others = _other_names(self._sources, table.histograms.values())
        self._started: float | None = None
        self._forget()

    def add(self, at: float, samples: Samples, started: float | None) -> bool:
        """Take one scrape; true where the engine has restarted since the one before.

        Args:
            at: monotonic seconds.
            samples: by canonical sample name.
            started: when the engine says it started.
        """
        moved = self._moved(samples)
        restarted = self._has_restarted(samples, moved, started)
        self.restarts += restarted
        if restarted or len(self._last) > _MAX_FOLLOWED:
            self._forget()
            moved = self._moved(samples)
        self._started = started
        grown = self._growth(samples, moved)
        present: set[str] = set()
        for name, source in self._table.counters.items():
            if (found := select(samples, source)) is not None:
                present.add(name)
                self._count(name, source, found, grown)
        for name, source in self._table.histograms.items():
            base = next((one for one in source.samples if f"{one}_bucket" in samples), None)
            if base is not None:
                present.add(name)
                self._add_up(name, source, base, samples, grown)
                if f"{base}_bucket" in moved or self._base_of.get(name) != base:
                    self._base_of[name] = base
                    self._observe(name, source, samples[f"{base}_bucket"], grown)
        words = {name: self._words_of(name, pairs, samples, grown) for name, pairs in self._by_word.items()}
        self._steps.append(
            _Step(at, frozenset(present), dict(self._counters), words, dict(self._buckets), dict(self._sums))
        )
        self._bases.clear()
        # the scrape before this one is kept however old it is: anything takes two
        while len(self._steps) > 2 and at - self._steps[0].at > LATENCY_WINDOW_S:
            self._steps.popleft()
        return restarted

    def span_s(self, window_s: float) -> float | None:
        """How many seconds a window really has; None before a second scrape."""
        base = self._base(window_s)
        return None if base is None else self._steps[-1].at - base.at

    def increase(self, counter: str, window_s: float) -> float | None:
        """How much a counter grew over a window; None where it is absent, or before a second scrape."""
        base, newest = self._base(window_s), self._steps[-1]
        if base is None or counter not in newest.present:
            return None
        return newest.counters[counter] - base.counters.get(counter, 0.0)

    def rate(self, counter: str, window_s: float) -> float | None:
        """Increase a second."""
        grown, seconds = self.increase(counter, window_s), self.span_s(window_s)
        return grown / seconds if grown is not None and seconds else None

    def rates(self, name: str, window_s: float) -> dict[str, float]:
        """Increase a second of ``finish_reasons`` or ``rejections``, by word."""
        base, seconds = self._base(window_s), self.span_s(window_s)
        if base is None or not seconds:
            return {}
        before = base.words[name]
        return {
            word: (grown - before.get(word, 0.0)) / seconds
            for word, grown in self._steps[-1].words[name].items()
        }

    def histogram(self, name: str, window_s: float) -> Histogram | None:
        """The observations of a window, all ranks together; None as for ``increase``."""
        base, newest = self._base(window_s), self._steps[-1]
        if base is None or name not in newest.present:
            return None
        total = newest.sums[name] - base.sums.get(name, 0.0) if name in newest.sums else None
        buckets = newest.buckets[name]
        return between(base.buckets.get(name) or dict.fromkeys(buckets, 0.0), buckets, total)

    def _base(self, window_s: float) -> _Step | None:
        """The oldest scrape of a window, or the one before where the window holds no other."""
        if window_s not in self._bases:
            newest = self._steps[-1].at
            inside = next(step for step in self._steps if newest - step.at <= window_s)
            if inside.at == newest and len(self._steps) > 1:
                inside = self._steps[-2]
            self._bases[window_s] = inside if inside.at < newest else None
        return self._bases[window_s]

    def _moved(self, samples: Samples) -> frozenset[str]:
        """The followed families that are not as they last were: the others cost nothing more."""
        found = self._found
        return frozenset(
            [name for name in self._followed if name in samples and samples[name] != found.get(name)]
        )

    def _has_restarted(self, samples: Samples, moved: Collection[str], started: float | None) -> bool:
        if started is not None and self._started is not None and abs(started - self._started) > _RESTART_S:
            return True
        last = self._last
        for name in self._monotonic:
            if name in moved:
                for series, value in samples[name]:
                    if -math.inf < value < last.get(series, value):
                        return True
        return False

    def _growth(self, samples: Samples, moved: Collection[str]) -> dict[Series, float]:
        """What each series of the families that moved has grown by."""
        grown: dict[Series, float] = {}
        seen = frozenset(self._families)
        for name in self._followed:
            if name not in moved:
                continue
            began = name in seen or (bool(seen) and self._others.get(name, frozenset()).isdisjoint(seen))
            self._families.add(name)
            self._found[name] = samples[name]
            for series, value in samples[name]:
                if math.isfinite(value):
                    before = self._last.get(series, 0.0 if began else value)
                    grown[series] = value - before if value > before else 0.0
                    self._last[series] = value
        return grown

    def _words_of(
        self,
        name: str,
        pairs: tuple[tuple[Source, str], ...],
        samples: Samples,
        grown: Mapping[Series, float],
    ) -> dict[str, float]:
        totals = self._words.setdefault(name, {})
        for source, label in pairs:
            for series, _ in select(samples, source) or ():
                word = label[1:] if label[0] == "=" else clean(series.labels.get(label, ""), 40)
                totals[word] = totals.get(word, 0.0) + grown.get(series, 0.0)
        return dict(totals)

    def _count(self, name: str, source: Source, found: list[Sample], grown: Mapping[Series, float]) -> None:
        more = sum(grown.get(series, 0.0) for series, _ in found)
        self._counters[name] = self._counters.get(name, 0.0) + more * source.scale

    def _add_up(
        self, name: str, source: Source, base: str, samples: Samples, grown: Mapping[Series, float]
    ) -> None:
        sums = samples.get(f"{base}_sum", ())
        if sums:
            more = sum(grown.get(series, 0.0) for series, _ in sums)
            self._sums[name] = self._sums.get(name, 0.0) + more * source.scale

    def _observe(self, name: str, source: Source, found: list[Sample], grown: Mapping[Series, float]) -> None:
        totals = self._totals.setdefault(name, {})
        series_of: Counter[float] = Counter()
        for series, value in found:
            bound = _upper_bound(series.labels.get("le", ""))
            if bound is not None and math.isfinite(value):
                bound *= source.scale
                totals[bound] = totals.get(bound, 0.0) + grown.get(series, 0.0)
                series_of[bound] += 1
        # ranks with other bounds have only some in common, and only at those the counts are exact
        self._buckets[name] = {
            bound: total for bound, total in totals.items() if series_of[bound] == series_of[math.inf]
        }

    def _forget(self) -> None:
        self._steps: deque[_Step] = deque()
        self._bases: dict[float, _Step | None] = {}
        self._last: dict[Series, float] = {}
        self._found: dict[str, list[Sample]] = {}
        self._families: set[str] = set()
        self._counters: dict[str, float] = {}
        self._words: dict[str, dict[str, float]] = {}
        self._totals: dict[str, dict[float, float]] = {}
        self._buckets: dict[str, dict[float, float]] = {}
        self._sums: dict[str, float] = {}
        self._base_of: dict[str, str] = {}


def _other_names(counters: Iterable[Source], histograms: Iterable[Source]) -> dict[str, frozenset[str]]:
    """The names that a quantity may have had before, by name; none of those that begin with a first event."""
    groups = [source.samples for source in counters if not source.zero_with]
    groups += [
        tuple(f"{name}{suffix}" for name in source.samples)
        for source in histograms
        for suffix in ("_bucket", "_sum")
    ]
    return {name: frozenset(group) - {name} for group in groups for name in group}


@lru_cache(maxsize=1024)  # the same few texts each second
def _upper_bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
