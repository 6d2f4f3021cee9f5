"""Every verdict with all that is behind it: evidence, what is missing, advice, findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.units import DASH, count
from tui.ui.lines import Line, Role, Span, fit, left, narrow, width, wrap
from tui.ui.marks import badge, finding_line
from tui.ui.panes.past import strip
from tui.ui.view import QUIET, headline, ranked
from tui.ui.words import READING, SHORT_VERDICTS, elapsed, scope_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.verdicts import Evidence, Verdict
    from tui.ui.view import View

INDENT = "   "
LABEL = 11


def body(view: View, size: int) -> list[Line]:
    """As many lines as it takes: the pane scrolls."""
    verdicts = ranked(view)
    if not verdicts:
        return [(Span(READING, "muted"),)]
    lines: list[Line] = []
    for verdict in verdicts:
        lines += [*_verdict(view, verdict, size), ()]
    if view.judgement.findings:
        lines.append((Span("findings", "label"),))
        for finding in view.judgement.findings:
            scope = Span(f"{scope_name(finding.scope, view.snapshot)}: ", "muted")
            mark, text = finding_line(finding)
            sum_ = (Span(f"  {narrow(finding.arithmetic)}", "muted"),) if finding.arithmetic else ()
            lines.append((Span(INDENT), mark, scope, text, *sum_))
            if finding.instead:
                lines.append((Span(INDENT * 2), Span("instead ", "label"), Span(narrow(finding.instead))))
    return lines


def _verdict(view: View, verdict: Verdict, size: int) -> list[Line]:
    # one loud place is enough: below the headline a sick verdict is marked by its words
    loud = verdict is headline(view)
    name = badge(verdict) if loud or verdict.verdict in QUIET else Span(narrow(verdict.title), "notice")
    first: Line = (
        name,
        Span("  "),
        Span(scope_name(verdict.scope, view.snapshot), "value"),
        Span("  confidence ", "label"),
        Span(verdict.confidence),
    )
    if verdict.since is not None:
        first = (*first, Span("  for ", "label"), Span(elapsed(view.snapshot.wall - verdict.since)))
    if verdict.state == "changing":
        to = f" to {SHORT_VERDICTS[verdict.changing_to]}" if verdict.changing_to else ""
        first = (*first, Span(f"  changing{to}", "notice"))
    lines = [first]
    lines += [_evidence(evidence, index == 0, size) for index, evidence in enumerate(verdict.evidence)]
    lines += _listed("not known", verdict.missing, size, "muted")
    lines += _listed("do", verdict.advice, size, "text")
    lines += _listed("also fits", [name.replace("_", " ") for name in verdict.secondary], size, "text")
    past = (Span(f"{INDENT}past 30 min  ", "label"),)
    lines.append((*past, *strip(view, verdict.scope, size - width(past))))
    return lines


def _evidence(evidence: Evidence, first: bool, size: int) -> Line:
    shown = _figure(evidence.value)
    compared = ""
    if evidence.threshold is not None and evidence.comparison:
        compared = f"{evidence.comparison} {_figure(evidence.threshold)}"
    return fit(
        (
            Span(INDENT + ("because" if first else "").ljust(LABEL), "label"),
            Span(left(narrow(evidence.signal), 24), "label"),
            Span(f"{shown} {narrow(evidence.unit)}".rstrip().rjust(12), "value"),
            Span(f"  {compared:<10}", "muted"),
            Span(f"  {narrow(evidence.text)}"),
        ),
        size,
    )


def _figure(value: float | str | None) -> str:
    """A figure with three digits: what a threshold in hundredths can be compared with."""
    if value is None or isinstance(value, str):
        return narrow(value, 40) if value else DASH
    return count(value) if abs(value) >= 100 else f"{value:.3g}"


def _listed(label: str, texts: Sequence[str], size: int, role: Role) -> list[Line]:
    """Texts one below the other behind one label, each wrapped."""
    lines: list[Line] = []
    for text in texts:
        for row in wrap(narrow(text), max(1, size - len(INDENT) - LABEL)):
            shown = (label if not lines else "").ljust(LABEL)
            lines.append((Span(INDENT), Span(shown, "label"), Span(row, role)))
    return lines
