"""A test's report as Markdown, for a person and for a post-mortem."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

_DASH = "–"


def render(report: dict[str, Any]) -> str:
    """Of the JSON contract; text from outside is made harmless for Markdown."""
    target = report["target"]
    word = {True: "passed", False: "failed"}.get(report["passed"], "no result")
    lines = [
        f"# {report['test'].capitalize()} test of {_safe(target['name'])}: {word}",
        "",
        *(f"- {_safe(reason)}" for reason in report["reasons"]),
        "",
        f"{report['started_at']}. {_safe(target['engine'])} {_safe(target['version'])},"
        f" model {_safe(target['model'])}, {target['url']}."
        f" Action: {_safe(report['action'])}."
        f" Grace period {report['grace_s']:g} s ({_safe(report['grace_from'])}).",
        "",
    ]
    for part in (_figures, _requests, _timeline, _phases, _beside, _findings):
        lines += part(report)
    return "\n".join(lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table; none without rows."""
    if not rows:
        return []
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows), ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _figures(report: dict[str, Any]) -> list[str]:
    ended = report["exit"]
    how = next((f"{k} {ended[k]}" for k in ("code", "signal") if ended[k] is not None), "not known")
    left = report["leftovers"]
    rows = [("exit after", _s(ended["after_s"])), ("exit", how)]
    if report["test"] == "restart":
        rows.append(("no service for", _s(report["downtime_s"])))
    rows += [
        ("noticed by the readiness probe after", f"{_s(report['detect_s'])}{_expected(report)}"),
        ("processes left over", _DASH if left is None else str(len(left))),
        ("our silent requests had to be closed", "yes" if report["clients_closed"] else "no"),
    ]
    return table(("figure", "value"), rows)


def _expected(report: dict[str, Any]) -> str:
    span = report["detect_span_s"]
    return "" if span is None else f" (by its settings {span[0]:g} to {span[1]:g} s)"


def _requests(report: dict[str, Any]) -> list[str]:
    in_flight = [r for r in report["requests"] if r["kind"] == "in_flight"]
    rows = [
        (
            str(r["id"]),
            _s(r["started_s"]),
            _s(r["ended_s"]),
            str(r["outcome"]),
            _safe(r["finish_reason"]),
            _n(r["http_status"]),
            f"{_n(r['tokens'])} of {_n(r['tokens_wanted'])}",
        )
        for r in in_flight
    ]
    head = ("request", "began", "ended", "outcome", "reason", "status", "tokens")
    lines = ["## Requests in flight", "", *table(head, rows)] if rows else []
    if report["outcomes"]:
        counts = Counter(report["outcomes"]).most_common()
        lines += ["New requests: " + ", ".join(f"{_safe(word)} {n}" for word, n in counts) + ".", ""]
    return lines


def _timeline(report: dict[str, Any]) -> list[str]:
    rows = [(_s(e["t_s"]), e["event"].replace("_", " "), _safe(e["detail"])) for e in report["events"]]
    return ["## Timeline", "", *table(("after the action", "event", "detail"), rows)]


def _phases(report: dict[str, Any]) -> list[str]:
    rows = [(p["name"].replace("_", " "), _s(p["start_s"]), _s(p["end_s"])) for p in report["phases"]]
    return ["## Phases", "", *table(("phase", "from", "to"), rows)] if rows else []


def _beside(report: dict[str, Any]) -> list[str]:
    lines = []
    row = report["reference"]
    if row is not None and report["test"] == "restart":
        lines += [f"Expected for {row['model_b']:g} B ({row['conditions']}): {row['hot_s']:g} s.", ""]
    rows = [
        (
            str(p["started_at"]),
            {True: "passed", False: "failed"}.get(p["passed"], "no result"),
            f"{p['finished']}/{p['in_flight']}",
            _s(p["exit_s"]),
            _s(p["downtime_s"]),
        )
        for p in report["previous"]
    ]
    head = ("run", "result", "finished", "exit after", "no service for")
    return [*lines, *(["## Earlier runs", "", *table(head, rows)] if rows else [])]


def _findings(report: dict[str, Any]) -> list[str]:
    lines = [f"- {_safe(note, 400)}" for note in report["notes"]]
    for finding in report["findings"]:
        sum_text = f" ({_safe(finding['arithmetic'], 200)})" if finding["arithmetic"] else ""
        instead = f" Instead: {_safe(finding['instead'], 400)}" if finding["instead"] else ""
        lines.append(
            f"- {finding['id']} {finding['level']}: {_safe(finding['text'], 400)}{sum_text}.{instead}"
        )
    return ["## Findings", "", *lines, ""] if lines else []


def _safe(value: Any, limit: int = 160) -> str:
    """A word of the report that may have come from outside."""
    if value is None:
        return _DASH
    return clean(str(value), limit).translate(_ESCAPES)


_ESCAPES = {ord(c): f"\\{c}" for c in "\\`*_[]<>|#"}


def _s(seconds: float | None) -> str:
    return _DASH if seconds is None else f"{seconds:.2f} s"


def _n(number: float | None) -> str:
    return _DASH if number is None else f"{number:g}"
