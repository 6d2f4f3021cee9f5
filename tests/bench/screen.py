"""The live screen at 160x45 beside nvitop: 8 cards and two engines, every figure moving each second."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from tests.bench.moving_host import MovingEngine, MovingHost
from tests.bench.rows import Row
from tests.support.fake_nvml import FakeNvml, build_library
from tests.support.program import command, environment
from tests.support.servers import NEVER, serve_in_thread, vllm
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 60
SETTLE_S = 5
BYTES_BAR_KB, DEFLATED_BAR_KB, QUIET_BAR_KB = 150.0, 35.0, 25.0
MEMORY_BAR_MIB = 75.0
CPU_BAR, BYTES_BAR, SLOW_BYTES_BAR = 1.5, 3.0, 1.0
"""Times nvitop's in the same run."""
PAUSED_BAR = 0.25
"""Of what the moving screen writes, and of its CPU."""
FIRST_FRAME_BAR = 3.0
"""Times ``import textual.app``."""
KEY_BAR_MS = 50.0
TIMES = 5
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


class Cost(NamedTuple):
    """What one program took of a minute."""

    written_kb: float
    deflated_kb: float
    cpu_s: float
    memory_mib: float


def results() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        yield from _first_frames(home)
        yield from _keys(home)
        with _moving(home) as (host, urls):
            yield from _minutes(host, home, urls)


@contextlib.contextmanager
def _moving(home: Path) -> Iterator[tuple[MovingHost, list[str]]]:
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
            yield host, [first.url, second.url]
    finally:
        host.stop()


def _minutes(host: MovingHost, home: Path, urls: list[str]) -> Iterator[Row]:
    environ = environment(home, host.fake.environment())
    peer = [sys.executable, "-m", "nvitop", "--monitor", "full", "--interval", "1"]
    # it loads the driver's library by name, and takes no other
    library = Path(environ["INFERTOP_NVML_LIBRARY"]).parent
    with Terminal(peer, env={**environ, "LD_LIBRARY_PATH": str(library)}) as terminal:
        terminal.wait_for("NVITOP")
        other = _minute(terminal)
    yield from _rows("nvitop", other, bars=False)
    reader = Reader(host)
    with Terminal(command(*urls), env=environ) as terminal:
        terminal.wait_for(r"run\s+wait")
        moving = _minute(terminal, reader)
        drawn = reader.looked
        terminal.send("p")
        terminal.wait_for("PAUSED")
        paused = _minute(terminal)
    slowly = home / "slow.toml"
    slowly.write_text("[screen]\nslow = true\n")
    with Terminal(command("--config", str(slowly), *urls), env=environ) as terminal:
        terminal.wait_for(r"run\s+wait")
        slow = _minute(terminal)
    host.moving = False
    with Terminal(command(*urls), env=environ) as terminal:
        terminal.wait_for(r"run\s+wait")
        quiet = _minute(terminal)
    yield from _rows("moving", moving, bars=True)
    yield Row.at_most("figures checked on screen", reader.checked, f"in {drawn} looks", None)
    yield Row.at_most(f"of them older than {FRESH_S:g} s, or wrong", len(reader.wrong), "", 0)
    for what in reader.wrong[:5]:
        print(f"    {what}")
    yield Row.at_most("CPU over nvitop's", moving.cpu_s / other.cpu_s, "times", CPU_BAR)
    yield Row.at_most("written over nvitop's", moving.written_kb / other.written_kb, "times", BYTES_BAR)
    yield from _rows("--slow", slow, bars=False)
    yield Row.at_most(
        "--slow: written over nvitop's", slow.written_kb / other.written_kb, "times", SLOW_BYTES_BAR
    )
    yield from _rows("paused", paused, bars=False)
    yield Row.at_most(
        "paused: written over moving", paused.written_kb / moving.written_kb, "times", PAUSED_BAR
    )
    yield Row.at_most("paused: CPU over moving", paused.cpu_s / moving.cpu_s, "times", PAUSED_BAR)
    yield Row.at_most("quiet: written", quiet.written_kb, "kB/min", QUIET_BAR_KB)
    yield Row.at_most("quiet: CPU", quiet.cpu_s, "s/min", None)


