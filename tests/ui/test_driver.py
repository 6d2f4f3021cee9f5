"""The driver in a real pseudo-terminal: less is written, the same is seen, and nothing waits for the terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.terminal import Terminal
from tests.support.waiting import wait_for
from tests.ui import scenes
from tui.ui import driver
from tui.ui.draw import as_text
from tui.ui.driver import CALM_S, SWITCH, WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
STEPS = 30
LAST_CLOCK = "12:25:35"
"""Of the last picture: a second each, 120 before the start and STEPS after it, from 12:23:05."""


@contextmanager
def running(*words: str, stock: bool = False, **env: str) -> Iterator[Terminal]:
    env = {"TZ": "UTC", "PYTHONPATH": str(ROOT), SWITCH: "1" if stock else "0", **env}
    with Terminal([sys.executable, "-m", "tests.ui.feeds", *words], env=env) as terminal:
        yield terminal


def at_rest(terminal: Terminal) -> None:
    terminal.settle(quiet_s=0.4)  # longer than between two looks at the feed


def play(terminal: Terminal) -> Iterator[str]:
    """A session, stopping wherever screens are to be compared."""
    terminal.wait_for("VERDICT")
    terminal.send("\x1b[?2026;2$y")  # what a terminal with synchronized output answers
    terminal.wait_for(LAST_CLOCK)
    at_rest(terminal)
    yield "steady"
    terminal.send("3z")
    terminal.wait_for("-30 min")
    at_rest(terminal)
    yield "zoomed, with plots"
    terminal.send("z")
    terminal.wait_for("PROBES")
    terminal.send("\x10")
    terminal.wait_for("Search")
    at_rest(terminal)
    yield "palette open"
    terminal.send("\x1b")
    wait_for(lambda: "Search" not in terminal.text(), 10)
    at_rest(terminal)
    yield "palette closed"
    terminal.send("t")
    at_rest(terminal)
    yield "light"
    terminal.resize(100, 30)
    at_rest(terminal)
    terminal.resize(130, 50)
    at_rest(terminal)
    yield "resized twice"
    terminal.signal(signal.SIGTSTP)
    terminal.wait_for_stop()
    terminal.signal(signal.SIGCONT)
    terminal.wait_for("VERDICT")
    at_rest(terminal)
    yield "stopped and continued"


def differing(ours: Terminal, stock: Terminal) -> list[tuple[int, int, Any, Any]]:
    """Row, column and both cells, wherever two screens differ."""
    return [
        (y, x, one, other)
        for y, rows in enumerate(zip(ours.cells(), stock.cells(), strict=True))
        for x, (one, other) in enumerate(zip(*rows, strict=True))
        if one != other
    ]


def until_alike(ours: Terminal, stock: Terminal, stage: str) -> None:
    """On a busy machine one of two that seem at rest may have more to paint, and says for a while that it is slow."""
    try:
        wait_for(lambda: not differing(ours, stock), CALM_S + 10)
    except AssertionError:
        raise AssertionError(f"{stage}: {differing(ours, stock)[:5]}") from None


@pytest.mark.timeout(150)
def test_the_same_cells_as_the_stock_driver_for_a_fraction_of_the_bytes() -> None:
    with (
        running("steps", str(STEPS)) as ours,
        running("steps", str(STEPS), stock=True) as stock,
        ThreadPoolExecutor() as both,
    ):
        plays = play(ours), play(stock)
        while any(stages := list(both.map(lambda one: next(one, ""), plays))):
            stage, also = stages
            assert stage == also
            if stage == "stopped and continued":
                stock.send("\x0c")  # stock Textual paints nothing after a stop unless told to
                at_rest(stock)
            until_alike(ours, stock, stage)
        assert len(ours.raw) < len(stock.raw) / 3
        begun, ended = (ours.raw.count(f"\x1b[?2026{mode}".encode()) for mode in "hl")
        assert begun == ended > 0  # the terminal has said that it knows them


def test_an_idle_screen_writes_nothing_and_a_redraw_key_repairs_it() -> None:
    with running("healthy") as terminal:
        terminal.wait_for("VERDICT")
        at_rest(terminal)
        before, written = terminal.cells(), len(terminal.raw)
        terminal.send("\x1b[I")  # something to be awake for: a focus report
        at_rest(terminal)
        assert len(terminal.raw) - written < 100
        with open(os.ttyname(terminal._slave), "wb", buffering=0) as other:
            other.write(b"\x1b[HBroadcast message from root@gpu-07")
        terminal.wait_for("Broadcast message")
        terminal.send("\x0c")
        wait_for(lambda: terminal.cells() == before, 10)


def test_no_colour_at_all() -> None:
    with running("kv_cache", NO_COLOR="1") as terminal:
        terminal.wait_for("KV CACHE FULL")
        at_rest(terminal)
        terminal.send("\x10")
        terminal.wait_for("Search")
        at_rest(terminal)
        looks = {(cell.fg, cell.bg) for row in terminal.cells() for cell in row}
        assert looks == {("default", "default")}
        terminal.send("\x1b")
        wait_for(lambda: any(cell.reverse for row in terminal.cells() for cell in row), 10)


def test_no_character_beyond_ascii_even_in_the_palette() -> None:
    with running("wide", "0", "dark", "ascii") as terminal:
        terminal.wait_for("HEALTHY")
        terminal.send("\x10")
        terminal.wait_for("Search")
        terminal.send("日")
        terminal.wait_for(r"\?\?")
        at_rest(terminal)
        assert bytes(terminal.raw).isascii()
        assert "infertop  ???" in terminal.text()


def test_bytes_that_are_no_text_are_no_end() -> None:
    with running("kv_cache") as terminal:
        terminal.wait_for("KV CACHE FULL")
        terminal.send(b"\x1b[200~\x80 q\xff\x1b[201~\xe9p")
        terminal.wait_for("PAUSED")


def test_a_terminal_of_256_colours() -> None:
    with running("kv_cache", COLORTERM="") as terminal:
        terminal.wait_for("KV CACHE FULL")
        at_rest(terminal)
        assert b"38;2;" not in terminal.raw
        assert b"38;5;" in terminal.raw


def test_a_terminal_of_sixteen_colours() -> None:
    with running("kv_cache", TERM="xterm", COLORTERM="") as terminal:
        terminal.wait_for("KV CACHE FULL")
        at_rest(terminal)
        assert not re.search(rb"[34]8;[25];", terminal.raw)
        y, line = next((y, line) for y, line in enumerate(terminal.lines()) if "KV CACHE FULL" in line)
        badge = terminal.cells()[y][line.index("KV CACHE")]
        assert (badge.fg, badge.bg, badge.bold) == ("brightwhite", "red", True)
        looks = {(cell.fg, cell.bg) for row in terminal.cells() for cell in row if cell.data.strip()}
        assert {("brightred", "black"), ("brightgreen", "black"), ("white", "black")} & looks
        assert all(fg != bg for fg, bg in looks)


def cpu_s(terminal: Terminal) -> float:
    """CPU seconds that the program has used."""
    fields = Path(f"/proc/{terminal.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def blocked() -> Iterator[Terminal]:
    """The screen on a terminal that takes nothing, and several frames later."""
    with running("hasty") as terminal:
        terminal.wait_for("VERDICT")
        terminal.hold()
        before = cpu_s(terminal)
        wait_for(lambda: cpu_s(terminal) > before + 0.05, 20)
        yield terminal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_that_takes_nothing_does_not_keep_it_from_leaving(number: signal.Signals) -> None:
    with blocked() as terminal:
        terminal.signal(number)
        assert terminal.process.wait(10) is not None


def test_a_terminal_that_recovers_is_brought_up_to_date() -> None:
    with blocked() as terminal:
        clock = terminal.wait_for(r"\d\d:\d\d:\d\d")[0]
        terminal.release()
        wait_for(lambda: terminal.wait_for(r"\d\d:\d\d:\d\d")[0] > clock, 10)
        assert terminal.text().count("VERDICT") == 1


def test_a_terminal_that_takes_long_is_said_and_gets_fewer_frames() -> None:
    with blocked() as terminal:
        began = time.monotonic()
        wait_for(lambda: time.monotonic() > began + WAIT_S, 10, "a write that waits")
        terminal.release()
        terminal.wait_for("slow link")
        clock = terminal.wait_for(r"\d\d:\d\d:\d\d")[0]
        terminal.settle(1.0)  # a picture comes each 0.1 s, a frame each 5 s
        assert terminal.wait_for(r"\d\d:\d\d:\d\d")[0] == clock


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_a_link_is_slow_while_writes_wait_and_for_a_while_after(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(driver, "time", clock)
    outlet = driver._Outlet(-1)
    seen: list[bool] = []

    def write(fileno: int, data: bytes) -> int:
        seen.append(outlet.slow)
        clock.now += float(data)
        seen.append(outlet.slow)
        return len(data)

    monkeypatch.setattr(os, "write", write)
    for seconds in (0.01, 2 * WAIT_S):
        outlet.write(str(seconds))
        outlet.flush()
        seen.append(outlet.slow)
    assert seen == [False, False, False, False, True, True]
    clock.now += driver.CALM_S - 1
    assert outlet.slow
    clock.now += 2
    assert not outlet.slow


def test_an_asked_for_slow_screen_says_so() -> None:
    assert "slow link" in as_text(scenes.calm_view(slow=True), 160, 45).splitlines()[0]
