"""The whole live way to one verdict: a simulated engine, a fake NVML, this machine, and the real program."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import program
from tests.support.fake_nvml import MIB
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.fake_nvml import FakeNvml

Json = dict[str, Any]
READY_S = 30.0
LOOKS_S = 45.0
"""One look of a few seconds may fall into a pause of the machine, or of the traffic."""

PATIENCE_S = 20.0
LIMIT_S = 120
"""Of a whole test: an engine that starts, its looks, its end."""


@dataclass
class Engine:
    """A child ``infertop demo --serve`` that takes orders."""

    url: str
    pid: int
    control: Path
    log: Path

    def order(self, do: str, **values: Any) -> None:
        """Carried out within a tenth of a second."""
        with self.control.open("a") as file:
            file.write(json.dumps({"do": do, **values}) + "\n")

    def metrics(self) -> str:
        """Its exposition; empty while it answers none."""
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as answer:
                return str(answer.read(), "utf-8")
        except (OSError, urllib.error.HTTPError):
            return ""

    def status(self, path: str) -> int:
        """Of an answer to GET; 0 where there is none."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def metric(self, name: str) -> float:
        """Sum of a metric's series; 0 where it has none."""
        rows = re.findall(rf"(?m)^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", self.metrics())
        return sum(map(float, rows))

    def until(self, name: str, least: float) -> None:
        """Wait until a metric is that great."""
        wait_for(lambda: self.metric(name) >= least, READY_S, f"{name} >= {least:g}")


@contextlib.contextmanager
def simulated(home: Path, *words: str, ready: bool = True, **settings: float) -> Iterator[Engine]:
    """An engine under its own supervisor, ended by closing it as a user would.

    Args:
        home: where its control file and its log go.
        words: options of ``infertop demo --serve``.
        ready: wait until it serves.
        settings: of the engine, as ``--set``.
    """
    control, log = home / "control", home / "engine.log"
    given = [f"--set={name}={json.dumps(value)}" for name, value in settings.items()]
    load = [] if "--load-seconds" in words else ["--load-seconds", "0"]
    command = program.command("demo", "--serve", "--control", str(control), *load, *words, *given)
    with log.open("wb") as errors:
        child = subprocess.Popen(
            command, cwd=home, env=program.environment(home), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert child.stdout is not None
    try:
        url, pid = child.stdout.readline().split()
        engine = Engine(url, int(pid.removeprefix("pid=")), control, log)
        if ready:
            wait_for(lambda: engine.metrics(), READY_S, "the engine")
        yield engine
    finally:
        child.terminate()
        child.stdout.close()
        child.wait(20)


@contextlib.contextmanager
def served(home: Path, *wrong: str, model: str = "tiny-llama") -> Iterator[str]:
    """The URL of a server of our own (``served.py``), once what is wrong with it has begun."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    script = home / "bin" / "vllm"
    script.parent.mkdir(exist_ok=True)
    script.write_text("from tests.verdict_live.served import main\nmain()\n")
    words = [sys.executable, str(script), "serve", model, "--port", str(port), "--wrong", *wrong]
    child = subprocess.Popen(
        words, env=program.environment(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"ready\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait(10)


def lives(pid: int) -> bool:
    """Whether a process runs or is stopped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def working(nvml: FakeNvml, cards: int = 1, **fields: int) -> None:
    """Cards with real work on them, so that nothing but what a test adds looks wrong."""
    with nvml.together():
        nvml.count(cards)
        for card in range(cards):
            put(nvml, card, **{**BUSY, **fields})


BUSY: dict[str, int] = {
    "util_gpu": 96, "util_mem": 62, "power_mw": 520_000, "temp_c": 62, "clock_sm": 1935, "reasons": 0,
    "gpm_2": 85, "gpm_5": 40, "gpm_10": 60,
}  # fmt: skip
"""Full by NVML's word, so that a core which others keep full is not what the device waits for."""
WAITS: dict[str, int] = {
    "util_gpu": 20, "util_mem": 8, "power_mw": 190_000, "temp_c": 45, "clock_sm": 1935, "reasons": 0,
    "gpm_2": 15, "gpm_5": 3, "gpm_10": 8,
}  # fmt: skip


def put(nvml: FakeNvml, card: int, **fields: int) -> None:
    """Set some fields of one card, in NVML's units."""
    for name, value in fields.items():
        nvml.set(card, name, value)


def free_mib(nvml: FakeNvml, card: int, mib: int) -> None:
    nvml.set(card, "mem_free", mib * MIB)


def once(home: Path, nvml: FakeNvml, url: str, *words: str) -> Json:
    """What ``once --json`` says of one engine: the whole document."""
    env = nvml.environment()
    ended = program.run("once", "--json", url, *words, home=home, env=env)
    assert ended.err == ""
    document: Json = ended.json()
    names = {v["verdict"] for v in document["verdicts"]}
    sick = names - {"healthy", "idle", "unknown"}
    assert ended.status == (1 if sick else 2 if "unknown" in names else 0)
    return document


def verdict(document: Json, scope: str) -> Json:
    """The verdict of a scope."""
    return next(v for v in document["verdicts"] if v["scope"] == scope)


def judged(
    home: Path,
    nvml: FakeNvml,
    url: str,
    expected: str,
    *words: str,
    confidence: tuple[str, ...] = ("high", "medium", "low"),
    saying: tuple[str, ...] = (),
    samples: int = 3,
    interval: float = 0.5,
    unless: Callable[[Json], str] = lambda _: "",
) -> tuple[Json, Json]:
    """The engine's verdict, once it is the expected one, and the document it stands in.

    Each look is one moment of an engine, of its traffic and of a machine that others use as well; what a test
    wants of a verdict has to hold at one and the same moment, so it is asked for here.

    Args:
        home: of the program's settings and state.
        nvml: its devices.
        url: the engine.
        expected: what it has to be called in one of the looks of ``LOOKS_S``.
        words: further options of ``once``.
        confidence: what it may be called with.
        saying: what has to be among its evidence, each in one of its texts.
        samples: of each look.
        interval: seconds between them.
        unless: says, from a document of after ``PATIENCE_S``, why this machine cannot show it; empty where it can.
    """
    began = time.monotonic()
    while True:
        document = once(home, nvml, url, "--samples", str(samples), "--interval", str(interval), *words)
        found = verdict(document, url)
        right = found["verdict"] == expected and found["confidence"] in confidence
        if right and all(any(part in e["text"] for e in found["evidence"]) for part in saying):
            return found, document
        took = time.monotonic() - began
        if took > PATIENCE_S and (reason := unless(document)):
            pytest.skip(reason)
        if took > LOOKS_S:
            wanted = f"{expected} ({' or '.join(confidence)}; {', '.join(saying)})"
            raise AssertionError(f"{wanted} expected: {json.dumps(found, indent=1)}")


def texts(found: Json) -> str:
    """Its evidence in words."""
    return "; ".join(e["text"] for e in found["evidence"])
