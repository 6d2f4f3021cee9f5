"""``infertop lint``: probe and shutdown settings of manifests, against what was measured."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tui.lint import measured
from tui.lint.files import MAX_BYTES, Report, lint
from tui.lint.measured import Figures, ReportError
from tui.lint.shape import LintError
from tui.model.text import clean

if TYPE_CHECKING:
    import argparse

    from tui.lint.shape import LintFinding

DESCRIPTION = """Lint probe and shutdown settings: Kubernetes manifests, Compose files, systemd
units. What needs a measured figure is judged with --measured, else not judged.

Exit status: 2 if a file is unreadable or malformed (the others are still
linted); else 1 if there is an error finding; else 0."""
EXAMPLE = "infertop lint deploy.yaml --measured restart.json"

SCHEMA = 1
_MAX_REPORT_BYTES = 16 * 1024 * 1024
_NOT_JUDGED = "not judged, needs "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="manifests, Compose files, units")
    parser.add_argument(
        "--measured",
        metavar="REPORT",
        action="append",
        default=[],
        help="output of once --json, drain-test or restart-test; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object (schema 1)")


def run(args: argparse.Namespace) -> int:
    """The exit status that the description promises."""
    report = Report()
    figures = [figure for name in args.measured for figure in _figures(name, report)]
    for name in args.files:
        content = _content(name, MAX_BYTES, report)
        if content is not None:
            lint(name, content, figures, report)
    if args.json:
        print(json.dumps(document(report), ensure_ascii=True))
    else:
        _print(report)
    return report.exit_status


def document(report: Report) -> dict[str, object]:
    """The JSON contract of schema 1."""
    return {
        "schema": SCHEMA,
        "findings": [dataclasses.asdict(finding) for finding in report.findings],
        "errors": [dataclasses.asdict(error) for error in report.errors],
    }


def _figures(name: str, report: Report) -> list[Figures]:
    content = _content(name, _MAX_REPORT_BYTES, report)
    if content is None:
        return []
    try:
        return measured.parse(content.decode("utf-8"))
    except UnicodeDecodeError:
        report.errors.append(LintError(name, None, "not UTF-8"))
    except ReportError as error:
        report.errors.append(LintError(name, None, str(error)))
    return []


def _content(name: str, limit: int, report: Report) -> bytes | None:
    try:
        path = Path(name)
        if path.exists() and not path.is_file():
            # a FIFO would wait for a writer, a device never ends
            report.errors.append(LintError(name, None, "not a regular file"))
            return None
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        report.errors.append(LintError(name, None, text))
        return None
    if len(content) > limit:
        report.errors.append(LintError(name, None, f"larger than {limit // 1024} KiB"))
        return None
    return content


def _print(report: Report) -> None:
    lines = []
    for finding in report.findings:
        if not finding.text.startswith(_NOT_JUDGED):
            lines += _lines(finding)
    lines += _not_judged(report.findings)
    lines.append(_tally(report))
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        print(line.encode(encoding, "replace").decode(encoding))
    for error in report.errors:
        print(f"infertop: {_place(error)}: {error.text}", file=sys.stderr)


def _tally(report: Report) -> str:
    counts = [(level, sum(f.level == level for f in report.findings)) for level in ("error", "warning")]
    parts = [f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts]
    faulty = len({error.file for error in report.errors})
    if faulty:  # what is wrong with them goes to stderr: "0 errors" alone would read as a pass
        parts.append(f"{faulty} file{'' if faulty == 1 else 's'} not read, or not whole")
    return ", ".join(parts)


def _lines(finding: LintFinding) -> list[str]:
    lines = [f"{_place(finding)}: {finding.level} {finding.id} {finding.object}: {finding.text}"]
    if finding.arithmetic:
        lines.append(f"    because  {finding.arithmetic}")
    if finding.instead:
        lines.append(f"    instead  {finding.instead}")
    return lines


def _not_judged(findings: list[LintFinding]) -> list[str]:
    """One line for each thing that was not measured: which rules wait for it."""
    waiting: dict[str, list[str]] = {}
    for finding in findings:
        if finding.text.startswith(_NOT_JUDGED):
            need = finding.text.removeprefix(_NOT_JUDGED).rpartition(": ")[0]
            ids = waiting.setdefault(need, [])
            if finding.id not in ids:
                ids.append(finding.id)
    return [f"not judged for want of {need}: {' '.join(ids)}" for need, ids in waiting.items()]


def _place(where: LintFinding | LintError) -> str:
    name = clean(where.file, 1000)
    return name if where.line is None else f"{name}:{where.line}"
