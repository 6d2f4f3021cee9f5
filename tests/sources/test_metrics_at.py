"""Which addresses of metrics are worth what the settings hold for the engine."""

from __future__ import annotations

import pytest

from tui.model.settings import EngineTarget
from tui.sources.engines import metrics_at

HEADERS = {"X-Key": "h"}


@pytest.mark.parametrize(
    ("engine", "metrics", "known"),
    [
        ("http://10.0.0.1:8000", "http://10.0.0.1:9100/m", True),
        ("https://10.0.0.1:8000", "https://10.0.0.1:9100", True),
        ("http://10.0.0.1:8000", "https://10.0.0.1:9100", True),
        ("https://10.0.0.1:8000", "http://10.0.0.1:9100", False),
        ("http://10.0.0.1:8000", "http://10.0.0.2:8000/metrics", False),
        ("http://10.0.0.1:8000", "http+unix://%2Frun%2Fe.sock", False),
    ],
)
def test_token_and_headers_go_the_same_ways(engine: str, metrics: str, known: bool) -> None:
    target = EngineTarget(engine, metrics, token="t", token_env="T", headers=HEADERS)
    given = metrics_at.named(target).target
    assert (given.token, given.token_env, given.headers) == (("t", "T", HEADERS) if known else ("", "", {}))
    assert (target.token, target.headers) == ("t", HEADERS)


def test_what_nobody_named_gets_nothing() -> None:
    at = metrics_at.tritons(EngineTarget("http://[::1]:8000", token="t", headers=HEADERS), "/metrics")
    assert (at.url, at.path, at.target.token, at.target.headers) == ("http://[::1]:8002", "/metrics", "", {})
