"""The files of the model that an engine of this host has loaded, as its process sees them."""

from __future__ import annotations

import os
import pwd
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui.memory.errors import ModelError
from tui.memory.files import read_bounded
from tui.memory.model_config import read_shape
from tui.memory.rooted import open_place, real
from tui.memory.weights import read_weights
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tui.memory.shape import ModelShape
    from tui.memory.weights import Weights

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_REF_LIMIT = 100
"""Bytes of a file that holds a commit of 40 digits."""
_OPTIONS = ("model", "model-path", "model-id")


class ModelFiles(NamedTuple):
    """What was read of a model."""

    shape: ModelShape | None = None
    weights: Weights | None = None
    why: str = ""
    """Why something is missing."""
    device: int | None = None
    """``st_dev`` of the directory that they lie in."""


def model_option(args: Mapping[str, str]) -> str:
    """The model that a command line names; empty where it names none."""
    return next((args[name] for name in _OPTIONS if args.get(name)), "")


def read_model(args: Mapping[str, str], pid: int, proc: str = "/proc") -> ModelFiles:
    """Find and read them. Blocks for as long as the file system does.

    Args:
        args: the options of the engine's command line.
        pid: a process of the engine: paths are those of its own root and folder.
        proc: where procfs is mounted.
    """
    name = model_option(args)
    if not name:
        return ModelFiles(why="the command line names no model")
    directory = next((d for d in model_folders(name, args, Path(proc, str(pid))) if _has_config(d)), None)
    if directory is None:
        return ModelFiles(why=f"the files of {clean(name, 80)} were not found, or may not be read")
    try:
        directory = real(directory)
    except OSError as error:
        return ModelFiles(why=clean(f"the model's folder: {error.strerror}", 100))
    return _read(directory)._replace(device=_device(directory))


def _read(directory: Path) -> ModelFiles:
    try:
        shape = read_shape(directory)
    except ModelError as error:
        return ModelFiles(why=clean(str(error)))
    try:
        weights = read_weights(directory, shape)
    except ModelError as error:
        return ModelFiles(shape, why=clean(str(error)))
    return ModelFiles(
        shape, weights, "" if weights is not None else "there are no weights beside config.json"
    )


def _device(directory: Path) -> int | None:
    try:
        return directory.stat().st_dev
    except OSError:
        return None  # taken away since its files were read


def _has_config(directory: Path) -> bool:
    try:
        place = open_place(directory / "config.json")
    except (OSError, ValueError):
        return False
    try:
        return stat.S_ISREG(os.fstat(place).st_mode)
    finally:
        os.close(place)


def model_folders(name: str, args: Mapping[str, str], process: Path) -> Iterator[Path]:
    """Where a model may be for a process, the likeliest first; none of them need exist.

    Args:
        name: what the command line calls it: a path, or a name of the Hugging Face hub.
        args: the options of the command line.
        process: the folder of the process in procfs.
    """
    root = process / "root"
    if name.startswith("/"):
        yield root / name.lstrip("/")
        if not os.access(root, os.X_OK):
            yield Path(name)  # its root is hidden from us: most have the same one
        return
    yield process / "cwd" / name
    revision = args.get("revision", "main")
    if not _HUB_NAME.fullmatch(name) or revision.startswith("/") or ".." in revision:
        return
    for cache in _caches(args, process, root):
        hub = cache / f"models--{name.replace('/', '--')}"
        try:
            commit = read_bounded(hub / "refs" / revision, _REF_LIMIT).decode().strip()
        except (ModelError, UnicodeDecodeError):
            continue
        if re.fullmatch(r"[0-9a-f]{1,64}", commit):
            yield hub / "snapshots" / commit


def _caches(args: Mapping[str, str], process: Path, root: Path) -> Iterator[Path]:
    if folder := args.get("download-dir"):
        yield root / folder.lstrip("/") if folder.startswith("/") else process / "cwd" / folder
    try:
        home = pwd.getpwuid(process.stat().st_uid).pw_dir
    except (OSError, KeyError):
        home = "/root"
    yield root / home.lstrip("/") / ".cache/huggingface/hub"
    yield root / "root/.cache/huggingface/hub"  # what most images run as
    if cache := os.environ.get("HF_HUB_CACHE"):
        yield Path(cache)
    if hub := os.environ.get("HF_HOME"):
        yield Path(hub) / "hub"
