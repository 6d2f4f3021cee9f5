"""What other routes of an engine add to its metrics: asked seldom, shortly, and never in its way."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from tui.model.status import SourceError
from tui.sources.engines.loads import Loads, from_get_load, from_loads, from_server_info

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tui.model.readings import EngineKind
    from tui.sources.answers import Answer
    from tui.sources.engines.samples import Samples
    from tui.sources.http import HttpTarget

LONGEST_S = 1.0
"""For one question. In a hang some of these routes wait for the scheduler."""
SHORTEST_S = 0.2
"""With less time left a question is not put at all: that it gets no answer would mean nothing."""
SILENT_S = 10.0
"""Until a route is asked again that gave no answer: each question may wait there for ever."""
ABSENT_S = 300.0
"""Until a route is asked again that the engine did not have."""
PAUSE_EVERY_S = 5.0
READY_EVERY_S = 1.9
"""SGLang with nothing to finish ends within 5 s of its SIGTERM, and says so on ``/ready`` (2 ms) and in its
log alone; of scrapes that come each second this is every other one."""
WORKS_S = 10.0
"""A scheduler whose snapshot is no older does not hang: ``/health`` calls it unhealthy after 20 s."""
RATE_S = 60.0
"""The span over which our own questions are counted."""
MAX_BYTES = 1_000_000
_HEALTH = ("/ready", "/ping")
_MODELS_AT_ONCE = 4
_MAX_MODELS = 256


@dataclass(frozen=True, slots=True)
class Aside:
    """What is known beside the metrics."""

    samples: Samples = field(default_factory=dict)
    version: str | None = None
    paused: bool | None = None
    draining: bool | None = None
    inner: frozenset[str] = frozenset()
    """Models that are parts of others."""
    looks: int = 0
    """Requests to its health routes in the last minute."""
    heard: bool = False
    """Some route has just answered."""


class Asides:
    """The other routes of one engine.

    Args:
        engine: what answers.
        http: its target.
    """

    def __init__(self, engine: EngineKind, http: HttpTarget) -> None:
        self._engine = engine
        self._http = http
        self._now = 0.0
        self._not_before: dict[str, float] = {}
        self._absent: set[str] = set()
        self._standing: dict[str, Loads] = {}  # answers that do not change
        self._paused: bool | None = None
        self._was_ready = False
        self._draining: bool | None = None
        self._looks: deque[float] = deque()
        self._heard = False
        self._parts: dict[str, tuple[str, ...]] = {}

    async def ask(
        self, now: float, left: Callable[[], float], *, metrics: bool, models: Collection[str] = ()
    ) -> Aside:
        """What they say now; a route that does not answer adds nothing.

        Args:
            now: monotonic seconds.
            left: seconds that remain for all of it.
            metrics: the engine has metrics, so that nothing needs to stand in for them.
            models: names from the metrics.
        """
        self._now, self._heard = now, False
        if self._engine == "sglang":
            loads = await self._loads(left, metrics=metrics)
            if self._is_due("ready", READY_EVERY_S):
                await self._sglang_state(left, loads.samples)
            return Aside(
                loads.samples,
                loads.version,
                self._paused,
                self._draining,
                looks=self._looks_of_late(),
                heard=self._heard,
            )
        if self._engine == "vllm":
            if self._is_due("pause", PAUSE_EVERY_S):
                self._paused = await self._vllm_paused(left)
            return Aside(paused=self._paused)
        if self._engine == "triton":
            return Aside(inner=await self._inner(left, models))
        return Aside()

    # ------------------------------------------------------------------------------- SGLang's loads

    async def _loads(self, left: Callable[[], float], *, metrics: bool) -> Loads:
        answer = await self._get("/v1/loads", left)
        if answer is not None:
            return from_loads(answer.json())
        if "/v1/loads" not in self._absent:
            return Loads()
        info = self._standing.get("info")
        if info is None:
            told = await self._get("/get_server_info", left)
            info = from_server_info(None if told is None else told.json())
            if told is not None:
                self._standing["info"] = info
        old = None if metrics else await self._get("/get_load", left)
        requests = Loads() if old is None else from_get_load(old.json())
        return Loads({**info.samples, **requests.samples}, info.version)

    # ------------------------------------------------------------------------------- pause and drain

    def _is_due(self, what: str, every_s: float) -> bool:
        due = self._now >= self._not_before.get(what, 0.0)
        if due:
            self._not_before[what] = self._now + every_s
        return due

    async def _vllm_paused(self, left: Callable[[], float]) -> bool | None:
        """Asked for in development mode only; a paused engine shows neither running nor waiting requests."""
        answer = await self._get("/is_paused", left)
        said = None if answer is None else answer.json()
        paused = said.get("is_paused") if isinstance(said, dict) else None
        return paused if isinstance(paused, bool) else None

    async def _sglang_state(self, left: Callable[[], float], loads: Samples) -> None:
        """``/ready`` is what a paused server refuses and ``/ping`` what it still answers.

        Both are refused by one that starts, that drains, or whose scheduler has kept ``/health`` waiting for
        20 s: one that was ready before and whose scheduler goes on when they turn drains.
        """
        ready = await self._get("/ready", left, also=(503,))
        if ready is not None and ready.status == 200:
            self._paused, self._draining, self._was_ready = False, False, True
            return
        if self._draining:
            return
        if ready is None:
            self._paused = None
            return
        ping = await self._get("/ping", left, also=(503,))
        self._paused = True if ping is not None and ping.status == 200 else None
        ages = [age for _, age in loads.get("loads_age_s", ())]
        if self._was_ready and ages and ping is not None and not self._paused:
            self._was_ready, self._draining = False, max(ages) < WORKS_S

    def _looks_of_late(self) -> int:
        while self._looks and self._looks[0] <= self._now - RATE_S:
            self._looks.popleft()
        return len(self._looks)

    # ------------------------------------------------------------------------------- Triton's ensembles

    async def _inner(self, left: Callable[[], float], models: Collection[str]) -> frozenset[str]:
        if 1 < len(models) <= _MAX_MODELS:
            for name in sorted(set(models) - self._parts.keys())[:_MODELS_AT_ONCE]:
                path = f"/v2/models/{quote(name, safe='')}/config"
                answer = await self._get(path, left)
                if answer is not None:
                    self._parts[name] = _steps(answer.json())
                elif path in self._absent:
                    self._parts[name] = ()
        return frozenset(part for parts in self._parts.values() for part in parts)

    # ------------------------------------------------------------------------------- asking

    async def _get(
        self, path: str, left: Callable[[], float], *, also: tuple[int, ...] = ()
    ) -> Answer | None:
        now, patience = self._now, left() / 2
        if now < self._not_before.get(path, 0.0) or patience < SHORTEST_S:
            return None
        if path in _HEALTH:
            self._looks.append(now)
        try:
            answer = await self._http.get(path, min(LONGEST_S, patience), max_bytes=MAX_BYTES)
        except SourceError:
            self._not_before[path] = now + SILENT_S
            return None
        self._heard = True
        if answer.status == 200 or answer.status in also:
            self._absent.discard(path)
            return answer
        if answer.status < 500:
            self._absent.add(path)
        self._not_before[path] = now + (SILENT_S if answer.status >= 500 else ABSENT_S)
        return None


def _steps(config: object) -> tuple[str, ...]:
    """The models that an ensemble passes its requests through."""
    scheduling = config.get("ensemble_scheduling") if isinstance(config, dict) else None
    steps = scheduling.get("step") if isinstance(scheduling, dict) else None
    found = (
        [step.get("model_name") for step in steps if isinstance(step, dict)]
        if isinstance(steps, list)
        else []
    )
    return tuple(name for name in found if isinstance(name, str))
