"""What one check found: a line of ``infertop check`` and ``infertop preflight``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckLevel = Literal["error", "warning", "ok"]
ORDER: tuple[CheckLevel, ...] = ("error", "warning", "ok")
"""Most urgent first."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One thing that was looked at; ``error`` fails the check."""

    id: str
    """Stable, in kebab case: ``gpu-memory``, ``model-listed``."""
    level: CheckLevel
    text: str
    """One line, with the figure and what was expected; from outside only what ``clean`` has passed."""
    value: float | str | None = None
    """What was found; None where it is not known."""
    limit: float | str | None = None
    """What it was compared with; None where nothing was."""


def passed(findings: list[CheckFinding], *, strict: bool = False) -> bool:
    """Whether nothing failed; ``strict`` takes warnings for failures."""
    failing = ("error", "warning") if strict else ("error",)
    return not any(finding.level in failing for finding in findings)
