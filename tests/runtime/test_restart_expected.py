"""An engine that a restart test of ours has ended: expected to be away, until something goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.actions.plans import PLAN, child
from tests.demo.running import running
from tests.support.waiting import until
from tui.actions.ancestry import stat_of
from tui.actions.runs import EventWriter, new_run
from tui.commands.setup import real_sources
from tui.model.settings import Config, EngineTarget
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


async def test_it_loads_as_planned_and_is_down_once_its_start_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with running(tmp_path / "log", load_s=0.0) as engine:
        with child() as test:
            events = begun(engine.url, test.pid)
            monitor = Monitor(
                Config(interval_s=0.2), (EngineTarget(engine.url),), real_sources(), SystemClock()
            )
            await monitor.start()

            def said(verdict: str) -> Iterator[str]:
                found = (v for v in monitor.judgement().verdicts if v.scope == engine.url)
                return (e.text for v in found if v.verdict == verdict for e in v.evidence)

            try:
                await until(lambda: any(said("idle")), 30, "an idle engine")
                events.write("state", name="stopping")
                engine.supervisor.order({"do": "kill", "what": "api"})
                events.write("event", t_s=0.1, event="main_exit", detail="")
                events.write("state", name="starting")
                planned = ("our restart test: down for", "as planned")
                await until(
                    lambda: any(all(part in text for part in planned) for text in said("loading")),
                    20,
                    "the plan",
                )
                events.write("state", name="starting", text="the start command ended with 3")
                await until(
                    lambda: "our restart test: the start command ended with 3" in said("engine_down"),
                    20,
                    "its failure",
                )
            finally:
                await monitor.stop()
                events.close()


def begun(url: str, pid: int) -> EventWriter:
    """The files of a restart test that another process runs."""
    files = new_run("restart")
    files.write_plan({**PLAN.document(), "test": "restart", "target": {"url": url}})
    stat = stat_of(pid)
    assert stat is not None
    events = EventWriter(files)
    events.write("process", pid=pid, start_ticks=stat.start_ticks)
    return events
