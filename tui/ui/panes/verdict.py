"""What is wrong (or that nothing is), why, and what to do: the pane the eye must find first."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.model.verdicts import LEVELS
from tui.ui.lines import Line, Span, cut, cut_name, cut_words, fit, narrow, width, wrap
from tui.ui.marks import badge, finding_line
from tui.ui.panes.past import strip
from tui.ui.table import told
from tui.ui.view import QUIET, headline, others
from tui.ui.words import READING, SHORT_VERDICTS, elapsed, model_name, scope_name
from tui.verdict.words import named

if TYPE_CHECKING:
    from tui.model.verdicts import Finding, Verdict
    from tui.ui.view import View

LABEL = 9
"""Cells of the labels in front."""
LEAST = 5
"""Lines from which on there is one for the past 30 minutes, with remarks; without them, one less."""
MORE = len("   +99 more")
GAP: Line = (Span("   "),)
_LIMIT = re.compile(r" \([^()]*\)$")
COUNTED = 3
"""From so many on engines that are well are counted, not named."""


def title(view: View) -> Line:
    """The title of the framed pane."""
    return (Span("1 ", "muted"), Span("VERDICT", "title"))


def body(view: View, size: int, height: int) -> list[Line]:
    """Headline, reasons, advice and what else is wrong; the past 30 minutes on the last line."""
    main = headline(view)
    if main is None:
        return [(Span(READING, "muted"),)]
    room = size - LABEL
    reasons, remarks = _reasons(main), _also(view, main)
    with_past = height >= LEAST if remarks else height >= LEAST - 1
    for_because, for_advice, for_also = _rooms(height - 1 - with_past)
    because, also = _flowing(reasons, room, for_because), _flowing(remarks, room, for_also)
    spare = for_because - len(because) + for_also - len(also)  # lines that nobody needs go to the advice
    advice = _advice(main, room, for_advice + spare if for_advice else 0)
    spare += for_advice - len(advice)
    if because and spare > 0:  # then to the reasons
        longer = _flowing(reasons, room, len(because) + spare)
        spare -= len(longer) - len(because)
        because = longer
    if also and spare > 0:  # and then to what else is wrong
        also = _flowing(remarks, room, len(also) + spare)
    found = [_headline(view, main, size)]
    for label, content in (("because", because), ("do", advice), ("also", also)):
        found += _labelled(label, content)
    if not with_past:
        return found[:height]
    found = found[: height - 1]
    found += [()] * (height - 1 - len(found))
    past = (Span("past 30 min".ljust(LABEL + 4), "label"),)
    return [*found, (*past, *strip(view, main.scope, size - width(past)))]


def flat(view: View, size: int, height: int) -> list[Line]:
    """The same for a screen without borders, where empty lines stand between the panes."""
    mark = Span("▸" if view.mode.focused == "verdict" else " ", "focus")
    return [(mark, *line) for line in body(view, size - 1, height) if line]


def remarks(view: View) -> bool:
    """Whether there is more to say than the headline's verdict: only then the pane needs a line for it."""
    if view.judgement.findings:
        return True
    main = headline(view)
    return main is not None and bool(main.secondary or others(view))


def _rooms(lines: int) -> tuple[int, int, int]:
    """Lines for because, do and also, of so many."""
    return (
        (1 if lines >= 1 else 0) + (1 if lines >= 4 else 0) + max(0, lines - 6),
        (1 if lines >= 2 else 0) + (1 if lines >= 5 else 0),
        (1 if lines >= 3 else 0) + (1 if lines >= 6 else 0),
    )


def _labelled(label: str, content: list[Line]) -> list[Line]:
    return [
        (Span((label if index == 0 else "").ljust(LABEL), "label"), *line)
        for index, line in enumerate(content)
    ]


def _headline(view: View, main: Verdict, size: int) -> Line:
    """As much of scope, model, confidence and time as fits, in that order of need."""
    name = badge(main)
    scope = scope_name(main.scope, view.snapshot)
    model = next((model_name(e) for e in view.snapshot.engines if e.url == main.scope), "")
    gap = Span("   " if size >= 100 else "  ")
    for ends in _endings(view, main):
        line: Line = (name, gap, Span(scope, "value"))
        tail = tuple(span for part in ends if part for span in (gap, *part))
        room = size - width(line) - width(tail) - 1
        if room >= 0:
            # half a model name says little: it is shown where most of it fits
            if model and room >= min(len(model), 14):
                line = (*line, Span(f" {cut(model, min(room, 32))}", "text"))
            return (*line, *tail)
    room = size - width((name, gap))
    return (name, gap, Span(cut_name(scope, room), "value")) if room > MORE else fit((name,), size)


def _endings(view: View, main: Verdict) -> list[tuple[Line, ...]]:
    """What may follow the scope, from the fullest to nothing."""
    changing: Line = ()
    if main.state == "changing":
        to = f" to {SHORT_VERDICTS[main.changing_to]}" if main.changing_to else ""
        changing = (Span(f"changing{to}", "notice"),)
    sure = Span(main.confidence, "text")
    if main.since is None:
        return [((Span("confidence ", "label"), sure), changing), ((sure,), changing), (changing,), ()]
    lasts = elapsed(view.snapshot.wall - main.since)
    clock = time.strftime("%H:%M:%S", time.localtime(main.since))
    since = Span("since ", "label")
    return [
        ((Span("confidence ", "label"), sure), (since, Span(f"{clock} ({lasts})")), changing),
        ((sure,), (since, Span(lasts)), changing),
        ((sure,), (Span(lasts, "muted"),), changing),
        ((Span(lasts, "muted"),),),
        (),
    ]


