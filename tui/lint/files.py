"""A file's bytes to workloads: which format it is, what could not be read, and the findings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tui.lint import compose, kubernetes, nodes, systemd
from tui.lint.fields import Fields, is_null
from tui.lint.judge import judge
from tui.lint.nodes import MissingYamlError, YamlError
from tui.lint.shape import LintError, LintFinding, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.lint.measured import Figures
    from tui.lint.shape import Gateway

MAX_BYTES = 1024 * 1024
MISSING_YAML = "YAML files need PyYAML: pip install 'infertop[lint]'"


@dataclass(slots=True)
class Report:
    """Everything that a lint found out."""

    findings: list[LintFinding] = field(default_factory=list)
    errors: list[LintError] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """2 if a file was unreadable or malformed; else 1 if there is an error finding; else 0."""
        return 2 if self.errors else int(any(finding.level == "error" for finding in self.findings))


def lint(file: str, content: bytes, figures: Sequence[Figures], report: Report) -> None:
    """Lint one file into a report; whatever is in it, this raises nothing.

    Args:
        file: its name, for the report and for telling a unit from YAML.
        content: at most ``MAX_BYTES`` and one more.
        figures: what was measured, one entry an engine.
        report: gets findings and errors.
    """
    for workload in read(file, content, report.errors):
        report.findings += judge(workload, figures)


def read(file: str, content: bytes, errors: list[LintError]) -> list[Workload]:
    """The workloads of a file. Of one that is broken half-way, those before the fault."""
    if len(content) > MAX_BYTES:
        errors.append(LintError(file, None, f"larger than {MAX_BYTES // 1024} KiB"))
        return []
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        errors.append(LintError(file, line, "not UTF-8"))
        return []
    if systemd.is_unit(file, text):
        return systemd.workloads(text, file, errors)
    return _yaml(file, text, errors)


def _yaml(file: str, text: str, errors: list[LintError]) -> list[Workload]:
    found: list[Workload] = []
    gateways: list[Gateway] = []
    known = False
    try:
        for root in nodes.documents(text):
            fields = Fields(file, [], root, 0, "a document")
            if kubernetes.is_manifest(fields):
                known = True
                workloads, before = kubernetes.objects(root, file, errors)
                found += workloads
                gateways += before
            elif "services" in fields:
                known = True
                found += compose.workloads(root, file, errors)
            elif not is_null(root):
                known = True
                errors.append(LintError(file, root.line, "neither a Kubernetes manifest nor a Compose file"))
    except YamlError as error:
        hint = " (a template? lint what `helm template` prints)" if "{{" in text else ""
        errors.append(LintError(file, error.line, error.text + hint))
    except MissingYamlError:
        errors.append(LintError(file, None, MISSING_YAML))
    else:
        if not known:
            errors.append(LintError(file, 1, "nothing in it"))
    return [replace(workload, gateways=tuple(gateways)) for workload in found]
