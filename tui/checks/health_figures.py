"""One scrape of an engine's figures: its steps, its work, its prefix cache since start."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.checks.health_http import MAX_BYTES, Asker
from tui.checks.progress import Rank
from tui.exposition.parse import Parser
from tui.model.status import SourceError
from tui.sources.engines import metrics_at
from tui.sources.engines.loads import from_loads
from tui.sources.engines.present import Present
from tui.sources.engines.samples import select, without_repeats
from tui.sources.engines.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.checks.health_engine import EngineRoutes
    from tui.model.settings import EngineTarget
    from tui.sources.engines.samples import Samples
    from tui.sources.engines.table import EngineTable

_GAUGES = ("running", "started", "step_age")
_COUNTERS = ("prefix_queries", "prefix_misses", "prefix_hits")


@dataclass(frozen=True, slots=True)
class Figures:
    """What one scrape told."""

    started: float | None = None
    """Epoch seconds at which the engine started."""
    ranks: Mapping[str, Rank] = field(default_factory=dict)
    """Those with a heartbeat; without any, progress cannot be judged."""
    prefix_asked: float | None = None
    """Tokens (or blocks) looked up in the prefix cache since start."""
    prefix_hits: float | None = None
    """Those that were there."""


def figures(routes: EngineRoutes) -> Figures:
    """Scrape the engine that ``routes`` has identified.

    Raises:
        SourceError: it has no figures: any reason of ``Asker.ask``, what a status other than 200 means,
            ``stats_off`` or ``not_metrics``.
    """
    assert routes.identity is not None  # whose table else
    table = TABLES[routes.identity.engine]
    loads: Samples = {}
    if table.engine == "sglang":
        loads = _loads(routes)
    try:
        scraped = _scrape(routes, table)
    except SourceError:
        if not loads:
            raise
        scraped = {}
    samples = without_repeats({**scraped, **loads}, table)
    if not any(name.startswith(table.own) for name in samples):
        raise SourceError("stats_off", f"{table.off.why}; {table.off.enable}")
    present = Present(samples, table)
    asked, hits = _prefix(samples, table)
    return Figures(present.started(), _ranks(present), asked, hits)


def _loads(routes: EngineRoutes) -> Samples:
    """What SGLang's scheduler last wrote down; its metrics are optional and lag by 40 steps."""
    try:
        answer = routes.ask("/v1/loads")
    except SourceError:
        return {}
    return from_loads(answer.json()).samples if answer.status == 200 else {}


def _scrape(routes: EngineRoutes, table: EngineTable) -> Samples:
    asker, path = _metrics(routes.target, table)
    answer = routes.ask(path, asker=asker, max_bytes=MAX_BYTES)
    if answer.status in (307, 308):  # mounts of some frameworks add a slash
        path += "/"
        answer = routes.ask(path, asker=asker, max_bytes=MAX_BYTES)
    if answer.status != 200:
        raise answer.refusal(path)
    exposition = Parser(_wanted(table)).parse(answer.text())
    if not exposition.accepted:
        raise SourceError("not_metrics", f"{path}: {answer.looks_like()} instead of metrics")
    return exposition.by_name()


def _metrics(target: EngineTarget, table: EngineTable) -> tuple[Asker, str]:
    if target.metrics_url:
        at = metrics_at.named(target)
    elif table.engine == "triton":
        at = metrics_at.tritons(target, table.path)
    else:
        return Asker.of(target), table.path
    return Asker.of(at.target, at.url, unix_socket=at.unix_socket), at.path


def _wanted(table: EngineTable) -> frozenset[str]:
    """The sample names that are read here: a tenth of a table's, and of the time to read them."""
    sources = [
        *(table.gauges[name] for name in _GAUGES if name in table.gauges),
        *(table.counters[name] for name in (*_COUNTERS, "finished") if name in table.counters),
        *((table.gauges["waiting"],) if "waiting" in table.gauges else ()),
        *table.queues.values(),
        *table.heartbeat,
    ]
    names = {name for source in sources for name in (*source.samples, *source.zero_with)}
    return frozenset(names)


def _ranks(present: Present) -> dict[str, Rank]:
    beats, ages = present.beats(), present.ranks("step_age")
    running, waiting = present.ranks("running"), present.waiting()
    return {
        rank: Rank(
            tuple(beat.get(rank) for beat in beats),
            running.get(rank, 0.0),
            waiting.get(rank, 0.0),
            ages.get(rank),
        )
        for rank in sorted({rank for beat in beats for rank in beat} & (running.keys() | waiting.keys()))
    }


def _prefix(samples: Samples, table: EngineTable) -> tuple[float | None, float | None]:
    asked, missed, hits = (_total(samples, table, name) for name in _COUNTERS)
    if hits is None or (asked is None and missed is None):
        return None, None
    return hits + (missed or 0.0) if asked is None else asked, hits


def _total(samples: Samples, table: EngineTable, quantity: str) -> float | None:
    """A counter of all ranks since start; None where the engine does not tell."""
    source = table.counters.get(quantity)
    found = None if source is None else select(samples, source)
    return None if found is None else math.fsum(value for _, value in found if math.isfinite(value))
