"""Pictures of a host in every state worth seeing, all figures fixed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.ui.scene_judgements import (
    CALM,
    CALM_TIMELINES,
    FINDINGS,
    HOST_IDLE,
    SICK,
    SICK_TIMELINES,
    healthy,
    kv_cache,
)
from tests.ui.scene_parts import (
    FRESH,
    NOW,
    URLS,
    WALL,
    engine,
    engine_reading,
    failed_engine,
    gpu,
    host,
    probes,
    snapshot,
)
from tests.ui.scene_past import filled, history, settled
from tests.ui.trouble_scenes import broken_view, forbidden_view, hung_view, stale_view, unknown_view
from tui.model.history import History
from tui.model.readings import GpuSet
from tui.model.snapshot import HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import Judgement, Verdict
from tui.ui.charts import Trends
from tui.ui.view import Mode, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.snapshot import EngineView

__all__ = [
    "CALM", "FINDINGS", "FRESH", "HOST_IDLE", "NOW", "SICK", "URLS", "WALL", "broken_view", "engine", "engine_reading",
    "failed_engine", "forbidden_view", "gpu", "healthy", "history", "host", "hung_view", "kv_cache", "probes",
    "snapshot", "stale_view", "unknown_view",
]  # fmt: skip
"""What tests take from here that is made elsewhere; the scenes themselves are below."""


def calm_view(**mode: Any) -> View:
    return View(snapshot(), CALM, Trends(history(snapshot())), CALM_TIMELINES, Mode(**mode))


def sick_engine(index: int = 0) -> EngineView:
    """Its KV cache is full."""
    return engine(
        index,
        waiting=37.0,
        kv_usage=0.99,
        kv_usage_max=1.0,
        preemptions_per_s=3.1,
        ttft_p95_s=28.0,
        itl_p95_s=0.11,
        queue_p95_s=26.0,
        gen_tok_s=610.0,
        prefix_hit_ratio=0.12,
        probing=probes(URLS[index], latency_p99_s=0.78, latency_max_s=0.94),
    )


def sick_snapshot() -> HostSnapshot:
    gpus = tuple(gpu(i, sm_pct=61.0 - i, mem_ctrl_pct=48.0) for i in range(8))
    return replace(
        snapshot(), engines=(sick_engine(), engine(1)), gpus=Observed(GpuSet(gpus, "550.54.15"), FRESH)
    )


def sick_view(**mode: Any) -> View:
    return View(
        sick_snapshot(),
        SICK,
        Trends(history(snapshot(), late=(*settled(sick_snapshot(), 120), *filled(URLS[0])))),
        SICK_TIMELINES,
        Mode(**mode),
    )


def bare_view(**mode: Any) -> View:
    """No GPU, no engine: a laptop."""
    status = SourceStatus(
        SourceState.UNSUPPORTED,
        "no_driver",
        "no NVIDIA driver here: libnvidia-ml.so.1 cannot be loaded",
        since=NOW - 60,
    )
    found = replace(snapshot(engines=0), gpus=Observed(None, status))
    verdict = Verdict(
        "host", "unknown", "UNKNOWN", confidence="low", missing=("no GPU figures", "no engine found")
    )
    return View(
        found,
        Judgement((verdict,)),
        Trends(history(found)),
        {"host": ((WALL - 60, "unknown"),)},
        Mode(**mode),
    )


def pending_view(**mode: Any) -> View:
    """The first frame: nothing has been read."""
    nothing = HostSnapshot(taken_at=NOW, wall=WALL, hostname="gpu-07", discovery_done=False)
    return View(nothing, Judgement(), Trends(History()), {}, Mode(**mode))


def crowded_view(gpus: int = 16, engines: int = 12, **mode: Any) -> View:
    """More than fit; the last engine is sick."""
    last, began = engines - 1, WALL - 700
    sick = kv_cache(URLS[last])
    well = (healthy(url, began) for url in URLS[:last])
    base = snapshot(gpus=gpus, engines=last)
    found = replace(base, engines=(*base.engines, sick_engine(last)))
    filling = ((began, "healthy"), (WALL - 85, "kv_cache"))
    return View(
        found,
        Judgement((replace(sick, scope="host"), *well, sick), FINDINGS),
        Trends(history(snapshot(gpus, engines), 700, filled(URLS[last]))),
        {**dict.fromkeys(URLS[:last], filling[:1]), "host": filling, URLS[last]: filling},
        Mode(**mode),
    )


def wide_view(**mode: Any) -> View:
    """Names of wide characters, combining marks, emoji, and what no two terminals draw alike."""
    shown = snapshot(2, 4, hostname="ホスト-07")
    models = (
        "日本語モデル-カ-70b",
        "cafe\u0301-x\u0336-\U0001f680-instruct",
        "한국어-\U0001f44d\U0001f3fd-8b",
        "नमस्ते",
    )
    engines = tuple(engine(index, model=model) for index, model in enumerate(models))
    shown = replace(shown, engines=engines)
    verdicts = (HOST_IDLE, *(healthy(url) for url in URLS[:4]))
    return View(shown, Judgement(verdicts), Trends(history(shown)), CALM_TIMELINES, Mode(**mode))


SCENES: dict[str, Callable[..., View]] = {
    "healthy": calm_view,
    "kv_cache": sick_view,
    "bare": bare_view,
    "stale": stale_view,
    "broken": broken_view,
    "hung": hung_view,
    "unknown": unknown_view,
    "forbidden": forbidden_view,
    "pending": pending_view,
    "crowded": crowded_view,
    "wide": wide_view,
}
