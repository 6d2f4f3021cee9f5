"""Simulated engines that tests start, watch and end; nothing here signals what it did not start."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.demo.clients import ask
from tui.demo.spec import EngineSpec
from tui.demo.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


def process_state(pid: int) -> str | None:
    """The kernel's letter for a process, None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()[0]


def lives(pid: int) -> bool:
    """Whether a process runs or is stopped; a zombie is dead."""
    return process_state(pid) not in (None, "Z", "X")


async def until(condition: Callable[[], bool], within_s: float = 20.0) -> float:
    """Wait for a condition; how long it took."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < within_s, f"not within {within_s} s"
        await asyncio.sleep(0.01)
    return time.monotonic() - began_s


async def until_ready(url: str, within_s: float = 30.0) -> float:
    """Wait until models and readiness answer 200; the moment at which they did."""
    ends_s = time.monotonic() + within_s
    while time.monotonic() < ends_s:
        if (await ask(url, "/v1/models", timeout_s=1.0)).result in ("200", "401") and (
            await ask(url, "/ping", timeout_s=1.0)
        ).result == "200":
            return time.monotonic()
        await asyncio.sleep(0.01)
    raise AssertionError(f"{url} not ready within {within_s} s")


class Running:
    """An engine under a supervisor in this process, and what it said."""

    def __init__(self, supervisor: Supervisor, log: Path, events: list[str]) -> None:
        self.supervisor = supervisor
        self.log_path = log
        self.events = events
        self.ready_s = 0.0
        self.exit_s: float | None = None
        self.pids: dict[str, int] = {}

    @property
    def url(self) -> str:
        return self.supervisor.url

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    @property
    def exit(self) -> str | None:
        """``rc=N`` once the API server has ended."""
        for line in self.events:
            if line.startswith("exited"):
                word = line.split()[-1]
                return word.replace("code=", "rc=") if word.startswith("code") else f"rc=-{word[7:]}"
        return None


@contextlib.asynccontextmanager
async def running(
    log: Path, *, under_shell: bool = False, wait: bool = True, **settings: Any
) -> AsyncIterator[Running]:
    """Start an engine with some settings, end it and everything below it afterwards."""
    events: list[str] = []
    handle: list[Running] = []

    def on_event(line: str) -> None:
        events.append(line)
        if line.startswith("exited") and handle:
            handle[0].exit_s = time.monotonic()

    spec = EngineSpec(**{"port": 0, "load_s": 0.0, **settings})
    with log.open("wb") as file:
        supervisor = Supervisor(spec, under_shell=under_shell, log=file.fileno(), on_event=on_event)
        engine = Running(supervisor, log, events)
        handle.append(engine)
        try:
            await supervisor.start()
            if wait:
                engine.ready_s = await until_ready(engine.url)
                expected = 3 if spec.dialect == "sglang" else 2 + spec.tensor_parallel_size
                await until(lambda: len(supervisor.pids) >= expected)
                engine.pids = supervisor.pids
                # SGLang's warm-up request is over: what runs from here on is the test's
                await until(lambda: supervisor.load.phase == "serving" and supervisor.load.running == 0)
            yield engine
        finally:
            await supervisor.stop()
