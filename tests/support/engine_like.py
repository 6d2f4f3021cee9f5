"""Real child processes that look like an engine's and do one thing, until their standard input closes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

from tests.support.waiting import wait_for
from tui.model.readings import EngineProcess
from tui.sources.kernel.threads import ThreadMeter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tui.model.readings import ProcessRole
    from tui.sources.kernel.threads import ThreadFigures

_START = """
import ctypes, os, sys, threading
def name_thread(name):
    ctypes.CDLL(None).prctl(15, ctypes.c_char_p(name), 0, 0, 0)
def run(work, name):
    threading.Thread(target=lambda: (name_thread(name), work()), daemon=True).start()
"""
_END = """
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
"""
SPIN = """
def spin():
    while True:
        pass
run(spin, b"tokenizer-0")
"""
LOCK = """
lock = threading.Lock()
def fight():
    while True:
        with lock:
            os.stat("/")
for number in range(12):
    run(fight, b"worker-%d" % number)
"""
"""Each hands the lock, and the interpreter's own, to the next one all the time."""


@contextlib.contextmanager
def engine_like(
    body: str, *arguments: str, title: str = "VLLM::EngineCore", role: ProcessRole = "engine_core"
) -> Iterator[EngineProcess]:
    """A child whose command line is an engine's title, once it has begun its work."""
    code = textwrap.dedent(_START) + textwrap.dedent(body) + textwrap.dedent(_END)
    child = subprocess.Popen(
        [title, "-c", code, *arguments],
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"ready\n"
        yield EngineProcess(child.pid, 1, "VLLM::EngineCor", role, "vllm", title=title, start_ticks=1)
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait(10)


def scanned(process: EngineProcess, wanted: Callable[[ThreadFigures], bool], what: str) -> ThreadFigures:
    """Scans until a condition holds; each is at least a tenth of a second long."""
    meter = ThreadMeter("/proc")
    last = -1.0

    def scan() -> ThreadFigures | None:
        nonlocal last
        if time.monotonic() - last < 0.1:
            return None
        last = time.monotonic()
        figures = meter.scan((process,), last)
        return figures if wanted(figures) else None

    return wait_for(scan, 20.0, what)
