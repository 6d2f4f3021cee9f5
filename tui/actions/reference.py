"""Restart times to expect, by engine and size, from operations practice under ``CONDITIONS``."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tui.model.readings import EngineKind

CONDITIONS = "A100 80 GB, NVMe, 10 GbE, Kubernetes 1.28"


@dataclass(frozen=True, slots=True)
class Row:
    """One size of model; seconds. ``None``: no such thing, or no figure."""

    model_b: float
    cold_s: float
    hot_s: float
    range_s: tuple[float, float] | None
    cache_s: tuple[float, float] | None = None
    """Until the prefix cache hits as before."""
    first_compile_s: tuple[float, float] | None = None


_ROWS: dict[EngineKind, tuple[Row, ...]] = {
    "vllm": (Row(13, 15, 15, (10, 20)), Row(70, 45, 45, (30, 60))),
    "sglang": (
        Row(13, 15, 15, None, cache_s=(120, 300)),
        Row(70, 45, 45, None, cache_s=(300, 600)),
    ),
    "trtllm": (
        Row(13, 30, 30, (20, 40), first_compile_s=(300, 900)),
        Row(70, 90, 90, (60, 120), first_compile_s=(1200, 2400)),
    ),
}


def reference(engine: EngineKind, parameters_b: float | None) -> dict[str, Any] | None:
    """The row of the size nearest by factor; None for an engine or a size that is not known."""
    rows = _ROWS.get(engine)
    if rows is None or parameters_b is None or parameters_b <= 0:
        return None
    row = min(rows, key=lambda row: abs(math.log(row.model_b / parameters_b)))
    found = asdict(row)
    return {"conditions": CONDITIONS, **{k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}}
