"""What preflight looks at: a model that is whole, a Python with an engine in it, and an engine that says who it is."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.model_dirs import config, write_config, write_safetensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.checks.finding import CheckFinding

TELLING = """
import json, os, signal, sys
print(json.dumps({
    "pid": os.getpid(),
    "arguments": sys.argv[1:],
    "stdin": sys.stdin.read(),
    "ignored": [line.split()[1] for line in open("/proc/self/status") if line.startswith("SigIgn:")],
}))
sys.exit(7)
"""
"""An engine that tells what it was given, and exits with 7."""


SHARDS = 3


def write_model(directory: Path, *, shards: int = SHARDS, cut: int = 0, total: int | None = None) -> Path:
    """A Llama of which only the headers are real, in several files with their index; the last may be cut."""
    write_config(directory, config("llama-2-13b"))
    (directory / "tokenizer.json").write_text("{}")
    weights: dict[str, str] = {}
    size = 0
    for number in range(1, shards + 1):
        name = f"model-{number:05}-of-{shards:05}.safetensors"
        tensor = f"model.layers.{number}.mlp.up_proj.weight"
        size += write_safetensors(
            directory / name, {tensor: ("F16", [1000, 100])}, cut=cut if number == shards else 0
        )
        weights[tensor] = name
    index = {"metadata": {"total_size": size if total is None else total}, "weight_map": weights}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory


def write_python(folder: Path, packages: dict[str, str]) -> Path:
    """A virtual environment of this interpreter with the metadata of packages, by name and version; its python."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = folder / "lib" / version / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    real = Path(os.path.realpath(sys.executable))
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    python = folder / "bin" / "python"
    python.symlink_to(real)
    python.with_name("python3").symlink_to(real)
    for name, number in packages.items():
        info = site / f"{name.replace('-', '_')}-{number}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    return python


def write_module(python: Path, name: str, text: str) -> None:
    """A module that this Python can import."""
    site = next(python.parent.parent.glob("lib/*/site-packages"))
    (site / f"{name}.py").write_text(text)


def write_program(python: Path, name: str, text: str) -> Path:
    """A script beside a Python, run by it."""
    path = python.parent / name
    path.write_text(f"#!{python}\n{text}")
    path.chmod(0o755)
    return path


def of(findings: Sequence[CheckFinding], id_: str) -> list[CheckFinding]:
    """The findings of one kind."""
    return [finding for finding in findings if finding.id == id_]
