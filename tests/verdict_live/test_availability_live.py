"""Availability and calm the whole live way: what runs, hangs, loads, drains, is gone, or has nothing to do."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import wait_for
from tests.verdict_live.live import LIMIT_S, READY_S, judged, lives, simulated, working

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml
    from tests.verdict_live.live import Engine

pytest_plugins = ("tests.support.nvml_plugin",)
pytestmark = pytest.mark.timeout(LIMIT_S)

BUSY = ("--traffic", "6", "--output-tokens", "60")


@contextlib.contextmanager
def held(engine: Engine, part: str = "core") -> Iterator[None]:
    """A part of it stopped, and let go again so that it can end."""
    engine.order("hang", what=part)
    try:
        yield
    finally:
        engine.order("resume")


def test_healthy(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    working(fake_nvml, util_gpu=100)
    with simulated(tmp_path, *BUSY) as engine:
        engine.until("vllm:e2e_request_latency_seconds_count", 4)
        found, document = judged(tmp_path, fake_nvml, engine.url, "healthy", confidence=("high",))
    assert found["missing"] == []
    assert document["verdicts"][0]["scope"] == "host"


def test_idle(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """A card that spins and a full core say nothing where there is no work."""
    working(fake_nvml, util_gpu=100, util_mem=0, power_mw=150_000)
    with simulated(tmp_path) as engine:
        judged(tmp_path, fake_nvml, engine.url, "idle", "--generate", confidence=("high",))


def test_gpu_fault(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    working(fake_nvml, 2)
    fake_nvml.fail(1, "nvmlDeviceGetTemperature", 15)
    with simulated(tmp_path, *BUSY, tensor_parallel_size=2) as engine:
        engine.until("vllm:num_requests_running", 1)
        _, document = judged(tmp_path, fake_nvml, engine.url, "gpu_fault", saying=("GPU 1",))
    assert document["gpus"][1]["state"] == "lost"


def test_engine_hung(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """Its status routes go on saying 200 over a core that was stopped in mid work."""
    working(fake_nvml, util_gpu=100, util_mem=0, power_mw=200_000, gpm_2=10, gpm_10=0)
    with simulated(tmp_path, *BUSY) as engine:
        engine.until("vllm:iteration_tokens_total_count", 60)
        engine.until("vllm:num_requests_running", 1)
        with held(engine):
            looks: dict[str, Any] = {"samples": 4, "interval": 1.8, "confidence": ("high",)}
            _, document = judged(tmp_path, fake_nvml, engine.url, "engine_hung", **looks)
    assert {probe["status"] for probe in document["probes"]} == {200}


def test_loading(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    working(fake_nvml, util_gpu=0, util_mem=0, power_mw=90_000)
    with simulated(tmp_path, "--load-seconds", "60", ready=False) as engine:
        judged(tmp_path, fake_nvml, engine.url, "loading", saying=("phase loading",))


def test_draining_of_an_engine_that_says_so(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """SGLang turns unready and goes on with what it has."""
    working(fake_nvml)
    traffic = ("--traffic", "6", "--output-tokens", "2000")
    with simulated(tmp_path, "--dialect", "sglang", *traffic, answer_tokens=2000) as engine:
        wait_for(lambda: engine.status("/ready") == 200, READY_S, "its warm-up")
        engine.until("sglang:num_running_reqs", 2)
        engine.order("traffic", rate=0)
        engine.order("terminate")
        wait_for(lambda: engine.status("/ready") == 503, 10, "its readiness to go off")
        judged(tmp_path, fake_nvml, engine.url, "draining", saying=("readiness 503",))


def test_draining_by_its_log(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """vLLM's status routes say 200 to the end of a drain: only its log tells."""
    working(fake_nvml)
    traffic = ("--traffic", "6", "--output-tokens", "2000", "--sigterm", "drain-500")
    with simulated(tmp_path, *traffic) as engine:
        config = tmp_path / "config.toml"
        config.write_text(f'[[engines]]\nurl = "{engine.url}"\nlog = "{engine.log}"\n')
        engine.until("vllm:num_requests_running", 2)
        engine.order("terminate")
        wait_for(lambda: "mode=drain" in engine.log.read_text(), 10, "its log to tell of the drain")
        words, sure = ("--config", str(config)), ("high",)
        judged(tmp_path, fake_nvml, engine.url, "draining", *words, confidence=sure)


def test_engine_down(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    working(fake_nvml, util_gpu=0, util_mem=0)
    with simulated(tmp_path, *BUSY) as engine:
        engine.order("kill", what="api")
        wait_for(lambda: not lives(engine.pid), 10, "its end")
        judged(tmp_path, fake_nvml, engine.url, "engine_down", saying=("connection refused",))


def test_engine_down_by_its_core(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """The server lives on over a dead core, as SGLang's does for a minute."""
    working(fake_nvml)
    with simulated(tmp_path, *BUSY, keep_alive_on_engine_death=True) as engine:
        engine.until("vllm:num_requests_running", 1)
        engine.order("kill", what="core")
        wait_for(lambda: engine.status("/health") == 503, 10, "its health to fail")
        judged(tmp_path, fake_nvml, engine.url, "engine_down", saying=("503",))
