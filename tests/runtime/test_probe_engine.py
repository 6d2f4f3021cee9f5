"""Real probes of a simulated engine: a load that is longer than liveness bears, and a hang it cannot see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.demo.running import running
from tests.support.waiting import until
from tests.ui import scenes
from tui.commands.setup import real_sources
from tui.model.settings import Config, EngineTarget, ProbeSettings, ProbeSpec, Thresholds
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor
from tui.ui.charts import Trends
from tui.ui.panes import probe_notes
from tui.ui.view import View

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.readings import ProbeReading
    from tui.model.snapshot import EngineView

SCALE = 30.0
LOAD_S = 90.0 / SCALE
LIVENESS = ProbeSpec(
    "/health",
    initial_delay_s=30.0 / SCALE,
    period_s=10.0 / SCALE,
    timeout_s=10.0 / SCALE,
    failure_threshold=3,
)
"""Thirty times as fast as the kubelet's usual 30/10/3, over a load of 90 s."""
TICK_S = LIVENESS.period_s


def notes(monitor: Monitor) -> list[str]:
    view = View(monitor.snapshot(), monitor.judgement(), Trends(scenes.history(monitor.snapshot())))
    return [
        text for engine in view.snapshot.engines for text in probe_notes.warnings(view, engine, full=True)
    ]


async def test_a_load_that_liveness_does_not_bear_and_a_hang_that_it_does_not_see(tmp_path: Path) -> None:
    async with running(tmp_path / "log", wait=False, load_s=LOAD_S) as engine:
        config = Config(
            interval_s=0.2,
            probes=ProbeSettings(
                liveness=LIVENESS, readiness=ProbeSpec("/health", period_s=TICK_S), generate_period_s=1.0
            ),
            thresholds=Thresholds(generate_timeout_s=1.0),
        )
        target = EngineTarget(engine.url, engine="vllm")
        monitor = Monitor(config, (target,), real_sources(), SystemClock())
        await monitor.start()

        def view() -> EngineView:
            return monitor.snapshot().engines[0]

        def probe(kind: str) -> ProbeReading | None:
            return next((p for p in view().probes if p.kind == kind), None)

        def told(kind: str, name: str) -> Any:
            found = probe(kind)
            return None if found is None else getattr(found, name)

        try:
            # never healthy by then: killed between D + (F-1)P and a tick later, counted from the start
            decided = await until(lambda: told("liveness", "decided_at"), 20, "the kubelet's decision")
            started = await until(lambda: view().processes, 10, "the engine's process")
            after = decided - started[0].started_at
            first = LIVENESS.initial_delay_s + 2 * LIVENESS.period_s
            assert first - 0.05 <= after <= first + 4 * TICK_S
            assert told("liveness", "status") == "refused"
            assert any(text.startswith("liveness would have killed it at") for text in notes(monitor))

            await until(lambda: told("liveness", "ok"), 20, "the end of the load")
            await until(lambda: told("readiness", "would") == "none", 10, "readiness")
            assert probe("generate") is None
            monitor.generate = True
            await until(lambda: told("generate", "status") == 200, 20, "a token")

            engine.supervisor.order({"do": "hang"})
            await until(lambda: told("generate", "status") == "timeout", 20, "the first timeout")
            await until(
                lambda: any("never notice" in t and "generates" in t for t in notes(monitor)), 30, "the words"
            )
            await until(lambda: told("liveness", "ok"), 10, "liveness that sees nothing")
            verdict = next(v for v in monitor.judgement().verdicts if v.scope == engine.url)
            assert verdict.verdict == "engine_hung"
            engine.supervisor.order({"do": "resume"})
            await until(lambda: told("generate", "status") == 200, 20, "the end of the hang")
        finally:
            await monitor.stop()