def _reasons(main: Verdict) -> list[Line]:
    items: list[Line] = [(Span(narrow(evidence.text)),) for evidence in main.evidence if evidence.text]
    return items + [
        (Span(f"{'' if index else 'not known: '}{narrow(what)}", "muted"),)
        for index, what in enumerate(named(main.missing))
    ]


def _advice(main: Verdict, size: int, rows: int) -> list[Line]:
    if not rows or not main.advice:
        return []
    items = [narrow(text) for text in main.advice]
    wordings = ["; ".join(items)]
    wordings += ["; ".join([*items[:n], f"+{len(items) - n} more"]) for n in range(len(items) - 1, 0, -1)]
    if len(items) > 1:
        first, more = _LIMIT.sub("", items[0]), f"; +{len(items) - 1} more"
        wordings.append(f"{first}{more}")
        *whole, last = wrap(first, size, rows)
        wordings.append(" ".join([*whole, f"{cut_words(last, size - len(more))}{more}"]))
    return [(Span(line, "text"),) for line in told(wordings, size, rows)]


def _also(view: View, main: Verdict) -> list[Line]:
    """What else an operator should know: other sick scopes, findings, side remarks, then what is well."""
    rest = [(v, scope_name(v.scope, view.snapshot), narrow(v.title).lower()) for v in others(view)]
    findings = _together(view.judgement.findings)
    items: list[Line] = [
        (Span("! ", "warn"), Span(f"{scope} {title}")) for v, scope, title in rest if v.verdict not in QUIET
    ]
    items += [finding_line(finding) for finding in findings if finding.level != "info"]
    if main.secondary:
        names = ", ".join(SHORT_VERDICTS[name] for name in main.secondary)
        items.append((Span("secondary ", "label"), Span(names)))
    items += [finding_line(finding) for finding in findings if finding.level == "info"]
    return items + _quiet([(scope, title) for v, scope, title in rest if v.verdict in QUIET])


def _quiet(rest: list[tuple[str, str]]) -> list[Line]:
    """Scopes that are well: by name where there are few, else counted."""
    engines = Counter(title for scope, title in rest if scope != "host")
    items: list[Line] = [
        (Span(f"{scope} {title}", "muted"),)
        for scope, title in rest
        if scope == "host" or engines[title] < COUNTED
    ]
    return items + [
        (Span(f"{count} others {title}", "muted"),) for title, count in engines.items() if count >= COUNTED
    ]


def _together(findings: tuple[Finding, ...]) -> list[Finding]:
    """Worst first; what is true of several engines alike, in one."""
    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.id, finding.level, finding.text), []).append(finding)
    found = []
    for first, *rest in alike.values():
        scopes = {first.scope, *(other.scope for other in rest)}
        more = f" ({len(scopes)} engines)" if len(scopes) > 1 else ""
        found.append(replace(first, text=f"{first.text}{more}"))
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))


def _flowing(items: list[Line], size: int, rows: int) -> list[Line]:
    """Items that flow on so many lines; a longer one is wrapped, and what finds no room is counted."""
    packed: list[list[Line]] = []
    for index, item in enumerate(items if rows else ()):
        if packed and width([*_joined(packed[-1]), *GAP, *item]) <= size:
            packed[-1].append(item)
            continue
        if len(packed) == rows:
            packed[-1] = _counted(packed[-1], len(items) - index, size)
            break
        parts = _wrapped(item, size, rows - len(packed))
        packed += [[part] for part in parts]
        if width(parts[-1]) > size:
            left_out = len(items) - index - 1
            packed[-1] = _counted([parts[-1]], left_out, size) if left_out else [_cut(parts[-1], size)]
            break
    return [_joined(row) for row in packed]


def _joined(row: list[Line]) -> Line:
    first, *others = row
    return (*first, *(span for item in others for span in (*GAP, *item)))


def _wrapped(item: Line, size: int, rows: int) -> list[Line]:
    """An item on several lines, its last span below itself; the last of ``rows`` lines may be too long."""
    *before, last = item
    start = width(before)
    if start + len(last.text) <= size:
        return [item]
    texts = wrap(last.text, max(1, size - start))
    if len(texts) > rows:
        texts = [*texts[: rows - 1], " ".join(texts[rows - 1 :])]
    blank = (Span(" " * start),) if start else ()
    return [(*(blank if index else before), last._replace(text=text)) for index, text in enumerate(texts)]


def _counted(row: list[Line], left_out: int, size: int) -> list[Line]:
    """A full row that ends in how many items found no room, which may cost it another one."""
    while True:
        marks: list[Line] = [(Span(f"+{left_out} more", "muted"),), (Span(f"+{left_out}", "muted"),)]
        for mark in marks:
            if width(_joined([*row, mark])) <= size:
                return [*row, mark]
        if len(row) == 1:
            return [_cut(row[0], size - width((*GAP, *marks[0]))), marks[0]]
        row, left_out = row[:-1], left_out + 1


def _cut(item: Line, size: int) -> Line:
    """As much of an item as fits: a figure goes without its limit before it goes in half."""
    *before, last = item
    room = max(1, size - width(before))
    return (*before, last._replace(text=cut_words(_LIMIT.sub("", last.text), room)))
