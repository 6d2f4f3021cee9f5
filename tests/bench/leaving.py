"""Leaving while every call into NVML hangs and no engine answers: from the key to the end of the process."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.rows import Row
from tests.support.fake_nvml import FakeNvml, build_library
from tests.support.program import command, environment
from tests.support.servers import NEVER, serve_in_thread
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMES = 5
LEAVE_BAR_S = 0.5
"""For the quickest of some: a machine that others use delays the rest."""


def results() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        fake = FakeNvml(home / "nvml-state", build_library(home))
        fake.count(8)
        fake.hang(None, "*")
        for name, way in (("q", "q"), ("SIGTERM", signal.SIGTERM), ("SIGHUP", signal.SIGHUP)):
            took = sorted(_leave(home, fake, way) for _ in range(TIMES))
            yield Row.at_most(f"{name}, the quickest of {TIMES}", took[0], "s", LEAVE_BAR_S)
            yield Row.at_most(f"{name}, the slowest", took[-1], "s", None)


def _leave(home: Path, fake: FakeNvml, way: str | signal.Signals) -> float:
    env = environment(home, fake.environment())
    with serve_in_thread({"*": NEVER}) as server, Terminal(command(server.url), env=env) as terminal:
        terminal.wait_for("stuck in nvml")
        began = time.monotonic()
        if isinstance(way, str):
            terminal.send(way)
        else:
            terminal.signal(way)
        terminal.process.wait(10)
        return time.monotonic() - began
