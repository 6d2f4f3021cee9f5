"""Probes in ``infertop once``: a manifest's settings, a generation that was asked for, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.program import run
from tests.support.servers import json_reply, serve_in_thread, vllm
from tests.support.vllm_text import Rank, exposition

if TYPE_CHECKING:
    from pathlib import Path

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
