"""What a probe's answer proves of the engine behind it: whether a hang can be seen on its route at all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tui.model.units import seconds

if TYPE_CHECKING:
    from tui.model.readings import EngineKind
    from tui.model.settings import ProbeSpec
    from tui.model.snapshot import EngineView

_STATIC = frozenset(
    ("/v1/models", "/models", "/version", "/ping", "/metrics", "/load", "/docs", "/openapi.json",
     "/model_info", "/get_model_info", "/server_info", "/get_server_info")
)  # fmt: skip
"""The HTTP process answers these by itself."""
_BLIND: dict[EngineKind, frozenset[str]] = {
    # 200 for good over a stopped core, and over a stopped worker: seen on vLLM 0.32 and Triton 2.51
    "vllm": frozenset(("/health",)),
    "triton": frozenset(("/v2/health/live", "/v2/health/ready")),
    # turns 503 only after somebody's call of /health has waited 20 s in vain
    "sglang": frozenset(("/ready",)),
    "trtllm": frozenset(),
}
_SEEING: dict[EngineKind, frozenset[str]] = {
    "vllm": frozenset(),
    "triton": frozenset(),
    "sglang": frozenset(("/health", "/health_generate")),
    "trtllm": frozenset(("/health_generate",)),
}


def sees_hang(engine: EngineKind | None, spec: ProbeSpec) -> bool | None:
    """Whether this probe fails once the engine makes no step any more; None: that cannot be told."""
    if spec.handler == "tcpSocket":
        return False  # the kernel's backlog accepts for a stopped process
    if spec.handler != "httpGet" or engine is None:
        return None
    path = spec.path.partition("?")[0]
    if path in _SEEING[engine]:
        return True
    return False if path in _STATIC or path in _BLIND[engine] else None


def unseen_hang(view: EngineView, *, hung: bool) -> str:
    """What liveness makes of a hang that it cannot see; empty where there is none, or it can.

    Args:
        view: the engine, with its probes and the settings in force.
        hung: it was judged so, or its heartbeat stands still.
    """
    spec = view.probe_specs.get("liveness")
    probe = next((p for p in view.probes if p.kind == "liveness"), None)
    if not hung or spec is None or probe is None or not probe.ok:
        return ""
    reading = view.engine.reading
    kind = reading.engine if reading is not None else None
    if kind is None and view.processes:
        kind = view.processes[0].engine
    if sees_hang(kind, spec) is not False:
        return ""
    return f"liveness on {_route(spec)} would never notice this hang"


def why_unseen(view: EngineView, wall: float) -> str:
    """What liveness has seen of a hang for which ``unseen_hang`` says something, and what would notice it.

    Args:
        view: the engine.
        wall: epoch seconds of the view.
    """
    spec, reading = view.probe_specs["liveness"], view.engine.reading
    probe = next(p for p in view.probes if p.kind == "liveness")
    times = f" {probe.streak} times in a row" if probe.streak > 1 else ""
    still = reading.stalled_s if reading is not None and (reading.stalled_scrapes or 0) > 1 else None
    since = f", no step since {_clock(wall - still)} ({seconds(still)})" if still else ""
    # the first look may still see steps of before the hang
    looks, period = spec.failure_threshold + 1, spec.period_s
    progress = f"{looks} * {period:g} = {looks * period:g} s"
    return f"{_route(spec)} passed{times}{since}; a look at progress at its pace would within {progress}"


def by_generating(view: EngineView, wall: float) -> str:
    """When liveness would notice the hang if it generated, or did so; empty where nothing generates.

    Args:
        view: the engine, with its generate probe.
        wall: epoch seconds of the view.
    """
    generate = next((p for p in view.probes if p.kind == "generate"), None)
    if generate is not None and generate.notice_in_s:
        return f"one that generates would at {_clock(wall + generate.notice_in_s)}"
    if generate is not None and generate.notice_in_s == 0.0 and generate.decided_at is not None:
        return f"one that generates did at {_clock(generate.decided_at)}"
    return ""


def _route(spec: ProbeSpec) -> str:
    return "tcpSocket" if spec.handler == "tcpSocket" else spec.path


def _clock(epoch_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(epoch_s))
