"""Every rule's answer as lines: figures against their limits, their last minutes, what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.units import DASH, count
from tui.runtime.record import ENGINE_SIGNALS, GPU_SIGNALS, HOST_SIGNALS
from tui.ui.charts import area, nice_top
from tui.ui.lines import Line, Span, cut, left, narrow, width, wrap
from tui.ui.words import elapsed
from tui.verdict.texts import TEXTS
from tui.verdict.words import figure, named, word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.explanations import Change, Explanation, Move, RuleAnswer
    from tui.model.verdicts import Evidence, VerdictName
    from tui.ui.charts import Value
    from tui.ui.lines import Role
    from tui.ui.view import View

STATES: dict[str, tuple[str, str, Role]] = {
    "fires": ("!", "fires", "warn"),
    "cannot_say": ("?", "cannot say", "notice"),
    "quiet": ("·", "quiet", "muted"),
}
"""Sign, word and role of an answer: no state is told by its colour alone."""
SPARK = 15
"""Cells of the small history: two steps each."""
STEP_S = 10.0
SPARK_AT = 96
"""Narrower lines have no room for it."""
AXIS = 7
WORDS = 24
"""Cells from which on a piece of the words is worth its place."""
_INDENT = "     "
_RATIOS = ("_ratio", "_usage", "_usage_max")


def answers(view: View, explanation: Explanation, size: int) -> list[Line]:
    """The rules in the order of the explanation, each with its figures."""
    lines: list[Line] = []
    for answer in explanation.answers:
        calm = explanation.verdict in ("healthy", "idle") and answer.rule == explanation.verdict
        lines.append(_answer(answer, size, calm=calm))
        lines += [_figures(view, explanation, evidence, answer.state, size) for evidence in answer.evidence]
        for text in _asides(answer, explanation.verdict):
            lines += [(Span(_INDENT), Span(row, "muted")) for row in wrap(text, max(1, size - len(_INDENT)))]
    if any(span.role == "spark" for line in lines for span in line):
        step = max(STEP_S, 2 * view.snapshot.interval_s)
        wide = sum(_columns(size)) + len(_INDENT) + 4
        lines.insert(0, (Span(" " * wide), Span(f"past {elapsed(2 * SPARK * step)}", "muted")))
    return lines


def _answer(answer: RuleAnswer, size: int, *, calm: bool) -> Line:
    sign, word, role = STATES[answer.state]
    if calm:
        sign, role = "·", "calm"
    sure = f", {answer.confidence}" if answer.state == "fires" else ""
    line = (
        Span(f" {sign} ", role),
        Span(left(answer.rule.replace("_", " "), 18), "value" if answer.state == "fires" else "text"),
        Span(f" {word}{sure}", role),
    )
    said = f"without {', '.join(map(narrow, named(answer.missing)))}" if answer.missing else ""
    room = size - width(line) - 2
    if not said and room >= len(meaning := TEXTS[answer.rule].explanation):
        said = meaning
    return (*line, Span(f"  {cut(said, room)}", "muted")) if said and room > 0 else line


def _columns(size: int) -> tuple[int, int, int]:
    """Cells of signal, value and limit."""
    return (24, 14, 14) if size >= 76 else (max(8, size - len(_INDENT) - 24), 10, 11)


def _figures(view: View, explanation: Explanation, evidence: Evidence, state: str, size: int) -> Line:
    name, value, limit = _columns(size)
    known: Role = "value" if state == "fires" else "text"
    spans = [
        Span(_INDENT),
        Span(left(narrow(word(evidence.signal)), name), "label"),
        Span(f" {cut(_figure(evidence.signal, evidence.value), value):>{value}}", known),
        Span(f"  {left(_compared(evidence), limit)}", "muted"),
    ]
    if size >= SPARK_AT:
        spans += _history(view, explanation, evidence)
    room = size - width(spans) - 1
    if room >= WORDS:  # half of it says no more than the figures before it
        spans.append(Span(f" {cut(narrow(evidence.text), room)}", "muted"))
    return tuple(spans)


def _compared(evidence: Evidence) -> str:
    """The limit, and on which side of it the figure is."""
    value, limit = evidence.value, evidence.threshold
    if limit is None:
        return ""
    how = evidence.comparison
    if not how and isinstance(value, float | int) and isinstance(limit, float | int):
        how = ">=" if value >= limit else "<"
    return f"{how} {_figure(evidence.signal, limit) if limit else 0}".strip()


def _figure(signal: str, value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return narrow(value, 40) if value else DASH
    return figure(signal, value)


# ---------------------------------------------------------------------------------------- history


def _history(view: View, explanation: Explanation, evidence: Evidence) -> list[Span]:
    """The figure's last minutes over a fixed range, blank where there is no series of it."""
    values = _series(view, explanation, evidence.signal)
    if not any(value is not None for value in values):
        return [Span(" " * (SPARK + AXIS))]
    top = _top(evidence, values)
    (dots,) = area(values, 1, top)
    shown = 100.0 * top if evidence.signal.endswith(_RATIOS) else top  # as the figure beside it is written
    return [Span(dots, "spark"), Span(left(f" 0-{count(shown)}", AXIS), "muted")]


def _series(view: View, explanation: Explanation, signal: str) -> tuple[Value, ...]:
    step = max(STEP_S, 2 * view.snapshot.interval_s)

    def steps(scope: str) -> tuple[Value, ...]:
        return view.trends.steps(scope, signal, 2 * SPARK, step, view.now)

    if signal in ENGINE_SIGNALS:
        return steps(explanation.scope)
    if signal in HOST_SIGNALS:
        return steps("host")
    if signal not in GPU_SIGNALS:
        return ()
    columns = zip(*map(steps, explanation.gpus), strict=True)  # of several devices the rules take the busiest
    return tuple(max((v for v in column if v is not None), default=None) for column in columns)


def _top(evidence: Evidence, values: tuple[Value, ...]) -> float:
    """The upper edge: that of the quantity where it has one, else a round one above values and limit."""
    if evidence.unit == "%":
        return 100.0
    if evidence.signal.endswith(_RATIOS):
        return 1.0
    # the newest figure stands beside the edge, a step before the chart has it
    told = (v for v in (evidence.value, evidence.threshold) if isinstance(v, float | int))
    return nice_top((*values, *told))


# ---------------------------------------------------------------------------------------- changes


def _asides(answer: RuleAnswer, now: VerdictName) -> Iterator[str]:
    """What would turn the rule around, and what the verdict would be then."""
    if answer.state == "cannot_say":
        return
    verb = "would be quiet" if answer.state == "fires" else "would fire"
    if answer.changes:
        yield f"{verb} with {'; or with '.join(_change(change, now) for change in answer.changes)}"
    elif answer.state == "fires":
        yield "no figure, nor two of them, would make it quiet"


def _change(change: Change, now: VerdictName) -> str:
    then = f", then {change.verdict.replace('_', ' ')}" if change.verdict != now else ""
    return " and ".join(map(_move, change.moves)) + then


def _move(move: Move) -> str:
    name, now = word(move.signal), figure(move.signal, move.value)
    if move.limit == 0.0:
        return f"{name} {move.comparison} 0" + (f" (now {now})" if move.value else "")
    return f"{name} {move.comparison} {figure(move.signal, move.limit)} (now {now})"
