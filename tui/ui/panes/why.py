"""Why this verdict: every rule with its figures against their limits, and what would change its mind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tui.model.verdicts import CALM
from tui.ui.lines import Line, Role, Span, cut_name, narrow, width, wrap
from tui.ui.marks import badge, finding_line
from tui.ui.moments import listed as marks_listed
from tui.ui.panes.past import strip
from tui.ui.panes.rules import answers
from tui.ui.view import QUIET, looked_at, ranked, scopes
from tui.ui.words import READING, SHORT_VERDICTS, elapsed, scope_name
from tui.verdict.texts import TEXTS
from tui.verdict.words import named, word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tui.model.explanations import Explanation
    from tui.model.verdicts import Verdict
    from tui.ui.view import View

INDENT = "   "
LABEL = 11


def body(view: View, size: int) -> list[Line]:
    """As many lines as it takes: the pane scrolls."""
    verdict = looked_at(view)
    if verdict is None:
        return [(Span(READING, "muted"),)]
    lines = [*_scopes(view, verdict, size), ()]
    lines += _verdict(view, verdict, size)
    explanation = view.explanation if view.explanation and view.explanation.scope == verdict.scope else None
    if explanation is not None:
        lines += _explained(view, verdict, explanation, size)
    elif verdict.scope == "host":
        lines += _engines(view, verdict, size)
    return [*lines, *_findings(view, size)]


def _scopes(view: View, chosen: Verdict, size: int) -> list[Line]:
    """Host and engines, the one that is looked at marked; where there are two, how to get to the next."""
    items: list[Line] = []
    for scope in scopes(view):
        here = scope == chosen.scope
        name = scope_name(scope, view.snapshot)
        shown = cut_name(name, size - 1)
        items.append((Span("▸" if here else " ", "focus"), Span(shown, "value" if here else "muted")))
    lines: list[Line] = []
    for item in items:
        if lines and width(lines[-1]) + width(item) + 2 <= size:
            lines[-1] = (*lines[-1], Span("  "), *item)
        else:
            lines.append(item)
    hint = (Span("    n next, N the one before", "muted"),)
    if len(items) > 1 and width(lines[-1]) + width(hint) <= size:
        lines[-1] = (*lines[-1], *hint)
    return lines


def _verdict(view: View, verdict: Verdict, size: int) -> list[Line]:
    """The verdict as it is shown, whole."""
    lines: list[Line] = [_first(view, verdict, size)]
    lines += [
        (Span(INDENT), Span(row, "muted")) for row in wrap(TEXTS[verdict.verdict].explanation, size - 3)
    ]
    if verdict.state == "changing" and verdict.changing_to:
        text = (
            f"the newest pictures say {SHORT_VERDICTS[verdict.changing_to]}; it is shown once that has held"
        )
        lines += _listed("changing", [text], size, "notice")
    lines += _listed("confidence", [_sure(view, verdict)], size, "text")
    lines += _listed("because", [e.text for e in verdict.evidence if e.text], size, "text", joined=True)
    lines += _listed("not known", named(verdict.missing), size, "muted", joined=True)
    lines += _listed("do", verdict.advice, size, "text")
    also = [name.replace("_", " ") for name in verdict.secondary]
    lines += _listed("also fits", also, size, "text", joined=True)
    past = (Span(f"{INDENT}past 30 min  ", "label"),)
    lines.append((*past, *strip(view, verdict.scope, size - width(past))))
    return [*lines, *((Span(INDENT), *row) for row in marks_listed(view, size - len(INDENT)))]


def _first(view: View, verdict: Verdict, size: int) -> Line:
    """Verdict, scope and age; one loud place is enough, so only the worst verdict is a badge."""
    loud = verdict.verdict in QUIET or verdict is next(iter(ranked(view)), None) or verdict.scope != "host"
    name = badge(verdict) if loud else Span(narrow(verdict.title), "notice")
    scope = cut_name(scope_name(verdict.scope, view.snapshot), size - len(name.text) - 2)
    line: Line = (name, Span("  "), Span(scope, "value"))
    if verdict.since is not None:
        lasts = elapsed(view.snapshot.wall - verdict.since)
        clock = time.strftime("%H:%M:%S", time.localtime(verdict.since))
        for words in (f"{clock} ({lasts})", lasts):
            age = (Span("  since " if clock in words else "  for ", "label"), Span(words))
            if width(line) + width(age) <= size:
                return (*line, *age)
    return line


def _sure(view: View, verdict: Verdict) -> str:
    """Confidence, and what it rests on."""
    reasons = list(verdict.certainty)
    explanation = view.explanation
    if explanation is not None and explanation.verdict == verdict.verdict and explanation.answers:
        nearest = next(iter(explanation.answers[0].changes), None)
        # that nothing at all would turn it says nothing of how close it is
        if nearest is not None and len(nearest.moves) == 1 and nearest.distance < 1.0:
            move = nearest.moves[0]
            away = f"{100 * nearest.distance:.0f} % away"
            reasons.append(f"the nearest limit, of {word(move.signal)}, is {away}")
    return f"{verdict.confidence}: {'; '.join(map(narrow, reasons))}" if reasons else verdict.confidence


def _explained(view: View, verdict: Verdict, explanation: Explanation, size: int) -> list[Line]:
    newest = "  on the newest picture"
    if explanation.verdict != verdict.verdict:
        newest += f", which says {SHORT_VERDICTS[explanation.verdict]}"
    lines: list[Line] = [(), (Span("every rule", "label"), Span(newest, "muted"))]
    lines += answers(view, explanation, size)
    if explanation.lacking:
        lines += [(), (Span("what cannot be known here, and what would bring it", "label"),)]
    for lack in explanation.lacking:
        brings = f" → {lack.enable}" if lack.enable else ""
        lines += _listed(narrow(word(lack.field), 24), [f"{lack.why}{brings}"], size, "text", label_size=25)
    return lines


def _engines(view: View, verdict: Verdict, size: int) -> list[Line]:
    """What the host's verdict is made of."""
    engines = [v for v in ranked(view) if v.scope != "host"]
    if not engines:
        return []
    own = verdict.verdict not in {v.verdict for v in engines}
    text = "of devices that no engine's verdict names" if own else "the worst of its engines"
    lines: list[Line] = [(), (Span("the host's verdict is ", "label"), Span(text))]
    for found in engines:
        role: Role = "calm" if found.verdict in CALM else "notice"
        said = narrow(found.title)
        name = cut_name(scope_name(found.scope, view.snapshot), size - len(INDENT) - 2 - len(said))
        lines.append((Span(INDENT), Span(f"{name}  ", "muted"), Span(said, role)))
    return lines


