"""Bytes of a model's weights: exact from the checkpoint's own headers, else from its index, else assumed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.memory.dtypes import FP16, FP32, Dtype
from tui.memory.errors import ModelError
from tui.memory.files import INDEX_LIMIT, MIB, absent, open_regular, read_object
from tui.memory.safetensors import read_header
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from tui.memory.safetensors import Header, Tensor
    from tui.memory.shape import ModelShape, Quantization

_SAFE, SAFE_INDEX = "*.safetensors", "model.safetensors.index.json"
TORCH_FILES, TORCH_INDEX = "pytorch_model*.bin", "pytorch_model.bin.index.json"
_MOST_FILES = 10_000
_HEADERS_LIMIT = 256 * MIB
_FLOATS = frozenset(("F64", "F32", "F16", "BF16"))
_BYTE_WIDE = frozenset(("I8", "F8_E4M3", "F8_E5M2"))
_PACKED = {"I32": 32, "U8": 8}
_PARTS_OF_QUANTIZATION = ("scale", "zero", "absmax", "quant_map", "quant_state", "g_idx", "weight_shape")
"""Tensors with these in the last part of their name describe how others were quantised."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What is stored, before any engine has loaded it."""

    stored_bytes: int
    origin: str
    """Where the figure is from, for a person."""
    parameters: int | None = None
    """Weights of the model, each counted once however it is packed; None where it cannot be told."""
    float_values: int = 0
    """Numbers in unquantised tensors; an engine that casts them changes their bytes."""
    float_bytes: int = 0
    quantized: bool = False
    key_rows: frozenset[int] = frozenset()
    """Rows of the key projections: KV heads x head width, to check config.json against."""
    notes: tuple[str, ...] = ()

    def loaded_bytes(self, dtype: Dtype | None = None) -> int:
        """Bytes on all GPUs together.

        Args:
            dtype: what they are served in. None: as stored, but 32-bit checkpoints in 16 bits, which is what
                engines do unasked. A 16- or 32-bit format leaves quantised weights as they are.

        Raises:
            ModelError: a quantised format is asked for and the number of parameters is not known.
        """
        if dtype is not None and dtype.bits < 16:
            if self.parameters is None:
                raise ModelError(f"how many parameters {dtype.name} would hold is not known: give --params-b")
            return dtype.size(self.parameters)
        if self.quantized:
            return self.stored_bytes
        bits = FP32.bits if dtype == FP32 else FP16.bits
        return self.stored_bytes - self.float_bytes + self.float_values * bits // 8


