"""Each fixture says what must be found, by ``# lint: ID/level`` on the line, or alone before it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lint.support import NOT_JUDGED, lint_text
from tui.lint.files import MAX_BYTES, Report, lint

MANIFESTS = Path(__file__).parents[1] / "fixtures" / "manifests"
CLEAN = sorted(p for p in MANIFESTS.iterdir() if p.stem not in ("malformed", "bomb", "hostile"))


def expected(text: str) -> set[tuple[int, str, str]]:
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        note = re.search(r"# lint: (.*)", line)
        if note is not None:
            alone = line.lstrip().startswith("#")
            found |= {(number + alone, *word.split("/")) for word in note[1].split()}
    return found


@pytest.mark.parametrize("path", CLEAN, ids=lambda p: p.name)
def test_every_fixture_has_exactly_the_findings_that_it_names(path: Path) -> None:
    report = lint_text(path.read_bytes(), path.name)
    assert report.errors == []
    judged = {(f.line, f.id, f.level) for f in report.findings if not f.text.startswith(NOT_JUDGED)}
    assert judged == expected(path.read_text())
    assert report.exit_status == int(any(level == "error" for _, _, level in judged))
    assert all(f.file == path.name and f.object for f in report.findings)
    assert all(f.instead for f in report.findings if not f.text.startswith(NOT_JUDGED))


def test_a_malformed_file_is_named_with_its_line_and_the_others_are_linted() -> None:
    report = Report()
    for name in ("malformed.yaml", "article-vllm.yaml"):
        lint(name, (MANIFESTS / name).read_bytes(), (), report)
    assert [(e.file, e.line) for e in report.errors] == [("malformed.yaml", 8)]
    assert "helm template" in report.errors[0].text
    assert {f.file for f in report.findings} == {"article-vllm.yaml"}
    assert report.exit_status == 2


def test_documents_before_a_fault_are_linted() -> None:
    good = (MANIFESTS / "article-triton.yaml").read_text()
    report = lint_text(good + "\n---\na: [1\n---\nb: 2\n")
    assert [e.line for e in report.errors] == [good.count("\n") + 4]
    assert {f.object.split()[1] for f in report.findings} == {"trtllm-70b"}


def test_a_yaml_bomb_is_an_error() -> None:
    report = lint_text((MANIFESTS / "bomb.yaml").read_bytes())
    assert [(e.line, e.text) for e in report.errors] == [(8, "aliases stand for more than 100000 values")]
    assert report.findings == []


def test_a_hostile_manifest_yields_one_error_a_fault_and_clean_names() -> None:
    report = lint_text((MANIFESTS / "hostile.yaml").read_bytes())
    lines = {e.line for e in report.errors}
    assert lines == {5, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25, 27, 28, 29, 34, 38}
    shown = [f.object + f.text + f.arithmetic for f in report.findings] + [e.text for e in report.errors]
    assert all(text.isprintable() for text in shown)
    assert any("abbb[/bold]" in text for text in shown)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "nothing in it"),
        (b"# only a comment\n", "nothing in it"),
        (b"a: 1\n", "neither a Kubernetes manifest nor a Compose file"),
        (b"[1, 2]\n", "neither a Kubernetes manifest nor a Compose file"),
        (b"kind: Pod\nx: \xff\n", "not UTF-8"),
        (b"kind: \x1b[31m\n", "character U+001B is not allowed in YAML"),
        (b"a: !!python/object/apply:os.system [x]\n", "tag tag:yaml.org,2002:python/object/apply:os.system"),
        (b"a: *b\n", "alias *b has no anchor"),
        (b"a: &b [*b]\n", "alias *b contains itself"),
        (b"<<: 3\n", "a merge key whose value is no mapping"),
        (b"? [a]\n: 1\n", "a key that is not plain text"),
        (b"a: [" * 500, "nested deeper than 64 levels"),
        (b"- " * 500 + b"a\n", "nested deeper than 64 levels"),
        (b"a\n" * MAX_BYTES, "larger than 1024 KiB"),
        (b"a: b: c\n", "mapping values are not allowed"),
    ],
)
def test_what_is_no_manifest_is_an_error_that_says_so(content: bytes, text: str) -> None:
    report = lint_text(content)
    assert len(report.errors) == 1
    assert text in report.errors[0].text
    assert report.exit_status == 2


def test_kubernetes_objects_without_pods_are_no_fault() -> None:
    report = lint_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\n")
    assert (report.findings, report.errors, report.exit_status) == ([], [], 0)
