"""Bottlenecks the whole live way: an engine that has them, its devices, this host, and ``once --json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict_live.live import LIMIT_S, WAITS, free_mib, judged, put, simulated, working

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml

pytest_plugins = ("tests.support.nvml_plugin",)
pytestmark = pytest.mark.timeout(LIMIT_S)

LATE: dict[str, Any] = {"decode_step_s": 0.15}
"""Every token comes later than the target of 0.1 s."""
BUSY = ("--traffic", "6", "--output-tokens", "60")


def test_kv_cache(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    working(fake_nvml)
    traffic = ("--traffic", "20", "--prompt-tokens", "100", "--output-tokens", "200")
    with simulated(tmp_path, *traffic, max_model_len=512, kv_tokens=2048) as engine:
        engine.until("vllm:num_preemptions_total", 1)
        says = ("of 64 seats", "preempting ")
        judged(tmp_path, fake_nvml, engine.url, "kv_cache", confidence=("high",), saying=says)


def test_scheduler_limit(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    working(fake_nvml)
    with simulated(tmp_path, "--traffic", "20", "--max-num-seqs", "4") as engine:
        engine.until("vllm:num_requests_waiting", 10)
        says = ("running 4 of 4 seats",)
        judged(tmp_path, fake_nvml, engine.url, "scheduler_limit", confidence=("high",), saying=says)


def test_compute(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    working(fake_nvml, util_gpu=99, util_mem=81, power_mw=685_000)
    with simulated(tmp_path, *BUSY, **LATE) as engine:
        engine.until("vllm:num_requests_running", 4)
        judged(tmp_path, fake_nvml, engine.url, "compute", confidence=("high",), saying=("itl",))


def test_power_thermal(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    working(fake_nvml, 2)
    put(fake_nvml, 1, clock_sm=900, reasons=0x48, temp_c=91)
    with simulated(tmp_path, *BUSY, **LATE) as engine:
        engine.until("vllm:num_requests_running", 4)
        says = ("hw_thermal_slowdown",)
        judged(tmp_path, fake_nvml, engine.url, "power_thermal", confidence=("high",), saying=says)


def test_network(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """Two cards that spin for each other's tensors: full by NVML's word, at a third of their power."""
    working(fake_nvml, 2, util_gpu=99, util_mem=9, power_mw=210_000, gpm_2=12, gpm_5=4, gpm_10=9)
    with simulated(tmp_path, *BUSY, tensor_parallel_size=2, **LATE) as engine:
        engine.until("vllm:num_requests_running", 4)
        sure = ("medium", "high")
        judged(tmp_path, fake_nvml, engine.url, "network", confidence=sure, saying=("power",))


def test_gpu_memory(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """No room beside the pool, and requests fail while the pool itself is half empty."""
    working(fake_nvml)
    free_mib(fake_nvml, 0, 300)
    with simulated(tmp_path, *BUSY, max_num_queued_reqs=2) as engine:
        engine.until("vllm:num_requests_running", 1)
        says = ("free", "errors")
        judged(tmp_path, fake_nvml, engine.url, "gpu_memory", confidence=("high",), saying=says)


def test_queueing_upstream(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """One of two cards gets all the load."""
    working(fake_nvml, 2)
    put(fake_nvml, 1, **{**WAITS, "util_gpu": 2})
    with simulated(tmp_path, *BUSY, tensor_parallel_size=2, **LATE) as engine:
        engine.until("vllm:num_requests_running", 4)
        judged(tmp_path, fake_nvml, engine.url, "queueing_upstream", saying=("across GPUs",))


def test_degraded_cache(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """Prompts that share nothing are computed in small pieces beside a decode that stays on time."""
    working(fake_nvml, util_gpu=85)
    config = tmp_path / "config.toml"
    config.write_text("[slo]\nttft_p95_s = 0.4\n")
    traffic = ("--traffic", "0.8", "--prompt-tokens", "600", "--shared-prefix", "0", "--output-tokens", "40")
    slow: dict[str, Any] = {"max_num_batched_tokens": 48, "prefill_tok_s": 1000.0}
    with simulated(tmp_path, *traffic, "--spread", "0", **slow) as engine:
        engine.until("vllm:time_to_first_token_seconds_count", 1)
        words, says = ("--config", str(config)), ("hit",)
        judged(
            tmp_path, fake_nvml, engine.url, "degraded_cache", *words, saying=says, samples=5, interval=0.8
        )
