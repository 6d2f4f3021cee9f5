"""Findings of ``infertop check`` and ``infertop preflight``, for a person and as JSON (schema 1)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tui.checks.finding import ORDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.checks.finding import CheckFinding


def document(findings: Sequence[CheckFinding], passed: bool) -> dict[str, Any]:
    """The contract of ``check --json`` and ``preflight --json``."""
    return {
        "schema": 1,
        "passed": passed,
        "findings": [dataclasses.asdict(finding) for finding in worst_first(findings)],
    }


def render(findings: Sequence[CheckFinding]) -> str:
    """A line a finding, the level in a column of its own, the most urgent first."""
    return "".join(f"{finding.level:<7}  {finding.text}\n" for finding in worst_first(findings))


def worst_first(findings: Sequence[CheckFinding]) -> list[CheckFinding]:
    """By level, else in the order in which they were found."""
    return sorted(findings, key=lambda finding: ORDER.index(finding.level))
