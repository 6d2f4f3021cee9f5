"""A simulated SGLang that is told to stop: seen by its own readiness, between the kubelet's probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.demo.running import running
from tests.support.waiting import until
from tui.commands.setup import real_sources
from tui.model.settings import Config, EngineTarget, ProbeSettings, ProbeSpec
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor
from tui.runtime.stops import UNREADY

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.verdicts import Verdict

SELDOM = ProbeSpec("/ready", period_s=600.0)
"""One look at the start, and none in the drain."""


async def test_a_drain_is_seen_although_no_probe_comes_due_in_it(tmp_path: Path) -> None:
    async with running(
        tmp_path / "log", dialect="sglang", sigterm="drain-serve", time_scale=5.0, load_s=0.0
    ) as engine:
        config = Config(interval_s=0.2, probes=ProbeSettings(readiness=SELDOM))
        monitor = Monitor(config, (EngineTarget(engine.url),), real_sources(), SystemClock())
        await monitor.start()

        def verdict() -> Verdict | None:
            return next((v for v in monitor.judgement().verdicts if v.scope == engine.url), None)

        try:
            await until(lambda: (found := verdict()) and found.verdict == "idle", 30, "an idle engine")
            engine.supervisor.order({"do": "terminate"})
            seen = await until(
                lambda: found if (found := verdict()) and found.verdict == "draining" else None,
                20,
                "the drain",
            )
            assert seen.evidence[0].text == UNREADY
            (readiness,) = (p for p in monitor.snapshot().engines[0].probes if p.kind == "readiness")
            assert readiness.status == 200
        finally:
            await monitor.stop()
