"""What versions do where nothing was asked of them."""

from __future__ import annotations

import pytest

from tui.model.readings import GpuReading
from tui.sources.option_defaults import option_defaults

H100 = GpuReading(0, name="NVIDIA H100 80GB HBM3", mem_total_mib=81559.0)
A100 = GpuReading(0, name="NVIDIA A100-SXM4-80GB", mem_total_mib=81920.0)
L4 = GpuReading(1, name="NVIDIA L4", mem_total_mib=23034.0)


@pytest.mark.parametrize(
    ("version", "fraction"),
    [("0.10.2", "0.9"), ("0.19.1", "0.9"), ("0.20.0", "0.92"), ("0.32.0+cpu", "0.92"), (None, None)],
)
def test_the_fraction_of_vllm_depends_on_its_version(version: str | None, fraction: str | None) -> None:
    assert option_defaults("vllm", version, {}).get("gpu-memory-utilization") == fraction


@pytest.mark.parametrize(
    ("gpus", "seats"),
    [((H100,), "1024"), ((A100,), "256"), ((L4,), "256"), ((H100, L4), None), ((), None)],
)
def test_the_seats_of_vllm_depend_on_the_device(gpus: tuple[GpuReading, ...], seats: str | None) -> None:
    assert option_defaults("vllm", "0.33.0", {}, gpus).get("max-num-seqs") == seats


def test_what_was_given_is_no_default() -> None:
    given = {"max-num-seqs": "16", "gpu-memory-utilization": "0.5", "tensor-parallel-size": "2"}
    assert not given.keys() & option_defaults("vllm", "0.33.0", given, (H100,)).keys()
    assert "tensor-parallel-size" not in option_defaults("sglang", "0.5.23", {"tp": "4"})
    memory = option_defaults("vllm", "0.33.0", {"kv-cache-memory-bytes": "1000"}, (H100,))
    assert "gpu-memory-utilization" not in memory


def test_what_an_engine_works_out_for_itself_is_not_guessed() -> None:
    found = option_defaults("sglang", "0.5.23", {}, (H100,))
    assert not {"mem-fraction-static", "max-running-requests", "chunked-prefill-size"} & found.keys()
    assert option_defaults("triton", "2.51.0", {}) == option_defaults(None, None, {}) == {}
