"""The report of a test: the JSON contract, the files it is kept in, and what went before."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tui.actions.judgement import judge, kept
from tui.actions.reference import reference
from tui.actions.report_text import render
from tui.actions.runs import REPORTS_KEPT, reports_dir
from tui.actions.traffic import since
from tui.config.state import read_json, write_json
from tui.lint.judge import outcomes
from tui.lint.measured import figures_of
from tui.lint.rule import Need
from tui.lint.shape import Container, Workload
from tui.model.settings import ProbeSpec
from tui.probing.arithmetic import hang_noticed, refusal_noticed

if TYPE_CHECKING:
    from tui.actions.plan import Plan
    from tui.actions.result import Result
    from tui.actions.traffic import OwnRequest

PREVIOUS = 5
_NOT_OURS = ("D01",)
"""It compares the grace period with the longest request: ours are as long as the test makes them."""
LOAD = ("starting", "weights", "compile", "ready")
_MOST_S = 1e9
T = TypeVar("T")


def document(result: Result, previous: list[dict[str, Any]]) -> dict[str, Any]:
    """The contract of ``drain-test`` and ``restart-test``: every field, null where it is not known."""
    plan, target = result.plan, result.plan.target
    passed, reasons = judge(result)
    after = result.exit_after_s
    report = {
        "schema": 1,
        "test": plan.test,
        "target": {
            "kind": target.kind,
            "name": target.name,
            "pid": None if target.main is None else target.main.pid,
            "url": target.url,
            "engine": target.engine,
            "version": target.version,
            "model": target.model,
        },
        "action": plan.stop.text,
        "grace_s": plan.grace_s,
        "grace_from": plan.grace_from,
        "started_at": datetime.fromtimestamp(result.started_at, timezone.utc).isoformat(timespec="seconds"),
        "passed": passed,
        "reasons": reasons,
        "events": [
            {"t_s": since(result.action_at, event.at), "event": event.name, "detail": event.detail}
            for event in sorted(result.events, key=lambda event: event.at)
        ],
        "requests": [request.row(result.action_at) for request in result.requests],
        "phases": [asdict(phase) for phase in result.phases],
        "outcomes": dict(Counter(map(_word, (r for r in result.requests if r.kind == "new")))),
        "downtime_s": result.downtime_s,
        "detect_s": result.detect_s,
        "detect_span_s": _span(result),
        "exit": {
            "code": result.exit.code,
            "signal": result.exit.signal,
            "after_s": None if after is None else round(after, 3),
        },
        "leftovers": None
        if result.leftovers is None
        else [
            {"pid": left.process.pid, "name": left.process.name, "gpu_mem_mib": left.gpu_mem_mib}
            for left in result.leftovers
        ],
        "clients_closed": result.closed_at is not None,
        "reference": reference(target.engine, target.parameters_b),
        "previous": previous,
        "notes": result.notes,
    }
    return {**report, "findings": findings(plan, report)}


def _span(result: Result) -> list[float] | None:
    """Within which the readiness probe should notice it by arithmetic; None: it never failed."""
    down = next((event for event in result.events if event.name == "readiness_down"), None)
    if down is None:
        return None
    probe = result.plan.readiness
    spec = ProbeSpec(
        period_s=probe.period_s, timeout_s=probe.timeout_s, failure_threshold=probe.failure_threshold
    )
    span = hang_noticed(spec) if down.detail == "timeout" else refusal_noticed(spec)
    return [span.best, span.worst]


def findings(plan: Plan, report: dict[str, Any]) -> list[dict[str, Any]]:
    """What the rules about draining say of these figures; what they cannot judge is left out."""
    main = plan.target.main
    command = () if main is None else main.cmdline
    workload = Workload(
        platform="systemd",
        kind=plan.target.kind,
        name=plan.target.name,
        file="",
        line=0,
        containers=(Container(plan.target.name, 0, command=command or None),),
        grace_s=plan.grace_s,
    )
    found = []
    for rule, _, outcome in outcomes(workload, figures_of(report)):
        if not rule.id.startswith("D") or rule.id in _NOT_OURS or isinstance(outcome, Need):
            continue
        found.append(
            {
                "id": rule.id,
                "level": outcome.level or rule.prose.level,
                "scope": plan.target.url,
                "text": rule.prose.text.format_map(outcome.values),
                "arithmetic": outcome.arithmetic,
                "instead": rule.prose.instead.format_map(outcome.values),
            }
        )
    return found


def save(name: str, report: dict[str, Any]) -> Path:
    """Keep a report as JSON and Markdown, 0600; the oldest beyond ``REPORTS_KEPT`` go. The path of the JSON.

    Raises:
        OSError: it cannot be written.
    """
    home = reports_dir()
    if home is None:
        raise OSError("there is no home directory for reports: set XDG_STATE_HOME")
    path = home / f"{name}.json"
    write_json(path, report)
    # whatever lies there already: no link is followed, no reader of a FIFO waited for
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(home / f"{name}.md", flags, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(render(report))
    for old in sorted(home.glob("*.json"), reverse=True)[REPORTS_KEPT:]:
        for file_ in (old, old.with_suffix(".md")):
            with suppress(OSError):
                file_.unlink()
    return path


def save_elsewhere(report: dict[str, Any]) -> Path:
    """Keep a report as JSON, 0600, among the temporary files of this host.

    Raises:
        OSError: it cannot be written.
    """
    handle, name = tempfile.mkstemp(prefix=f"infertop-{report['test']}-", suffix=".json")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    except OSError:
        path.unlink()  # half a report is none
        raise
    return path


def reports(url: str | None = None) -> list[dict[str, Any]]:
    """Kept reports, newest first; of one target, where its address is given. Damaged ones are left out."""
    home = reports_dir()
    found: list[dict[str, Any]] = []
    for path in sorted(home.glob("*.json"), reverse=True) if home is not None else ():
        try:
            report = read_json(path)
        except (OSError, ValueError):
            continue
        if not isinstance(report, dict) or not isinstance(report.get("target"), dict):
            continue
        if url is None or report["target"].get("url") == url:
            found.append(report)
    return found


def previous(plan: Plan) -> list[dict[str, Any]]:
    """The last runs of this test on this target, newest first."""
    rows = [_summary(report) for report in reports(plan.target.url) if report.get("test") == plan.test]
    return rows[:PREVIOUS]


def _summary(report: dict[str, Any]) -> dict[str, Any]:
    """One row; a report was perhaps damaged since, and must not cost a test its own."""
    in_flight = [r for r in _rows(report, "requests") if r.get("kind") == "in_flight"]
    spans = [p for p in _rows(report, "phases") if p.get("name") in LOAD]
    starts = [at for p in spans if (at := _figure(p.get("start_s"))) is not None]
    ends = [at for p in spans if (at := _figure(p.get("end_s"))) is not None]
    load = max(ends) - min(starts) if starts and ends else None
    ended = report.get("exit")
    return {
        "test": report.get("test"),
        "started_at": _as(str, report.get("started_at")),
        "passed": _as(bool, report.get("passed")),
        "in_flight": len(in_flight),
        "finished": sum(r.get("outcome") == "finished" for r in in_flight),
        "exit_s": _figure(ended.get("after_s")) if isinstance(ended, dict) else None,
        "downtime_s": _figure(report.get("downtime_s")),
        "load_s": None if load is None else round(load, 3),
    }


def _rows(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = report.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _as(kind: type[T], value: object) -> T | None:
    return value if isinstance(value, kind) else None


def _figure(value: object) -> float | None:
    sound = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST_S
    return value if sound else None  # type: ignore[return-value]  # a number, by the line above


def _word(request: OwnRequest) -> str:
    status = request.http_status
    return (
        str(status)
        if status is not None and (kept(request) or request.outcome == "error")
        else str(request.outcome)
    )
