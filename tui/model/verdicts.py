"""What was concluded: verdicts with their evidence, and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

VerdictName = Literal[
    "gpu_fault", "engine_down", "engine_hung", "loading", "draining", "kv_cache", "gpu_memory",
    "scheduler_limit", "compute", "power_thermal", "cpu", "lock_contention", "io_disk", "network",
    "queueing_upstream", "degraded_cache", "healthy", "idle", "unknown",
]  # fmt: skip
Confidence = Literal["high", "medium", "low"]
Level = Literal["error", "warning", "info"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""Worst first."""

AVAILABILITY: frozenset[str] = frozenset(("gpu_fault", "engine_down", "engine_hung", "loading", "draining"))
"""Verdicts that show on first evidence and outrank every bottleneck."""
CALM: frozenset[str] = frozenset(("healthy", "idle"))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One figure that decided: shown as a line, carried whole in the JSON."""

    signal: str
    value: float | str | None
    unit: str = ""
    comparison: str = ""
    """One of ``>=``, ``>``, ``<=``, ``<``, ``=``, ``!=`` or empty."""
    threshold: float | str | None = None
    text: str = ""
    """Short, e.g. ``kv 0.99 (limit 0.90)``."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The bottleneck (or its absence) of one engine, or of the host."""

    scope: str
    """An engine's URL, or ``host``."""
    verdict: VerdictName
    title: str
    """For a headline, e.g. ``KV CACHE FULL``."""
    secondary: tuple[VerdictName, ...] = ()
    confidence: Confidence = "low"
    certainty: tuple[str, ...] = ()
    """Why it is not higher, or that it is high: signals that agree, and what is missing, in words."""
    state: Literal["held", "changing"] = "held"
    since: float | None = None
    """Epoch seconds at which it was first held; None where nothing watches over time."""
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    changing_to: VerdictName | None = None
    """While ``changing``: what the newest pictures say."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something beside the main verdict that an operator should know."""

    id: str
    level: Level
    scope: str
    text: str
    arithmetic: str = ""
    instead: str = ""
    """What to set instead, where it is a setting that is at fault."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """All conclusions about one snapshot: the host's verdict first, then one per engine, worst first."""

    verdicts: tuple[Verdict, ...] = ()
    findings: tuple[Finding, ...] = ()
