"""Probes in ``infertop once``: a manifest's settings, a generation that was asked for, and refusals."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from tests.demo.running import running
from tests.support.program import run
from tests.support.servers import json_reply, serve_in_thread, vllm
from tests.support.vllm_text import Rank, exposition
from tests.support.waiting import until

if TYPE_CHECKING:
    from typing import Any

MANIFEST = """apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.32.0
    args: ["--model", "m", "--port", "8100"]
    livenessProbe:
      httpGet: {path: /health, port: 8100}
    readinessProbe:
      httpGet: {path: /bad, port: 8100}
      failureThreshold: 1
    startupProbe:
      exec: {command: [infertop, check]}
"""


def test_the_probes_of_a_manifest_and_a_generation(tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(MANIFEST)
    token = json_reply({"choices": [{"text": "a", "finish_reason": "length"}]})
    with serve_in_thread({**vllm(exposition(Rank())), "/v1/completions": token}) as server:
        words = ("--interval", "0.3", "--manifest", str(manifest), "--generate", server.url)
        answer = run("once", "--json", *words, home=tmp_path).json()
    probes = {probe["kind"]: probe for probe in answer["probes"]}
    assert set(probes) == {"liveness", "readiness", "startup", "generate"}
    assert (probes["liveness"]["path"], probes["liveness"]["status"]) == ("/health", 200)
    assert probes["startup"]["status"] is None
    assert probes["startup"]["note"].startswith("exec: not run")
    assert (probes["generate"]["path"], probes["generate"]["status"]) == ("/v1/completions", 200)
    assert probes["generate"]["would"] == {"action": "none", "in_s": None}
    assert (probes["readiness"]["status"], probes["readiness"]["failed"]) == (404, True)
    settings = answer["engines"][0]["probe_settings"]
    assert settings["origin"] == f"{manifest}:6"
    assert settings["probes"]["readiness"]["failure_threshold"] == 1
    assert "headers" not in settings["probes"]["liveness"]


def test_what_is_refused_says_why(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("kind: Pod\napiVersion: v1\nspec: 3\n")
    ended = run("once", "--manifest", str(bad), "http://127.0.0.1:9", home=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert f"--manifest: {bad}:3: " in ended.err
    ended = run("once", "--generate", "--read-only", "http://127.0.0.1:9", home=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert "--read-only sends none" in ended.err


async def test_a_core_that_was_stopped_hangs_although_nobody_asks_it_anything(tmp_path: Path) -> None:
    async def once() -> Any:
        env = {"INFERTOP_NVML_LIBRARY": str(tmp_path / "none")}
        words = ("once", "--json", "--interval", "0.3", engine.url)
        return (await asyncio.to_thread(run, *words, home=tmp_path, env=env)).json()

    async with running(tmp_path / "log") as engine:
        pid = engine.pids["VLLM::EngineCore"]
        os.kill(pid, signal.SIGSTOP)
        try:
            await until(
                lambda: f"{pid} (VLLM::EngineCor) T" in Path(f"/proc/{pid}/stat").read_text(), 5, "the stop"
            )
            answer = await once()
        finally:
            os.kill(pid, signal.SIGCONT)
        after = await once()
    found = next(v for v in answer["verdicts"] if v["scope"] == engine.url)
    assert found["verdict"] == "engine_hung"
    assert found["advice"][0] == f"VLLM::EngineCore pid {pid} is stopped (SIGSTOP): kill -CONT {pid}"
    blind = {f["id"]: f for f in answer["findings"]}["probe-blind"]
    assert blind["text"] == "liveness on /health would never notice this hang"
    assert {v["verdict"] for v in after["verdicts"]} == {"idle"}
    assert "probe-blind" not in {f["id"] for f in after["findings"]}
