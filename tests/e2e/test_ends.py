"""The whole way with the real program: a drain that only the log tells of, and a crash that ends with exit code 0."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

from tests.demo.clients import complete
from tests.demo.running import running, until
from tests.support.program import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.demo.running import Running


async def once(home: Path, engine: Running) -> tuple[dict[str, Any], dict[str, Any]]:
    """The engine, and its verdict."""
    config = home / "config.toml"
    config.write_text(f'[[engines]]\nurl = "{engine.url}"\nlog = "{engine.log_path}"\n')
    words = ("once", "--config", str(config), "--json", "--samples", "2", "--interval", "0.2")
    env = {"INFERTOP_NVML_LIBRARY": str(home / "none")}
    report = (await asyncio.to_thread(run, *words, home=home, env=env)).json()
    return report["engines"][0], report["verdicts"][1]


async def test_a_drain_is_seen_in_the_log_while_health_says_200(tmp_path: Path) -> None:
    async with running(
        tmp_path / "log", sigterm="drain-500", shutdown_timeout_s=60.0, time_scale=0.2
    ) as engine:
        request = asyncio.ensure_future(complete(engine.url, 4000))
        await until(lambda: engine.supervisor.load.running > 0)
        os.kill(engine.pids["api"], signal.SIGTERM)
        await until(lambda: "draining in-flight requests" in engine.log)
        found, verdict = await once(tmp_path, engine)
        request.cancel()
    assert verdict["verdict"] == "draining"
    assert "draining in-flight requests" in verdict["evidence"][0]["text"]
    assert found["state"] == "draining"
    assert found["stopping"] == verdict["evidence"][0]["text"]


async def test_a_core_crash_is_named_from_the_log_of_an_engine_that_has_gone(tmp_path: Path) -> None:
    async with running(tmp_path / "log", time_scale=0.1) as engine:
        os.kill(engine.pids["VLLM::EngineCore"], signal.SIGKILL)
        await until(lambda: engine.exit is not None)
        assert engine.exit == "rc=0"
        found, verdict = await once(tmp_path, engine)
    assert verdict["verdict"] == "engine_down"
    assert found["exit"]["core_crashed"] is True
    assert found["exit"]["asked_to_stop"] is False
    assert any("EngineDeadError" in line for line in found["exit"]["log"])
    assert any(evidence["signal"] == "log" for evidence in verdict["evidence"])
