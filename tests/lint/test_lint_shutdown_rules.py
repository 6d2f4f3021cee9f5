"""D, R and B rules at their borders, without and with what was measured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lint.support import deployment, judged, lint_text, of, probe

HOOK = {"preStop": {"exec": {"command": ["sleep", "15"]}}}


@pytest.mark.parametrize(
    ("figures", "level"),
    [
        ({"longest_request_s": 45.0}, "error"),
        ({"longest_request_s": 15.0}, None),
        ({"request_at_least_s": 45.0}, "error"),
        ({"request_at_least_s": 10.0}, "not judged"),
        ({}, "not judged"),
    ],
)
def test_d01_a_stream_longer_than_the_window(figures: dict[str, Any], level: str | None) -> None:
    assert judged("D01", deployment({"lifecycle": HOOK}), **figures) == level


@pytest.mark.parametrize(
    ("grace", "drain", "level"),
    [(60, 45, "error"), (60, 40, "warning"), (60, 39, None), (30, 45, "error"), (60, 0, None)],
)
def test_d02_a_drain_longer_than_the_window(grace: int, drain: int, level: str | None) -> None:
    container = {"args": [f"--shutdown-timeout={drain}"], "lifecycle": HOOK}
    text = deployment(container, {"terminationGracePeriodSeconds": grace})
    assert judged("D02", text) == level


@pytest.mark.parametrize(("exit_s", "level"), [(24.0, None), (25.0, "warning"), (31.0, "error")])
def test_d02_an_engine_without_a_limit_is_judged_by_its_measured_exit(
    exit_s: float, level: str | None
) -> None:
    text = deployment({"image": "sglang:0.5.3"})
    assert judged("D02", text, exit_s=exit_s, engine="sglang") == level
    assert judged("D02", text) == "not judged"


@pytest.mark.parametrize(
    ("container", "figures", "level"),
    [
        ({}, {}, "error"),
        ({"args": ["--shutdown-timeout", "0"]}, {}, "error"),
        ({"args": ["--shutdown-timeout", "30"]}, {}, None),
        ({"args": ["--shutdown_timeout=30"]}, {}, None),
        ({"image": "vllm/vllm-openai:v0.17.1", "args": ["--shutdown-timeout", "30"]}, {}, "error"),
        ({"image": "vllm/vllm-openai:latest"}, {}, "error"),
        ({"args": ["--config", "/c.yaml"]}, {}, "not judged"),
        ({"command": ["/start.sh"]}, {}, "not judged"),
        ({"args": ["--shutdown-timeout", "$(N)"]}, {}, None),
        ({}, {"in_flight": 8, "lost": 8}, "error"),
        ({}, {"in_flight": 8, "lost": 0}, None),
        ({}, {"in_flight": 0, "lost": 0}, "error"),
        ({"image": "sglang"}, {}, None),
        ({"image": "sglang", "env": [{"name": "SGLANG_FORCE_SHUTDOWN", "value": "1"}]}, {}, "error"),
        ({"image": "tritonserver"}, {}, None),
    ],
)
def test_d03_aborts(container: dict[str, Any], figures: dict[str, Any], level: str | None) -> None:
    assert judged("D03", deployment(container), **figures) == level


@pytest.mark.parametrize(
    ("hook", "d04", "d05", "d06"),
    [
        (None, "warning", None, "warning"),
        ({"sleep": {"seconds": 4}}, "warning", None, None),
        ({"sleep": {"seconds": 5}}, None, None, None),
        ({"exec": {"command": ["sh", "-c", "sleep 29"]}}, None, None, None),
        ({"exec": {"command": ["sh", "-c", "sleep 20; sleep 10"]}}, None, "error", None),
        ({"exec": {"command": ["sleep", "1m"]}}, None, "error", None),
        ({"exec": {"command": ["/drain.sh"]}}, "not judged", None, None),
        ({"httpGet": {"path": "/x", "port": 1}}, "not judged", None, None),
    ],
)
def test_pre_stop_hooks(
    hook: dict[str, Any] | None, d04: str | None, d05: str | None, d06: str | None
) -> None:
    text = deployment({"lifecycle": {"preStop": hook}} if hook else {})
    assert (judged("D04", text), judged("D05", text), judged("D06", text)) == (d04, d05, d06)


def test_d05_shows_when_the_signal_and_the_kill_come() -> None:
    text = deployment({"lifecycle": {"preStop": {"sleep": {"seconds": 30}}}})
    assert of(lint_text(text), "D05")[0].arithmetic == (
        "preStop 30 s >= grace 30 s: stop signal at 30 s, KILL at 32 s"
    )


def test_d06_a_draining_vllm_and_sglang_keep_their_port() -> None:
    assert judged("D06", deployment({"args": ["--shutdown-timeout", "20"]})) is None
    assert judged("D06", deployment({"image": "sglang"})) is None
    assert judged("D06", deployment({"image": "tritonserver"})) == "warning"


@pytest.mark.parametrize(
    ("command", "level"),
    [
        (["vllm", "serve", "/m"], None),
        (["sh", "-c", "vllm serve /m"], "error"),
        (["bash", "-c", "A=1 vllm serve /m"], None),
        (["bash", "-lc", "exec vllm serve /m"], None),
        (["bash", "-c", "cd /m && vllm serve /m"], "error"),
        (["bash", "-c", "cd /m && exec vllm serve /m"], None),
        (["bash", "-c", "set -e\nsource env\n# vllm\nexec vllm serve /m \\\n  --port 8000\n"], None),
        (["bash", "-c", "vllm serve /m | tee /log"], "error"),
        (["sh", "-c", "vllm serve /m --model $(cat /name)"], "error"),
        (["bash", "-c", "vllm serve /m --model $(cat /name)"], None),
        (["bash", "-c", "trap 'kill $!' TERM; vllm serve /m & wait"], None),
        (["tini", "-g", "--", "bash", "-c", "cd /m; vllm serve /m"], None),
        (["/start.sh"], None),
        (["bash", "/start.sh"], None),
        (["sh", "-c"], "error"),
        (["sh", "-c", "vllm serve '/m"], "error"),
    ],
)
def test_d07_process_one(command: list[str], level: str | None) -> None:
    assert judged("D07", deployment({"command": command})) == level


def test_d08_long_grace_for_a_hang() -> None:
    pod = {"terminationGracePeriodSeconds": 61}
    assert judged("D08", deployment({"livenessProbe": probe()}, pod)) == "warning"
    assert judged("D08", deployment({"livenessProbe": probe()})) is None
    own = {**probe(), "terminationGracePeriodSeconds": 30}
    assert judged("D08", deployment({"livenessProbe": own}, pod)) is None


@pytest.mark.parametrize(
    ("script", "level"),
    [
        ("while curl -s localhost:8000/busy; do sleep 1; done", "warning"),
        ("sleep 5; until drained; do sleep 1; done", "warning"),
        ("timeout 20 sh -c 'while busy; do sleep 1; done'", None),
        ("n=0; while busy && [ $n -lt 20 ]; do sleep 1; n=$((n+1)); done", None),
        ("sleep 10", None),
    ],
)
def test_d09_hooks_that_wait(script: str, level: str | None) -> None:
    hook = {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", script]}}}}
    assert judged("D09", deployment(hook)) == level


@pytest.mark.parametrize(("off", "level"), [(0.5, None), (float("inf"), "warning"), (None, "not judged")])
def test_d10_readiness_after_sigterm(off: float | None, level: str | None) -> None:
    assert judged("D10", deployment({"readinessProbe": probe()}), readiness_off_s=off) == level


def test_d11_gateways() -> None:
    ingress = (
        "apiVersion: v1\nkind: Ingress\nmetadata: {annotations: "
        '{nginx.ingress.kubernetes.io/proxy-read-timeout: "60"}}\n---\n'
    )
    assert judged("D11", deployment()) == "not judged"
    assert judged("D11", ingress + deployment()) == "not judged"
    assert judged("D11", ingress + deployment(), longest_request_s=61.0) == "warning"
    assert judged("D11", ingress + deployment(), longest_request_s=60.0) is None


@pytest.mark.parametrize(
    ("left", "held", "level"),
    [(0, 2.0, None), (1, 0.0, "error"), (0, 11.0, "error"), (None, None, "not judged")],
)
def test_d14_gpu_memory(left: int | None, held: float | None, level: str | None) -> None:
    assert judged("D14", deployment(), gpu_leftovers=left, gpu_held_s=held) == level


@pytest.mark.parametrize(
    ("gpus", "spec", "level"),
    [
        (2, {}, "error"),
        (4, {}, None),
        (1, {}, "not judged"),
        (None, {}, "not judged"),
        (2, {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, None),
        (2, {"strategy": {"type": "Recreate"}}, None),
        (8, {"replicas": 4}, None),
    ],
)
def test_r01_rollout_deadlock(gpus: int | None, spec: dict[str, Any], level: str | None) -> None:
    text = deployment({"resources": {"limits": {"nvidia.com/gpu": 2}}}, **spec)
    assert judged("R01", text, gpus=gpus) == level


@pytest.mark.parametrize(
    ("spec", "level"),
    [
        ({"strategy": {"type": "Recreate"}}, "warning"),
        ({"replicas": 8}, "not judged"),
        ({"replicas": 3}, None),
        ({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}}}, "warning"),
    ],
)
def test_r02_rollout_outage(spec: dict[str, Any], level: str | None) -> None:
    assert judged("R02", deployment(**spec)) == level


@pytest.mark.parametrize(("load", "level"), [(580.0, None), (595.0, "warning"), (None, "not judged")])
def test_r03_progress_deadline(load: float | None, level: str | None) -> None:
    text = deployment({"startupProbe": probe(f=100), "readinessProbe": probe()})
    assert judged("R03", text, load_s=load) == level


def test_r04_warm_up() -> None:
    assert judged("R04", deployment()) == "not judged"
    assert judged("R04", deployment(), first_request_s=3.1, steady_request_s=1.0) == "warning"
    assert judged("R04", deployment(), first_request_s=3.0, steady_request_s=1.0) is None


@pytest.mark.parametrize(
    ("cold", "warm", "level"),
    [(600.0, 300.0, "warning"), (600.0, 450.0, None), (590.0, 300.0, None), (None, 300.0, "not judged")],
)
def test_r05_cold_node(cold: float | None, warm: float, level: str | None) -> None:
    text = deployment({"startupProbe": probe(f=60)})
    assert judged("R05", text, load_s=cold, load_least_s=warm) == level


def test_r06_one_replica() -> None:
    assert judged("R06", deployment()) == "info"
    assert judged("R06", deployment(replicas=2)) is None


def compose(**service: Any) -> str:
    return json.dumps({"services": {"llm": {"image": "vllm/vllm-openai:v0.32.0", **service}}})


@pytest.mark.parametrize(
    ("service", "figures", "level"),
    [
        ({}, {}, "not judged"),
        ({}, {"longest_request_s": 11.0}, "error"),
        ({}, {"longest_request_s": 9.0}, None),
        ({"stop_grace_period": "1m30s"}, {"longest_request_s": 45.0, "exit_s": 91.0}, "error"),
        ({"stop_grace_period": "1m30s"}, {"longest_request_s": 45.0, "exit_s": 51.0}, None),
        ({"stop_grace_period": "${GRACE}"}, {"longest_request_s": 45.0}, "not judged"),
    ],
)
def test_d12_docker_stop(service: dict[str, Any], figures: dict[str, Any], level: str | None) -> None:
    assert judged("D12", compose(**service), **figures) == level


@pytest.mark.parametrize(
    ("test", "level"),
    [
        ("curl localhost:8000/health || exit 1", "warning"),
        ("curl -fsS localhost:8000/health || exit 1", None),
        (["CMD", "curl", "-s", "http://localhost:8000/health"], "warning"),
        (["CMD-SHELL", "curl -s localhost:8000/health"], "warning"),
        (["CMD", "true"], "warning"),
        (["CMD", "curl", "-f", "http://localhost:8000/v1/models"], "warning"),
        (["CMD", "wget", "-q", "http://localhost:8000/health"], None),
    ],
)
def test_p08_a_health_check_that_cannot_fail(test: str | list[str], level: str | None) -> None:
    assert judged("P08", compose(healthcheck={"test": test})) == level
    assert judged("P08", compose(healthcheck={"test": ["NONE"]})) is None


def test_b01_healthcheck_without_an_actor() -> None:
    check = {"healthcheck": {"test": "curl -f localhost:8000/health"}}
    assert judged("B01", compose(**check)) == "warning"
    found = of(lint_text(compose(**check)), "B01")[0]
    assert found.arithmetic == "unhealthy within 180 s of a hang, 90 s of a refusal, and then nothing"
    assert judged("B01", compose(**check, labels=["autoheal=true"])) is None
    assert judged("B01", compose(**check, deploy={"update_config": {}})) is None
    assert judged("B01", compose(healthcheck={"test": ["NONE"]})) is None
    assert judged("B01", compose(healthcheck={"disable": True})) is None


@pytest.mark.parametrize(
    ("service", "b02", "b03"),
    [
        ({}, "warning", None),
        ({"restart": "no"}, "warning", None),
        ({"restart": "unless-stopped"}, None, None),
        ({"restart": "on-failure:5"}, None, "warning"),
        ({"deploy": {"restart_policy": {"condition": "on-failure"}}}, None, "warning"),
        ({"image": "sglang", "restart": "on-failure"}, None, "not judged"),
    ],
)
def test_restart_policies(service: dict[str, Any], b02: str | None, b03: str | None) -> None:
    text = compose(**service)
    assert (judged("B02", text), judged("B03", text)) == (b02, b03)


def test_b03_by_the_measured_exit_status() -> None:
    text = compose(image="sglang", restart="on-failure")
    assert judged("B03", text, exit_code=0) == "warning"
    assert judged("B03", text, exit_code=1) is None


@pytest.mark.parametrize(("load", "level"), [(151.0, "warning"), (150.0, None), (None, "not judged")])
def test_b04_start_period(load: float | None, level: str | None) -> None:
    text = compose(healthcheck={"start_period": "60s"})
    assert judged("B04", text, load_s=load) == level


@pytest.mark.parametrize(
    ("service", "level"),
    [
        ({"command": "--tensor-parallel-size 2"}, "warning"),
        ({"command": "-tp 2"}, "warning"),
        ({"command": "--model /m"}, None),
        ({"command": "--tp 2", "shm_size": "8gb"}, None),
        ({"command": "--tp 2", "shm_size": 1073741824}, None),
        ({"command": "--tp 2", "ipc": "host"}, None),
    ],
)
def test_b05_shared_memory(service: dict[str, Any], level: str | None) -> None:
    assert judged("B05", compose(**service)) == level


@pytest.mark.parametrize(
    ("lines", "rule", "level"),
    [
        ("", "D13", "warning"),
        ("KillMode=mixed", "D13", None),
        ("KillMode=none", "D13", "error"),
        ("Restart=always", "B02", None),
        ("Restart=no", "B02", "warning"),
        ("Restart=on-failure", "B03", "warning"),
        ("KillMode=mixed", "D07", None),
        ("TimeoutStopSec=10", "D01", "error"),
        ("TimeoutStopSec=infinity", "D01", None),
        ("TimeoutSec=1min 30s", "D01", None),
    ],
)
def test_units(lines: str, rule: str, level: str | None) -> None:
    text = f"[Service]\nExecStart=/usr/bin/vllm serve /m\n{lines}\n"
    assert judged(rule, text, "vllm.service", longest_request_s=45.0) == level


def test_figures_count_for_engines_of_the_same_kind_only() -> None:
    text = deployment({"livenessProbe": probe(d=30)})
    assert judged("P01", text, engine="sglang", load_s=90.0) == "not judged"
    assert judged("P01", text, engine="vllm", load_s=90.0) == "error"


def test_sidecars_are_judged_by_the_rules_for_everyone_alone() -> None:
    sidecar = {
        "name": "proxy",
        "image": "envoy",
        "livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2},
    }
    report = lint_text(deployment(pod={"initContainers": [{**sidecar, "restartPolicy": "Always"}]}))
    assert {f.id for f in report.findings if "proxy" in f.object} == {"P18"}