def assumed(parameters: int, quantization: Quantization | None = None) -> Weights:
    """Weights of which only the number is known: 16 bits each, or as config.json says they are quantised."""
    bits = quantization.bits if quantization else None
    if bits is not None and bits < 16:
        size = -(-parameters * bits // 8)
        return Weights(size, f"{bits} bits each, says config.json", parameters, quantized=True)
    return Weights(2 * parameters, "16 bits each", parameters, parameters, 2 * parameters)


def read_weights(directory: Path, shape: ModelShape) -> Weights | None:
    """The weights in a model directory; None where it holds none.

    Safetensors headers are read where every file is there; else the index tells the total; else the sizes of
    PyTorch files do.

    Raises:
        ModelError: a file is missing, unreadable or malformed, and no index tells the total.
    """
    index = read_index(directory / SAFE_INDEX)
    names = loose_files(directory) if index is None else index.files
    if names:
        try:
            return _from_headers(_headers(directory, names), shape)
        except ModelError as error:
            if index is None or index.total is None:
                raise
            note = f"{error}: the index's total is taken"
            return _from_total(index.total, "safetensors index", shape, note)
    index = read_index(directory / TORCH_INDEX)
    if index is not None and index.total is not None:
        return _from_total(index.total, "PyTorch index", shape)
    sizes = [_size(path) for path in sorted(directory.glob(TORCH_FILES))]
    return _from_total(sum(sizes), "sizes of PyTorch files", shape) if sizes else None


@dataclass(frozen=True, slots=True)
class WeightIndex:
    """What an index says of a checkpoint in several files."""

    total: int | None
    """Bytes of all tensors; None where it does not say."""
    files: Sequence[str]
    """Names, sorted; each is one of the model directory itself. As they are: not safe to show."""


def read_index(path: Path) -> WeightIndex | None:
    """One index; None where there is no such file.

    Raises:
        ModelError: it cannot be read or understood, or names a file elsewhere.
    """
    if absent(path):
        return None
    fields = read_object(path, INDEX_LIMIT)
    metadata = fields.section("metadata")
    files = fields.section("weight_map")
    names = sorted(set(files.texts())) if files else []
    for name in names:
        if "/" in name or name.startswith("."):
            raise fields.fault("weight_map", "a file outside the model directory")
    return WeightIndex(metadata.integer("total_size", high=1 << 60) if metadata else None, names)


def loose_files(directory: Path) -> list[str]:
    """Files of a checkpoint without index; Mistral's own format often lies beside the common one."""
    names = sorted(path.name for path in directory.glob(_SAFE) if not path.name.startswith("adapter_"))
    return [name for name in names if not name.startswith("consolidated")] or names


def _headers(directory: Path, names: Sequence[str]) -> Iterator[tuple[str, Header]]:
    if len(names) > _MOST_FILES:
        raise ModelError(f"more than {_MOST_FILES} files of weights")
    read = 0
    for name in names:
        header = read_header(directory / name)
        read += header.nbytes
        if read > _HEADERS_LIMIT:
            raise ModelError(f"headers of the weights: more than {_HEADERS_LIMIT // MIB} MiB in all")
        yield name, header


def _from_headers(headers: Iterable[tuple[str, Header]], shape: ModelShape) -> Weights:
    stored = float_values = float_bytes = 0
    parameters: int | None = 0
    rows: set[int] = set()
    short: list[str] = []
    for name, header in headers:
        if not header.complete:
            short.append(clean(name, 80))
        for tensor in header.tensors:
            stored += tensor.nbytes
            held = _parameters(tensor, shape.quantization)
            parameters = None if held is None or parameters is None else parameters + held
            if tensor.dtype in _FLOATS:
                float_values += tensor.values
                float_bytes += tensor.nbytes
            if tensor.name.endswith("k_proj.weight") and len(tensor.shape) == 2:
                rows.add(tensor.shape[0])
    notes = (f"{short[0]} ends before its last tensor: an unfinished download?",) if short else ()
    return Weights(
        stored,
        "safetensors headers",
        parameters,
        float_values,
        float_bytes,
        quantized=shape.quantization is not None,
        key_rows=frozenset(rows),
        notes=notes,
    )


def _parameters(tensor: Tensor, quantization: Quantization | None) -> int | None:
    """How many weights a tensor holds: packed ones hold several in a number; None where it cannot be told."""
    last = tensor.name.rpartition(".")[2]
    if any(part in last for part in _PARTS_OF_QUANTIZATION):
        return 0
    if tensor.dtype in _FLOATS or tensor.dtype in _BYTE_WIDE:
        return tensor.values
    if quantization is None or tensor.dtype not in _PACKED:
        return 0
    return tensor.values * _PACKED[tensor.dtype] // quantization.bits if quantization.bits else None


def _from_total(total: int, origin: str, shape: ModelShape, note: str = "") -> Weights:
    notes = (note,) if note else ()
    if shape.quantization is not None:
        return Weights(total, origin, quantized=True, notes=notes)
    values = total * 8 // (shape.stored or FP16).bits
    return Weights(total, origin, values, values, total, notes=notes)


def _size(path: Path) -> int:
    with open_regular(path) as file:
        return os.fstat(file.fileno()).st_size
