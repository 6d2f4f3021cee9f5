"""``--log FILE``: everything of the log in it, nothing of it anywhere else."""

from __future__ import annotations

import logging
import os
import re
import stat
from typing import TYPE_CHECKING

import pytest

from tests.support.program import command, environment, run
from tests.support.servers import serve_in_thread, vllm
from tests.support.terminal import Terminal
from tests.support.vllm_text import exposition
from tests.support.waiting import wait_for
from tui.commands.log_file import LogFile, logging_to
from tui.commands.usage import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_line_is_appended_to_a_file_of_ours_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    path.chmod(0o644)
    with logging_to(path):
        logging.getLogger("infertop").info("found %s", "it")
        logging.getLogger("asyncio").error("lost a task")
        logging.getLogger("httpx").info("a request")
    lines = path.read_text().splitlines()
    assert lines[0] == "before"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d [\d:,]+ INFO infertop: found it", lines[1])
    assert lines[2].endswith("ERROR asyncio: lost a task")
    assert len(lines) == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_file_nothing_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    with logging_to(None):
        logging.getLogger("asyncio").error("lost a task")
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_costs_lines_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    handler = LogFile(os.open("/dev/full", os.O_WRONLY))
    handler.handle(logging.LogRecord("infertop", logging.ERROR, "", 0, "found it", (), None))
    handler.close()
    assert capfd.readouterr() == ("", "")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "no" / "log"):
        with pytest.raises(UsageError, match="--log"), logging_to(path):
            pass


def test_the_screen_writes_failures_recoveries_and_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "infertop.log"
    with serve_in_thread(vllm(exposition())) as server:
        env = environment(tmp_path, {"INFERTOP_TOKEN": "secret-token"})
        with Terminal(command("--log", str(path), server.url), env=env) as terminal:
            terminal.wait_for("serving")
            server.go_away()
            wait_for(lambda: "verdict of host: engine_down" in path.read_text(), 20)
            server.come_back()
            wait_for(lambda: f"engine {server.url}: ok (was refused)" in path.read_text(), 20)
            terminal.send("q")
            assert terminal.wait(10) == 0
            assert "WARNING" not in terminal.text()
    text = path.read_text()
    assert re.search(rf"WARNING infertop: engine {server.url}: refused \(was ok\)", text)
    assert "secret-token" not in text
    assert text.splitlines()[0].endswith(f"pid {terminal.process.pid}")
    assert text.splitlines()[-1].endswith("infertop ends")


def test_the_option_is_in_the_help(tmp_path: Path) -> None:
    assert "--log FILE" in run("--help", home=tmp_path).out