def _rows(name: str, cost: Cost, *, bars: bool) -> Iterator[Row]:
    written, deflated, memory = (BYTES_BAR_KB, DEFLATED_BAR_KB, MEMORY_BAR_MIB) if bars else (None,) * 3
    yield Row.at_most(f"{name}: written to the terminal", cost.written_kb, "kB/min", written)
    yield Row.at_most(f"{name}: the same, deflated", cost.deflated_kb, "kB/min", deflated)
    yield Row.at_most(f"{name}: CPU", cost.cpu_s, "s/min", None)
    yield Row.at_most(f"{name}: peak memory", cost.memory_mib, "MiB", memory)


def _minute(terminal: Terminal, reader: Reader | None = None) -> Cost:
    """What the program in a terminal takes from now on, its start left out."""
    time.sleep(SETTLE_S)
    process = psutil.Process(terminal.process.pid)
    cpu, written = _cpu_s(process), len(terminal.raw)
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < SECONDS:
        time.sleep(1.0)
        if reader is not None:
            reader.look(terminal.lines())
    cpu = _cpu_s(process) - cpu
    sent = bytes(terminal.raw[written:])
    minute = 60.0 / elapsed
    return Cost(
        len(sent) * minute / 1000,
        len(zlib.compress(sent)) * minute / 1000,
        cpu * minute,
        _peak_mib(process.pid),
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"(?m)^VmHWM:\s+(\d+) kB", status)[0]) / 1024


def _first_frames(home: Path) -> Iterator[Row]:
    """The quickest of some starts: a machine that others use delays the rest."""
    fake = FakeNvml(home / "nvml-first", build_library(home))
    fake.count(8)
    environ = environment(home, fake.environment())
    with serve_in_thread(vllm(MovingEngine(3).reply)) as server:
        frames, verdicts, imports = [], [], []
        for _ in range(TIMES + 1):  # the first one compiles
            began = time.monotonic()
            subprocess.run([sys.executable, "-c", "import textual.app"], env=environ, check=True)
            imports.append(time.monotonic() - began)
            began = time.monotonic()
            with Terminal(command(server.url), env=environ) as terminal:
                _until(terminal, "VERDICT")
                frames.append(time.monotonic() - began)
                _until(terminal, "IDLE|HEALTHY|UNKNOWN")
                verdicts.append(time.monotonic() - began)
    yield Row.at_most("import textual.app", min(imports), "s", None)
    yield Row.at_most("first frame", min(frames), "s", None)
    yield Row.at_most("first frame over that import", min(frames) / min(imports), "times", FIRST_FRAME_BAR)
    yield Row.at_most("first verdict", min(verdicts), "s", None)


def _keys(home: Path) -> Iterator[Row]:
    """From a key to its effect while neither driver nor engine answers."""
    fake = FakeNvml(home / "nvml-hung", build_library(home))
    fake.count(8)
    fake.hang(None, "*")
    took = []
    with (
        serve_in_thread({"*": NEVER}) as server,
        Terminal(command(server.url), env=environment(home, fake.environment())) as terminal,
    ):
        terminal.wait_for("stuck in nvml")
        for _ in range(TIMES):
            for key, shown in (("p", True), ("p", False)):
                began = time.monotonic()
                terminal.send(key)
                _until(terminal, "PAUSED", shown)
                took.append(1000 * (time.monotonic() - began))
    took.sort()
    yield Row.at_most(
        f"key to screen while all hangs, median of {len(took)}", took[len(took) // 2], "ms", KEY_BAR_MS
    )
    yield Row.at_most("the slowest of them", took[-1], "ms", None)


def _until(terminal: Terminal, pattern: str, shown: bool = True) -> None:
    """As ``Terminal.wait_for``, looking more often: what is timed is a few milliseconds."""
    limit = time.monotonic() + 10
    while (re.search(pattern, terminal.text()) is not None) != shown:
        assert time.monotonic() < limit, terminal.text()
        time.sleep(0.002)
