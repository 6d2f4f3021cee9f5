"""The live screen at 160x45: 8 cards and two engines, every figure moving each second, default flags."""

from __future__ import annotations

import re
import tempfile
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tests.bench.moving_host import MovingEngine, MovingHost
from tests.bench.rows import Row
from tests.support.fake_nvml import FakeNvml, build_library
from tests.support.program import command, environment
from tests.support.servers import serve_in_thread, vllm
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 60
SETTLE_S = 5
BYTES_BAR_KB = 1000.0
CPU_BAR_S = 3.0
FRESH_S = 2.0
"""How old a value may be that the screen shows."""


@dataclass
class Reader:
    """Figures read off the emulated screen, held against what their source had."""

    host: MovingHost
    looked: int = 0
    checked: int = 0
    wrong: list[str] = field(default_factory=list)

    def look(self, lines: list[str]) -> None:
        now = time.monotonic()
        self.looked += 1
        self._cards(lines, now - FRESH_S)
        self._engines(lines, now - FRESH_S)

    def _cards(self, lines: list[str], since: float) -> None:
        at, heads = _heads(lines, r"#\s+GPU\s")
        picks: dict[str, Callable[[dict[str, int]], float]] = {
            "SM%": lambda v: v["util_gpu"],
            "°C": lambda v: v["temp_c"],
        }
        for card in range(8):
            row = next((line for line in lines[at : at + 12] if re.match(rf"\W*{card} +\w", line)), None)
            if row is None:
                self.wrong.append(f"card {card} is not on the screen")
                continue
            for head, pick in picks.items():
                shown = self.host.shown_since(since, self.host.cards)
                allowed = {f"{pick(values[card]):.0f}" for values in shown}
                self._check(f"card {card} {head}", _figure(row, heads[head]), allowed)

    def _engines(self, lines: list[str], since: float) -> None:
        at, heads = _heads(lines, r"engine\s+state\s+run\s")
        for number, engine in enumerate(self.host.engines):
            # the most urgent engine stands first: rows change places
            row = next((line for line in lines[at + 1 : at + 4] if f":{engine.port} " in line), None)
            if row is None:
                self.wrong.append(f"engine {number} is not on the screen")
                continue
            for head, name, scale in (("run", "running", 1), ("wait", "waiting", 1), ("kv%", "kv", 100)):
                shown = self.host.shown_since(since, engine.shown)
                allowed = {f"{values[name] * scale:.0f}" for values in shown}
                self._check(f"engine {number} {head}", _figure(row, heads[head]), allowed)

    def _check(self, what: str, shown: str, allowed: set[str]) -> None:
        self.checked += 1
        if shown not in allowed:
            self.wrong.append(f"{what}: {shown!r} shown, {sorted(allowed)} in the last {FRESH_S:g} s")


def _heads(lines: list[str], pattern: str) -> tuple[int, dict[str, int]]:
    """Where a table's headings stand: the line, and the column in which each ends."""
    for at, line in enumerate(lines):
        if found := re.search(pattern, line):
            return at, {m[0]: m.end() for m in re.finditer(r"\S+", line) if m.start() >= found.start()}
    return 0, {"SM%": 0, "°C": 0, "run": 0, "wait": 0, "kv%": 0}


def _figure(row: str, end: int) -> str:
    """The word that ends in a column."""
    return row[:end].split(" ")[-1]


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def results() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        fake = FakeNvml(home / "nvml-state", build_library(home))
        fake.count(8)
        engines = [MovingEngine(1), MovingEngine(2)]
        host = MovingHost(fake, engines)
        host.start()
        try:
            with (
                serve_in_thread(vllm(engines[0].reply)) as first,
                serve_in_thread(vllm(engines[1].reply)) as second,
            ):
                for engine, server in zip(engines, (first, second), strict=True):
                    engine.port = server.port
                yield from _measure(host, home, [first.url, second.url])
        finally:
            host.stop()


def _measure(host: MovingHost, home: Path, urls: list[str]) -> Iterator[Row]:
    started = time.monotonic()
    environ = environment(home, host.fake.environment())
    with Terminal(command(*urls), env=environ, columns=160, rows=45) as terminal:
        terminal.wait_for("VERDICT")
        first_frame = time.monotonic() - started
        terminal.wait_for(r"run\s+wait")
        time.sleep(SETTLE_S)
        reader = Reader(host)
        process = psutil.Process(terminal.process.pid)
        cpu, written = _cpu_s(process), len(terminal.raw)
        began = time.monotonic()
        while time.monotonic() - began < SECONDS:
            time.sleep(1.0)
            reader.look(terminal.lines())
        elapsed = time.monotonic() - began
        minute = 60.0 / elapsed
        cpu = (_cpu_s(process) - cpu) * minute
        sent = bytes(terminal.raw[written:])
        memory = process.memory_info().rss / 2**20
        terminal.send("q")
        terminal.wait(10)
    yield Row.at_most("written to the terminal", len(sent) * minute / 1000, "kB/min", BYTES_BAR_KB)
    yield Row.at_most("the same, deflated", len(zlib.compress(sent)) * minute / 1000, "kB/min", None)
    yield Row.at_most("CPU", cpu, "s/min", CPU_BAR_S)
    yield Row.at_most("resident memory", memory, "MiB", None)
    yield Row.at_most("first frame", first_frame, "s", None)
    yield Row.at_most("figures checked on screen", reader.checked, "", None)
    yield Row.at_most(f"of them older than {FRESH_S:g} s, or wrong", len(reader.wrong), "", 0)
    for what in reader.wrong[:5]:
        print(f"    {what}")
