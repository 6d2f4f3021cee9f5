"""Health routes asked as the kubelet asks them: a new connection each time, a status or why there is none."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tui.model.readings import ProbeReading
from tui.model.settings import ProbeSpec
from tui.model.status import SourceError
from tui.model.urls import host_port
from tui.sources.http import HttpTarget

if TYPE_CHECKING:
    from tui.model.readings import EngineKind, ProbeAction, ProbeKind, ProbeStatus
    from tui.model.settings import EngineTarget, ProbeSettings
    from tui.model.status import Reason

KEPT_RESULTS = 100
"""Results of which the percentile is taken."""
READ_BYTES = 10_000
"""The kubelet reads no more of an answer either."""
_NO_STATUS: dict[Reason, ProbeStatus] = {
    "refused": "refused", "timeout": "timeout", "tls": "tls", "dns": "dns", "reset": "reset",
}  # fmt: skip
"""Any other reason (what answers is not HTTP) is a broken exchange: reset."""

Route = tuple["ProbeKind", str, float, float]
"""Kind, path, period in seconds, timeout in seconds."""

_KUBELET = (10.0, 1.0)
_ROUTES: dict[EngineKind, tuple[Route, ...]] = {
    "vllm": (("liveness", "/health", *_KUBELET), ("readiness", "/health", *_KUBELET)),
    # its /health generates a token: never under 1 s, and 20 s until it gives up on a hung scheduler
    "sglang": (("liveness", "/health", 30.0, 25.0), ("readiness", "/ready", *_KUBELET)),
    "trtllm": (("liveness", "/health", *_KUBELET), ("readiness", "/health", *_KUBELET)),
    "triton": (("liveness", "/v2/health/live", *_KUBELET), ("readiness", "/v2/health/ready", *_KUBELET)),
}


def default_probes(engine: EngineKind | None) -> tuple[Route, ...]:
    """The health routes of an engine, with the kubelet's own cadence where the engine bears it.

    None are known for an unknown engine: a wrong route could make it work.
    """
    return _ROUTES[engine] if engine is not None else ()


def probe_specs(engine: EngineKind, settings: ProbeSettings) -> tuple[tuple[ProbeKind, ProbeSpec], ...]:
    """The probes to run: those of the settings, the engine's own where they have none.

    A path that the settings leave empty is the engine's default route of that kind (for the startup
    probe: of liveness). Without settings there is no startup probe.
    """
    own = {
        kind: ProbeSpec(path, period_s=period, timeout_s=timeout)
        for kind, path, period, timeout in _ROUTES[engine]
    }
    asked: dict[ProbeKind, ProbeSpec | None] = {
        "liveness": settings.liveness or own["liveness"],
        "readiness": settings.readiness or own["readiness"],
        "startup": settings.startup,
    }
    return tuple(
        (kind, spec if spec.path else replace(spec, path=own.get(kind, own["liveness"]).path))
        for kind, spec in asked.items()
        if spec is not None
    )


def probe_sources(
    target: EngineTarget, engine: EngineKind, settings: ProbeSettings
) -> tuple[tuple[ProbeSource, ProbeSpec], ...]:
    """A source for each probe to run, and how to run it."""
    specs = dict(probe_specs(engine, settings))
    sources = {kind: ProbeSource(target, kind, spec) for kind, spec in specs.items()}
    if engine == "sglang" and not (settings.readiness and settings.readiness.path):
        liveness = sources["liveness"] if specs["liveness"].path == "/health" else None
        sources["readiness"] = ProbeSource(
            target, "readiness", specs["readiness"], absent=Absent("no /ready before SGLang 0.5.20", liveness)
        )
    return tuple((sources[kind], spec) for kind, spec in specs.items())


@dataclass(frozen=True, slots=True)
class Absent:
    """What a 404 means where the route is ours by default and older engines lack it."""

    why: str
    instead: ProbeSource | None = None
    """Its results count then, at its own pace: it is asked no more often for that."""


class ProbeSource:
    """An ``AsyncSource`` that asks one route and counts as the kubelet does.

    Never two requests at once. Connections are not kept: an idle one would hold up Triton's exit. No token
    is sent, and certificates are not verified: the kubelet does neither.

    Args:
        target: the endpoint.
        kind: liveness or startup (a failure restarts), readiness (a failure takes it out of service).
        spec: how the kubelet would run it; its port and scheme replace the target's where it has a port.
        absent: where a 404 means that this engine has no such route.
    """

    def __init__(
        self, target: EngineTarget, kind: ProbeKind, spec: ProbeSpec, *, absent: Absent | None = None
    ) -> None:
        self.name = f"{kind} {target.url}"
        self._target = target
        self._kind = kind
        self._spec = spec
        url = target.url
        if spec.port:
            host = host_port(url)[0]
            url = f"{spec.scheme}://{f'[{host}]' if ':' in host else host}:{spec.port}"
        self._http = HttpTarget(url, headers=target.headers, verify=False, keep_alive=False)
        self._absent = absent
        self._followed: ProbeSource | None = None
        self._turn = asyncio.Lock()
        self._answered = asyncio.Event()
        self._last: tuple[ProbeStatus, float] | None = None
        self._reading: ProbeReading | None = None
        self._latencies: deque[float] = deque(maxlen=KEPT_RESULTS)
        self._streak = 0
        self._passing = kind != "readiness"  # a pod starts unready, and alive

    async def read(self) -> ProbeReading:
        """Ask once. A route that does not answer is a result like any other.

        Raises:
            SourceError: not_supported (the engine has no such route, and nothing stands in for it).
        """
        if self._followed is not None:
            return await self._follow(self._followed)
        async with self._turn:
            status, took = await self._ask()
        if status == 404 and self._absent is not None and self._last is None:
            if self._absent.instead is None:
                raise SourceError("not_supported", self._absent.why, unsupported=True)
            self._followed = self._absent.instead
            return await self._follow(self._followed)
        return self._count(status, took)

    async def _ask(self) -> tuple[ProbeStatus, float]:
        started = time.monotonic()
        status: ProbeStatus
        try:
            await self._http.prepare()
            started = time.monotonic()
            answer = await self._http.get(
                self._spec.path, self._spec.timeout_s, max_bytes=READ_BYTES, cut=True
            )
        except SourceError as error:
            status = _NO_STATUS.get(error.reason, "reset")
        else:
            status = answer.status
        return status, time.monotonic() - started

    async def _follow(self, other: ProbeSource) -> ProbeReading:
        """The newest result of another route, counted once."""
        await other._answered.wait()
        if other._last is not self._last and other._last is not None:
            self._last, self._spec = other._last, other._spec
            return self._count(*other._last)
        assert self._reading is not None  # the first result was new
        return self._reading

    async def close(self) -> None:
        """Close what a cancelled request may have left."""
        await self._http.close()

    def _count(self, status: ProbeStatus, took: float) -> ProbeReading:
        if self._followed is None:
            self._last = (status, took)
        self._answered.set()
        self._latencies.append(took)
        ok = isinstance(status, int) and 200 <= status < 400
        same = self._streak > 0 if ok else self._streak < 0
        self._streak = (self._streak if same else 0) + (1 if ok else -1)
        would, in_s = self._would(ok)
        self._reading = ProbeReading(
            url=self._target.url,
            kind=self._kind,
            path=self._spec.path,
            status=status,
            latency_s=took,
            latency_p99_s=_nearest_rank(self._latencies, 0.99),
            streak=self._streak,
            would=would,
            would_in_s=in_s,
        )
        return self._reading

    def _would(self, ok: bool) -> tuple[ProbeAction, float | None]:
        """What the kubelet does if the results stay as they are, and in how many seconds."""
        spec = self._spec
        threshold = spec.success_threshold if ok else spec.failure_threshold
        more = max(0, threshold - abs(self._streak))
        change = ok != self._passing
        if more == 0:
            self._passing = ok
        if self._kind == "generate" or (ok and (not change or self._kind != "readiness")):
            return "none", None
        if ok:
            return "ready", more * spec.period_s
        return "unready" if self._kind == "readiness" else "restart", more * spec.period_s


def _nearest_rank(values: deque[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]
