"""Arguments of the program as a whole: what is refused, and how."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program import command, environment, run
from tui import __version__


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("once", "ftp://x"), "not an engine's address: 'ftp://x'"),
        (("once", "http://u:p@x:1"), "credentials"),
        (("once", "8000"), "'8000' (a port without a host); e.g. http://127.0.0.1:8000"),
        (("once", "http://\udcff:80"), "not an engine's address"),
        (("once", "--interval", "0"), "not a number of seconds from 0.2 to 3600"),
        (("once", "--interval", "nan"), "not a number of seconds"),
        (("once", "--samples", "0"), "not a number from 1 to 10000"),
        (("once", "--format", "{nope}"), "{nope} is not one of"),
        (("once", "--format", "{verdict"), "--format"),
        (("once", "--metrics-url", "http://x:1"), "more --metrics-url than URLs"),
        (("once", "--config", "none.toml"), "none.toml: No such file"),
        (("once", "--bogus"), "unrecognized arguments: --bogus"),
        (("verdict",), "the following arguments are required: FILE"),
        (("verdict", "none.jsonl"), "none.jsonl: No such file"),
        (("config", "--check", "none.toml"), "No such file"),
        ((), "the live screen needs a terminal; for scripts: infertop once --json"),
        (("http://127.0.0.1:1",), "needs a terminal"),
    ],
)
def test_usage_errors_exit_with_2_and_one_line(
    words: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    ended = run(*words, home=tmp_path)
    assert ended.status == 2
    assert complaint in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_a_closed_stdin_is_no_terminal(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command()],
        env=environment(tmp_path), capture_output=True, text=True, timeout=40, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "needs a terminal" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_locale_without_our_characters_costs_those_alone(tmp_path: Path) -> None:
    ended = run("once", "http://127.0.0.1:9", home=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert ended.status in (1, 2)  # what else is wrong depends on the machine
    assert "refused" in ended.out
    assert "Traceback" not in ended.err


def test_a_secret_in_a_refused_url_is_not_echoed(tmp_path: Path) -> None:
    ended = run("once", "http://user:hunter2@x:1", home=tmp_path)
    assert ended.status == 2
    assert "hunter2" not in ended.err + ended.out


@pytest.mark.parametrize("words", [("--help",), ("once", "--help"), ("verdict", "-h"), ("config", "-h")])
def test_help_is_one_screen_with_an_example(words: tuple[str, ...], tmp_path: Path) -> None:
    ended = run(*words, home=tmp_path, env={"COLUMNS": "80"})
    assert ended.status == 0
    assert "example: infertop" in ended.out
    assert len(ended.out.splitlines()) <= 45
    assert max(map(len, ended.out.splitlines())) <= 80


def test_version_and_options_before_the_command(tmp_path: Path) -> None:
    assert run("--version", home=tmp_path).out == f"infertop {__version__}\n"
    (tmp_path / "c.toml").write_text("interval_s = 'x'")
    ended = run("--config", "c.toml", "once", home=tmp_path)
    assert ended.status == 2
    assert "c.toml: interval_s: expected a number from 0.2 to 3600, got 'x'" in ended.err


def test_config_prints_the_template_and_checks_it(tmp_path: Path) -> None:
    template = run("config", home=tmp_path)
    assert template.status == 0
    (tmp_path / "mine.toml").write_text(template.out)
    assert run("config", "--check", "mine.toml", home=tmp_path).status == 0
    (tmp_path / "mine.toml").write_text("[slo]\nttft = 1\n[screen]\nascii = 3\n")
    checked = run("config", "--check", "mine.toml", home=tmp_path)
    assert checked.status == 2
    assert len(checked.err.splitlines()) == 2


CASE = {
    "id": "a",
    "engine": "vllm",
    "observations": {"probes": {"liveness": {"status": "refused"}}, "phase": "down"},
}


def test_verdict_names_a_malformed_line_and_judges_the_others(tmp_path: Path) -> None:
    lines = [
        json.dumps(CASE),
        "",
        '{"id": "b", "observations": {"gpus": [{"sm_pct": "x"}]}}',
        "{",
        json.dumps({**CASE, "id": "c"}),
    ]
    ended = run("verdict", "-", home=tmp_path, stdin="\n".join(lines))
    assert ended.status == 2
    assert [json.loads(line)["id"] for line in ended.out.splitlines()] == ["a", "c"]
    assert [error.split(":")[2].strip() for error in ended.err.splitlines()] == ["line 3", "line 4"]


def test_verdict_answers_with_the_keys_of_the_contract(tmp_path: Path) -> None:
    (tmp_path / "o.jsonl").write_text(json.dumps(CASE) + "\n")
    ended = run("verdict", "o.jsonl", home=tmp_path)
    assert ended.status == 0
    answer = ended.json()
    assert list(answer) == ["id", "verdict", "secondary", "confidence", "evidence", "missing", "advice"]
    assert answer["verdict"] == "engine_down"


def test_verdict_uses_the_thresholds_of_the_config(tmp_path: Path) -> None:
    busy = {
        "id": "x",
        "engine": "vllm",
        "observations": {
            "engine": {
                "running": 8,
                "waiting": 0,
                "kv_usage": 0.3,
                "ttft_p95_s": 3.0,
                "itl_p95_s": 0.02,
                "gen_tok_s": 900,
                "error_ratio": 0,
            },
            "gpus": [
                {
                    "sm_pct": 97,
                    "power_w": 690,
                    "power_limit_w": 700,
                    "clock_sm_mhz": 1980,
                    "clock_max_mhz": 1980,
                    "throttle": [],
                    "mem_ctrl_pct": 60,
                    "mem_used_mib": 60000,
                    "mem_total_mib": 81559,
                }
            ],
            "phase": "serving",
            "duration_s": 300,
        },
    }
    assert run("verdict", "-", home=tmp_path, stdin=json.dumps(busy)).json()["verdict"] == "compute"
    (tmp_path / "c.toml").write_text("[slo]\nttft_p95_s = 10\n")
    relaxed = run("verdict", "--config", "c.toml", "-", home=tmp_path, stdin=json.dumps(busy)).json()
    assert relaxed["verdict"] == "healthy"


def test_a_full_disk_ends_in_one_line_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "o.jsonl").write_text(json.dumps(CASE))
    (tmp_path / "p.yaml").write_text("kind: Pod\n")
    sized = "--layers 40 --hidden 5120 --kv-heads 40 --head-dim 128 --params-b 13 --max-model-len 4096 --max-num-seqs 4"
    commands = (
        "config",
        "config --check /dev/null",
        "verdict o.jsonl",
        "lint p.yaml",
        f"plan {sized} --gpu-mem-gib 80",
        "once --json --samples 1 --interval 0.2 http://127.0.0.1:9",
    )
    for words in commands:
        with Path("/dev/full").open("w") as full:
            ended = subprocess.run(
                command(*words.split()),
                cwd=tmp_path,
                env=environment(tmp_path),
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=40,
                check=False,
            )
        assert ended.stderr == b"infertop: standard output: No space left on device\n", words
        assert ended.returncode == 2, words


def test_verdict_reads_a_pipe_of_the_shell_and_no_device(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, json.dumps(CASE).encode())
    os.close(writing)
    try:
        ended = subprocess.run(
            command("verdict", f"/dev/fd/{reading}"),
            cwd=tmp_path,
            env=environment(tmp_path),
            pass_fds=(reading,),
            capture_output=True,
            timeout=40,
            check=False,
        )
    finally:
        os.close(reading)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert json.loads(ended.stdout)["verdict"]
    refused = run("verdict", "/dev/zero", home=tmp_path)
    assert (refused.status, refused.err) == (2, "infertop: /dev/zero: not a regular file or a pipe\n")


def test_a_token_of_the_environment_that_cannot_be_sent_is_refused_unquoted(tmp_path: Path) -> None:
    ended = run("once", "http://127.0.0.1:9", home=tmp_path, env={"INFERTOP_TOKEN": "hun\nter2"})
    assert (ended.status, ended.err) == (2, "infertop: INFERTOP_TOKEN: a token has no control characters\n")


@pytest.mark.parametrize("words", [[], ["once"]])
def test_an_interrupt_while_it_is_loaded_ends_without_a_traceback(words: list[str]) -> None:
    """Half of the time from the Enter key to the first picture goes into imports."""
    code = (
        "import sys, tui.cli\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.startswith('tui.commands.'):\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        f"sys.exit(tui.cli.main({words!r}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
