"""Model directories for tests: a config and weights of which only the headers are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIGS = Path(__file__).parents[1] / "fixtures" / "models"
WIDTH = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I32": 4, "I8": 1, "U8": 1, "F8_E4M3": 1}


def config(name: str) -> dict[str, Any]:
    """The config of a public model."""
    parsed: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text())
    return parsed


def write_config(directory: Path, values: Mapping[str, Any]) -> Path:
    """config.json in a directory, which is returned."""
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(values))
    return directory


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, list[int]]], cut: int = 0) -> int:
    """A file as the format has it, its tensors a hole of the right length; returns their bytes.

    ``cut`` bytes are missing at its end.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = WIDTH[dtype]
        for width in shape:
            size *= width
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end - cut)
    return end
