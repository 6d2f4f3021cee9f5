"""What the readers take from Compose files, units and command lines."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.lint.support import deployment
from tui.lint.commandline import options, sleep_seconds, split
from tui.lint.engines import Engine, engine_of
from tui.lint.files import read
from tui.lint.shape import Container, LintError, Workload


def one(text: str, file: str = "a.yaml") -> tuple[Workload, list[LintError]]:
    errors: list[LintError] = []
    return read(file, text.encode(), errors)[0], errors


def test_defaults_of_a_deployment() -> None:
    workload, errors = one(deployment({"readinessProbe": {}}))
    assert not errors
    assert (workload.replicas, workload.strategy, workload.surge, workload.unavailable) == (
        1, "RollingUpdate", "25%", "25%",
    )  # fmt: skip
    assert (workload.grace_s, workload.progress_deadline_s, workload.restart) == (30.0, 600.0, "Always")
    spec = workload.containers[0].probes["readiness"].spec
    assert (spec.initial_delay_s, spec.period_s, spec.timeout_s) == (0.0, 10.0, 1.0)
    assert (spec.success_threshold, spec.failure_threshold) == (1, 3)


def test_a_number_in_quotes_is_an_error_and_counts_all_the_same() -> None:
    workload, errors = one(deployment({"livenessProbe": {"periodSeconds": "25"}}))
    assert [e.text for e in errors] == ["periodSeconds: expected a whole number, found text in quotes"]
    assert workload.containers[0].probes["liveness"].spec.period_s == 25.0


def test_merge_keys_keep_what_is_written_and_the_line_of_each() -> None:
    text = (
        "x: &x {restart: always, stop_grace_period: 1m}\n"
        "services:\n"
        "  a:\n"
        "    <<: *x\n"
        "    restart: unless-stopped\n"
    )
    workload, errors = one(text)
    assert not errors
    assert (workload.restart, workload.grace_s) == ("unless-stopped", 60.0)
    assert (workload.at("restart"), workload.at("stop_grace_period")) == (5, 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10.0),
        ("1m30s", 90.0),
        ("1h", 3600.0),
        ("500ms", 0.5),
        ("${X:-5s}", 5.0),
        ("${X}", None),
        ("0", 0.0),
    ],
)
def test_compose_durations(text: str, seconds: float | None) -> None:
    workload, errors = one(json.dumps({"services": {"a": {"stop_grace_period": text}}}))
    assert not errors
    assert workload.grace_s == seconds


@pytest.mark.parametrize(
    ("service", "text"),
    [
        ({"stop_grace_period": 10}, "expected a duration such as 1m30s"),
        ({"stop_grace_period": "soon"}, "expected a duration such as 1m30s"),
        ({"shm_size": "big"}, "expected a size such as 1gb"),
        ({"healthcheck": {"retries": "many"}}, "expected a whole number"),
        ({"environment": 3}, "expected a mapping"),
        ("vllm", "expected a mapping"),
    ],
)
def test_compose_values_that_do_not_fit(service: Any, text: str) -> None:
    _, errors = one(json.dumps({"services": {"a": service}}))
    assert len(errors) == 1
    assert text in errors[0].text


def unit(text: str) -> tuple[Workload, list[LintError]]:
    return one(text, "a.service")


def test_a_unit_with_comments_continuations_and_resets() -> None:
    workload, errors = unit(
        "[Unit]\nDescription=x\n[Service]\n"
        "ExecStart=/bin/first\nExecStart=\n"
        "ExecStart=-/usr/bin/vllm serve \\\n; comment\n  /models/a\\\n"
        "  --port 8000\n"
        'Environment=A=1\nEnvironment="B=2 3"\n'
        "TimeoutStopSec=1min 30s\nRestartSec=5s\nRestart=on-failure\n"
    )
    assert not errors
    assert workload.containers[0].command == ("/usr/bin/vllm", "serve", "/models/a", "--port", "8000")
    assert workload.containers[0].env == {"A": "1", "B": "2 3"}
    assert (workload.grace_s, workload.restart_delay_s, workload.restart) == (90.0, 5.0, "on-failure")
    assert workload.at("ExecStart") == 6


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("20", 20.0),
        ("2min 5s", 125.0),
        ("1h", 3600.0),
        ("1.5s", 1.5),
        ("infinity", math.inf),
        ("0", math.inf),
    ],
)
def test_time_spans_of_units(value: str, seconds: float) -> None:
    workload, errors = unit(f"[Service]\nExecStart=/bin/a\nTimeoutStopSec={value}\n")
    assert not errors
    assert workload.grace_s == seconds


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("[Unit]\nA=1\n", 1, "no [Service] section"),
        ("[Service]\nA=1\n", 1, "no ExecStart="),
        ("[Service]\nExecStart=/bin/a\nnonsense\n", 3, "expected KEY=VALUE"),
        ("[Service\nExecStart=/bin/a\n", 1, "not a section"),
        ("[Service]\nExecStart=/bin/a\nTimeoutStopSec=5 parsecs\n", 3, "not a time span"),
    ],
)
def test_faults_of_units(text: str, line: int, fault: str) -> None:
    errors: list[LintError] = []
    read("a.service", text.encode(), errors)
    assert errors[0].line == line
    assert fault in errors[0].text


def engine(image: str = "", command: str | None = None, args: str | None = None) -> Engine:
    return engine_of(
        Container(
            "a", 1, image,
            None if command is None else split(command),
            None if args is None else split(args),
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("image", "command", "kind", "version"),
    [
        ("vllm/vllm-openai:v0.32.0", None, "vllm", (0, 32, 0)),
        ("vllm/vllm-openai", None, "vllm", None),
        ("registry:5000/vllm", None, "vllm", None),
        ("lmsysorg/sglang:v0.5.3.post1-cu126", None, "sglang", (0, 5, 3)),
        ("nvcr.io/nvidia/tritonserver:24.05-trtllm-python-py3", None, "triton", (24, 5)),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.2.1", None, "trtllm", (1, 2, 1)),
        ("lmcache/lmstack-router", None, None, None),
        ("vllm/vllm-router:0.1", None, None, (0, 1)),
        ("custom", "python -m vllm.entrypoints.openai.api_server", "vllm", None),
        ("custom", "python3 -m sglang.launch_server", "sglang", None),
        ("custom", "env A=1 /opt/bin/tritonserver --model-repository=/m", "triton", None),
        ("custom", "trtllm-serve serve /m", "trtllm", None),
        ("custom", "sh -c 'ls; vllm serve /m'", "vllm", None),
        ("nginx:1.27", None, None, (1, 27)),
    ],
)
def test_engines_are_told_by_command_or_image(
    image: str, command: str | None, kind: str | None, version: tuple[int, ...] | None
) -> None:
    found = engine(image, command)
    assert (found.kind, found.version) == (kind, version)


def test_the_command_outweighs_the_image() -> None:
    assert engine("vllm/vllm-openai", "python3 -m sglang.launch_server").kind == "sglang"


@pytest.mark.parametrize(
    ("found", "drain_s"),
    [
        (engine("vllm:v0.32.0"), 0.0),
        (engine("vllm:v0.32.0", args="--shutdown-timeout 45"), 45.0),
        (engine("vllm:v0.17.1", args="--shutdown-timeout 45"), 0.0),
        (engine("vllm:v0.32.0", "/start.sh"), None),
        (engine("tritonserver", "tritonserver --exit-timeout-secs=60"), 60.0),
        (engine("tritonserver", "tritonserver"), 30.0),
        (engine("sglang", "sglang serve /m"), None),
    ],
)
def test_the_engines_own_drain_limit(found: Engine, drain_s: float | None) -> None:
    assert found.drain_s == drain_s


def test_docker_run_in_a_unit_shows_image_and_options() -> None:
    found = engine("", "/usr/bin/docker run --rm --gpus all -v /m:/m vllm/vllm-openai:v0.32.0 --port 9000")
    assert (found.kind, found.version, found.port) == ("vllm", (0, 32, 0), 9000)


@pytest.mark.parametrize(
    "words",
    [
        "--name vllm vllm/vllm-openai:v0.17.1 --port 9000",
        "--rm -dit --name=vllm -v /models/vllm:/models -p8000:8000 vllm/vllm-openai:v0.17.1 --port 9000",
        "--network vllm -e MODEL=vllm --gpus all --init -it vllm/vllm-openai:v0.17.1 --port 9000",
        "$VLLM_OPTIONS --label vllm -- vllm/vllm-openai:v0.17.1 --port 9000",
    ],
)
def test_no_option_of_docker_run_passes_for_its_image(words: str) -> None:
    found = engine("", f"docker --log-level error run {words}")
    assert (found.kind, found.version, found.port, found.drain_s) == ("vllm", (0, 17, 1), 9000, 0.0)


def test_an_image_of_ones_own_in_docker_run() -> None:
    found = engine("", "docker run --name vllm registry:5000/ours:3.1 vllm serve /m --shutdown-timeout 30")
    assert (found.kind, found.version, found.drain_s) == ("vllm", (3, 1), 30.0)
    assert engine("", "docker run --name vllm").kind is None
    assert engine("", "docker start vllm").kind is None


def test_options_and_sleeps() -> None:
    assert options(("--a", "1", "--b=2", "--flag", "--c_d", "x", "-tp", "4")) == {
        "a": "1", "b": "2", "flag": "", "c-d": "x", "tp": "4",
    }  # fmt: skip
    assert sleep_seconds(("sleep", "10")) == 10.0
    assert sleep_seconds(("sh", "-c", "sleep 1m && sleep 2.5")) == 62.5
    assert sleep_seconds(("curl", "x")) is None
