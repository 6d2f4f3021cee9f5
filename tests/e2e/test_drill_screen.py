"""A drain test from the key to its report, in a pseudo-terminal, against a simulated engine that is real."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import TYPE_CHECKING

from tests.actions.simulated import simulated
from tests.support.program import command, environment
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path


def screen(home: Path, url: str, *words: str, columns: int = 100, rows: int = 30) -> Terminal:
    env = environment(home, {"TZ": "UTC"})
    return Terminal(command(url, *words), env=env, columns=columns, rows=rows)


async def test_a_test_outlives_its_screen_and_the_next_one_shows_its_end(tmp_path: Path) -> None:
    async with simulated(sigterm="drain-refused", decode_step_s=0.01) as engine:
        port = engine.url.rpartition(":")[2]
        with screen(tmp_path, engine.url, "--allow-actions") as terminal:
            await _seen(terminal, rf"IDLE +vllm :{port}")
            terminal.send("d")
            await _seen(terminal, rf"(?s)DRAIN TEST.*SIGTERM to pid {engine.pids['api']}.*type vllm:{port}:")
            terminal.send(f"vllm:{port}")
            await _seen(terminal, rf"type vllm:{port}: vllm:{port}")
            terminal.send("\r")
            await _seen(terminal, r"nothing was sent to it yet|grace ")
            terminal.send("\x1b")
            await _seen(terminal, r"drain test running.*d: show")
            terminal.signal(signal.SIGKILL)
            terminal.process.wait(10)
        with screen(tmp_path, engine.url, "--read-only") as terminal:
            await _seen(terminal, r"(?s)DRAIN TEST vllm:\d+.*ours 8 ")
            terminal.send("c")
            await _seen(terminal, "not cancelled: --read-only acts on nothing")
            await _seen(terminal, r"(?s)PASSED.*8/8 requests finished, exit after")
            terminal.send("q")
            assert terminal.wait(10) == 0
            assert terminal.modes_left() == set()
    (report,) = (tmp_path / "state" / "infertop" / "tests").glob("*.json")
    assert json.loads(report.read_text())["passed"] is True
    assert report.with_suffix(".md").read_text().startswith(f"# Drain test of vllm:{port}: passed")


async def _seen(terminal: Terminal, pattern: str) -> None:
    """While the engine's supervisor, on this loop, goes on."""
    await asyncio.to_thread(terminal.wait_for, pattern, 40.0)
