"""The mouse in a pseudo-terminal, by the bytes that a terminal sends: it works, and is never needed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.terminal import Terminal
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
LEFT, WHEEL_DOWN, WHEEL_UP = 0, 65, 64


class Hand:
    """A mouse over a terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def at(self, text: str) -> tuple[int, int] | None:
        """Column and line, from 1, of the first character of a text; None while it is not on screen."""
        lines = enumerate(self.terminal.lines(), 1)
        return next(((line.index(text) + 1, y) for y, line in lines if text in line), None)

    def find(self, text: str) -> tuple[int, int]:
        """As ``at``, once it is on screen."""
        return wait_for(lambda: self.at(text), 30, f"{text!r} on screen")

    def press(self, x: int, y: int, times: int = 1) -> None:
        # in one write: however busy the machine is, two of them are a double click
        self.terminal.send(f"\x1b[<{LEFT};{x};{y}M\x1b[<{LEFT};{x};{y}m" * times)

    def click(self, text: str, times: int = 1) -> None:
        self.press(*self.find(text), times)

    def wheel(self, text: str, button: int, times: int = 1) -> None:
        x, y = self.find(text)
        self.terminal.send(f"\x1b[<{button};{x};{y}M" * times)


@pytest.fixture
def hand() -> Iterator[Hand]:
    command = [sys.executable, "-m", "tests.ui.feeds", "crowded"]
    env = {"TZ": "UTC", "PYTHONPATH": str(ROOT)}
    with Terminal(command, columns=160, rows=30, env=env) as terminal:
        terminal.wait_for("5 PROBES")
        yield Hand(terminal)
        terminal.send("q")
        assert terminal.wait(30) == 0, terminal.text()


def test_panes_rows_and_the_wheel(hand: Hand) -> None:
    terminal = hand.terminal
    hand.click("GPUs")
    terminal.wait_for("▸ 2 GPUs")
    hand.wheel("GPUs", WHEEL_DOWN)
    terminal.wait_for(r"3 above")
    hand.wheel("GPUs", WHEEL_UP)
    terminal.wait_for(r"│ \+\d+ more")
    hand.click("ENGINES", times=2)
    terminal.wait_for("ttft95")
    hand.wheel("ttft95", WHEEL_DOWN, times=3)
    wait_for(lambda: "ttft95" not in terminal.text(), 30, "the zoomed pane to scroll")


def test_keys_badge_and_palette(hand: Hand) -> None:
    terminal = hand.terminal
    hand.click("KV CACHE FULL")
    terminal.wait_for("every rule")
    hand.click("z back")
    terminal.wait_for("5 PROBES")
    hand.click("^p")
    terminal.wait_for("Search for commands")
    terminal.send("freeze")

    def paused() -> bool:
        """The list is made anew with each letter: it is clicked once only what was wanted is left in it."""
        text = terminal.text()
        alone = " freeze" in text and len(re.findall(r"(?m)^\W*key \S", text)) == 1
        if alone and (place := hand.at("Freeze the picture")):
            hand.press(*place)
        return "PAUSED" in terminal.text()

    wait_for(paused, 30, "the picture to be frozen")
