"""Where an engine's memory went: arithmetic beside the driver's figures, and the model's files on a host."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.support.model_dirs import config, write_config
from tui.memory.breakdown import breakdown
from tui.memory.fields import Fields
from tui.memory.model_config import shape_of
from tui.memory.model_files import model_option, read_model
from tui.memory.weights import assumed
from tui.model.memory import EngineMemory, GpuShare
from tui.model.readings import EngineReading, GpuProcess, GpuReading

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = shape_of(Fields(config("llama-2-13b"), "config.json"))
WEIGHTS = assumed(13_000_000_000)
MIB = 1 << 20
READING = EngineReading("http://a", kv_capacity_tokens=32768.0)


def card(index: int, *held: tuple[int, float | None], used: float = 60000.0) -> GpuReading:
    processes = tuple(GpuProcess(pid, None, mib) for pid, mib in held)
    return GpuReading(
        index, mem_used_mib=used, mem_total_mib=81559.0, mem_reserved_mib=559.0, processes=processes
    )


def test_one_gpu() -> None:
    options = {"max-model-len": "4096", "gpu-memory-utilization": "0.9"}
    found = breakdown(
        READING, options, {7}, [card(0, (7, 55000.0), (9, 5000.0)), card(1, (9, 1.0))], LLAMA, WEIGHTS
    )
    assert found.kv_token_bytes == 819200
    assert found.kv_mib == 32768 * 819200 / MIB == 25600.0
    assert found.weights_mib == pytest.approx(26e9 / MIB)
    (share,) = found.gpus
    assert (share.gpu, share.engine_mib, share.free_mib, share.total_mib) == (0, 55000.0, 21000.0, 81559.0)
    assert share.rest_mib == pytest.approx(55000.0 - 25600.0 - 26e9 / MIB)
    assert (found.sequences, found.sequence_tokens) == (8, 4096)
    assert found.kv_predicted_mib == pytest.approx(0.9 * 81559 - 26e9 / MIB - 4096, abs=1)


def test_tensor_parallel_and_data_parallel_share() -> None:
    options = {"tensor-parallel-size": "2", "data-parallel-size": "2"}
    cards = [card(n, (7 + n, 30000.0)) for n in range(4)]
    found = breakdown(READING, options, {7, 8, 9, 10}, cards, LLAMA, WEIGHTS)
    assert found.weights_mib == pytest.approx(13e9 / MIB)
    assert found.kv_token_bytes == 409600
    assert found.kv_mib == 32768 * 409600 / 2 / MIB
    assert [share.gpu for share in found.gpus] == [0, 1, 2, 3]


def test_fp8_cache_halves_a_token() -> None:
    found = breakdown(READING, {"kv-cache-dtype": "fp8_e5m2"}, {7}, [], LLAMA, WEIGHTS)
    assert found.kv_token_bytes == 409600
    assert found.gpus == ()


def test_what_is_not_known_stays_so() -> None:
    assert breakdown(None, {}, {7}, [card(0, (7, None))], None, None) == EngineMemory(
        (GpuShare(0, None, None, 21000.0, 81559.0),)
    )
    found = breakdown(None, {"max-model-len": "x", "gpu-memory-utilization": "nan"}, {7}, [], LLAMA, None)
    assert (found.weights_mib, found.kv_mib, found.sequences, found.kv_predicted_mib) == (None,) * 4
    assert found.kv_token_bytes == 819200


def process(proc: Path, root: Path, cwd: Path) -> None:
    (proc / "7").mkdir(parents=True)
    (proc / "7/root").symlink_to(root)
    (proc / "7/cwd").symlink_to(cwd)


def test_a_models_files_are_looked_for_as_the_process_sees_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    root, cwd = tmp_path / "image", tmp_path / "work"
    root.mkdir()
    cwd.mkdir()
    process(tmp_path / "proc", root, cwd)

    def read(**args: str) -> tuple[bool, bool, str]:
        options = {name.replace("_", "-"): value for name, value in args.items()}
        found = read_model(options, 7, str(tmp_path / "proc"))
        return found.shape is not None, found.weights is not None, found.why

    (root / "models").mkdir()
    write_config(root / "models/a", config("mistral-7b"))
    assert read(model="/models/a") == (True, False, "there are no weights beside config.json")
    index = {"metadata": {"total_size": 14_000_000_000}, "weight_map": {}}
    (root / "models/a/pytorch_model.bin.index.json").write_text(json.dumps(index))
    assert read(model="/models/a") == (True, True, "")
    write_config(cwd / "b", config("mistral-7b"))
    assert read(model_path="b")[0]
    hub = root / "cache/models--org--c"
    (hub / "refs").mkdir(parents=True)
    (hub / "snapshots").mkdir()
    (hub / "refs/main").write_text("abc123\n")
    write_config(hub / "snapshots/abc123", config("mistral-7b"))
    assert read(model="org/c", download_dir="/cache")[0]
    assert not read(model="org/c")[0]
    (hub / "refs/main").write_text("../../../../etc\n")
    assert not read(model="org/c", download_dir="/cache")[0]
    (tmp_path / "elsewhere").write_text("abc123\n")
    for revision in (str(tmp_path / "elsewhere"), "../../../../elsewhere", "/dev/zero"):  # without an end
        assert not read(model="org/c", download_dir="/cache", revision=revision)[0]
    (hub / "refs/v2").symlink_to("/dev/zero")
    assert not read(model="org/c", download_dir="/cache", revision="v2")[0]
    os.mkfifo(hub / "refs/v3")
    assert not read(model="org/c", download_dir="/cache", revision="v3")[0]
    (hub / "refs/refs/pr").mkdir(parents=True)
    (hub / "refs/refs/pr/1").write_text("abc123")
    assert read(model="org/c", download_dir="/cache", revision="refs/pr/1")[0]
    shape, _, why = read(model="org/none")
    assert not shape
    assert "org/none" in why
    (root / "models/a/config.json").write_text("{")
    assert not read(model="/models/a")[0]


def test_a_command_line_without_a_model() -> None:
    assert model_option({"port": "8000"}) == ""
    assert read_model({}, 1).why
