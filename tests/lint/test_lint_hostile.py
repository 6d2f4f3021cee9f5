"""Whatever a file holds, the lint ends soon, with findings or errors and never with a traceback."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lint.support import deployment, lint_text
from tui.lint.commandline import understand
from tui.lint.engines import _ANY
from tui.lint.measured import Figures, ProbeFigure

MANIFESTS = Path(__file__).parents[1] / "fixtures" / "manifests"
KEYS = [
    "apiVersion", "kind", "metadata", "name", "spec", "template", "containers", "initContainers", "livenessProbe",
    "readinessProbe", "startupProbe", "httpGet", "exec", "command", "args", "image", "port", "ports", "lifecycle",
    "preStop", "sleep", "seconds", "strategy", "rollingUpdate", "maxSurge", "replicas", "services", "healthcheck",
    "interval", "test", "deploy", "restart", "stop_grace_period", "volumes", "emptyDir", "items", "env", "environment",
    "resources", "limits", "nvidia.com/gpu", "periodSeconds", "failureThreshold", "terminationGracePeriodSeconds",
]  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20),
    st.sampled_from(["Deployment", "List", "sh -c", "vllm serve", "25%", "10s", "$", "${A:-1}", "vllm:v1.2", "1Gi"]),
)  # fmt: skip
TREES = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, max_size=8)
    ),
    max_leaves=30,
)


SECONDS = (
    "load_s", "load_least_s", "longest_request_s", "longest_step_s", "queue_s", "ttft_s", "exit_s", "gpu_held_s",
    "first_request_s", "steady_request_s",
)  # fmt: skip
COUNTS = ("in_flight", "lost", "gpu_leftovers", "failed_when_ready", "gpus")
FIGURES: dict[str, Any] = {**dict.fromkeys(SECONDS, 1e15), **dict.fromkeys(COUNTS, 10**9)}
EVERYTHING = Figures(
    probes=(
        ProbeFigure("liveness", "/health", 302, 9.0, 9.0, -9),
        ProbeFigure("readiness", "/ready", "timeout"),
    ),
    tokens_per_s=1e-9,
    readiness_off_s=math.inf,
    **FIGURES,
)
NUMBERS = st.sampled_from([-(2**31), -1, 0, 1, 2, 2**31 - 1, 10**30])
FIELDS = ["initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold"]
PROBES = st.dictionaries(st.sampled_from(FIELDS), NUMBERS)


@settings(max_examples=60, deadline=None)
@given(PROBES, PROBES, PROBES, NUMBERS, NUMBERS, st.sampled_from(["vllm", "sglang", "tritonserver", "x"]))
def test_any_numbers(
    live: dict[str, int], ready: dict[str, int], start: dict[str, int], grace: int, count: int, image: str
) -> None:
    get = {"httpGet": {"path": "/health", "port": count}}
    container = {
        "image": image,
        "args": ["--shutdown-timeout", str(count), "--port", str(count), "--tp", str(count)],
        "livenessProbe": {**get, **live},
        "readinessProbe": {**get, **ready},
        "lifecycle": {"preStop": {"sleep": {"seconds": count}}},
        "resources": {"limits": {"nvidia.com/gpu": abs(count)}},
    }
    rolling = {"rollingUpdate": {"maxSurge": count, "maxUnavailable": grace}}
    pod = {"terminationGracePeriodSeconds": grace}
    for more in ({}, {"startupProbe": {**get, **start}}):
        text = deployment({**container, **more}, pod, replicas=count, strategy=rolling)
        lint_text(text, figures=[EVERYTHING])
        lint_text(text)
    text = f"[Service]\nExecStart=vllm serve --shutdown-timeout {count}\nTimeoutStopSec=infinity\n"
    lint_text(text, figures=[EVERYTHING])


def containers_of(tree: object) -> str:
    manifest = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [tree]}}
    return json.dumps(manifest) + "\n---\n" + json.dumps({"services": {"a": tree}})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TREES)
def test_any_tree(tree: object) -> None:
    lint_text(json.dumps(tree), figures=[EVERYTHING])
    lint_text(containers_of(tree))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["a.yaml", "a.service"]))
def test_any_bytes(content: bytes, file: str) -> None:
    lint_text(content, file)
    lint_text(b"[Service]\n" + content, file)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="sh-c ;&|()'\"$`\\\nexvlmrtini=", max_size=40), max_size=5))
def test_any_command(words: list[str]) -> None:
    understand(("sh", "-c", *words), _ANY)
    understand(tuple(words), _ANY)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "{" * 1_000_000,
        "- " * 500_000,
        "? " * 500_000,
        "a: &a [" + "x, " * 300_000 + "]\n",
        "a: " + "x" * 1_000_000,
        'a: "' + "\\x41" * 250_000 + '"',
        "\n".join(f"k{n}: &a{n} v" for n in range(60_000)),
        "a: &a {" + ", ".join(f"k{n}: v" for n in range(30_000)) + "}\nb: {<<: [" + "*a, " * 1000 + "]}",
        "a: &a {" + ", ".join(f"k{n}: v" for n in range(30_000)) + "}\nb: {" + "<<: *a, " * 80_000 + "}",
        "apiVersion: v1\nkind: Pod\nspec: {containers: [{command: [sh, -c, '" + "a;" * 400_000 + "']}]}",
        "apiVersion: v1\nkind: Pod\nspec: {containers: [{command: [" + "tini, exec, " * 45_000 + "]}]}",
        "apiVersion: v1\nkind: Pod\nspec: {containers: [" + "{name: vllm, image: vllm}, " * 12_000 + "]}",
        "---\n" * 200_000,
        "[Service]\nExecStart=" + "a \\\n" * 200_000,
    ],
    ids=[
        "seq", "map", "block", "complex", "wide", "long", "escapes", "anchors", "merges", "one-by-one",
        "script", "wrappers", "containers", "documents", "unit",
    ],
)  # fmt: skip
def test_a_megabyte_of_malice_costs_little(text: str) -> None:
    began = time.process_time()
    lint_text(text[: 1024 * 1024])
    assert time.process_time() - began < 15.0


@pytest.mark.parametrize("name", ["bomb.yaml", "hostile.yaml", "careless.yaml", "malformed.yaml"])
def test_pyyaml_without_its_c_parser_finds_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (MANIFESTS / name).read_bytes()
    fast = lint_text(content)
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    slow = lint_text(content)
    assert slow.findings == fast.findings
    assert [(e.line, e.file) for e in slow.errors] == [(e.line, e.file) for e in fast.errors]
