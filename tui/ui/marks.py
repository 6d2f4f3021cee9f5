"""How a verdict and a finding are marked, wherever they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.ui.lines import Line, Span, narrow
from tui.ui.view import QUIET, TRANSIENT

if TYPE_CHECKING:
    from tui.model.verdicts import Finding, Level, Verdict

_MARKS: dict[Level, str] = {"error": "!! ", "warning": "! ", "info": "· "}


def badge(verdict: Verdict) -> Span:
    """The verdict itself; only one that is sick is loud."""
    name = narrow(verdict.title)
    if verdict.verdict in QUIET:
        return Span(name, "calm", "fill('verdict')")
    if verdict.verdict in TRANSIENT:
        return Span(name, "notice", "fill('verdict')")
    return Span(f" {name} ", "badge", "fill('verdict')")


def finding_line(finding: Finding) -> Line:
    """A finding behind a mark that says how bad it is."""
    quiet = finding.level == "info"
    return (
        Span(_MARKS[finding.level], "muted" if quiet else "warn"),
        Span(narrow(finding.text), "muted" if quiet else "text"),
    )
