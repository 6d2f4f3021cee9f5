"""Which settings are in force: manifest, config, HEALTHCHECK, the engine's own; and what a manifest says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tui.model.places import Healthcheck
from tui.model.settings import EngineTarget, ManifestProbes, ProbeSettings, ProbeSpec
from tui.runtime.probe_manifest import ManifestError, read_manifest
from tui.runtime.probe_settings import default_specs, in_force

if TYPE_CHECKING:
    from pathlib import Path

TARGET = EngineTarget("http://127.0.0.1:8000")
CHECK = Healthcheck(("CMD-SHELL", "curl -f http://localhost:8000/health || exit 1"), 15.0, 5.0, 4, 60.0)
MANIFEST = ManifestProbes("pod.yaml:3", "vllm", {"liveness": ProbeSpec("/m")}, 8000)
CONFIG = ProbeSettings(readiness=ProbeSpec("/c"))


def test_default_routes() -> None:
    assert default_specs("vllm") == {"liveness": ProbeSpec("/health"), "readiness": ProbeSpec("/health")}
    assert {s.path for s in default_specs("triton").values()} == {"/v2/health/live", "/v2/health/ready"}
    live, ready = default_specs("sglang").values()
    assert live.path == "/health"
    assert live.period_s >= 30
    assert live.timeout_s >= 25
    assert ready == ProbeSpec("/ready")
    assert {s.path for s in default_specs("trtllm").values()} == {"/health"}


def test_the_first_that_says_anything_is_in_force() -> None:
    everything = ProbeSettings(readiness=ProbeSpec("/c"), manifest=(MANIFEST,))
    assert in_force("vllm", TARGET, everything, CHECK).origin == "pod.yaml:3"
    assert in_force("vllm", TARGET, CONFIG, CHECK).origin == "the config"
    assert in_force("vllm", TARGET, ProbeSettings(), CHECK).origin == "the container's HEALTHCHECK"
    assert in_force("vllm", TARGET, ProbeSettings(), None).origin == "vllm's defaults"
    assert in_force("sglang", TARGET, everything, None).origin == "the config"  # of another engine


def test_the_config_fills_in_the_engines_routes() -> None:
    asked = ProbeSettings(readiness=ProbeSpec("/x", period_s=3), startup=ProbeSpec(failure_threshold=60))
    specs = in_force("vllm", TARGET, asked).specs
    assert specs["liveness"].path == "/health"
    assert specs["readiness"] == ProbeSpec("/x", period_s=3)
    assert specs["startup"] == ProbeSpec("/health", failure_threshold=60)


def test_of_a_manifest_what_it_lacks_is_only_looked_at() -> None:
    found = in_force("vllm", TARGET, ProbeSettings(manifest=(MANIFEST,)))
    assert found.specs == {"liveness": ProbeSpec("/m")}
    assert found.ours == {"readiness": ProbeSpec("/health")}


@pytest.mark.parametrize(
    ("spec", "url", "port"),
    [
        (ProbeSpec("/m", port=8000), "http://10.0.0.1:31000", 0),
        (ProbeSpec("/m", port=9000), "http://10.0.0.1:31000", 9000),
        (ProbeSpec("/m", port=8000, scheme="https"), "http://10.0.0.1:31000", 31000),
        (ProbeSpec("/m", port=8000, scheme="https"), "https://10.0.0.1:31000", 0),
    ],
)
def test_the_engines_port_is_where_it_is_published(spec: ProbeSpec, url: str, port: int) -> None:
    manifest = ManifestProbes("f:1", "vllm", {"liveness": spec}, 8000)
    found = in_force("vllm", EngineTarget(url), ProbeSettings(manifest=(manifest,)))
    assert found.specs["liveness"].port == port


def test_a_probe_is_taken_to_ask_for_an_engines_port_that_is_not_told() -> None:
    manifest = ManifestProbes("f:1", "vllm", {"liveness": ProbeSpec("/m", port=8000)}, None)
    found = in_force("vllm", EngineTarget("http://10.0.0.1:31000"), ProbeSettings(manifest=(manifest,)))
    assert found.specs["liveness"].port == 0


def test_a_healthcheck_is_asked_as_the_route_that_it_names() -> None:
    found = in_force("vllm", TARGET, ProbeSettings(), CHECK)
    assert found.specs == {
        "liveness": ProbeSpec(
            "/health", initial_delay_s=60.0, period_s=15.0, timeout_s=5.0, failure_threshold=4
        )
    }
    assert (found.docker, found.notes) == (True, {})


@pytest.mark.parametrize(
    ("test", "note"),
    [
        (("CMD", "python3", "/healthcheck.py"), "runs in the container"),
        (("CMD-SHELL", "curl http://localhost:8000/health"), "curl without -f"),
        (("CMD-SHELL", "curl -sS http://localhost:8000/health"), "curl without -f"),
        (("CMD-SHELL", "curl -fsS http://localhost:8000/health"), ""),
        (("CMD-SHELL", "curl --fail http://127.0.0.1:8000/health"), ""),
        (("CMD", "wget", "-qO-", "http://127.0.0.1:8000/v1/models"), ""),
        (("CMD", "curl", "-f", "http://gateway/health"), "runs in the container"),
    ],
)
def test_one_that_cannot_be_asked_so_is_not_run(test: tuple[str, ...], note: str) -> None:
    notes = in_force("vllm", TARGET, ProbeSettings(), Healthcheck(test)).notes
    assert note in notes["liveness"] if note else not notes


def test_none_is_no_healthcheck() -> None:
    assert in_force("vllm", TARGET, ProbeSettings(), Healthcheck(("NONE",))).origin == "vllm's defaults"


# ---------------------------------------------------------------------------------------- manifests

POD = """
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: proxy
    image: envoy:1
  - name: vllm
    image: vllm/vllm-openai:v0.32.0
    args: ["--model", "m", "--port", "8100"]
    ports: [{name: http, containerPort: 8100}]
    livenessProbe:
      httpGet:
        path: health
        port: http
        httpHeaders: [{name: Authorization, value: Bearer hunter2}]
      initialDelaySeconds: 30
    readinessProbe:
      tcpSocket: {port: 8100}
      periodSeconds: 5
    startupProbe:
      exec: {command: [infertop, check]}
      failureThreshold: 60
