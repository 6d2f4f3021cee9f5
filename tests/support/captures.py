"""Files recorded from real engines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parent.parent / "fixtures"
VLLM = FIXTURES / "vllm-0.32"
EXPOSITIONS = sorted(FIXTURES.glob("*/metrics-*.txt"))


def text(name: str) -> str:
    """A capture by its path below the fixtures, e.g. ``vllm-0.32/metrics-load.txt``."""
    return (FIXTURES / name).read_text(encoding="utf-8")


def vllm_series() -> Iterator[tuple[float, str, str]]:
    """Seconds since start, phase and body of recorded scrapes: a hang, its end, a kill, a restart."""
    for row in json.loads((VLLM / "series" / "index.json").read_text(encoding="utf-8")):
        with gzip.open(VLLM / "series" / f"{row['n']:04}.prom.gz", "rt", encoding="utf-8") as body:
            yield row["t"], row["phase"], body.read()
