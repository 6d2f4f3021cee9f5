"""Real processes that look like an engine's, found through the real /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_for
from tui.sources.kernel import sockets
from tui.sources.processes import ProcessSource, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tui.model.readings import EngineProcess

# The core overwrites its command line as setproctitle does, and lives until its standard input closes.
CORE = textwrap.dedent("""
    import ctypes, sys
    title = b"VLLM::EngineCore_DP0"
    fields = open("/proc/self/stat", "rb").read().rpartition(b")")[2].split()
    start, room = int(fields[45]), int(fields[46]) - int(fields[45])
    ctypes.memmove(start, title.ljust(room, b"\\0"), room)
    ctypes.CDLL(None).prctl(15, ctypes.c_char_p(title[:15]), 0, 0, 0)
    print("core", flush=True)
    sys.stdin.read()
""")
SERVER = textwrap.dedent("""
    import os, socket, subprocess, sys
    listener = socket.socket(fileno=int(os.environ["LISTENER"]))
    workers = socket.create_server(("127.0.0.1", 0))
    core = subprocess.Popen([sys.executable, "-c", os.environ["CORE"]], stdin=int(os.environ["LEASH"]),
                            stdout=subprocess.PIPE)
    core.stdout.readline()
    print(core.pid, flush=True)
    input()
    listener.listen()
    print("listening", flush=True)
    input()
""")


class Engine:
    """A server script called ``vllm`` and its titled core; nothing listens before ``open``."""

    def __init__(self, folder: Path) -> None:
        (folder / "vllm").write_text(SERVER)
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        held, self._leash = os.pipe()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-B",
                folder / "vllm",
                "serve",
                "tiny",
                "--port",
                str(self.port),
                "--api-key",
                "S3cret",
            ],
            env={**os.environ, "LISTENER": str(self._listener.fileno()), "LEASH": str(held), "CORE": CORE},
            pass_fds=(self._listener.fileno(), held),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        os.close(held)
        self._listener.close()
        self.core = int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def open(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self._line() == "listening"

    def end(self) -> None:
        os.close(self._leash)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(tmp_path)
    try:
        yield engine
    finally:
        engine.end()


def rows(source: ProcessSource) -> dict[int, EngineProcess]:
    return {process.pid: process for process in source.read().processes}


def test_the_life_of_an_engine(engine: Engine) -> None:
    source = ProcessSource()
    found = rows(source)
    server, core = found[engine.process.pid], found[engine.core]
    assert (server.role, server.engine, server.port, server.listening) == (
        "api_server",
        "vllm",
        engine.port,
        False,
    )
    assert server.cmdline[-2:] == ("--api-key", "***")
    assert (core.role, core.comm, core.title, core.cmdline) == (
        "engine_core",
        "VLLM::EngineCor",
        "VLLM::EngineCore_DP0",
        (),
    )
    assert server.started_at is not None
    assert core.started_at is not None
    assert 0 <= core.started_at - server.started_at < 30
    assert engine.url not in source.read().listeners

    engine.open()
    table = source.read()
    assert engine.url in table.listeners
    assert [process.pid for process in tree_of(table, engine.url)] == [engine.process.pid, engine.core]
    assert tree_of(table, engine.url)[0].listening

    engine.process.send_signal(signal.SIGKILL)
    wait_for(lambda: rows(source)[engine.process.pid].zombie, 5.0, "the zombie")
    assert tree_of(source.read(), engine.url)[0].zombie
    engine.process.wait()
    wait_for(lambda: engine.process.pid not in rows(source), 5.0, "the end of the server")
    assert rows(source)[engine.core].role == "engine_core"  # an orphan now
    assert tree_of(source.read(), engine.url) == ()


def test_a_process_that_only_speaks_of_an_engine(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        child = subprocess.Popen(
            [sys.executable, "-c", "print(1, flush=True); input()", "vllm", "serve", "m", "VLLM::EngineCore"],
            pass_fds=(listener.fileno(),),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert child.stdout is not None
            child.stdout.readline()
            assert child.pid not in rows(ProcessSource())
        finally:
            child.communicate(b"\n")


def test_both_ways_to_ask_for_listening_sockets_agree() -> None:
    with contextlib.ExitStack() as stack:
        mine = {}
        for family, address in (
            (socket.AF_INET, "127.0.0.1"),
            (socket.AF_INET6, "::1"),
            (socket.AF_INET6, "::"),
        ):
            try:
                listener = stack.enter_context(socket.socket(family))
                listener.bind((address, 0))
            except OSError:
                continue  # a host without IPv6
            listener.listen()
            mine[os.fstat(listener.fileno()).st_ino] = (address, listener.getsockname()[1], os.getuid())
        for table in (sockets.listeners_here(), sockets.listeners("/proc/net")):
            seen = {inode: table[inode] for inode in mine}
            assert {i: (s.address, s.port, s.uid) for i, s in seen.items()} == mine
        assert set(mine) <= sockets.held_by("/proc", os.getpid())