"""


def written(at: Path, text: str) -> Path:
    at.write_text(text)
    return at


def test_the_container_with_an_engine_is_the_one(tmp_path: Path) -> None:
    path = written(tmp_path / "pod.yaml", POD)
    (found,) = read_manifest(path)
    assert (found.origin, found.engine, found.port) == (f"{path}:9", "vllm", 8100)
    specs = found.specs
    assert specs["liveness"] == ProbeSpec(
        "/health", port=8100, initial_delay_s=30.0, headers=(("Authorization", "Bearer hunter2"),)
    )
    assert specs["readiness"] == ProbeSpec(port=8100, period_s=5.0, handler="tcpSocket")
    assert specs["startup"] == ProbeSpec(failure_threshold=60, handler="exec")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            POD.replace("periodSeconds: 5", "periodSeconds: soon"),
            ":21: periodSeconds: expected a whole number",
        ),
        (POD.replace("httpGet:", "httpPut:"), ":13: the liveness probe needs exactly one of httpGet"),
        (POD.replace("vllm", "other"), "runs vLLM, SGLang, TensorRT-LLM or Triton"),
        ("a: [", ": "),
    ],
)
def test_a_bad_one_is_named_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path / "pod.yaml", text)
    with pytest.raises(ManifestError) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(str(path))
    assert complaint in str(caught.value)


def test_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No such file"):
        read_manifest(tmp_path / "none.yaml")
    with pytest.raises(ManifestError, match="not a regular file"):
        read_manifest(tmp_path)
