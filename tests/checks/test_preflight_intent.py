"""What an engine's command line says where the user did not."""

from __future__ import annotations

import pytest

from tui.checks.preflight.intent import ALL, Intent, completed

SERVE = ("vllm", "serve", "/models/llama", "--port", "9000", "-tp", "2", "--max-model-len", "32k")


def told(*command: str, **environment: str) -> Intent:
    return completed(Intent(command=command), environment)


def test_the_command_fills_in_what_was_not_given() -> None:
    found = told(*SERVE, "--gpu-memory-utilization=0.8", "--dtype", "half", "--host", "10.0.0.1")
    assert (found.engine, found.model, found.port, found.host) == ("vllm", "/models/llama", 9000, "10.0.0.1")
    assert (found.tp, found.max_model_len, found.utilization, found.dtype) == (2, 32_000, 0.8, "half")
    assert found.needed_gpus == 2
    assert found.program == found.command


def test_what_was_given_counts() -> None:
    given = Intent(command=SERVE, model="/other", engine="sglang", port=1234, tp=4, max_model_len=100)
    found = completed(given, {})
    assert (found.model, found.engine, found.port, found.tp, found.max_model_len) == (
        "/other", "sglang", 1234, 4, 100,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "engine", "model", "port", "gpus"),
    [
        (("python3", "-m", "sglang.launch_server", "--model-path", "m", "--tp", "2", "--dp", "2"), "sglang", "m", 30000, 4),
        (("trtllm-serve", "/engines/x", "--tp_size", "2"), "trtllm", "/engines/x", 8000, 2),
        (("vllm", "serve", "--model", "m", "-pp", "2", "-tp", "4"), "vllm", "m", 8000, 8),
        (("tritonserver", "--http-port", "8100"), "triton", "", 8100, 1),
        (("numactl", "--cpunodebind=0", *SERVE), "vllm", "/models/llama", 9000, 2),
        (("docker", "run", "--gpus", "all", "vllm/vllm-openai", "--model", "m"), None, "", None, 1),
        (("sh", "-c", "vllm serve m"), None, "", None, 1),
    ],
)  # fmt: skip
def test_engines_and_wrappers(
    words: tuple[str, ...], engine: str | None, model: str, port: int | None, gpus: int
) -> None:
    found = told(*words)
    assert (found.engine, found.model, found.port, found.needed_gpus) == (engine, model, port, gpus)


def test_variables_of_env_count_before_those_of_this_process() -> None:
    found = told("env", "CUDA_VISIBLE_DEVICES=2,3", *SERVE, CUDA_VISIBLE_DEVICES="0", HOME="/h")
    assert (found.gpus, found.gpus_from) == (("2", "3"), "CUDA_VISIBLE_DEVICES")
    assert found.environment["HOME"] == "/h"
    assert found.program == SERVE


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("1", ("1",)),
        ("GPU-12ab, MIG-34", ("GPU-12ab", "MIG-34")),
        ("0,-1,2", ("0",)),
        ("", ()),
        ("NoDevFiles", ()),
    ],
)
def test_the_variable_is_taken_as_cuda_takes_it(text: str, chosen: tuple[str, ...]) -> None:
    assert told(CUDA_VISIBLE_DEVICES=text).gpus == chosen


def test_all_is_all_whatever_the_variable_says() -> None:
    assert completed(Intent(gpus=(ALL,)), {"CUDA_VISIBLE_DEVICES": "0"}).gpus is None
    assert completed(Intent(gpus=("1",)), {"CUDA_VISIBLE_DEVICES": "0"}).gpus == ("1",)
    assert told().gpus is None


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("4096", 4096), ("32k", 32_000), ("32K", 32_768), ("1.5k", 1500), ("-1", None), ("auto", None), ("9G", None)],
)  # fmt: skip
def test_lengths_as_vllm_spells_them(text: str, tokens: int | None) -> None:
    assert told("vllm", "serve", "m", f"--max-model-len={text}").max_model_len == tokens


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ("--tp 8 --enable-dp-attention --dp 8", 8),
        ("--tp 16 --nnodes 2 --node-rank 0", 8),
        ("--tp 2 --data-parallel-size 8 --data-parallel-size-local 2", 4),
        ("--tp 2 --pp 2 --dp 2", 8),
    ],
)
def test_gpus_of_this_host(words: str, gpus: int) -> None:
    assert told("sglang", "serve", "m", *words.split()).needed_gpus == gpus
