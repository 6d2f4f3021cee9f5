"""Expositions generated from the lists of metric names that each release of an engine has."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from tests.support.captures import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Mapping

Version = tuple[int, ...]

VLLM_RELEASES = (
    "0.5.5", "0.6.3", "0.6.6.post1", "0.7.3", "0.8.0", "0.8.5", "0.9.0", "0.9.2", "0.10.0", "0.10.1",
    "0.10.2", "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.13.0", "0.14.0",
    *(f"0.{minor}.0" for minor in range(16, 34)),
)  # fmt: skip
SGLANG_RELEASES = (
    "0.4.0", "0.4.1", *(f"0.4.{patch}" for patch in range(3, 11)), *(f"0.5.{patch}" for patch in range(1, 24)),
)  # fmt: skip
_HISTOGRAM = re.compile(
    r".*_(seconds|milliseconds|histogram|queue_requests)|.*:(queue_time_s|num_retractions|iteration_tokens_total)"
    r"|vllm:request_(prompt|generation|max_num|params|num_preemptions|prefill_kv).*"
)
_GAUGE_SECONDS = re.compile(r".*:startup_.*|.*latency_seconds_max")
_COUNTER = re.compile(
    r"vllm:(generation_tokens|prompt_tokens(_cached|_recomputed|_by_source|_cached_by_source)?|num_preemptions"
    r"|(gpu_|external_)?prefix_cache_(queries|hits)|mm_cache_(queries|hits)|request_success"
    r"|admission_rejections|corrupted_requests|spec_decode_num_(drafts|draft_tokens|accepted_tokens\w*))"
)
BOUNDS = (0.1, 0.2, 0.4, math.inf)


def version(text: str) -> Version:
    """A release to compare; ``current`` is newer than any."""
    if text == "current":
        return (math.inf,)  # type: ignore[return-value]
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


@cache
def names(engine: str) -> tuple[tuple[str, Version, Version], ...]:
    """Every name of an engine, with the first and the last sampled release that has it."""
    rows = (FIXTURES / "engine-names" / f"{engine}.txt").read_text(encoding="utf-8").split("\n")
    return tuple(
        (name, version(first), version(last)) for name, first, last in (row.split() for row in rows if row)
    )


@dataclass(frozen=True)
class Moves:
    """One series: its labels, and its value at each of two scrapes."""

    before: float
    after: float
    labels: str = ""


def exposition(
    engine: str, release: str, moves: Mapping[str, tuple[Moves, ...]], labels: str, *, after: bool
) -> str:
    """What a release would say: each of its names, with a given value where there is one.

    Args:
        engine: ``vllm`` or ``sglang``.
        release: a sampled one.
        moves: by name without ``_total``; of a histogram how many observations of 0.15 there are.
        labels: of every series.
        after: the second of the two scrapes.
    """
    at = version(release)
    lines: dict[str, None] = {}
    for name, first, last in names(engine):
        if not first <= at <= last:
            continue
        histogram = bool(_HISTOGRAM.fullmatch(name)) and not _GAUGE_SECONDS.fullmatch(name)
        base = name if histogram else name.removesuffix("_total")
        wire = f"{base}_total" if base != name or _COUNTER.fullmatch(name) else name
        for move in moves.get(base, (Moves(7, 7),)):
            value = move.after if after else move.before
            inner = ",".join(filter(None, (labels, move.labels)))
            if histogram:
                lines.update(dict.fromkeys(_observed(name, inner, value)))
            else:
                lines[f"{wire}{{{inner}}} {value}"] = None
    return "\n".join(lines) + "\n"


def _observed(name: str, labels: str, count: float) -> list[str]:
    """A histogram of ``count`` observations of 0.15."""
    buckets = [
        f'{name}_bucket{{{labels},le="{"+Inf" if bound == math.inf else bound}"}} {count if bound > 0.15 else 0}'
        for bound in BOUNDS
    ]
    return [*buckets, f"{name}_sum{{{labels}}} {count * 0.15}", f"{name}_count{{{labels}}} {count}"]
