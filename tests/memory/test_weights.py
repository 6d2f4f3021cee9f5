"""Weights: exact from headers, else from an index, else assumed; and files that lie."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.model_dirs import config, write_safetensors
from tui.memory.dtypes import BF16, FP8, FP16, FP32, INT4, INT8
from tui.memory.errors import ModelError
from tui.memory.fields import Fields
from tui.memory.model_config import shape_of
from tui.memory.safetensors import read_header
from tui.memory.weights import Weights, assumed, read_weights

if TYPE_CHECKING:
    from pathlib import Path

    from tui.memory.shape import ModelShape

INDEX = "model.safetensors.index.json"


def shape(**more: Any) -> ModelShape:
    return shape_of(Fields(config("llama-2-13b") | more, "config.json"))


def read(directory: Path, **more: Any) -> Weights:
    weights = read_weights(directory, shape(**more))
    assert weights is not None
    return weights


def write_index(directory: Path, files: list[str], total: int | None) -> None:
    weight_map = {f"tensor.{number}": name for number, name in enumerate(files)}
    metadata = {} if total is None else {"total_size": total}
    (directory / INDEX).write_text(json.dumps({"metadata": metadata, "weight_map": weight_map}))


def test_the_article_s_13b() -> None:
    weights = assumed(13_000_000_000)
    assert weights.loaded_bytes(FP16) == weights.loaded_bytes() == 26_000_000_000
    assert weights.loaded_bytes(INT8) == weights.loaded_bytes(FP8) == 13_000_000_000
    assert weights.loaded_bytes(INT4) == 6_500_000_000
    assert weights.loaded_bytes(FP32) == 52_000_000_000


def test_headers_give_the_exact_size_and_no_weight_is_read(tmp_path: Path) -> None:
    # 40 GB of holes: reading them would time the test out
    tensors = {f"model.layers.{n}.mlp.up_proj.weight": ("BF16", [1 << 20, 1 << 9]) for n in range(20)}
    size = write_safetensors(tmp_path / "a.safetensors", tensors)
    size += write_safetensors(tmp_path / "b.safetensors", {"norm.weight": ("F32", [4096])})
    weights = read(tmp_path)
    assert weights.stored_bytes == size == 20 * (1 << 30) + 4 * 4096
    assert weights.parameters == 20 * (1 << 29) + 4096
    assert weights.loaded_bytes() == size - 2 * 4096  # the 32-bit tensor is served in 16
    assert weights.loaded_bytes(FP32) == 4 * weights.parameters
    assert weights.loaded_bytes(INT4) == weights.parameters // 2
    assert weights.notes == ()


def test_only_the_files_of_the_index_count(tmp_path: Path) -> None:
    size = write_safetensors(tmp_path / "model-1.safetensors", {"a": ("BF16", [100])})
    write_safetensors(tmp_path / "consolidated.safetensors", {"a": ("BF16", [100])})
    write_index(tmp_path, ["model-1.safetensors"], size)
    assert read(tmp_path).stored_bytes == size
    (tmp_path / INDEX).unlink()
    assert read(tmp_path).stored_bytes == size  # Mistral's own format beside the common one
    write_safetensors(tmp_path / "adapter_model.safetensors", {"a": ("BF16", [100])})
    (tmp_path / "model-1.safetensors").unlink()
    assert read(tmp_path).stored_bytes == size  # consolidated alone counts, an adapter does not


def test_before_the_download_the_index_tells(tmp_path: Path) -> None:
    write_index(tmp_path, ["model-1.safetensors", "model-2.safetensors"], 26_031_728_640)
    weights = read(tmp_path)
    assert weights.stored_bytes == 26_031_728_640
    assert weights.parameters == 13_015_864_320
    assert weights.notes == ("model-1.safetensors: No such file or directory: the index's total is taken",)
    # as after a clone without Git LFS
    (tmp_path / "model-1.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    )
    assert "not a safetensors file" in read(tmp_path).notes[0]
    write_index(tmp_path, ["model-1.safetensors"], None)
    with pytest.raises(ModelError, match="not a safetensors file"):
        read(tmp_path)


def test_a_32_bit_checkpoint_is_served_in_16_bits(tmp_path: Path) -> None:
    write_index(tmp_path, ["x.safetensors"], 400)
    assert read(tmp_path, torch_dtype="float32").loaded_bytes() == 200
    assert read(tmp_path, torch_dtype="float32").loaded_bytes(FP32) == 400
    assert read(tmp_path, torch_dtype="float32").loaded_bytes(BF16) == 200


def test_pytorch_checkpoints(tmp_path: Path) -> None:
    assert read_weights(tmp_path, shape()) is None
    for name in ("pytorch_model-1.bin", "pytorch_model-2.bin"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1000)
    assert read(tmp_path).stored_bytes == 2000
    (tmp_path / "pytorch_model.bin.index.json").write_text(
        '{"metadata": {"total_size": 1990}, "weight_map": {}}'
    )
    assert read(tmp_path).stored_bytes == 1990


@pytest.mark.parametrize(
    ("section", "tensors", "parameters"),
    [
        (
            {"quant_method": "awq", "bits": 4},
            {"q.qweight": ("I32", [4096, 512]), "q.qzeros": ("I32", [32, 512]), "q.scales": ("F16", [32, 4096]),
             "norm.weight": ("F16", [4096])},
            4096 * 4096 + 4096,
        ),
        (
            {"quant_method": "fp8"},
            {"q.weight": ("F8_E4M3", [4096, 4096]), "q.weight_scale_inv": ("F32", [32, 32])},
            4096 * 4096,
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True},
            {"q.weight": ("U8", [8 << 20, 1]), "q.weight.absmax": ("F32", [1000]), "q.weight.quant_map": ("F32", [16])},
            16 << 20,
        ),
    ],
)  # fmt: skip
def test_packed_weights_are_counted_once_each(
    section: dict[str, Any], tensors: dict[str, tuple[str, list[int]]], parameters: int, tmp_path: Path
) -> None:
    size = write_safetensors(tmp_path / "model.safetensors", tensors)
    weights = read(tmp_path, quantization_config=section)
    assert weights.parameters == parameters
    assert (
        weights.loaded_bytes() == weights.loaded_bytes(BF16) == size
    )  # casting leaves quantised weights alone
    assert weights.loaded_bytes(INT4) == parameters // 2


def test_quantised_weights_of_unknown_number_cannot_be_recast(tmp_path: Path) -> None:
    write_index(tmp_path, [], None)
    write_index(tmp_path, ["x.safetensors"], 400)
    weights = read(tmp_path, quantization_config={"quant_method": "awq", "bits": 4})
    assert weights.loaded_bytes() == 400
    with pytest.raises(ModelError, match="--params-b"):
        weights.loaded_bytes(INT4)
    quantization = shape(quantization_config={"quant_method": "awq", "bits": 4}).quantization
    assert assumed(1000, quantization).loaded_bytes() == 500


def test_packed_weights_of_unknown_bits_are_not_guessed(tmp_path: Path) -> None:
    tensors = {"q.packed": ("U8", [1000]), "norm.weight": ("BF16", [10])}
    write_safetensors(tmp_path / "model.safetensors", tensors)
    weights = read(tmp_path, quantization_config={"quant_method": "unheard-of"})
    assert (weights.stored_bytes, weights.parameters) == (1020, None)


def test_an_unfinished_download_is_named(tmp_path: Path) -> None:
    size = write_safetensors(tmp_path / "model.safetensors", {"a": ("BF16", [100])}, cut=1)
    weights = read(tmp_path)
    assert weights.stored_bytes == size
    assert weights.notes == ("model.safetensors ends before its last tensor: an unfinished download?",)


def header(text: bytes, length: int | None = None) -> bytes:
    return (len(text) if length is None else length).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a safetensors file"),
        (b"\0" * 8, "not a safetensors file"),
        (header(b"{}", 1 << 63), "not a safetensors file"),
        (header(b"{}", 3), "not a safetensors file"),
        (header(b"[]"), "expected a JSON object"),
        (header(b"{{"), "not JSON"),
        (header(b'{"a": 1}'), "an entry is no object"),
        (header(b'{"a": {"dtype": "F16", "shape": [1]}}'), "data_offsets"),
        (header(b'{"a": {"dtype": "F16", "shape": [1], "data_offsets": [2, 0]}}'), "data_offsets"),
        (
            header(b'{"a": {"dtype": "F16", "shape": [-1], "data_offsets": [0, 2]}}'),
            "shape: expected an integer",
        ),
        (header(b'{"a": {"dtype": 3, "shape": [1], "data_offsets": [0, 2]}}'), "dtype: expected a string"),
        (header(b'{"a": {"dtype": "F16", "shape": ' + b"[" * 50_000), "not JSON"),
        (
            header(b'{"a": {"dtype": "F16", "shape": [' + b"1," * 20 + b'1], "data_offsets": [0, 2]}}'),
            "dimensions",
        ),
    ],
    ids=[
        "empty",
        "zeros",
        "huge",
        "beyond",
        "list",
        "broken",
        "number",
        "no-offsets",
        "falling",
        "negative",
        "dtype",
        "deep",
        "dimensions",
    ],
)
def test_a_file_that_lies_is_one_clear_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read(tmp_path)
    assert message in str(caught.value)
    assert str(caught.value).startswith("model.safetensors: ")


def test_headers_are_bounded_each_and_in_all(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write((100 << 20).to_bytes(8, "little"))
        file.truncate(200 << 20)
    with pytest.raises(ModelError, match="header larger than 32 MiB"):
        read(tmp_path)


def test_an_index_cannot_point_outside_the_directory(tmp_path: Path) -> None:
    for name in ("../other.safetensors", "/etc/passwd", "..", ".hidden"):
        write_index(tmp_path, [name], 100)
        with pytest.raises(ModelError, match="outside the model directory"):
            read(tmp_path)


def test_a_fifo_among_the_shards_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match="not a regular file"):
        read(tmp_path)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_header_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    for data in (content, header(content)):
        path.write_bytes(data)
        try:
            read_header(path)
        except ModelError as error:
            assert str(error).isprintable()
