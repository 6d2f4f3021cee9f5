"""The real program in a pseudo-terminal: what a person sees, and what it leaves behind."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.program import command, environment
from tests.support.servers import NEVER, Reply, drip, endless, serve_in_thread, vllm
from tests.support.terminal import Terminal
from tests.support.vllm_text import Rank, exposition
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.support.fake_nvml import FakeNvml

pytest_plugins = ("tests.support.nvml_plugin",)

ALTERNATE_SCREEN = b"\x1b[?1049h"
EVERY_S = 0.4
"""Between two refreshes here, so that a test need not wait for seconds of which nothing happens."""


def start(
    home: Path, *words: str, env: dict[str, str] | None = None, columns: int = 160, rows: int = 45
) -> Terminal:
    quick = command("--interval", str(EVERY_S), *words)
    return Terminal(quick, env=environment(home, env), columns=columns, rows=rows)


def healthy(running: float = 3) -> Reply:
    """Counters that move with time: a live engine."""
    t = time.monotonic()
    return Reply(
        200, exposition(Rank(running=running, steps=50 * t, generated=200 * t, prompt=80 * t, stop=5 * t))
    )


WAYS_OUT: dict[str, str | signal.Signals] = {
    "q": "q",
    "ctrl+c": "\x03",
    "SIGINT": signal.SIGINT,
    "SIGTERM": signal.SIGTERM,
    "SIGHUP": signal.SIGHUP,
    "SIGQUIT": signal.SIGQUIT,
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_every_way_out_leaves_the_terminal_whole(way: str, tmp_path: Path) -> None:
    with serve_in_thread(vllm(healthy)) as server, start(tmp_path, server.url) as terminal:
        terminal.wait_for("VERDICT")
        terminal.wait_for("serving")
        assert ALTERNATE_SCREEN in terminal.raw
        action = WAYS_OUT[way]
        if isinstance(action, str):
            terminal.send(action)
        else:
            terminal.signal(action)
        status = terminal.wait(10)
        assert status == 0
        assert terminal.modes_left() == set()
        assert not terminal.tty_changed()
        assert "Traceback" not in terminal.text()


@pytest.mark.parametrize("stop", [signal.SIGSTOP, None], ids=["stopped before", "never stopped"])
def test_sigcont_does_not_take_the_terminal_twice(stop: signal.Signals | None, tmp_path: Path) -> None:
    """``timeout``, systemd and shells send it to programs that nobody stopped."""
    with serve_in_thread(vllm(healthy)) as server, start(tmp_path, server.url) as terminal:
        terminal.wait_for("serving")
        status = Path(f"/proc/{terminal.process.pid}/status")
        if stop is not None:
            terminal.signal(stop)
            wait_for(lambda: "State:\tT" in status.read_text(), 10, "the stop")
        drawn = len(terminal.raw)
        terminal.signal(signal.SIGCONT)
        wait_for(lambda: b"VERDICT" in terminal.raw[drawn:], 10, "the whole screen again")
        assert ALTERNATE_SCREEN not in terminal.raw[drawn:]
        terminal.send("q")
        assert terminal.wait(10) == 0
        assert terminal.modes_left() == set()
        assert not terminal.tty_changed()


def test_leaving_does_not_wait_for_what_hangs(tmp_path: Path) -> None:
    with serve_in_thread({"*": NEVER}) as server, start(tmp_path, server.url) as terminal:
        terminal.wait_for("VERDICT")
        wait_for(lambda: server.requests, 10)
        began = time.monotonic()
        terminal.send("q")
        terminal.wait(10)
        assert time.monotonic() - began < 4.0  # a second, with four times slack
        assert terminal.modes_left() == set()


def test_keys(tmp_path: Path) -> None:
    with serve_in_thread(vllm(healthy)) as server, start(tmp_path, server.url) as terminal:
        terminal.wait_for("PROBES")
        terminal.send("?")
        terminal.wait_for("HELP")
        terminal.send("\x1b")
        # else the next key and this escape would be one key; the help may have been half drawn
        wait_for(lambda: "HELP" not in terminal.text(), 10, "all panes")
        terminal.send("p")
        terminal.wait_for("PAUSED")
        terminal.send("p")
        wait_for(lambda: "PAUSED" not in terminal.text(), 10)
        terminal.send("3z")
        wait_for(
            lambda: "HOST" not in terminal.text() and "ENGINES" in terminal.text(), 10, "the zoomed pane"
        )
        terminal.send("z")
        terminal.wait_for("HOST")
        terminal.send("v")
        wait_for(lambda: "PROBES" not in terminal.text(), 10, "the reasons")
        terminal.settle()
        terminal.send("\x1b")
        terminal.wait_for("PROBES")
        terminal.send("\x10")  # ctrl+p
        terminal.wait_for(r"(?i)search")
        terminal.send("\x1b")
        wait_for(lambda: "earch" not in terminal.text(), 10, "the palette to go")
        terminal.send("q")
        assert terminal.wait(10) == 0


@pytest.mark.parametrize("size", [(200, 60), (120, 40), (80, 24), (60, 15), (40, 12)])
def test_something_useful_at_every_size(size: tuple[int, int], tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """Whatever the verdict is on this machine: it names the engine, on a screen that fits and stays whole."""
    columns, rows = size
    headline = r"(?m)^.{0,4}[A-Z][A-Z ]+ +vllm :\d+"
    with serve_in_thread(vllm(healthy)) as server:
        env = fake_nvml.environment()
        with start(tmp_path, server.url, env=env, columns=columns, rows=rows) as terminal:
            terminal.wait_for(headline)
            terminal.resize(160, 45)
            terminal.wait_for("PROBES")
            terminal.resize(columns, rows)
            terminal.settle()
            terminal.wait_for(headline)
            terminal.wait_for(r"(?m)^ ?q quit")
            terminal.send("q")
            assert terminal.wait(10) == 0
            assert "Traceback" not in terminal.text()


def test_eight_gpus_on_screen(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    for card in range(8):
        fake_nvml.set(card, "util_gpu", 11 + 10 * card)
    with start(tmp_path, env=fake_nvml.environment()) as terminal:
        for card in range(8):
            terminal.wait_for(rf"(?m)^.? *{card} .*\b{11 + 10 * card}\b")


TROUBLES = [
    ({"/metrics": Reply(401, "no")}, r"401|unauthori[sz]ed|token"),
    ({"/metrics": Reply(200, "<html><title>nginx</title>", "text/html")}, r"(?i)html|not metrics|no metrics"),
    ({"/metrics": endless(200_000_000)}, r"(?i)too large"),
    ({"/metrics": drip()}, r"(?i)no answer|timed? ?out"),
    ({"*": NEVER}, r"(?i)no answer|timed? ?out"),
    (None, r"(?i)refused"),
]


@pytest.mark.parametrize(("routes", "said"), TROUBLES, ids=["401", "html", "200 MB", "drip", "never", "dead"])
def test_a_broken_engine_is_named_and_the_other_keeps_its_cadence(
    routes: dict[str, object] | None, said: str, tmp_path: Path
) -> None:
    whole: dict[str, object] = {} if routes and "*" in routes else dict(vllm(""))
    with serve_in_thread(vllm(healthy)) as well, serve_in_thread(whole) as ill:  # type: ignore[arg-type]
        ill.routes.update(routes or {})  # type: ignore[arg-type]
        url = ill.url if routes is not None else "http://127.0.0.1:9"
        with start(tmp_path, url, well.url) as terminal:
            terminal.wait_for(said, 30)
            before = well.count("/metrics")
            began = time.monotonic()
            wait_for(lambda: well.count("/metrics") >= before + 5, 30)
            assert time.monotonic() - began < 4 * 5 * EVERY_S
            terminal.send("q")
            assert terminal.wait(10) == 0


def test_hostile_names_reach_the_screen_as_text(tmp_path: Path) -> None:
    name = "[red]evil[/x]\x1b[2J\x1b]0;owned\x07[/"
    with serve_in_thread(vllm(healthy, model=name)) as server, start(tmp_path, server.url) as terminal:
        terminal.wait_for(r"\[red\]evil\[/x\]")
        assert b"owned" not in terminal.raw
        terminal.send("q")
        assert terminal.wait(10) == 0


def test_an_engine_that_goes_and_comes_back(tmp_path: Path) -> None:
    with serve_in_thread(vllm(healthy)) as server, start(tmp_path, server.url) as terminal:
        terminal.wait_for("serving")
        server.go_away()
        terminal.wait_for("ENGINE DOWN", 10)
        server.come_back()
        wait_for(
            lambda: "DOWN" not in terminal.text() and "serving" in terminal.text(), 20, "the engine again"
        )
        terminal.send("q")
        assert terminal.wait(10) == 0


def test_nothing_is_written_to_stderr_and_no_colour_is_honoured(tmp_path: Path) -> None:
    with start(tmp_path, "http://127.0.0.1:9", env={"NO_COLOR": "1"}) as terminal:
        terminal.wait_for(r"(?i)refused")
        terminal.send("q")
        assert terminal.wait(10) == 0
        assert not re.search(rb"\x1b\[[0-9;]*(38|48);[25];", terminal.raw)
