"""One formatter per unit. Unknown is a dash; a figure never shows more digits than it is worth."""

from __future__ import annotations

import math
from typing import Literal

DASH = "–"


def number(value: float | None, digits: int = 0) -> str:
    """A plain count or figure with fixed decimals."""
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:.{digits}f}"


def count(value: float | None) -> str:
    """A count or rate in at most five characters: ``7``, ``85.1``, ``610``, ``4.1k``, ``16.5k``, ``2.1M``."""
    if value is None or not math.isfinite(value):
        return DASH
    magnitude = abs(value)
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # 0.9995 of a unit rounds up to it: 999.6 is 1.0k, not 1000
        if magnitude >= unit * 0.9995:
            scaled = value / unit
            return f"{scaled:.1f}{name}" if abs(scaled) < 99.95 else f"{scaled:.0f}{name}"
    if magnitude >= 99.95 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}"


def percent(value: float | None, digits: int = 0) -> str:
    """A percentage that is already 0-100."""
    return number(value, digits)


def ratio_as_percent(value: float | None, digits: int = 0) -> str:
    """A ratio 0-1 shown as a percentage."""
    return number(None if value is None else value * 100.0, digits)


def gib(mib: float | None) -> str:
    """MiB shown as GiB with one decimal."""
    return number(None if mib is None else mib / 1024.0, 1)


def memory(mib: float | None) -> str:
    """MiB with the unit that shows something of it: ``44 MiB``, ``30.3 GiB``."""
    if mib is None or not math.isfinite(mib):
        return DASH
    return f"{mib:.0f} MiB" if mib < 1023.5 else f"{gib(mib)} GiB"


def seconds(value: float | None) -> str:
    """A latency or duration in at most five characters: ``3ms``, ``0.21s``, ``28s``, ``12m``, ``3.1h``."""
    if value is None or not math.isfinite(value):
        return DASH
    if value < 0.0995:
        return f"{value * 1000:.0f}ms"
    if value < 0.9995:
        return f"{value:.2f}s"
    if value < 9.95:
        return f"{value:.1f}s"
    if value < 119.5:
        return f"{value:.0f}s"
    if value < 119.5 * 60:
        return f"{value / 60:.0f}m"
    if value < 99.5 * 3600:
        return f"{value / 3600:.1f}h"
    return f"{value / 86400:.0f}d"


def bounded(text: str, side: Literal["", "<", ">"]) -> str:
    """A formatted figure of which only a bound is known, no longer than others: ``<25ms``, ``>.25s``."""
    if not side:
        return text
    return f"{side}{text.removeprefix('0') if text.startswith('0.') else text}"


def data_rate(mb_s: float | None) -> str:
    """10^6 bytes a second with its unit: ``0 MB/s``, ``180 MB/s``, ``1.9 GB/s``."""
    if mb_s is None or not math.isfinite(mb_s):
        return DASH
    return f"{mb_s:.0f} MB/s" if mb_s < 999.5 else f"{count(mb_s / 1000.0)} GB/s"


def megabytes_per_s(value: float | None) -> str:
    """10^6 bytes a second, in at most five characters with the unit left to the column."""
    return count(value)
