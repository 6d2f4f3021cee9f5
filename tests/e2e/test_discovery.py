"""What a run without arguments finds on this very host: simulated engines, their GPUs, what they left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

from tests.demo.running import lives, running, until
from tests.support.program import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml

pytest_plugins = ("tests.support.nvml_plugin",)

MIB = 1 << 20


async def once(home: Path, *words: str, env: dict[str, str] | None = None) -> Any:
    words = ("once", "--json", "--interval", "0.5", *words)
    ended = await asyncio.to_thread(run, *words, home=home, env=env)
    assert "Traceback" not in ended.err
    return ended.json()


async def test_engines_and_an_orphan_with_their_memory(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    async with (
        running(tmp_path / "one.log", tensor_parallel_size=2, api_key="planted-secret") as engine,
        running(tmp_path / "two.log", time_scale=0.2) as ended,
    ):
        os.kill(ended.pids["api"], signal.SIGKILL)
        await until(lambda: not lives(ended.pids["api"]))
        core, left = ended.pids["VLLM::EngineCore"], ended.pids["VLLM::Worker_0"]
        workers = [pid for title, pid in engine.pids.items() if "Worker" in title]
        for card, pid in enumerate(workers):
            fake_nvml.processes(card, [(pid, 40000 * MIB)])
        fake_nvml.processes(2, [(left, 30000 * MIB)])
        answer = await once(tmp_path, env=fake_nvml.environment())
    (found,) = [row for row in answer["engines"] if row["url"] == engine.url]
    assert {row["pid"] for row in found["pids"]} >= {engine.pids["api"], *workers}
    assert found["args"]["max-num-seqs"] == "64"
    assert found["args"]["api-key"] == "***"
    assert "planted-secret" not in str(answer)
    orphans = {row["pid"]: row for row in answer["orphans"]}
    assert {core, left} <= set(orphans)
    assert orphans[left]["gpu_mem_mib"] == 30000.0
    assert orphans[left]["command"] == f"kill -TERM {left}"
    assert orphans[left]["age_s"] >= 0
    assert not {engine.pids["api"], *workers} & set(orphans)
    texts = [row["text"] for row in answer["findings"] if row["id"] == "orphan"]
    assert any(f"pid {left} holds 29.3 GiB of GPU 2" in text for text in texts)
