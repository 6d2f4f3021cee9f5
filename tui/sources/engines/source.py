"""One engine endpoint as a source: found out once, then scraped."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tui.model.readings import EngineReading
from tui.model.status import SourceError
from tui.model.urls import host_port
from tui.sources.engines.detect import Identity, identify
from tui.sources.engines.missing import all_missing
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.tables import TABLES
from tui.sources.http import HttpTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.settings import EngineTarget
    from tui.model.status import Reason
    from tui.sources.answers import Answer

DEADLINE_S = 4.0
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
        self._metrics, self._path = self._http, "/metrics"
        if target.metrics_url:
            self._metrics, self._path = _elsewhere(target)
        self._identity: Identity | None = None
        self._reader: EngineReader | None = None

    async def read(self) -> EngineReading:
        """One reading.

        Raises:
            SourceError: see the class; any of the reasons of ``HttpTarget.get``, and 5xx.
        """
        until = time.monotonic() + self._deadline_s

        def left() -> float:
            return max(0.001, until - time.monotonic())

        try:
            known = self._identity
            identity = known or await identify(self._http, self._target.engine, left)
            self._identity = identity
            if identity.engine in TABLES:
                return await self._scrape(identity, left)
            if known is not None:
                await self._still_there(identity, left)
            return self._without_figures(
                identity, "unsupported_engine", f"figures of {identity.engine} are not read yet"
            )
        except SourceError as error:
            if error.reason != "timeout":  # the next one that answers here may be another engine
                self._identity = None
            raise

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()
        if self._metrics is not self._http:
            await self._metrics.close()

    async def _scrape(self, identity: Identity, left: Callable[[], float]) -> EngineReading:
        reader = self._reader
        if reader is None or reader.table.engine != identity.engine:
            reader = self._reader = EngineReader(TABLES[identity.engine], self._target.url)
        restarts = reader.restarts
        try:
            answer = await self._metrics.get(self._path, left())
            reading = self._read_answer(reader, answer)
        except SourceError as error:
            if error.reason not in _ANSWERED:
                raise
            return self._without_figures(identity, error.reason, error.detail)
        if reader.restarts != restarts:
            self._identity = None  # version and model may have changed
        return dataclasses.replace(
            reading,
            version=identity.version,
            model=identity.model or reading.model,
            simulated=identity.simulated or answer.simulated,
            scrape_s=answer.took_s,
            missing=reading.missing
            + tuple(gap for gap in identity.missing if gap.field != "model" or reading.model is None),
        )

    def _read_answer(self, reader: EngineReader, answer: Answer) -> EngineReading:
        if answer.status != 200:
            raise answer.refusal(self._path)
        try:
            return reader.feed(answer.text(), self._monotonic())
        except SourceError as error:
            if error.reason == "not_metrics":
                detail = f"{self._path}: {answer.looks_like()} instead of metrics"
                raise SourceError("not_metrics", detail) from None
            raise

    async def _still_there(self, identity: Identity, left: Callable[[], float]) -> None:
        answer = await self._http.get(identity.proof, left(), max_bytes=1000, cut=True)
        if answer.status >= 500:
            raise answer.refusal(identity.proof)
        if answer.status >= 300:
            self._identity = None

    def _without_figures(self, identity: Identity, reason: Reason, detail: str) -> EngineReading:
        table = TABLES.get(identity.engine)
        return EngineReading(
            url=self._target.url,
            engine=identity.engine,
            version=identity.version,
            model=identity.model,
            simulated=identity.simulated,
            reason=reason,
            detail=detail,
            restarts=self._reader.restarts if self._reader is not None else 0,
            missing=all_missing(table, detail) + identity.missing,
        )


def _elsewhere(target: EngineTarget) -> tuple[HttpTarget, str]:
    """Metrics on another port; on another host they are not worth the engine's key."""
    parts = urlsplit(target.metrics_url)
    if host_port(target.metrics_url)[0] != host_port(target.url)[0]:
        target = dataclasses.replace(target, token="", token_env="")
    return HttpTarget.of(target, f"{parts.scheme}://{parts.netloc}"), parts.path or "/metrics"
