"""Manifests as data, linted through the same door as files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tui.lint.files import Report, lint
from tui.lint.measured import Figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.lint.shape import LintFinding

NOT_JUDGED = "not judged, needs "


def lint_text(text: str | bytes, file: str = "a.yaml", figures: Sequence[Figures] = ()) -> Report:
    report = Report()
    lint(file, text.encode() if isinstance(text, str) else text, figures, report)
    return report


def deployment(
    container: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **spec: Any
) -> str:
    """A Deployment with one vLLM container, as JSON, which is YAML."""
    server = {"name": "vllm", "image": "vllm/vllm-openai:v0.32.0", **(container or {})}
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "llm"},
            "spec": {**spec, "template": {"spec": {"containers": [server], **(pod or {})}}},
        }
    )


def probe(path: str = "/health", port: int = 8000, **fields: int) -> dict[str, Any]:
    """An httpGet probe; fields as ``d``, ``p``, ``f``, ``t``, ``s``."""
    names = {
        "d": "initialDelaySeconds",
        "p": "periodSeconds",
        "f": "failureThreshold",
        "t": "timeoutSeconds",
        "s": "successThreshold",
    }
    written = {names[key]: value for key, value in fields.items()}
    return {"httpGet": {"path": path, "port": port}, **written}


def of(report: Report, rule: str) -> list[LintFinding]:
    return [finding for finding in report.findings if finding.id == rule]


def verdict(report: Report, rule: str) -> str | None:
    """The level of a rule's first finding, ``not judged``, or None when it is quiet."""
    found = of(report, rule)
    if not found:
        return None
    return "not judged" if found[0].text.startswith(NOT_JUDGED) else found[0].level


def judged(rule: str, text: str, file: str = "a.yaml", **figures: Any) -> str | None:
    report = lint_text(text, file, [Figures(**figures)] if figures else [])
    assert not report.errors
    return verdict(report, rule)
