"""Headers of safetensors files: names, formats and sizes of tensors, without reading one weight.

A file is the header's length (8 bytes, little-endian), the header (JSON: name to dtype, shape and where the
tensor begins and ends behind the header), and the tensors.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.memory.errors import ModelError
from tui.memory.fields import Fields
from tui.memory.files import MIB, open_regular, parse_object, shown, take

if TYPE_CHECKING:
    from pathlib import Path

HEADER_LIMIT = 32 * MIB
"""The format allows 100 MB; 100,000 tensors take 12."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of a header."""

    name: str
    dtype: str
    """As in the file: F32, BF16, F8_E4M3, I32, ..."""
    shape: tuple[int, ...]
    nbytes: int

    @property
    def values(self) -> int:
        """How many numbers of its dtype it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """A file's tensors."""

    tensors: tuple[Tensor, ...]
    nbytes: int
    """Length of the header itself."""
    complete: bool
    """False where the file ends before its last tensor: an unfinished download."""


def read_header(path: Path) -> Header:
    """The header of one file.

    Raises:
        ModelError: the file cannot be read, or is no safetensors file; a Git LFS pointer is none.
    """
    name = shown(path)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            length = int.from_bytes(take(file, 8), "little")
            if not 2 <= length <= size - 8:
                raise ModelError(f"{name}: not a safetensors file")
            if length > HEADER_LIMIT:
                raise ModelError(f"{name}: header larger than {HEADER_LIMIT // MIB} MiB")
            text = take(file, length)
        except OSError as error:
            raise ModelError(f"{name}: {error.strerror}") from None
    entries = parse_object(text, f"{name}: header")
    tensors, end = [], 0
    for key, entry in entries.items():
        if key == "__metadata__":
            continue
        if not isinstance(entry, dict):
            raise ModelError(f"{name}: header: an entry is no object")
        tensor, last = _tensor(key, Fields(entry, f"{name}: header"))
        tensors.append(tensor)
        end = max(end, last)
    return Header(tuple(tensors), length, complete=8 + length + end <= size)


def _tensor(key: str, entry: Fields) -> tuple[Tensor, int]:
    offsets = entry.integers("data_offsets")
    shape = entry.integers("shape")
    if offsets is None or shape is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise entry.fault("data_offsets", "not two rising offsets, or no shape")
    if len(shape) > 16:
        raise entry.fault("shape", "more than 16 dimensions")
    return Tensor(key, entry.text("dtype") or "", tuple(shape), offsets[1] - offsets[0]), offsets[1]
