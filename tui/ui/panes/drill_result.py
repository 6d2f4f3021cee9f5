"""The end of a test: passed or failed, why, what to set, and what became of each request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.model.units import DASH
from tui.ui.lines import Line, Span, folded, left, narrow
from tui.ui.panes.drill_parts import (
    REQUESTS_WIDTH,
    beside,
    figure,
    requests,
    seconds_at,
    timeline,
    wording,
)
from tui.ui.panes.drill_run import AT_ONCE, SIDE_BY_SIDE, named, target
from tui.ui.sheet import SheetKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tui.actions.picture import Picture
    from tui.ui.lines import Role

LABEL = 13
_WORDS = {True: "PASSED", False: "FAILED"}


def outcome(picture: Picture) -> str:
    """``passed``, ``failed`` or ``no result``."""
    passed = None if picture.done is None else picture.done.get("passed")
    return _WORDS[passed].lower() if isinstance(passed, bool) else "no result"


@dataclass(frozen=True, slots=True)
class ResultSheet:
    """A test that has ended."""

    picture: Picture

    def title(self) -> Line:
        """Which test of what."""
        return (Span(named(self.picture).upper(), "title"), Span(" "), Span(target(self.picture), "value"))

    def head(self, size: int) -> list[Line]:
        """The result, not to be overlooked."""
        word = outcome(self.picture).upper()
        role: Role = {"PASSED": "calm", "FAILED": "badge"}.get(word, "flag")  # type: ignore[assignment]
        text = f" {word}  {named(self.picture)} of {target(self.picture)}"
        edge = "━" * size if word == "PASSED" else " " * size
        line = (Span(left(text, size), role),)
        return [(Span(edge, role),), line, (Span(edge, role),)] if size >= 56 else [line]

    def body(self, size: int) -> list[Line]:
        """Everything that was found."""
        lines: list[Line] = []
        for label, role, texts in self._said():
            for text in texts:
                lines += _listed(label if text is texts[0] else "", text, role, size)
        report = self.picture.report
        if report is None:
            return lines
        return [*lines, *_tables(report, size), *_before(report, size), *self._files(size)]

    def foot(self, size: int) -> list[Line]:
        """Nothing stands below."""
        return []

    def keys(self) -> Sequence[SheetKey]:
        """Of the page."""
        return (SheetKey("Esc", "back", "leave"), SheetKey("Up Down", "scroll", "scroll(1)"))

    def _said(self) -> Iterator[tuple[str, Role, list[str]]]:
        picture = self.picture
        done, report = picture.done or {}, picture.report or {}
        if picture.lost:
            yield "why", "warn", [f"the test's process has ended without a report; it said: {picture.lost}"]
        yield "why", "value", [str(reason) for reason in done.get("reasons") or ()]
        if report:
            at_once = picture.plan is not None and picture.plan.stop.way in AT_ONCE
            yield "figures", "text", list(_figures(report, at_once=at_once))
        for finding in report.get("findings") or ():
            yield f"{finding.get('id')}", "warn", [str(finding.get("text"))]
            yield "set", "value", [str(finding["instead"])] if finding.get("instead") else []
        yield "note", "text", [str(note) for note in report.get("notes") or picture.notes]

    def _files(self, size: int) -> list[Line]:
        path = (self.picture.done or {}).get("report")
        if not isinstance(path, str):
            return []
        lines: list[Line] = [(), *_listed("JSON", path, "text", size)]
        return [*lines, *_listed("Markdown", str(Path(path).with_suffix(".md")), "text", size)]


def _figures(report: dict[str, Any], *, at_once: bool) -> Iterator[str]:
    ended = report.get("exit") or {}
    how = next((f", {key} {ended[key]}" for key in ("code", "signal") if ended.get(key) is not None), "")
    if isinstance(ended.get("after_s"), (int, float)):
        limit = "" if at_once else f" of {figure(report.get('grace_s'))} s"
        yield f"exit after {ended['after_s']:.2f} s{limit}{how}"
    else:
        yield "it did not exit" if at_once else f"it did not exit within {figure(report.get('grace_s'))} s"
    if isinstance(report.get("downtime_s"), (int, float)):
        yield f"no service for {report['downtime_s']:.1f} s"
    elif report.get("test") == "restart":
        yield "it did not serve again"
    if isinstance(report.get("detect_s"), (int, float)):
        yield f"the readiness probe notices after {report['detect_s']:.1f} s{_by_settings(report)}"
    left_over = report.get("leftovers")
    if left_over:
        yield f"{len(left_over)} of its processes {'was' if len(left_over) == 1 else 'were'} left over"
    if report.get("clients_closed"):
        yield "silent requests of ours had to be closed"
    counts = report.get("outcomes") or {}
    if counts:
        yield "new requests: " + ", ".join(f"{n} x {word}" for word, n in counts.items())


def _by_settings(report: dict[str, Any]) -> str:
    span = report.get("detect_span_s")
    return f", by its settings {figure(span[0])} to {figure(span[1])} s" if span else ""


def _tables(report: dict[str, Any], size: int) -> list[Line]:
    mine = requests((r for r in report.get("requests") or () if r.get("kind") == "in_flight"), size)
    wide = bool(mine) and size >= SIDE_BY_SIDE
    events = [(e.get("t_s"), e.get("event"), e.get("detail")) for e in report.get("events") or ()]
    told: list[Line] = [(Span("timeline", "label"), Span("  after the action", "muted"))]
    told += timeline(events, size - REQUESTS_WIDTH - 4 if wide else size)
    for phase in report.get("phases") or ():
        span = f"{seconds_at(phase.get('start_s'))} to {seconds_at(phase.get('end_s'))}"
        told.append((Span("phase".rjust(10), "label"), Span(f"  {wording(phase.get('name'))}  {span}")))
    return [(), *beside(mine, told, REQUESTS_WIDTH + 4)] if wide else [*_apart(mine), *_apart(told)]


def _apart(block: list[Line]) -> list[Line]:
    return [(), *block] if block else []


def _before(report: dict[str, Any], size: int) -> list[Line]:
    """The reference, and this target's last runs."""
    lines: list[Line] = []
    row = report.get("reference")
    if row and report.get("test") == "restart":
        text = f"{figure(row.get('hot_s'))} s for {figure(row.get('model_b'))} B ({row.get('conditions')})"
        lines += [(), *_listed("expected", text, "text", size)]
    previous = report.get("previous") or ()
    lines += [()] if previous and not lines else []
    for index, run in enumerate(previous):
        passed = run.get("passed")
        word = _WORDS[passed].lower() if isinstance(passed, bool) else "no result"
        text = f"{_day(run.get('started_at'))}  {word}, {run.get('finished')}/{run.get('in_flight')} finished"
        if isinstance(run.get("exit_s"), (int, float)):
            text += f", exit after {run['exit_s']:.1f} s"
        if isinstance(run.get("downtime_s"), (int, float)):
            text += f", no service for {run['downtime_s']:.1f} s"
        lines += _listed("before" if index == 0 else "", text, "text", size)
    return lines


def _day(instant: object) -> str:
    """An instant of a report, e.g. ``2027-01-14 08:00:00 UTC``."""
    return str(instant or DASH).replace("T", " ").replace("+00:00", " UTC")


def _listed(label: str, text: str, role: Role, size: int) -> list[Line]:
    indent = LABEL if size >= 56 else 9
    return [
        (Span(left(narrow(label) if index == 0 else "", indent - 1) + " ", "label"), Span(part, role))
        for index, part in enumerate(folded(narrow(text, 1000) or DASH, size - indent))
    ]
