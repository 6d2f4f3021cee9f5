"""The command as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui.cli import main

MANIFESTS = Path(__file__).parents[1] / "fixtures" / "manifests"


def lint(*words: str | Path) -> int:
    return main(["lint", *map(str, words)])


def test_the_exit_status_is_that_of_the_worst(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert lint(MANIFESTS / "patient.yaml") == 0
    assert lint(MANIFESTS / "patient.yaml", MANIFESTS / "article-vllm.yaml") == 1
    assert lint(tmp_path / "none.yaml", MANIFESTS / "patient.yaml") == 2
    assert lint(MANIFESTS / "malformed.yaml", MANIFESTS / "article-vllm.yaml") == 2
    out = capsys.readouterr()
    assert f"infertop: {MANIFESTS}/malformed.yaml:8: " in out.err
    assert "none.yaml: No such file or directory" in out.err
    assert f"{MANIFESTS}/article-vllm.yaml:17: error D03 Deployment vllm-13b container vllm: " in out.out


def test_the_json_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("--json", MANIFESTS / "article-sglang.yaml", MANIFESTS / "malformed.yaml") == 2
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["schema", "findings", "errors"]
    assert found["schema"] == 1
    keys = ["id", "level", "file", "line", "object", "text", "arithmetic", "instead"]
    assert all(list(finding) == keys for finding in found["findings"])
    assert {finding["level"] for finding in found["findings"]} <= {"error", "warning", "info"}
    assert [list(error) for error in found["errors"]] == [["file", "line", "text"]]
    assert found["errors"][0]["line"] == 8


def report(tmp_path: Path, load_s: float) -> Path:
    path = tmp_path / "restart.json"
    events = [{"t_s": 0.0, "event": "spawned"}, {"t_s": load_s, "event": "ready"}]
    path.write_text(json.dumps({"test": "restart", "target": {"engine": "vllm"}, "events": events}))
    return path


def test_measured_figures_decide_the_articles_liveness(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def p01(load_s: float) -> str:
        lint("--json", MANIFESTS / "article-vllm.yaml", "--measured", report(tmp_path, load_s))
        findings = json.loads(capsys.readouterr().out)["findings"]
        return next((f["arithmetic"] for f in findings if f["id"] == "P01"), "")

    assert p01(45.0) == ""
    assert p01(90.0).startswith("60 + (3-1) * 10 = 80 s < 1.2 * 90 s = 108 s; ")


def test_a_bad_report_is_an_error_and_the_files_are_linted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bad = tmp_path / "x.json"
    bad.write_bytes(b"\xff{}")
    assert lint(MANIFESTS / "article-vllm.yaml", "--measured", bad) == 2
    bad.write_text("{}")
    assert lint(MANIFESTS / "article-vllm.yaml", "--measured", bad) == 2
    out = capsys.readouterr()
    assert "x.json: not UTF-8" in out.err
    assert "x.json: not the output of once --json, drain-test or restart-test" in out.err
    assert "D03" in out.out


def test_what_is_no_regular_file_is_not_opened(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.yaml")
    assert lint(tmp_path / "fifo.yaml", tmp_path, "a\0b", "x" * 300) == 2
    err = capsys.readouterr().err
    assert err.count("not a regular file") == 2
    assert "File name too long" in err


def test_the_tally_counts_the_files_that_could_not_be_linted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert lint(MANIFESTS / "bomb.yaml", MANIFESTS / "vllm.service", tmp_path) == 2
    tally = capsys.readouterr().out.splitlines()[-1]
    assert tally == "1 error, 2 warnings, 2 files not read, or not whole"


def test_what_was_not_judged_is_one_line_a_figure(capsys: pytest.CaptureFixture[str]) -> None:
    lint(MANIFESTS / "patient.yaml")
    lines = capsys.readouterr().out.splitlines()
    assert "not judged for want of the load time (restart-test): P02 R03" in lines
    assert lines[-1] == "0 errors, 0 warnings"


def run(code: str, *words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **env},
        cwd=Path(__file__).parents[2],
    )


def test_without_pyyaml_it_says_how_to_get_it_and_units_are_still_linted() -> None:
    code = "import sys; sys.modules['yaml'] = None; from tui.cli import main; sys.exit(main(sys.argv[1:]))"
    done = run(code, "lint", MANIFESTS / "patient.yaml", MANIFESTS / "vllm.service")
    assert done.returncode == 2
    assert "YAML files need PyYAML: pip install 'infertop[lint]'" in done.stderr
    assert "warning D13 unit vllm.service" in done.stdout
    assert "Traceback" not in done.stderr


def test_only_yaml_files_load_pyyaml_and_nothing_loads_the_screen() -> None:
    code = (
        "import sys; from tui.cli import main; main(sys.argv[1:]);"
        "print(*{'yaml', 'textual', 'rich', 'plotext', 'httpx', 'psutil', 'asyncio'} & set(sys.modules))"
    )
    assert run(code, "lint", MANIFESTS / "vllm.service").stdout.splitlines()[-1] == ""
    assert run(code, "lint", MANIFESTS / "patient.yaml").stdout.splitlines()[-1] == "yaml"


def test_a_terminal_that_cannot_show_a_name_gets_a_question_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: модель}\nspec: {containers: [{name: a}]}\n")
    code = "import sys; from tui.cli import main; sys.exit(main(sys.argv[1:]))"
    done = run(code, "lint", path, PYTHONIOENCODING="latin-1")
    assert done.returncode == 1
    assert "Pod ?????? container a" in done.stdout


def test_the_help_fits_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        lint("--help")
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24
    assert "example: infertop lint" in text
