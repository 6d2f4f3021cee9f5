"""What a probe's answer proves of the engine behind it: whether a hang can be seen on its route at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    what = "tcpSocket" if spec.handler == "tcpSocket" else spec.path
    return f"liveness on {what} would never notice this hang"
