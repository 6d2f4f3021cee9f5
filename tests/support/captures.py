"""Files recorded from real engines."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parent.parent / "fixtures"
VLLM = FIXTURES / "vllm-0.32"
SGLANG = FIXTURES / "sglang-0.5.23"
EXPOSITIONS = sorted(
    path.relative_to(FIXTURES).as_posix().removesuffix(".gz") for path in FIXTURES.glob("*/metrics-*.txt*")
)
"""Every ``/metrics`` that was recorded, as ``text`` takes it."""


def text(name: str) -> str:
    """A capture by its path below the fixtures, e.g. ``vllm-0.32/metrics-load.txt``; some are compressed."""
    path = FIXTURES / name
    if path.exists():
        return path.read_text(encoding="utf-8")
    return gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes()).decode("utf-8")


@dataclass(frozen=True)
class SglangScrape:
    """One second of SGLang: its metrics, and what ``/v1/loads`` said of the only rank."""

    t: float
    phase: str
    body: str
    loads: dict[str, float]
    age_s: float


def sglang_series() -> Iterator[SglangScrape]:
    """Recorded scrapes: load, a hang, its end, a restart. The gauges are published every 40 steps."""
    for row in json.loads((SGLANG / "series" / "index.json").read_text(encoding="utf-8")):
        with gzip.open(SGLANG / "series" / f"{row['n']:04}.prom.gz", "rt", encoding="utf-8") as body:
            yield SglangScrape(row["t"], row["phase"], body.read(), row["loads"], row["age_s"])


def vllm_series() -> Iterator[tuple[float, str, str]]:
    """Seconds since start, phase and body of recorded scrapes: a hang, its end, a kill, a restart."""
    for row in json.loads((VLLM / "series" / "index.json").read_text(encoding="utf-8")):
        with gzip.open(VLLM / "series" / f"{row['n']:04}.prom.gz", "rt", encoding="utf-8") as body:
            yield row["t"], row["phase"], body.read()
