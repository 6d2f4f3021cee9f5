"""One engine endpoint as a source: found out once, then scraped."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tui.model.readings import EngineReading
from tui.model.status import SourceError
from tui.sources.engines import metrics_at
from tui.sources.engines.asides import Aside, Asides
from tui.sources.engines.detect import Identity, identify
from tui.sources.engines.fault import EngineFaultError
from tui.sources.engines.missing import all_missing
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.table import Hint
from tui.sources.engines.tables import TABLES
from tui.sources.http import HttpTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.settings import EngineTarget
    from tui.model.status import Reason
    from tui.sources.answers import Answer
    from tui.sources.engines.metrics_at import MetricsAt

DEADLINE_S = 4.0
WITHOUT_METRICS_S = 30.0
"""Until metrics that an engine did not have are asked for again, while other routes tell some figures."""
_ANSWERED = frozenset(("401", "403", "404", "not_metrics", "too_large", "empty", "parse", "redirect"))
"""Reasons that leave no doubt that the engine is there and answers."""


class EngineSource:
    """An ``AsyncSource`` of one endpoint's figures.

    An engine that answers while its figures cannot be had is a reading with a ``reason``; silence, a
    broken connection, a server error and something that is no engine raise.

    Args:
        target: the endpoint.
        monotonic: the clock that dates scrapes.
        deadline_s: for one reading, the questions about what it is included.
    """

    def __init__(
        self,
        target: EngineTarget,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.name = f"engine {target.url}"
        self._target = target
        self._monotonic = monotonic
        self._deadline_s = deadline_s
        self._http = HttpTarget.of(target)
        self._metrics, self._path = self._http, ""
        if target.metrics_url:
            self._metrics, self._path = _asked_at(metrics_at.named(target))
        self._identity: Identity | None = None
        self._reader: EngineReader | None = None
        self._asides: Asides | None = None
        self._at = monotonic()
        """When the last scrape was had."""
        self._no_metrics_until = 0.0

    async def read(self) -> EngineReading:
        """One reading.

        Raises:
            SourceError: see the class; any of the reasons of ``HttpTarget.get``, and 5xx. An
                ``EngineFaultError`` where it has said what it is before.
        """
        await self._http.prepare()
        until = time.monotonic() + self._deadline_s

        def left() -> float:
            return max(0.001, until - time.monotonic())

        identity: Identity | None = None
        try:
            identity = self._identity or await identify(self._http, self._target.engine, left)
            if identity is not self._identity:
                await self._begin(identity)
            return await self._scrape(identity, left)
        except SourceError as error:
            if error.reason != "timeout":  # the next one that answers here may be another engine
                self._identity = None
            if identity is None:
                raise
            raise EngineFaultError(
                error, self._without_figures(identity, error.reason, error.detail)
            ) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()
        if self._metrics is not self._http:
            await self._metrics.close()

    async def _begin(self, identity: Identity) -> None:
        """Another engine, or the same after it went away."""
        self._identity = identity
        table = TABLES[identity.engine]
        if self._reader is None or self._reader.table is not table:
            self._reader = EngineReader(table, self._target.url)
        self._asides = Asides(identity.engine, self._http)
        self._no_metrics_until = 0.0
        if not self._target.metrics_url:
            if self._metrics is not self._http:
                await self._metrics.close()
            self._metrics, self._path = self._http, table.path
            if identity.engine == "triton":
                self._metrics, self._path = _asked_at(metrics_at.tritons(self._target, table.path))

    async def _scrape(self, identity: Identity, left: Callable[[], float]) -> EngineReading:
        reader, asides = self._reader, self._asides
        assert reader is not None and asides is not None  # made with the identity
        restarts = reader.restarts
        try:
            answer = await self._ask_metrics(left)
            self._at = self._monotonic()
            aside = await asides.ask(self._at, left, metrics=answer is not None, models=reader.models)
            if answer is None and not aside.heard:
                await self._still_there(identity, left)
            reading = self._read_answer(reader, answer, aside)
        except SourceError as error:
            if error.reason == "refused" and self._metrics is not self._http:
                return await self._metrics_refused(identity, left)
            if error.reason not in _ANSWERED:
                raise
            return self._without_figures(identity, error.reason, error.detail)
        if reader.restarts != restarts:
            self._identity = None  # version and model may have changed
        version, model = identity.version or aside.version, identity.model or reading.model
        known = {"version": version, "model": model}
        return dataclasses.replace(
            reading,
            version=version,
            model=model,
            paused=aside.paused,
            draining=aside.draining,
            health_looks=aside.looks,
            simulated=identity.simulated or (answer is not None and answer.simulated),
            scrape_s=None if answer is None else answer.took_s,
            missing=tuple(gap for gap in reading.missing if gap.field != "paused" or aside.paused is None)
            + tuple(gap for gap in identity.missing if known.get(gap.field) is None),
        )

    async def _ask_metrics(self, left: Callable[[], float]) -> Answer | None:
        """The metrics; None where the engine has none while other routes may tell something.

        Raises:
            SourceError: see ``read``; also what a status other than 200 means.
        """
        if self._at < self._no_metrics_until:
            return None
        answer = await self._metrics.get(self._path, left())
        if answer.status in (307, 308) and _is_slash_after(answer.headers.get("location", ""), self._path):
            self._path += "/"
            answer = await self._metrics.get(self._path, left())
        if answer.status == 404 and self._identity is not None and self._identity.engine == "sglang":
            self._no_metrics_until = self._at + WITHOUT_METRICS_S
            return None
        if answer.status != 200:
            raise answer.refusal(self._path)
        return answer

    def _read_answer(self, reader: EngineReader, answer: Answer | None, aside: Aside) -> EngineReading:
        off = reader.table.off
        try:
            return reader.feed(
                None if answer is None else answer.text(),
                self._at,
                aside=aside.samples,
                inner=aside.inner,
                off=off if answer is None else None,
            )
        except SourceError as error:
            if error.reason == "not_metrics" and answer is not None:
                detail = f"{self._path}: {answer.looks_like()} instead of metrics"
                raise SourceError("not_metrics", detail) from None
            raise

    async def _still_there(self, identity: Identity, left: Callable[[], float]) -> None:
        """Nothing else was asked of the engine itself.

        Raises:
            SourceError: it is not, or not well.
        """
        answer = await self._http.get(identity.proof, left(), max_bytes=1000, cut=True)
        if answer.status >= 500:
            raise answer.refusal(identity.proof)

    async def _metrics_refused(self, identity: Identity, left: Callable[[], float]) -> EngineReading:
        await self._still_there(identity, left)
        where = self._metrics.url
        hint = Hint(f"nothing listens at {where}", "name the metrics port: --metrics-url or metrics_url")
        return self._without_figures(identity, "stats_off", hint.why, hint.enable)

    def _without_figures(
        self, identity: Identity, reason: Reason, detail: str, enable: str = ""
    ) -> EngineReading:
        table = TABLES[identity.engine]
        if reason == "404" and table.absent is not None:
            enable = table.absent.enable
        return EngineReading(
            url=self._target.url,
            engine=identity.engine,
            version=identity.version,
            model=identity.model,
            simulated=identity.simulated,
            reason=reason,
            detail=detail,
            restarts=self._reader.restarts if self._reader is not None else 0,
            missing=all_missing(table, detail, enable) + identity.missing,
        )


def _asked_at(at: MetricsAt) -> tuple[HttpTarget, str]:
    return HttpTarget.of(at.target, at.url, unix_socket=at.unix_socket), at.path


def _is_slash_after(location: str, path: str) -> bool:
    """A redirect that only adds a slash: what mounts of some frameworks do."""
    return urlsplit(location).path.endswith(f"{path}/") and not urlsplit(location).query
