"""Terminals that stop, vanish, detach, change size all the time, or are hardly terminals."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_terminal import healthy
from tests.support.program import command, environment, run
from tests.support.servers import NEVER, serve_in_thread, vllm
from tests.support.terminal import Terminal
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.fake_nvml import FakeNvml

pytest_plugins = ("tests.support.nvml_plugin",)

NOBODY = "http://127.0.0.1:9"


def start(home: Path, *words: str, term: str = "xterm-256color", **env: str) -> Terminal:
    return Terminal(command(*words), env=environment(home, env), term=term)


def whole(terminal: Terminal) -> None:
    """As it was before the program came."""
    assert terminal.modes_left() == set()
    assert not terminal.tty_changed()


@pytest.mark.parametrize("way", ["SIGTSTP", "^Z"])
def test_a_stopped_program_has_given_the_terminal_back(way: str, tmp_path: Path) -> None:
    with start(tmp_path, NOBODY) as terminal:
        terminal.wait_for("VERDICT")
        terminal.settle(0.3)
        if way == "^Z":
            terminal.send("\x1a")
        else:
            terminal.signal(signal.SIGTSTP)
        terminal.wait_for_stop()
        terminal.settle()
        whole(terminal)
        drawn = len(terminal.raw)
        terminal.signal(signal.SIGCONT)
        wait_for(lambda: b"VERDICT" in terminal.raw[drawn:], 10, "the whole screen again")
        terminal.send("?")
        terminal.wait_for("HELP")
        terminal.send("q")
        assert terminal.wait(10) == 0
        whole(terminal)


def test_a_program_that_is_ended_while_it_is_stopped(tmp_path: Path) -> None:
    with start(tmp_path, NOBODY) as terminal:
        terminal.wait_for("VERDICT")
        terminal.signal(signal.SIGTSTP)
        terminal.wait_for_stop()
        terminal.signal(signal.SIGTERM)
        terminal.signal(signal.SIGCONT)
        assert terminal.wait(10) == 0
        whole(terminal)


def test_a_terminal_that_vanishes_takes_the_program_with_it(tmp_path: Path) -> None:
    with start(tmp_path, NOBODY) as terminal:
        terminal.wait_for("VERDICT")
        terminal.vanish()
        assert terminal.process.wait(10) == 0


def test_a_terminal_that_vanishes_without_a_signal(tmp_path: Path) -> None:
    """The kernel tells only the leader of the session, and a leader may keep it to itself."""
    ended = tmp_path / "ended"
    script = f"trap '' HUP; {shlex.join(command(NOBODY))}; echo $? > {ended}"
    with Terminal(["sh", "-c", script], env=environment(tmp_path)) as terminal:
        terminal.wait_for("VERDICT")
        terminal.vanish()
        wait_for(lambda: ended.exists() and ended.read_text(), 10, "the end")
        assert ended.read_text() == "0\n"


def test_nothing_is_written_to_stderr(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    errors = tmp_path / "stderr"
    env = environment(tmp_path, fake_nvml.environment())
    with Terminal(["sh", "-c", f"exec {shlex.join(command(NOBODY))} 2> {errors}"], env=env) as terminal:
        terminal.wait_for("(?s)8x H100.*refused")
        fake_nvml.fail(3, "nvmlDeviceGetTemperature", 15)
        terminal.wait_for("1 lost")
        terminal.send("q")
        assert terminal.wait(10) == 0
        whole(terminal)
    assert errors.read_text() == ""


def test_a_storm_of_sizes(tmp_path: Path) -> None:
    with serve_in_thread(vllm(healthy)) as server, start(tmp_path, server.url) as terminal:
        terminal.wait_for("serving")
        for step in range(60):
            terminal.resize(1 + (step * 37) % 200, 1 + (step * 23) % 70)
        terminal.resize(160, 45)
        terminal.wait_for("(?s)VERDICT.*ENGINES.*PROBES.*q quit")
        terminal.settle()
        assert "Traceback" not in terminal.text()
        assert terminal.lines()[-1].startswith(" q quit")
        assert terminal.lines()[0].startswith(" infertop")
        terminal.send("q")
        assert terminal.wait(10) == 0
        whole(terminal)


@pytest.mark.parametrize("term", ["tmux-256color", "screen", "linux"])
def test_other_terminals(term: str, tmp_path: Path) -> None:
    with start(tmp_path, NOBODY, term=term, COLORTERM="") as terminal:
        terminal.wait_for("VERDICT")
        terminal.wait_for("(?i)refused")
        terminal.settle(0.3)
        if term == "linux":
            assert terminal.text().isascii()  # its font has neither dots nor bars
        terminal.send("q")
        assert terminal.wait(10) == 0
        whole(terminal)


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_move_its_cursor(term: str, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    try:
        done = subprocess.run(
            command(NOBODY), env=environment(tmp_path, {"TERM": term}), stdin=slave, stdout=slave,
            stderr=subprocess.PIPE, text=True, timeout=20, check=False,
        )  # fmt: skip
    finally:
        os.close(master)
        os.close(slave)
    assert done.returncode == 2
    assert "infertop once" in done.stderr


def test_no_terminal(tmp_path: Path) -> None:
    ended = run(NOBODY, home=tmp_path)
    assert ended.status == 2
    assert "infertop once" in ended.err
    assert ended.out == ""


@pytest.mark.parametrize("number", [None, signal.SIGTERM], ids=str)
def test_leaving_while_every_source_hangs(
    number: signal.Signals | None, tmp_path: Path, fake_nvml: FakeNvml
) -> None:
    fake_nvml.hang(None, "*")
    with (
        serve_in_thread({"*": NEVER}) as server,
        start(tmp_path, server.url, **fake_nvml.environment()) as terminal,
    ):
        terminal.wait_for("VERDICT")
        terminal.wait_for("stuck in nvml")
        wait_for(lambda: server.requests, 10)
        terminal.send("?")
        terminal.wait_for("HELP")
        began = time.monotonic()
        if number is None:
            terminal.send("q")
        else:
            terminal.signal(number)
        assert terminal.process.wait(10) == 0
        assert time.monotonic() - began < 2.0  # half a second, with four times slack
        terminal.settle()
        whole(terminal)


# ---------------------------------------------------------------------------------------- tmux


class Tmux:
    """A server of its own with one session."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self.env = {**env, "TMUX_TMPDIR": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.env.pop("TMUX", None)
        self.command = ["tmux", "-L", "infertop-test", "-f", "/dev/null"]

    def tell(self, *words: str) -> str:
        done = subprocess.run(
            [*self.command, *words], env=self.env, capture_output=True, text=True, timeout=20, check=True
        )
        return done.stdout.strip()

    def attach(self, columns: int, rows: int) -> Terminal:
        return Terminal([*self.command, "attach"], env=self.env, columns=columns, rows=rows)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here")
    with tempfile.TemporaryDirectory(prefix="t") as home:  # a socket's path must be short
        server = Tmux(Path(home), environment(tmp_path))
        yield server
        subprocess.run([*server.command, "kill-server"], env=server.env, check=False, capture_output=True)


