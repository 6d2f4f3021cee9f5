"""``make pictures``: the README's pictures, from screens that were looked at and accepted."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "pictures"
SOURCES = {
    "healthy": "test_snapshots/test_screen[healthy-160x45]",
    "kv-cache": "test_snapshots/test_screen[kv-cache-160x45]",
    "narrow": "test_snapshots/test_screen[kv-cache-60x15]",
    "why": "test_snapshots/test_screen[why]",
    "engines": "test_snapshots/test_screen[engines-zoomed]",
    "drain-test": "test_drill_snapshots/test_page[failed-160x45]",
}
"""A picture's name, and the snapshot that it is."""


def source(name: str) -> Path:
    """The snapshot behind a picture."""
    return ROOT / "snapshots" / f"{SOURCES[name]}.svg"


def main() -> None:
    """Put every picture in its place, and take away what is none."""
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.svg"):
        if old.stem not in SOURCES:
            old.unlink()
    for name in SOURCES:
        shutil.copyfile(source(name), PICTURES / f"{name}.svg")


if __name__ == "__main__":
    main()
