"""Scrapes to readings in canonical quantities: no clock and no IO, only the memory of earlier scrapes."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Literal

from tui.exposition.parse import Parser
from tui.model.readings import EngineReading, RankReading
from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources.engines.heartbeat import Heartbeat
from tui.sources.engines.missing import all_missing, missing_figures
from tui.sources.engines.samples import by_label, combined, select
from tui.sources.engines.windows import LATENCY_WINDOW_S, RATE_WINDOW_S, Windows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.exposition.histogram import Histogram
    from tui.sources.engines.samples import Samples
    from tui.sources.engines.tables import EngineTable

KV_MAX_WINDOW_S = 30.0
_ONLY_RANK = "0"


class EngineReader:
    """Reads the scrapes of one endpoint in their order.

    Args:
        table: where the engine keeps what.
        url: of the endpoint, for the readings.
    """

    def __init__(self, table: EngineTable, url: str) -> None:
        self.table = table
        self._url = url
        self._parser = Parser(table.wanted())
        self._windows = Windows(table)
        self._beats: dict[str, Heartbeat] = {}
        self._kv_worst: deque[tuple[float, float]] = deque()

    @property
    def restarts(self) -> int:
        """Restarts of the engine seen so far."""
        return self._windows.restarts

    def feed(self, text: str, at: float) -> EngineReading:
        """Take one scrape.

        Args:
            text: the whole body.
            at: monotonic seconds at which it was had; later than for the scrape before.

        Raises:
            SourceError: empty, not_metrics, too_large (series).
        """
        exposition = self._parser.parse(text)
        if exposition.too_many:
            raise SourceError("too_large", "too many series")
        if exposition.accepted == 0:
            if exposition.rejected:
                raise SourceError("not_metrics", "not Prometheus text")
            raise SourceError("empty", "an empty answer")
        samples = exposition.by_name()
        if not any(name.startswith(self.table.own) for name in samples):
            return self._stats_off(samples)
        started = self._started(samples)
        if self._windows.add(at, samples, started):
            self._beats.clear()
            self._kv_worst.clear()
        reading = self._reading(samples, at, started)
        present = {name.removesuffix("_bucket") for name in samples}
        return dataclasses.replace(reading, missing=missing_figures(reading, self.table, present))

    def _reading(self, samples: Samples, at: float, started: float | None) -> EngineReading:
        running, waiting, kv = (self._by_rank(samples, name) for name in ("running", "waiting", "kv_usage"))
        self._follow_heartbeats(samples, at, running, waiting)
        ttft, itl, e2e, queue = (
            self._windows.histogram(name, LATENCY_WINDOW_S) for name in ("ttft", "itl", "e2e", "queue")
        )
        quantile = _Quantiles()
        beat = self._worst_beat()
        rate = partial(self._windows.rate, window_s=RATE_WINDOW_S)
        return EngineReading(
            url=self._url,
            engine=self.table.engine,
            model=self._model(samples),
            window_s=self._windows.span_s(RATE_WINDOW_S),
            latency_window_s=self._windows.span_s(LATENCY_WINDOW_S),
            running=self._total("running", running),
            waiting=self._total("waiting", waiting),
            waiting_by_reason=self._reasons(samples),
            kv_usage=self._total("kv_usage", kv),
            kv_usage_max=self._kv_max(at, kv),
            kv_capacity_tokens=self._capacity(samples),
            max_num_seqs=self._total("max_num_seqs", self._by_rank(samples, "max_num_seqs")),
            preemptions_per_s=rate("preemptions"),
            evictions_per_s=rate("evictions"),
            gen_tok_s=rate("generation_tokens"),
            prompt_tok_s=rate("prompt_tokens"),
            req_s=rate("finished"),
            prefix_hit_ratio=self._recent(self._prefix_hit_ratio),
            error_ratio=self._recent(self._error_ratio),
            ttft_p50_s=quantile.of("ttft_p50_s", ttft, 0.50),
            ttft_p95_s=quantile.of("ttft_p95_s", ttft, 0.95),
            ttft_p99_s=quantile.of("ttft_p99_s", ttft, 0.99),
            ttft_mean_s=_mean(ttft),
            itl_p50_s=quantile.of("itl_p50_s", itl, 0.50),
            itl_p95_s=quantile.of("itl_p95_s", itl, 0.95),
            itl_mean_s=_mean(itl),
            e2e_p95_s=quantile.of("e2e_p95_s", e2e, 0.95),
            e2e_mean_s=_mean(e2e),
            queue_p95_s=quantile.of("queue_p95_s", queue, 0.95),
            queue_mean_s=_mean(queue),
            bounds=quantile.bounds,
            since_last_step_s=None if beat is None else beat.since_step_s,
            stalled_s=None if beat is None else beat.stalled_s,
            stalled_scrapes=None if beat is None else beat.scrapes,
            asleep=self._asleep(samples),
            ranks=self._ranks(running, waiting, kv),
            started_at=started,
            restarts=self.restarts,
        )

    def _stats_off(self, samples: Samples) -> EngineReading:
        off = self.table.off
        return EngineReading(
            url=self._url,
            engine=self.table.engine,
            reason="stats_off",
            detail=off.why,
            started_at=self._started(samples),
            restarts=self.restarts,
            missing=all_missing(self.table, off.why, off.enable),
        )

    # ------------------------------------------------------------------------------- now

    def _by_rank(self, samples: Samples, quantity: str) -> dict[str, float]:
        source = self.table.gauges.get(quantity)
        return {} if source is None else by_label(samples, source, self.table.rank_label, _ONLY_RANK)

    def _total(self, quantity: str, ranks: dict[str, float]) -> float | None:
        return combined(ranks.values(), self.table.gauges[quantity].across) if ranks else None

    def _ranks(
        self, running: dict[str, float], waiting: dict[str, float], kv: dict[str, float]
    ) -> tuple[RankReading, ...]:
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

    def _reasons(self, samples: Samples) -> dict[str, float]:
        source = self.table.gauges.get("waiting_by_reason")
        if source is None:
            return {}
        return {clean(why, 40): count for why, count in by_label(samples, source, "reason", "").items()}

    def _model(self, samples: Samples) -> str | None:
        for series, _ in select(samples, self.table.gauges["running"]) or ():
            if name := clean(series.labels.get("model_name", "")):
                return name
        return None

    def _kv_max(self, at: float, ranks: dict[str, float]) -> float | None:
        if not ranks:
            return None
        self._kv_worst.append((at, max(ranks.values())))
        while at - self._kv_worst[0][0] > KV_MAX_WINDOW_S:
            self._kv_worst.popleft()
        return max(usage for _, usage in self._kv_worst)

    def _capacity(self, samples: Samples) -> float | None:
        source = self.table.gauges.get("capacity")
        tokens: dict[str, float] = {}
        for series, _ in (select(samples, source) if source is not None else None) or ():
            size = _product(series.labels, self.table.capacity_labels)
            if size is not None:
                tokens[series.labels.get(self.table.rank_label, _ONLY_RANK)] = size
        return sum(tokens.values()) if tokens else None

    def _asleep(self, samples: Samples) -> bool | None:
        ranks = self._by_rank(samples, "awake")
        return max(ranks.values()) <= 0 if ranks else None

    def _started(self, samples: Samples) -> float | None:
        return max(self._by_rank(samples, "started").values(), default=None)

    # ------------------------------------------------------------------------------- over time

    def _follow_heartbeats(
        self, samples: Samples, at: float, running: dict[str, float], waiting: dict[str, float]
    ) -> None:
        """Ranks whose counters or queue are not in the scrape are forgotten: nothing is known of them."""
        counters = [by_label(samples, one, self.table.rank_label, _ONLY_RANK) for one in self.table.heartbeat]
        followed: dict[str, Heartbeat] = {}
        for rank in {rank for counter in counters for rank in counter} & (running.keys() | waiting.keys()):
            beat = followed[rank] = self._beats.get(rank) or Heartbeat()
            working = running.get(rank, 0.0) > 0 or waiting.get(rank, 0.0) > 0
            beat.update(at, tuple(counter.get(rank, -1.0) for counter in counters), working)
        self._beats = followed

    def _worst_beat(self) -> Heartbeat | None:
        """The rank that has stood still for longest with work, or, where none works, the last to step."""
        working = [beat for beat in self._beats.values() if beat.working]
        if working:
            return max(working, key=lambda beat: (beat.stalled_s, beat.since_step_s or 0.0))
        return min(self._beats.values(), key=lambda beat: beat.since_step_s or 0.0, default=None)

    def _recent(self, ratio: Callable[[float], float | None]) -> float | None:
        """A ratio over the rate window, or over the longer one where there was nothing to count in it."""
        recent = ratio(RATE_WINDOW_S)
        return ratio(LATENCY_WINDOW_S) if recent is None else recent

    def _prefix_hit_ratio(self, window_s: float) -> float | None:
        hits = self._windows.increase("prefix_hits", window_s)
        asked = self._windows.increase("prefix_queries", window_s)
        return hits / asked if hits is not None and asked else None

    def _error_ratio(self, window_s: float) -> float | None:
        """Failed of all requests that ended. A failure may be counted by the engine, by HTTP, or by both.

        An error or a rejection inside a stream is an HTTP 200, and a 5xx before the engine saw the
        request is none of its finished ones: the larger count is the better one.
        """
        finished = self._windows.increase("finished", window_s)
        if finished is None:
            return None
        in_error = self._windows.increase("finished_in_error", window_s) or 0.0
        rejected = self._windows.increase("rejected", window_s) or 0.0
        failed = max(in_error + rejected, self._windows.increase("http_5xx", window_s) or 0.0)
        ended = finished - in_error + failed
        return failed / ended if ended > 0 else None


class _Quantiles:
    """Quantiles as figures, and which of them are only bounds."""

    def __init__(self) -> None:
        self.bounds: dict[str, Literal["<", ">"]] = {}

    def of(self, field: str, histogram: Histogram | None, q: float) -> float | None:
        found = None if histogram is None else histogram.quantile(q)
        if found is None:
            return None
        if found.side:
            self.bounds[field] = found.side
        return found.value


def _mean(histogram: Histogram | None) -> float | None:
    return None if histogram is None else histogram.mean()


def _product(labels: Mapping[str, str], candidates: tuple[tuple[str, ...], ...]) -> float | None:
    for names in candidates:
        values = [labels.get(name, "") for name in names]
        if all(value.isdecimal() and len(value) < 19 for value in values):  # "None" is a value too
            return math.prod(map(float, values))
    return None
