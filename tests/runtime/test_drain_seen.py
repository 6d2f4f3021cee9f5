"""Simulated engines that are told to stop: seen although no probe tells and no log is named."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from tests.demo.clients import complete
from tests.demo.running import running
from tests.support.waiting import until
from tui.commands.setup import real_sources
from tui.model.settings import Config, EngineTarget, ProbeSettings, ProbeSpec
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor
from tui.runtime.stops import UNREADY

if TYPE_CHECKING:
    from tui.model.verdicts import Verdict

SELDOM = ProbeSpec("/ready", period_s=600.0)
"""One look at the start, and none in the drain."""


async def test_a_drain_is_seen_although_no_probe_comes_due_in_it() -> None:
    async with running(  # its log would tell as well
        Path("/dev/null"), dialect="sglang", sigterm="drain-serve", time_scale=5.0, load_s=0.0
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
            assert readiness.status != 503
        finally:
            await monitor.stop()


async def test_a_drain_is_seen_in_the_file_that_the_server_writes_to(tmp_path: Path) -> None:
    async with running(
        tmp_path / "log", sigterm="drain-500", shutdown_timeout_s=60.0, decode_step_s=0.02, load_s=0.0
    ) as engine:
        monitor = Monitor(Config(interval_s=0.2), (EngineTarget(engine.url),), real_sources(), SystemClock())
        await monitor.start()
        request = asyncio.create_task(complete(engine.url, 4000, silence_s=60))

        def verdict() -> Verdict | None:
            return next((v for v in monitor.judgement().verdicts if v.scope == engine.url), None)

        try:
            await until(lambda: engine.supervisor.load.running > 0, 20, "a running request")
            await until(lambda: monitor.snapshot().engines[0].processes, 20, "its processes")
            engine.supervisor.order({"do": "terminate"})
            seen = await until(
                lambda: found if (found := verdict()) and found.verdict == "draining" else None,
                20,
                "the drain",
            )
            assert seen.evidence[0].text.startswith('log "')
            await until(lambda: not monitor.snapshot().engines[0].untold, 20, "that nothing is left untold")
        finally:
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
            await monitor.stop()
