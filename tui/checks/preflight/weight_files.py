"""The files of a checkpoint: every one that the index names, and none of them cut short."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tui.checks.finding import CheckFinding
from tui.memory.errors import ModelError
from tui.memory.files import MIB, open_regular, take
from tui.memory.safetensors import read_header
from tui.memory.weights import SAFE_INDEX, TORCH_INDEX, loose_files, read_index
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tui.memory.weights import WeightIndex

MOST_FILES: Final = 10_000
_HEADERS_LIMIT: Final = 256 * MIB
_SHOWN: Final = 5
_TORCH_NAME = re.compile(r"pytorch_model.*\.bin")
_NUMBERED = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.\w+)")
_POINTER: Final = b"version https://git-lfs"
_ZIP, _ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
_ZIP_TAIL: Final = 65_557
"""The end of a zip file lies in its last 22 bytes, a comment of at most 65,535 behind it."""


def is_pointer(start: bytes) -> bool:
    """Whether a file that begins so is what Git keeps in place of a large one."""
    return start.startswith(_POINTER)


def findings(directory: Path, names: frozenset[str]) -> Iterator[CheckFinding]:
    """One line for each thing that is wrong with the weights, else one in all.

    Args:
        directory: of the model.
        names: its entries.
    """
    safe = SAFE_INDEX in names or bool(loose_files(directory))
    index_name = SAFE_INDEX if safe else TORCH_INDEX
    try:
        index = read_index(directory / index_name)
    except ModelError as error:
        yield CheckFinding("model-weights", "error", str(error), None, index_name)
        return
    files = _files(directory, names, index, safe)
    if not files:
        text = "no weights: neither safetensors nor pytorch_model*.bin"
        if index is not None:
            text = f"{index_name} names no files"
        yield CheckFinding("model-weights", "error", text, 0)
        return
    if len(files) > MOST_FILES:
        yield CheckFinding("model-weights", "error", f"more than {MOST_FILES:,} files of weights", len(files))
        return
    found = _Found()
    for name in files:
        found.look(directory / name, safe)
    yield from _judged(found, len(files), index, safe)


@dataclass(slots=True)
class _Found:
    """What was found in the files so far."""

    faults: list[str] = field(default_factory=list)
    stored: int = 0
    """Bytes: of tensors where headers tell them, else of the files."""
    _headers: int = 0

    def look(self, path: Path, safe: bool) -> None:
        """Take one file into account."""
        shown = clean(path.name, 80)
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                start = take(file, 256)
                whole = safe or _zip_is_whole(file.fileno(), start, size)
            if is_pointer(start):
                self.faults.append(f"{shown} is a Git LFS pointer, not the file: git lfs pull")
            elif not size:
                self.faults.append(f"{shown} is empty")
            elif safe:
                self._safetensors(path, size)
            else:
                self.stored += size
                if not whole:
                    self.faults.append(
                        f"{shown} is cut short: {size:,} bytes, without the end of its archive"
                    )
        except ModelError as error:
            self.faults.append(str(error))
        except OSError as error:
            self.faults.append(f"{shown}: {clean(error.strerror or str(error))}")

    def _safetensors(self, path: Path, size: int) -> None:
        if self._headers > _HEADERS_LIMIT:
            raise ModelError(f"{clean(path.name, 80)}: not looked at: the headers are too large in all")
        header = read_header(path)
        self._headers += header.nbytes
        stored = sum(tensor.nbytes for tensor in header.tensors)
        self.stored += stored
        if not header.complete:
            wanted = 8 + header.nbytes + stored
            self.faults.append(
                f"{clean(path.name, 80)} is cut short: {size:,} bytes, its header promises {wanted:,}"
            )


def _judged(found: _Found, count: int, index: WeightIndex | None, safe: bool) -> Iterator[CheckFinding]:
    for text in found.faults[:_SHOWN]:
        yield CheckFinding("model-weights", "error", text)
    if (more := len(found.faults) - _SHOWN) > 0:
        yield CheckFinding("model-weights", "error", f"{more} more files of the weights are wrong", more, 0)
    if found.faults:
        return
    total = index.total if index is not None else None
    if total is not None and (found.stored != total if safe else found.stored < total):
        text = f"the weights hold {found.stored:,} bytes, the index says {total:,}: files of two versions?"
        yield CheckFinding("model-weights", "warning", text, found.stored, total)
        return
    files = f"{count} file{'s' * (count != 1)}"
    text = f"weights: {files}, {found.stored / (1 << 30):,.1f} GiB, all there and whole"
    yield CheckFinding("model-weights", "ok", text, found.stored, total)


def _files(directory: Path, names: frozenset[str], index: WeightIndex | None, safe: bool) -> list[str]:
    """Every file that must be there: the index's, else those that are there and the gaps between them."""
    if index is not None:
        return list(index.files)
    found = loose_files(directory) if safe else [name for name in names if _TORCH_NAME.fullmatch(name)]
    return sorted({*found, *_missing_numbers(found)})


def _missing_numbers(names: Iterable[str]) -> Iterator[str]:
    """Names that a series such as ``model-00002-of-00030.safetensors`` lacks."""
    series = {
        (match[1], match[3], match[4]) for name in names if (match := _NUMBERED.fullmatch(name)) is not None
    }
    for stem, count, ending in series:
        for number in range(1, min(int(count), MOST_FILES) + 1):
            yield f"{stem}-{number:05}-of-{count}{ending}"


def _zip_is_whole(descriptor: int, start: bytes, size: int) -> bool:
    """Whether what torch.save wrote has its end; what it wrote before 1.6 is no archive and cannot tell."""
    if not start.startswith(_ZIP):
        return True
    return _ZIP_END in os.pread(descriptor, _ZIP_TAIL, max(0, size - _ZIP_TAIL))
