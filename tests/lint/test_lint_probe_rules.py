"""P rules at their borders, without and with what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lint.support import deployment, judged, lint_text, of, probe
from tui.lint.judge import RULES
from tui.lint.measured import Figures, ProbeFigure
from tui.lint.texts import TEXTS


def health(p99: float | None = 0.1, **fields: Any) -> ProbeFigure:
    return ProbeFigure(
        **{"kind": "liveness", "path": "/health", "status": 200, "latency_s": p99, "p99_s": p99, **fields}
    )


def test_every_rule_has_its_prose_and_every_prose_its_rule() -> None:
    assert {rule.id for rule in RULES} == set(TEXTS)
    assert len(RULES) == 23 + 14 + 6 + 5


def test_without_measurements_every_rule_that_needs_one_says_so() -> None:
    text = deployment(
        {
            "image": "lmsysorg/sglang:v0.5.23",
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "startupProbe": probe("/ready"),
            "livenessProbe": probe(p=25, t=25),
            "readinessProbe": probe("/ready"),
        },
        strategy={"rollingUpdate": {"maxUnavailable": 0}},
    )
    report = lint_text(text)
    needing = {f.id for f in report.findings if f.text.startswith("not judged, needs ")}
    assert needing == {
        "P02", "P03", "P06", "P10", "P14", "P16", "P22", "P23", "D01", "D02", "D10", "D11", "D14", "R01",
        "R03", "R04", "R05",
    }  # fmt: skip
    assert all(f.level == "info" for f in report.findings if f.id in needing)


@pytest.mark.parametrize(
    ("delay", "failures", "load", "level"),
    [
        (30, 3, 90.0, "error"),  # 50 s: killed in [50, 60)
        (30, 3, 41.0, None),  # 1.2 * 41 = 49.2
        (30, 3, 42.0, "error"),  # 1.2 * 42 = 50.4
        (120, 3, 117.0, "error"),  # 140 s against 140.4
        (120, 3, 116.0, None),
    ],
)
def test_p01_liveness_budget(delay: int, failures: int, load: float, level: str | None) -> None:
    text = deployment({"livenessProbe": probe(d=delay, f=failures)})
    assert judged("P01", text) == "not judged"
    assert judged("P01", text, load_s=load) == level


def test_p01_shows_its_sum_and_what_to_set() -> None:
    report = lint_text(deployment({"livenessProbe": probe(d=30)}), figures=[Figures(load_s=90.0)])
    found = of(report, "P01")[0]
    assert found.arithmetic == (
        "30 + (3-1) * 10 = 50 s < 1.2 * 90 s = 108 s; killed 50-60 s after each start,"
        " restarts near 60, 130, 210, 310 s"
    )
    assert "failureThreshold 15" in found.instead
    assert of(lint_text(deployment({"livenessProbe": probe(d=30)})), "P01")[0].arithmetic == (
        "budget 30 + (3-1) * 10 = 50 s"
    )


@pytest.mark.parametrize(("load", "loops"), [(59.9, False), (60.0, True)])
def test_p01_promises_no_loop_to_a_load_that_may_end_before_the_kill(load: float, loops: bool) -> None:
    report = lint_text(deployment({"livenessProbe": probe(d=30)}), figures=[Figures(load_s=load)])
    assert ("restarts near" in (of(report, "P01")[0].arithmetic or "")) == loops


@pytest.mark.parametrize(
    ("load", "level"), [(591.0, "error"), (590.0, "warning"), (394.0, "warning"), (393.0, None)]
)
def test_p02_startup_budget_of_ten_minutes(load: float, level: str | None) -> None:
    text = deployment({"startupProbe": probe(f=60), "livenessProbe": probe()})
    assert judged("P02", text, load_s=load) == level
    assert judged("P01", text, load_s=load) is None


@pytest.mark.parametrize(("p99", "level"), [(1.4, "error"), (0.6, "warning"), (0.5, None), (1.0, "warning")])
def test_p03_timeout_against_p99(p99: float, level: str | None) -> None:
    assert judged("P03", deployment({"livenessProbe": probe(t=1)}), probes=(health(p99),)) == level


def test_p03_takes_another_routes_figure_only_where_both_cost_the_same() -> None:
    figures: dict[str, Any] = {"probes": (health(3.0, kind="readiness"),)}
    text = deployment({"readinessProbe": probe("/v1/models", t=2)})
    assert judged("P03", text, **figures) == "error"
    sglang = deployment({"image": "sglang", "readinessProbe": probe("/ready", t=2)})
    assert judged("P03", sglang, **figures) == "not judged"


@pytest.mark.parametrize(
    ("fields", "p99", "level"),
    [
        ({}, None, "warning"),
        ({"t": 1}, 0.6, "warning"),
        ({"t": 1}, 0.4, None),
        ({"t": 5}, None, None),
    ],
)
def test_p04_default_timeout(fields: dict[str, Any], p99: float | None, level: str | None) -> None:
    text = deployment({"readinessProbe": probe(**fields)})
    assert judged("P04", text, probes=(health(p99),) if p99 else ()) == level


@pytest.mark.parametrize(("failures", "level"), [(3, "warning"), (4, None)])
def test_p05_liveness_against_readiness(failures: int, level: str | None) -> None:
    text = deployment({"livenessProbe": probe(f=failures, t=5), "readinessProbe": probe(t=5)})
    assert judged("P05", text) == level


@pytest.mark.parametrize(("step", "level"), [(26.0, "error"), (25.0, None), (None, "not judged")])
def test_p06_one_long_step(step: float | None, level: str | None) -> None:
    text = deployment({"livenessProbe": probe(t=5)})
    assert judged("P06", text, longest_step_s=step) == level


@pytest.mark.parametrize(
    ("timeout", "step", "words"),
    [(5, 40.0, "25 s < 40 s; it makes 3 to 4 probes in a row fail, 3 kill"), (20, 90.0, "60 s < 90 s")],
)
def test_p06_counts_the_misses_of_one_step(timeout: int, step: float, words: str) -> None:
    text = deployment({"livenessProbe": probe(t=timeout)})
    found = of(lint_text(text, figures=[Figures(longest_step_s=step)]), "P06")[0]
    assert found.arithmetic is not None and found.arithmetic.endswith(words)


@pytest.mark.parametrize(
    ("handler", "level"),
    [
        ({"tcpSocket": {"port": 8000}}, "warning"),
        ({"exec": {"command": ["true"]}}, "warning"),
        ({"exec": {"command": ["sh", "-c", "exit 0"]}}, "warning"),
        ({"exec": {"command": ["/bin/echo", "ok"]}}, "warning"),
        ({"exec": {"command": ["curl", "-f", "http://localhost:8000/version"]}}, "warning"),
        ({"exec": {"command": ["curl", "-f", "http://localhost:8000/health"]}}, None),
        ({"exec": {"command": ["sh", "-ec", "curl -f localhost:8000/health || true"]}}, "warning"),
        (
            {"exec": {"command": ["sh", "-c", "curl -f localhost:8000/health | grep -q ok || exit 0;"]}},
            "warning",
        ),
        ({"exec": {"command": ["sh", "-c", "curl -f localhost:8000/health || exit 1; log || true"]}}, None),
        ({"exec": {"command": ["sh", "-c", "curl -f localhost:8000/health || exit 1"]}}, None),
        ({"exec": {"command": ["curl", "http://localhost:8000/health"]}}, "warning"),
        ({"exec": {"command": ["timeout", "5", "/usr/bin/curl", "-sS", "localhost:8000/health"]}}, "warning"),
        ({"exec": {"command": ["curl", "-m", "5", "-o", "f", "localhost:8000/health"]}}, "warning"),
        ({"exec": {"command": ["curl", "-of", "localhost:8000/health"]}}, "warning"),
        ({"exec": {"command": ["curl", "--fail-early", "localhost:8000/health"]}}, "warning"),
        ({"exec": {"command": ["sh", "-c", "curl -s localhost:8000/health || exit 1"]}}, "warning"),
        ({"exec": {"command": ["sh", "-c", "if curl -s localhost:8000/health; then exit 0; fi"]}}, "warning"),
        ({"exec": {"command": ["curl", "-sSf", "localhost:8000/health"]}}, None),
        ({"exec": {"command": ["curl", "--fail-with-body", "localhost:8000/health"]}}, None),
        ({"exec": {"command": ["sh", "-c", "curl -s localhost:8000/health | grep -q ok"]}}, None),
        (
            {"exec": {"command": ["sh", "-c", "[ $(curl -s -w '%{http_code}' localhost/health) = 200 ]"]}},
            None,
        ),
        ({"exec": {"command": ["sh", "-c", "curl -s localhost:8000/health && check_more"]}}, None),
        ({"exec": {"command": ["test", "-x", "/usr/bin/curl"]}}, None),
        ({"exec": {"command": ["wget", "-qO-", "http://localhost:8000/health"]}}, None),
        ({"exec": {"command": ["grep", "-c", "true"]}}, None),
        ({"exec": {"command": ["sh", "-c", "exit 1"]}}, None),
        ({"httpGet": {"path": "/v1/models", "port": 8000}}, "warning"),
        ({"httpGet": {"path": "/ping?x=1", "port": 8000}}, "warning"),
        ({"httpGet": {"path": "/health", "port": 8000}}, None),
        ({"grpc": {"port": 8001}}, None),
    ],
)
def test_p08_a_probe_that_cannot_fail(handler: dict[str, Any], level: str | None) -> None:
    assert judged("P08", deployment({"livenessProbe": handler})) == level


def test_p08_a_startup_probe_only_waits_for_the_port() -> None:
    assert judged("P08", deployment({"startupProbe": {"tcpSocket": {"port": 8000}}})) is None
    assert judged("P08", deployment({"startupProbe": {"exec": {"command": ["true"]}}})) == "warning"


def test_p08_an_old_sglangs_health_is_constant() -> None:
    old = {"image": "lmsysorg/sglang:v0.4.6.post1-cu124", "livenessProbe": probe()}
    assert judged("P08", deployment(old)) == "warning"
    assert judged("P11", deployment(old)) is None


def test_p09_another_signal_than_health() -> None:
    both = {"livenessProbe": probe(), "readinessProbe": probe("/v1/models")}
    assert judged("P09", deployment(both)) == "warning"
    checked = {**both, "livenessProbe": {"exec": {"command": ["infertop", "check"]}}}
    assert judged("P09", deployment({**checked, "readinessProbe": probe()})) is None
    assert judged("P09", deployment({**both, "image": "sglang"})) is None


@pytest.mark.parametrize(("timeout", "level"), [(25, None), (9, "error"), (10, None)])
def test_p10_generation_as_liveness(timeout: int, level: str | None) -> None:
    text = deployment({"image": "sglang:0.5.3", "livenessProbe": probe(p=30, t=timeout)})
    assert judged("P10", text, queue_s=8.0, ttft_s=2.0) == level
    assert judged("P10", text, ttft_s=2.0) == "not judged"


def test_p11_an_answer_that_never_comes_in_time_is_an_error() -> None:
    def sglang(**fields: Any) -> str:
        return deployment({"image": "sglang:0.5.3", "livenessProbe": probe(**fields)})

    assert judged("P11", sglang(p=30)) == "error"
    assert judged("P11", sglang(p=30, t=20)) == "warning"
    assert judged("P11", sglang(p=10, t=21)) == "warning"
    assert judged("P11", sglang(p=20, t=21)) is None
    quiet = {"env": [{"name": "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "value": "false"}]}
    text = deployment({"image": "sglang:0.5.6", "livenessProbe": probe(), **quiet})
    assert judged("P11", text) is None


@pytest.mark.parametrize(("period", "timeout", "level"), [(10, 20, "info"), (10, 10, None)])
def test_p12_timeout_above_the_period(period: int, timeout: int, level: str | None) -> None:
    text = deployment({"livenessProbe": probe(p=period, t=timeout)})
    assert judged("P12", text) == level
    if level:
        assert of(lint_text(text), "P12")[0].arithmetic == "(3-1) * 20 + 20 + 10 = 70 s"


@pytest.mark.parametrize(("failures", "level"), [(6, "warning"), (5, None)])
def test_p13_requests_into_a_hung_server(failures: int, level: str | None) -> None:
    assert judged("P13", deployment({"readinessProbe": probe(f=failures, t=1)})) == level


@pytest.mark.parametrize(
    ("streak", "tokens", "level"),
    [(-3, 500.0, "error"), (-2, 500.0, None), (-3, 0.0, None), (7, 500.0, None), (-3, None, "not judged")],
)
def test_p14_readiness_under_load(streak: int, tokens: float | None, level: str | None) -> None:
    text = deployment({"readinessProbe": probe()})
    figure = health(kind="readiness", streak=streak)
    assert judged("P14", text, probes=(figure,), tokens_per_s=tokens) == level


def test_p15_readiness_absent() -> None:
    assert judged("P15", deployment()) == "error"
    assert judged("P15", deployment({"readinessProbe": probe()})) is None


@pytest.mark.parametrize(("failed", "level"), [(2, "error"), (0, None), (None, "not judged")])
def test_p16_ready_before_the_first_token(failed: int | None, level: str | None) -> None:
    assert judged("P16", deployment({"readinessProbe": probe()}), failed_when_ready=failed) == level


@pytest.mark.parametrize(
    ("kind", "change", "level"),
    [
        ("livenessProbe", {}, None),
        ("livenessProbe", {"successThreshold": 2}, "error"),
        ("readinessProbe", {"successThreshold": 2}, None),
        ("readinessProbe", {"terminationGracePeriodSeconds": 10}, "error"),
        ("livenessProbe", {"terminationGracePeriodSeconds": 10}, None),
        ("livenessProbe", {"terminationGracePeriodSeconds": 0}, "error"),
        ("livenessProbe", {"periodSeconds": 0}, "error"),
        ("livenessProbe", {"failureThreshold": 0}, "error"),
        ("livenessProbe", {"initialDelaySeconds": -1}, "error"),
        ("livenessProbe", {"tcpSocket": {"port": 8000}}, "error"),
        ("livenessProbe", {"httpGet": None}, "error"),
    ],
)
def test_p18_what_the_api_rejects(kind: str, change: dict[str, Any], level: str | None) -> None:
    assert judged("P18", deployment({kind: {**probe(), **change}})) == level


@pytest.mark.parametrize(
    ("container", "handler", "level"),
    [
        ({"args": ["--port", "9000"]}, {"port": 8000}, "error"),
        ({"args": ["--port=9000"]}, {"port": 9000}, None),
        ({}, {"port": 8000}, None),
        ({}, {"port": 8080}, "error"),
        ({"args": ["--port", "$(PORT)"], "env": [{"name": "PORT", "value": "81"}]}, {"port": 81}, None),
        ({"args": ["--port", "$(PORT)"]}, {"port": 81}, None),
        ({"args": ["--config", "/c.yaml"]}, {"port": 81}, None),
        ({"command": ["/start.sh"]}, {"port": 81}, None),
        ({"args": ["--host", "127.0.0.1"]}, {"port": 8000}, "error"),
        ({"args": ["--host", "127.0.0.1"]}, {"port": 8000, "host": "127.0.0.1"}, None),
        ({"args": ["--ssl-certfile", "/c"]}, {"port": 8000}, "error"),
        ({"args": ["--ssl-certfile", "/c"]}, {"port": 8000, "scheme": "HTTPS"}, None),
        ({}, {"port": 8000, "scheme": "HTTPS"}, "error"),
        ({"ports": [{"name": "web", "containerPort": 8000}]}, {"port": "web"}, None),
        ({}, {"port": "web"}, "error"),
        ({"image": "tritonserver:24.05-py3", "args": ["tritonserver"]}, {"port": 8000}, None),
        ({"image": "tensorrt-llm", "args": ["trtllm-serve", "/m"]}, {"port": 8000}, "error"),
    ],
)
def test_p21_reaching_the_server(
    container: dict[str, Any], handler: dict[str, Any], level: str | None
) -> None:
    text = deployment({**container, "readinessProbe": {"httpGet": {"path": "/health", **handler}}})
    assert judged("P21", text) == level


def test_p22_authentication() -> None:
    models = deployment({"args": ["--api-key", "x"], "readinessProbe": probe("/v1/models")})
    assert judged("P22", models) == "error"
    assert judged("P22", deployment({"args": ["--api-key", "x"], "readinessProbe": probe()})) == "not judged"
    sends = {"httpGet": {"path": "/v1/models", "port": 8000, "httpHeaders": [{"name": "Authorization"}]}}
    assert judged("P22", deployment({"args": ["--api-key", "x"], "readinessProbe": sends})) is None
    text = deployment({"readinessProbe": probe()})
    assert judged("P22", text, probes=(health(status=401),)) == "error"
    assert judged("P22", text, probes=(health(),)) is None


@pytest.mark.parametrize(("status", "level"), [(302, "warning"), (200, None), ("timeout", None)])
def test_p23_redirects(status: int | str, level: str | None) -> None:
    assert judged("P23", deployment({"readinessProbe": probe()}), probes=(health(status=status),)) == level
