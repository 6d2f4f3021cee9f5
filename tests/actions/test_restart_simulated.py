"""Restart tests of the simulated engine: what is told of it against what its supervisor saw."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.actions.simulated import run, simulated, slack
from tests.demo.running import until_ready
from tests.support.fake_nvml import MIB
from tests.support.waiting import until
from tui.actions import restart_run
from tui.actions.plan import Start, Stop, Traffic
from tui.actions.runs import all_runs
from tui.lint import measured

if TYPE_CHECKING:
    from pathlib import Path

    from tests.actions.simulated import Simulated
    from tests.support.fake_nvml import FakeNvml


pytest_plugins = ("tests.support.nvml_plugin",)


@pytest.fixture(autouse=True)
def _short_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(restart_run, "REQUEST_EVERY_S", 0.2)
    monkeypatch.setattr(restart_run, "WARM_UP_S", 1.5)


async def first_good_health(engine: Simulated) -> float:
    """When the one that was started again is ready, seen by a client of its own."""
    await until(lambda: any(line.startswith("exited") for _, line in engine.seen), 20, "its end")
    await until_ready(engine.url)
    return time.time()


async def test_a_killed_api_server_comes_back_beside_its_orphans(tmp_path: Path, nvml_here: FakeNvml) -> None:
    log = tmp_path / "engine.log"
    async with simulated(restart="always", load_s=0.8, log=log) as engine:
        nvml_here.processes(0, [(engine.pids["VLLM::Worker_0"], 30_000 * MIB)])
        ready = asyncio.ensure_future(first_good_health(engine))
        seen = await run(
            engine,
            test="restart",
            stop=Stop("kill_api_server", "SIGKILL to the API server alone"),
            traffic=Traffic(model="demo-8b", prefix_heavy=True),
            log=str(log),
        )
        exited_at, again_at, ready_at = engine.exited_at(), engine.started_again_at(), await ready
    report = seen.report
    assert seen.status == 1 and report["test"] == "restart"
    left = {row["name"]: row["gpu_mem_mib"] for row in report["leftovers"]}
    assert left == {"VLLM::EngineCore": 0.0, "VLLM::Worker_0": 30_000.0}
    assert "2 of its processes were left over, holding 30000 MiB of GPU memory" in report["reasons"][0]
    assert report["exit"]["signal"] in (9, None) and report["exit"]["code"] is None
    assert seen.at("main_exit") == pytest.approx(exited_at, abs=slack())
    # its supervisor waits 1 s, scaled by 0.2, before it starts the next one
    assert exited_at + 0.18 <= seen.at("spawned") <= again_at + 0.02
    # readiness is looked at ten times a second
    assert seen.at("ready") == pytest.approx(ready_at, abs=slack() + 0.1)
    assert seen.t("port_open") == pytest.approx(seen.t("ready"), abs=slack() + 0.1)
    assert seen.t("first_token") == pytest.approx(seen.t("ready"), abs=slack() + 0.1)
    lost = min(seen.t("main_exit"), seen.t("port_closed"), seen.t("first_refused"))
    assert report["downtime_s"] == pytest.approx(seen.t("first_token") - lost, abs=0.002)
    assert report["outcomes"]["refused"] >= 2 and report["outcomes"]["200"] >= 5
    names = [phase["name"] for phase in report["phases"]]
    assert names == ["down", "starting", "weights", "compile", "ready", "first_token", "cache_warm"]
    for before, after in zip(report["phases"], report["phases"][1:], strict=False):
        assert before["end_s"] == pytest.approx(after["start_s"], abs=0.1)
    figures = measured.parse(json.dumps(report))[0]
    assert figures.load_s == pytest.approx(seen.t("ready") - seen.t("spawned"), abs=0.01)
    assert figures.gpu_leftovers == 1
    assert report["reference"]["model_b"] == 13 and report["reference"]["hot_s"] == 15


async def test_a_graceful_restart_that_nobody_carries_on() -> None:
    async with simulated(sigterm="drain-refused") as engine:
        start = Start("unknown", "perhaps its parent")
        seen = await run(engine, test="restart", start=start, restart_deadline_s=1.2)
    assert seen.status == 1 and not seen.has("spawned") and not seen.has("ready")
    assert seen.report["reasons"] == ["it did not come back within 1.2 s", seen.report["reasons"][1]]
    assert seen.report["downtime_s"] is None and seen.report["phases"] == []
    # the probe of the plan, once a second, noticed within the next one
    assert 0 <= seen.report["detect_s"] <= 1.1
    assert seen.report["leftovers"] == []


async def test_a_start_command_that_fails_is_told_at_once() -> None:
    async with simulated(sigterm="drain-refused") as engine:
        start = Start("command", "sh", ("/bin/sh", "-c", "exit 3"))
        test = asyncio.ensure_future(run(engine, test="restart", start=start))
        words = "the start command ended with 3"
        files = await until(
            lambda: next((f for f in all_runs() if words in text(f.events)), None), 30, "its word"
        )
        files.cancel.touch()
        seen = await test
    assert seen.status == 2
    assert words in seen.report["notes"]
    assert f"the output of the start command is in {files.engine_log}" in seen.report["notes"]


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
