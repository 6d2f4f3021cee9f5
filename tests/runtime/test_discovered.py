from __future__ import annotations

import pytest

from tui.model.readings import EngineProcess
from tui.runtime.target import discovered


@pytest.mark.parametrize(
    ("options", "metrics_url"),
    [
        ("--metrics-port 9100", "http://127.0.0.1:9100/metrics"),
        ("--metrics-port=9100", "http://127.0.0.1:9100/metrics"),
        ("", ""),
        ("--metrics-port", ""),
        ("--metrics-port 99999", ""),
    ],
)
def test_the_metrics_port_of_the_command_line_goes_with_the_endpoint(options: str, metrics_url: str) -> None:
    process = EngineProcess(
        7, 1, "tritonserver", "api_server", "triton", cmdline=("tritonserver", *options.split())
    )
    target = discovered("http://127.0.0.1:9000", (process,))
    assert (target.url, target.metrics_url, target.discovered) == (
        "http://127.0.0.1:9000",
        metrics_url,
        True,
    )


def test_an_endpoint_without_processes_is_taken_as_it_is() -> None:
    assert discovered("http://[::1]:8000", ()).metrics_url == ""