def test_detached_and_attached_by_tmux(tmux: Tmux, tmp_path: Path) -> None:
    script = (
        f"cd {tmp_path}; stty -a > before; {shlex.join(command(NOBODY))}; echo $? > status; stty -a > after; "
        "exec cat"
    )
    tmux.tell("new-session", "-d", "-x", "160", "-y", "46", script)
    with tmux.attach(160, 46) as terminal:
        terminal.wait_for("VERDICT")
        terminal.wait_for("(?i)refused")
        terminal.send("\x02d")
        assert terminal.process.wait(10) == 0
    with tmux.attach(80, 25) as terminal:
        terminal.wait_for("(?s)infertop.*(?i:refused).*q quit")
        tmux.tell("resize-window", "-x", "160", "-y", "46")
        tmux.tell("set-option", "window-size", "latest")
        terminal.resize(130, 41)
        terminal.wait_for("PROBES")
        terminal.send("q")
        status = tmp_path / "status"
        wait_for(lambda: status.exists() and status.read_text(), 10, "the end")
        assert status.read_text() == "0\n"
        modes = "#{alternate_on}#{mouse_any_flag}#{cursor_flag}#{wrap_flag}#{keypad_flag}"
        assert tmux.tell("display-message", "-p", modes) == "00110"
        wait_for(lambda: (tmp_path / "after").exists(), 10)
    before, after = (settings((tmp_path / name).read_text()) for name in ("before", "after"))
    assert before == after


def settings(told: str) -> str:
    """What ``stty -a`` says but for the size, which did change and by which it wraps its lines."""
    return " ".join(re.sub(r"rows \d+; columns \d+;", "", " ".join(told.split())).split())