def _findings(view: View, size: int) -> list[Line]:
    if not view.judgement.findings:
        return []
    lines: list[Line] = [(), (Span("findings", "label"),)]
    for finding in view.judgement.findings:
        mark, text = finding_line(finding)
        scope = f"{scope_name(finding.scope, view.snapshot)}: "
        said = f"{scope}{text.text}" + (f"  {narrow(finding.arithmetic)}" if finding.arithmetic else "")
        indent = len(INDENT) + len(mark.text)
        for index, row in enumerate(wrap(said, max(1, size - indent))):
            first = (Span(INDENT), mark) if index == 0 else (Span(" " * indent),)
            lines.append((*first, Span(row, text.role)))
        if finding.instead:
            lines += _listed("instead", [finding.instead], size, "text")
    return lines


def _listed(
    label: str,
    texts: Iterable[str],
    size: int,
    role: Role,
    *,
    joined: bool = False,
    label_size: int = LABEL,
) -> list[Line]:
    """Texts behind one label, each wrapped: below each other, or one after another."""
    items: Sequence[str] = [narrow(text) for text in texts]
    if joined and items:
        items = ["; ".join(items)]
    wide = size - len(INDENT) - label_size
    if wide < 20:  # a narrow screen has no room for two columns
        label_size = 0
        items = [f"{label}: {items[0]}", *items[1:]] if items else []
        wide = size - len(INDENT)
    lines: list[Line] = []
    for text in items:
        for row in wrap(text, max(1, wide)):
            shown = (label if not lines else "").ljust(label_size) if label_size else ""
            lines.append((Span(INDENT), Span(shown, "label"), Span(row, role)))
    return lines
