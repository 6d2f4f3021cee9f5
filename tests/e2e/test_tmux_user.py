"""Somebody at work in tmux, with each of the terminals that it may pretend to be."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from tests.e2e.test_terminal import healthy
from tests.support.program import command, environment
from tests.support.servers import serve_in_thread, vllm
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BEFORE = "before"
"""The pane's title at first."""


class Pane:
    """A tmux server of its own with one detached session of one pane, in which a command runs.

    Args:
        home: of the program; a short path of the server's own socket is made beside it.
        term: what the program is told to be on.
    """

    def __init__(self, home: Path, sockets: str, term: str) -> None:
        self.status = home / "status"
        self._env = {**environment(home), "TMUX_TMPDIR": sockets, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        self._env.pop("TMUX", None)
        self._home = home
        self._term = term

    def tell(self, *words: str) -> str:
        tmux = ["tmux", "-L", "user", "-f", "/dev/null", *words]
        done = subprocess.run(tmux, env=self._env, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip("\n")

    def run(self, *words: str) -> None:
        titled = f"printf '\\033]2;{BEFORE}\\033\\134'"
        script = (
            f"cd {self._home}; {titled}; {shlex.join(command(*words))}; echo $? > {self.status}; exec cat"
        )
        options = f"set -g default-terminal {self._term} ; set -s set-clipboard on"
        self.tell(*options.split(), ";", "new-session", "-d", "-x", "160", "-y", "46", script)

    def text(self) -> str:
        return self.tell("capture-pane", "-p")

    def shows(self, pattern: str, within_s: float = 20.0) -> re.Match[str]:
        try:
            return wait_for(lambda: re.search(pattern, self.text()), within_s, pattern)
        except AssertionError as error:
            raise AssertionError(f"{error}; the pane was:\n{self.text()}") from None

    def gone(self, pattern: str) -> None:
        wait_for(lambda: not re.search(pattern, self.text()), 10, f"{pattern} to go")

    def press(self, *keys: str) -> None:
        self.tell("send-keys", *keys)

    def about(self, what: str) -> str:
        return self.tell("display-message", "-p", what)


@pytest.fixture
def sockets() -> Iterator[str]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here")
    with tempfile.TemporaryDirectory(prefix="t") as folder:  # a socket's path must be short
        yield folder
        kill = ["tmux", "-L", "user", "kill-server"]
        subprocess.run(
            kill, env={"TMUX_TMPDIR": folder, "PATH": "/usr/bin:/bin"}, check=False, capture_output=True
        )


@pytest.mark.parametrize("term", ["xterm-256color", "tmux-256color", "screen", "linux"])
def test_a_user_at_work(term: str, tmp_path: Path, sockets: str) -> None:
    pane = Pane(tmp_path, sockets, term)
    with serve_in_thread(vllm(healthy, model="日本語-模型-é\u0336")) as server:
        pane.run("--interval", "0.4", "--title", server.url)
        headline = pane.shows(r"([A-Z][A-Z ]{3,}[A-Z]) +vllm :\d+")[1]
        pane.shows("serving")
        look_around(pane)
        resize(pane, framed=term != "linux")
        take_along(pane, tmp_path / "state" / "infertop", term)
        if term == "linux":
            assert pane.text().isascii()
            assert pane.about("#{pane_title}") == BEFORE
        else:
            wait_for(lambda: " on " in pane.about("#{pane_title}"), 10, f"a title beside {headline}")
        pane.press("q")
        wait_for(lambda: pane.status.exists() and pane.status.read_text(), 10, "the end")
    assert pane.status.read_text() == "0\n"
    modes = "#{alternate_on}#{mouse_any_flag}#{cursor_flag}#{wrap_flag}#{keypad_flag}"
    wait_for(lambda: pane.about(modes) == "00110", 10, "the terminal as it was")
    wait_for(lambda: pane.about("#{pane_title}") == BEFORE, 10, "its title as it was")
    assert pane.text().strip() == ""


def look_around(pane: Pane) -> None:
    """Zoom, filter and pause."""
    pane.press("3", "z")
    pane.gone("HOST")
    pane.press("z")
    pane.shows("HOST")
    pane.press("/", "n", "o", "n", "e", "Enter")
    pane.shows("1 of 1 hidden")
    pane.press("Escape")
    pane.gone("hidden")
    pane.press("p")
    pane.shows("PAUSED")
    pane.press("p")
    pane.gone("PAUSED")


def resize(pane: Pane, *, framed: bool) -> None:
    """To a corner and back; with a model whose name is twice as wide as it is long, all borders in line."""
    pane.tell("resize-window", "-x", "60", "-y", "15")
    pane.gone("PROBES")
    pane.shows(r"(?m)^ q quit")
    pane.tell("resize-window", "-x", "160", "-y", "46")
    pane.shows("PROBES")
    if framed:
        pane.shows("日本語-模型-é\u0336")
        aligned(pane)


def aligned(pane: Pane) -> None:
    """Every framed line is as wide as the screen by tmux's own count: it would else have a cell more or less."""
    framed = [line for line in pane.text().splitlines() if line.endswith(("│", "╮", "╯"))]
    assert len(framed) > 40
    assert {cell_len(line) for line in framed} == {160}


def take_along(pane: Pane, state: Path, term: str) -> None:
    """A theme, the verdict and the screen."""
    pane.press("t")
    pane.shows(r"theme high-contrast \(2 of 5\)")
    chosen = state / "screen.json"
    wait_for(lambda: chosen.exists() and json.loads(chosen.read_text()) == {"theme": "high-contrast"}, 10)
    pane.press("y")
    done = "written to" if term == "linux" else "copied, and in"
    pane.shows(f"{done} ~/state/infertop/verdict.txt")
    copied = (state / "verdict.txt").read_text()
    assert re.search(r"confidence (high|medium|low)", copied)
    if term != "linux":
        wait_for(lambda: pane.tell("show-buffer").strip() == copied.strip(), 10, "the clipboard")
    pane.press("s")
    pane.shows("saved ~/state/infertop/screens/")
    saved = sorted(path.suffix for path in (state / "screens").iterdir())
    assert saved == [".svg", ".txt"]
