"""``drain-test`` and ``restart-test`` as a user runs them: what is printed, what is refused, what is sent."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from tests.demo.running import lives, running
from tests.support.program import Ended
from tui.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    return tmp_path


async def infertop(capsys: pytest.CaptureFixture[str], *words: str) -> Ended:
    """The command in this process, beside the loop on which the engine's supervisor runs."""
    status = await asyncio.to_thread(main, words)
    return Ended(status, *capsys.readouterr())


async def test_nothing_is_sent_before_it_is_confirmed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path / "log") as engine:
        url, name = engine.url, f"vllm:{engine.url.rpartition(':')[2]}"
        ended = await infertop(capsys, "drain-test", url, "--dry-run", "--read-only")
        assert ended.status == 0 and ended.err == ""
        first, *_, last = ended.out.splitlines()
        assert first == f"drain test of {name}"
        assert last.startswith("  would be refused now: this is read-only")
        assert f"type {name}" in ended.out and f"SIGTERM to pid {engine.pids['api']} (vllm)" in ended.out
        start = ("--start-command", "true --and 'two words'")
        ended = await infertop(capsys, "restart-test", url, "--dry-run", "--json", *start, "--allow-actions")
        plan = ended.json()
        assert plan["schema"] == 1 and plan["test"] == "restart" and plan["refused"] == []
        assert plan["target"]["name"] == name and plan["stop"]["way"] == "kill_tree"
        assert plan["start"]["command"] == ["true", "--and", "two words"]
        for words, why in (
            (("drain-test", url), "tests are off"),
            (("drain-test", url, "--allow-actions", "--read-only", "--confirm", name), "read-only"),
            (("drain-test", url, "--allow-actions"), f"to be confirmed with --confirm {name}"),
            (("restart-test", url, "--allow-actions", "--confirm", "vllm"), "not confirmed"),
        ):
            ended = await infertop(capsys, *words)
            assert ended.status == 2 and ended.out == ""
            (line,) = ended.err.splitlines()
            assert line.startswith("infertop: refused: ") and why in line
        assert all(map(lives, engine.pids.values()))
        assert not (tmp_path / "state/infertop/runs").exists()


async def test_a_drain_test_from_the_command_to_the_audit_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path / "log", sigterm="abort-finish", time_scale=0.05) as engine:
        name = f"vllm:{engine.url.rpartition(':')[2]}"
        words = ("drain-test", engine.url, "--allow-actions", "--confirm", name, "--requests", "2")
        ended = await infertop(capsys, *words)
        report = json.loads(ended.out)
        assert ended.status == 1  # its requests end with finish_reason abort
        assert f"drain test of {name}" in ended.err  # what was confirmed stands above its progress
        assert report["passed"] is False and report["target"]["name"] == name
        assert {request["outcome"] for request in report["requests"]} <= {"aborted", "refused"}
        assert not lives(engine.pids["api"])
    lines = (tmp_path / "state/infertop/audit.log").read_text().splitlines()
    assert [json.loads(line)["what"] for line in lines] == ["started", "signal", "ended"]
    assert {json.loads(line)["target"]["pid"] for line in lines} == {engine.pids["api"]}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--grace", "0"), "from 1 to 86400"),
        (("--grace", "nan"), "from 1 to 86400"),
        (("--requests", "0"), "from 1 to 256"),
        (("--start-command", "a 'b"), "not a command"),
        (("--start-command", ""), "empty command"),
    ],
)
def test_arguments_out_of_range(words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["drain-test", "http://127.0.0.1:1", *words])
    assert error.value.code == 2 and why in capsys.readouterr().err


def test_a_restart_test_has_no_requests_in_flight_to_choose(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["restart-test", "http://127.0.0.1:1", "--requests", "4"])
    assert "unrecognized arguments: --requests" in capsys.readouterr().err
