"""The directory of the model: config, tokenizer and every file of the weights, there, readable and whole."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.checks.finding import CheckFinding
from tui.checks.preflight import weight_files
from tui.checks.preflight.weight_files import is_pointer
from tui.memory.errors import ModelError
from tui.memory.files import CONFIG_LIMIT, open_regular, read_object, take
from tui.memory.model_config import read_shape
from tui.memory.model_files import model_folders
from tui.memory.weights import read_weights
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.checks.preflight.intent import Intent
    from tui.memory.fields import Fields
    from tui.memory.shape import ModelShape
    from tui.memory.weights import Weights

MOST_ENTRIES: Final = 20_000
"""Entries of a directory that are looked at."""
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_TOKENIZERS: Final = (
    ("tokenizer.json",),
    ("tokenizer.model",),
    ("vocab.json", "merges.txt"),
    ("vocab.txt",),
    ("tekken.json",),
    ("spiece.model",),
    ("sentencepiece.bpe.model",),
)
_TOKENIZER_NAME = re.compile(r".*\.(?:tiktoken|spm)|tokenizer\.model\.v\d.*|(?:tiktoken|spm)\.model")
_FROM_FILES: Final = frozenset(("auto", "hf", "safetensors", "fastsafetensors", "pt", "npcache", "mistral"))
"""Values of ``--load-format`` with which the weights are read from the directory as it is."""
_GGUF: Final = b"GGUF"
_RANK = re.compile(r"rank(\d{1,4})\.engine")


@dataclass(frozen=True, slots=True)
class ModelLook:
    """What was found of the model."""

    findings: tuple[CheckFinding, ...]
    directory: Path | None = None
    """None: not on this host."""
    shape: ModelShape | None = None
    weights: Weights | None = None
    why: str = ""
    """Why the arithmetic has no shape or no weights."""


def read_model_directory(intent: Intent) -> ModelLook:
    """Look at everything. Blocks for as long as the file system does."""
    name = intent.model
    if not name:
        text = "not checked: the model: give --model"
        return ModelLook((CheckFinding("model-directory", "ok", text),), why="no model is given")
    try:
        directory = locate(intent)
    except (OSError, ValueError) as error:
        return _failed(f"{clean(name)}: {clean(_words(error))}")
    if directory is None:
        if _HUB_NAME.fullmatch(name) or "://" in name:
            text = f"{clean(name)} is not on this host: the engine will have to fetch it"
            return ModelLook((CheckFinding("model-directory", "warning", text, name),), why=text)
        return _failed(f"{clean(name)}: no such directory")
    if directory.is_file():
        return _single_file(directory)
    try:
        names = _entries(directory)
    except OSError as error:
        return _failed(f"{clean(str(directory))}: {clean(_words(error))}")
    found = [
        CheckFinding(
            "model-directory", "ok", f"model directory {clean(str(directory))}: {len(names)} entries"
        )
    ]
    if any(_RANK.fullmatch(entry) for entry in names):
        found += _engine_files(directory, names)
        return ModelLook(tuple(found), directory, why="a compiled TensorRT engine")
    found += _config(directory, names)
    found += _tokenizer(directory, names, intent)
    how = intent.options.get("load-format", "auto")
    if how in _FROM_FILES:
        found += weight_files.findings(directory, names)
    else:
        text = f"not checked: the weights: they are loaded by --load-format {clean(how, 40)}"
        found.append(CheckFinding("model-weights", "ok", text))
    return _with_arithmetic(found, directory)


def locate(intent: Intent) -> Path | None:
    """Where the model lies on this host, None where it does not; raises OSError where that cannot be told."""
    path = Path(intent.model)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    else:
        return path
    if intent.model.startswith(("/", ".")):
        return None
    folders = model_folders(intent.model, intent.options, Path("/proc/self"))
    return next((Path(os.path.realpath(folder)) for folder in folders if folder.is_dir()), None)


def _entries(directory: Path) -> frozenset[str]:
    names = set()
    with os.scandir(directory) as entries:
        for entry in entries:
            names.add(entry.name)
            if len(names) == MOST_ENTRIES:
                break
    return frozenset(names)


def _config(directory: Path, names: frozenset[str]) -> Iterator[CheckFinding]:
    own = "config.json" not in names and "params.json" in names  # Mistral's format
    name = "params.json" if own else "config.json"
    try:
        fields = read_object(directory / name, CONFIG_LIMIT)
        kind = fields.text("model_type")
    except ModelError as error:
        yield CheckFinding("model-config", "error", str(error), None, name)
        return
    yield CheckFinding("model-config", "ok", f"{name} is read" + (f": {kind}" if kind else ""), kind or name)


def _tokenizer(directory: Path, names: frozenset[str], intent: Intent) -> Iterator[CheckFinding]:
    elsewhere = intent.options.get("tokenizer") or intent.options.get("tokenizer-path")
    if elsewhere or "skip-tokenizer-init" in intent.options:
        where = (
            f"the tokenizer is elsewhere: {clean(elsewhere)}" if elsewhere else "no tokenizer is asked for"
        )
        yield CheckFinding("model-tokenizer", "ok", where)
        return
    sets = [files for files in _TOKENIZERS if names.issuperset(files)]
    sets += [(name,) for name in sorted(names) if _TOKENIZER_NAME.fullmatch(name)]
    faults = []
    for files in sets:
        fault = next((text for name in files if (text := _unusable(directory / name))), "")
        if not fault:
            shown = clean(" and ".join(files), 120)
            yield CheckFinding("model-tokenizer", "ok", f"tokenizer: {shown}", shown)
            return
        faults.append(fault)
    text = (
        faults[0]
        if faults
        else "no tokenizer: none of tokenizer.json, tokenizer.model, vocab.json with merges.txt, ..."
    )
    yield CheckFinding("model-tokenizer", "error", text, None, "tokenizer.json")


def _unusable(path: Path) -> str:
    """Why a small file cannot be used; empty where nothing speaks against it."""
    try:
        with open_regular(path) as file:
            start = take(file, 256)
    except (ModelError, OSError) as error:
        return clean(str(error))
    shown = clean(path.name, 80)
    if not start:
        return f"{shown} is empty"
    return f"{shown} is a Git LFS pointer, not the file: git lfs pull" if is_pointer(start) else ""


def _with_arithmetic(found: list[CheckFinding], directory: Path) -> ModelLook:
    shape = weights = None
    why = ""
    try:
        shape = read_shape(directory)
        weights = read_weights(directory, shape)
        if weights is None:
            why = "there are no weights beside config.json"
    except (ModelError, OSError) as error:
        why = clean(str(error))
    return ModelLook(tuple(found), directory, shape, weights, why)


def _engine_files(directory: Path, names: frozenset[str]) -> Iterator[CheckFinding]:
    """A directory of ``trtllm-build``: config.json and an engine for each rank."""
    try:
        fields = read_object(directory / "config.json", CONFIG_LIMIT)
        ranks = _world_size(fields)
    except ModelError as error:
        yield CheckFinding("model-config", "error", str(error), None, "config.json")
        ranks = None
    else:
        yield CheckFinding("model-config", "ok", "config.json of a TensorRT engine is read", "config.json")
    there = {int(match[1]) for name in names if (match := _RANK.fullmatch(name))}
    wanted = range(ranks if ranks is not None else max(there) + 1)
    total, faults = 0, []
    for rank in wanted:
        path = directory / f"rank{rank}.engine"
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                start = take(file, 256)
        except (ModelError, OSError) as error:
            faults.append(clean(str(error)))
            continue
        total += size
        if not size:
            faults.append(f"rank{rank}.engine is empty")
        elif is_pointer(start):
            faults.append(f"rank{rank}.engine is a Git LFS pointer, not the file: git lfs pull")
    if faults:
        more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
        yield CheckFinding("model-weights", "error", f"{faults[0]}{more}", len(faults), 0)
    else:
        text = f"{len(wanted)} TensorRT engines, {total / (1 << 30):,.1f} GiB"
        yield CheckFinding("model-weights", "ok", text, len(wanted), ranks)


def _world_size(fields: Fields) -> int | None:
    section = fields.section("pretrained_config")
    mapping = section.section("mapping") if section is not None else None
    return mapping.integer("world_size", high=1024) if mapping is not None else None


def _single_file(path: Path) -> ModelLook:
    try:
        with open_regular(path) as file:
            start, size = take(file, 4), os.fstat(file.fileno()).st_size
    except (ModelError, OSError) as error:
        return _failed(clean(str(error)))
    if start != _GGUF:
        return _failed(f"{clean(str(path))}: neither a directory nor a GGUF file")
    text = f"{clean(path.name)}: GGUF, {size / (1 << 30):,.1f} GiB"
    finding = CheckFinding("model-weights", "ok", text, size)
    return ModelLook((finding,), path.parent, why="the parts of a GGUF file are not read")


def _failed(text: str) -> ModelLook:
    return ModelLook((CheckFinding("model-directory", "error", text),), why=text)


def _words(error: OSError | ValueError) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
