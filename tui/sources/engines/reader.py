"""Scrapes to readings in canonical quantities: no clock and no IO, only the memory of earlier scrapes."""

from __future__ import annotations

import dataclasses
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Literal

from tui.exposition.parse import Parser
from tui.model.readings import EngineReading, RankReading
from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources.engines.bounded import bounded
from tui.sources.engines.heartbeat import Heartbeat
from tui.sources.engines.missing import all_missing, missing_figures
from tui.sources.engines.present import Present
from tui.sources.engines.ratios import Ratios
from tui.sources.engines.samples import generating, requests_once, select, without_repeats
from tui.sources.engines.windows import LATENCY_WINDOW_S, RATE_WINDOW_S, Windows

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from tui.exposition.histogram import Histogram
    from tui.sources.engines.present import ByRank
    from tui.sources.engines.samples import Samples
    from tui.sources.engines.table import EngineTable, Hint

KV_MAX_WINDOW_S = 30.0
BUSY_STEP_S = 2.0
"""A scheduler without work says many times a second that it has none: one that is silent for so long is in
a step, whatever its gauges say."""
_QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


class EngineReader:
    """Reads the scrapes of one endpoint in their order.

    Args:
        table: where the engine keeps what.
        url: of the endpoint, for the readings.
    """

    def __init__(self, table: EngineTable, url: str) -> None:
        self.table = table
        self.models: frozenset[str] = frozenset()
        """Names by the table's label for models, as of the last scrape; for Triton alone."""
        self._url = url
        self._parser = Parser(table.wanted())
        self._windows = Windows(table)
        self._beats: dict[str, Heartbeat] = {}
        self._kv_worst: deque[tuple[float, float]] = deque()

    @property
    def restarts(self) -> int:
        """Restarts of the engine seen so far."""
        return self._windows.restarts

    def feed(
        self,
        text: str | None,
        at: float,
        *,
        aside: Samples | None = None,
        inner: Collection[str] = (),
        off: Hint | None = None,
    ) -> EngineReading:
        """Take one scrape.

        Args:
            text: the whole body; None where there are no metrics and ``aside`` is all.
            at: monotonic seconds at which it was had; later than for the scrape before.
            aside: what other routes of the engine say.
            inner: models that are parts of others.
            off: why there is no text, for the figures that only it would have.

        Raises:
            SourceError: empty, not_metrics, too_large (series).
        """
        samples: Samples = {**({} if text is None else self._parse(text)), **(aside or {})}
        if not any(name.startswith(self.table.own) for name in samples):
            return self._stats_off(samples)
        if self.table.backend_own:
            self.models = frozenset(
                series.labels.get(self.table.model_label, "")
                for found in samples.values()
                for series, _ in found
            )
        samples = requests_once(without_repeats(samples, self.table), self.table, inner)
        present = Present(samples, self.table)
        started = present.started()
        if self._windows.add(at, samples, started):
            self._beats.clear()
            self._kv_worst.clear()
        reading = self._reading(present, samples, at, started)
        names = {name.removesuffix("_bucket") for name in samples}
        return dataclasses.replace(reading, missing=missing_figures(reading, self.table, names, off))

    def _parse(self, text: str) -> Samples:
        exposition = self._parser.parse(text)
        if exposition.too_many:
            raise SourceError("too_large", "too many series")
        if exposition.accepted == 0:
            if exposition.rejected:
                raise SourceError("not_metrics", "not Prometheus text")
            raise SourceError("empty", "an empty answer")
        return exposition.by_name()

    def _reading(self, present: Present, samples: Samples, at: float, started: float | None) -> EngineReading:
        running, waiting, kv = present.ranks("running"), present.waiting(), present.kv_usage()
        self._follow_heartbeats(present, at, running, waiting)
        beat = self._worst_beat()
        rate = partial(self._windows.rate, window_s=RATE_WINDOW_S)
        ratios = Ratios(self._windows, errors_told=self._errors_told(samples))
        latencies = _Latencies(self._windows)
        own_queue = bool(generating(samples, self.table))
        self._stand_in(latencies.figures, present, ratios, own_queue=own_queue)
        reading = EngineReading(
            url=self._url,
            engine=self.table.engine,
            model=present.model(),
            window_s=self._windows.span_s(RATE_WINDOW_S),
            latency_window_s=self._windows.span_s(LATENCY_WINDOW_S),
            running=present.combine("running", running),
            waiting=present.combine("waiting", waiting),
            waiting_by_reason=present.waiting_by_reason(),
            kv_usage=present.combine("kv_usage", kv),
            kv_usage_max=self._kv_max(at, kv),
            kv_capacity_tokens=present.capacity(),
            max_num_seqs=present.total("max_num_seqs"),
            preempted=present.total("preempted"),
            preemptions_per_s=rate("preemptions"),
            evictions_per_s=rate("evictions"),
            gen_tok_s=self._generated(present, running),
            prompt_tok_s=rate("prompt_tokens"),
            req_s=rate("finished"),
            finish_reasons=self._windows.rates("finish_reasons", RATE_WINDOW_S),
            rejections=self._windows.rates("rejections", RATE_WINDOW_S),
            prefix_hit_ratio=ratios.prefix_hits(),
            error_ratio=ratios.errors(),
            http_503_ratio=ratios.answered("http_503"),
            http_429_ratio=ratios.answered("http_429"),
            spec_accept_ratio=_either(ratios.accepted_drafts(), present.positive("spec_accept_ratio")),
            spec_accept_length=_either(ratios.accept_length(), present.positive("spec_accept_length")),
            bounds=latencies.bounds,
            since_last_step_s=None if beat is None else beat.since_step_s,
            progress=None if beat is None else beat.count,
            stalled_s=None if beat is None else beat.stalled_s,
            stalled_scrapes=None if beat is None else beat.scrapes,
            longest_stall_s=None if beat is None else beat.longest_stall_s,
            asleep=present.asleep(),
            ranks=self._ranks(running, waiting, kv),
            started_at=started,
            restarts=self.restarts,
            **latencies.figures,
        )
        return bounded(reading)

    @staticmethod
    def _stand_in(
        figures: dict[str, float | None], present: Present, ratios: Ratios, *, own_queue: bool
    ) -> None:
        """Latencies from what stands in for a histogram where the engine has none.

        Args:
            figures: what the histograms tell, by field; filled up.
            present: the scrape.
            ratios: over its window.
            own_queue: what is told of the queue is told of one before another that nobody measures.
        """
        tells = not own_queue
        queue_mean = _either(ratios.mean("queue_sum"), present.total("queue_mean_s")) if tells else None
        spare = {
            "e2e_mean_s": ratios.mean("e2e_sum"),
            "queue_mean_s": queue_mean,
            "e2e_p95_s": present.total("e2e_p95_s"),
            "queue_p95_s": present.total("queue_p95_s") if tells else None,
        }
        for field, value in spare.items():
            figures[field] = _either(figures[field], value)

    def _stats_off(self, samples: Samples) -> EngineReading:
        off = self.table.off
        return EngineReading(
            url=self._url,
            engine=self.table.engine,
            reason="stats_off",
            detail=off.why,
            started_at=Present(samples, self.table).started(),
            restarts=self.restarts,
            missing=all_missing(self.table, off.why, off.enable),
        )

    # ------------------------------------------------------------------------------- now

    def _ranks(self, running: ByRank, waiting: ByRank, kv: ByRank) -> tuple[RankReading, ...]:
        names = sorted(running.keys() | waiting.keys() | kv.keys(), key=lambda name: (len(name), name))
        return tuple(
            RankReading(
                rank=clean(name, 40),
                running=running.get(name),
                waiting=waiting.get(name),
                kv_usage=kv.get(name),
                stalled_s=self._beats[name].stalled_s if name in self._beats else None,
            )
            for name in names
        )

    def _kv_max(self, at: float, ranks: ByRank) -> float | None:
        if not ranks:
            return None
        self._kv_worst.append((at, max(ranks.values())))
        while at - self._kv_worst[0][0] > KV_MAX_WINDOW_S:
            self._kv_worst.popleft()
        return max(usage for _, usage in self._kv_worst)

    def _generated(self, present: Present, running: ByRank) -> float | None:
        """Tokens a second; of a gauge only while something runs and steps, since it keeps its last value."""
        counted = self._windows.rate("generation_tokens", RATE_WINDOW_S)
        said = present.total("gen_tok_s")
        if counted is not None or said is None or not running:
            return counted
        working = [beat for beat in self._beats.values() if beat.working]
        standing = bool(working) and all(beat.stalled_s > 0 for beat in working)
        return 0.0 if standing or sum(running.values()) == 0 else said

    def _errors_told(self, samples: Samples) -> bool:
        counters = self.table.counters
        http, ours = counters.get("http_5xx"), counters.get("finished_in_error")
        # the labels of engines that never say "error" are no proof that nothing fails
        return (http is not None and select(samples, http) is not None) or (
            ours is not None and bool(select(samples, ours))
        )

    # ------------------------------------------------------------------------------- over time

    def _follow_heartbeats(self, present: Present, at: float, running: ByRank, waiting: ByRank) -> None:
        """Ranks whose counters or queue are not in the scrape are forgotten: nothing is known of them."""
        figures, ages = present.beats(), present.ranks("step_age")
        followed: dict[str, Heartbeat] = {}
        for rank in {rank for figure in figures for rank in figure} & (running.keys() | waiting.keys()):
            beat = followed[rank] = self._beats.get(rank) or Heartbeat()
            age_s = ages.get(rank)
            working = running.get(rank, 0.0) > 0 or waiting.get(rank, 0.0) > 0
            # a first prefill is in no gauge before it is done, and neither is what comes in a hang
            working = working or (age_s is not None and age_s >= BUSY_STEP_S)
            beat.update(at, tuple(figure.get(rank) for figure in figures), working, age_s)
        self._beats = followed

    def _worst_beat(self) -> Heartbeat | None:
        """The rank that has stood still for longest with work, or, where none works, the last to step."""
        working = [beat for beat in self._beats.values() if beat.working]
        if working:
            return max(working, key=lambda beat: (beat.stalled_s, beat.since_step_s or 0.0))
        return min(self._beats.values(), key=lambda beat: beat.since_step_s or 0.0, default=None)


class _Latencies:
    """Windowed percentiles and exact means of every histogram, and which of them are only bounds."""

    def __init__(self, windows: Windows) -> None:
        self.bounds: dict[str, Literal["<", ">"]] = {}
        self.figures: dict[str, Any] = {}
        for name in ("ttft", "itl", "tpot", "e2e", "queue"):
            histogram = windows.histogram(name, LATENCY_WINDOW_S)
            for form, q in _QUANTILES.items():
                self._quantile(f"{name}_{form}_s", histogram, q)
            self.figures[f"{name}_mean_s"] = None if histogram is None else histogram.mean()

    def _quantile(self, field: str, histogram: Histogram | None, q: float) -> None:
        found = None if histogram is None else histogram.quantile(q)
        self.figures[field] = None if found is None else found.value
        if found is not None and found.side:
            self.bounds[field] = found.side


def _either(first: float | None, second: float | None) -> float | None:
    return second if first is None else first
