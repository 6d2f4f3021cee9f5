"""The API server's child processes: starting them, talking to the scheduler, noticing their deaths."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

from tui.demo.process import spawn_module
from tui.demo.updates import Update

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tui.demo.process import Inherited
    from tui.demo.spec import EngineSpec


class _Link(asyncio.Protocol):
    """Lines from the scheduler; what is written to it queues up while it does not read."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._inbox = bytearray()

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._inbox += data
        if b"\n" in data:
            *lines, rest = self._inbox.split(b"\n")
            self._inbox = bytearray(rest)
            for line in lines:
                self._on_line(bytes(line))


class Children:
    """The engine core (and, in SGLang, the detokenizer) of one API server.

    Args:
        spec: the engine.
        inherited: descriptors every process gets.
        on_update: called with each update of the scheduler.
        on_death: called with the title of a child that ended.
    """

    def __init__(
        self,
        spec: EngineSpec,
        inherited: Inherited,
        on_update: Callable[[Update], None],
        on_death: Callable[[str], None],
    ) -> None:
        self._spec, self._inherited = spec, inherited
        self._on_update, self._on_death = on_update, on_death
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._pidfds: dict[str, int] = {}
        self._transport: asyncio.Transport | None = None
        self.pids: dict[str, int] = {}

    @property
    def core_title(self) -> str:
        """The title of the process that schedules."""
        return "VLLM::EngineCore" if self._spec.dialect == "vllm" else "sglang::scheduler"

    async def start(self, began_s: float) -> None:
        """Start them; they take the spec's load time, counted from ``began_s``, to be ready."""
        spec = self._spec
        titled, ready = str(began_s + spec.load_s * 0.5), str(began_s + spec.load_s * 0.88)
        if spec.dialect == "vllm":
            mine, theirs = socket.socketpair()
            fd = str(theirs.fileno())
            self._spawn(self.core_title, "core", [theirs], fd, fd, titled, ready)
            await self._connect(mine, reads=True)
        else:
            mine, requests = socket.socketpair()
            source, updates = socket.socketpair()
            answers, target = socket.socketpair()
            self._spawn(
                self.core_title, "core", [requests, updates],
                str(requests.fileno()), str(updates.fileno()), titled, ready,
            )  # fmt: skip
            self._spawn(
                "sglang::detokenizer", "detokenizer", [source, target],
                str(source.fileno()), str(target.fileno()), titled,
            )  # fmt: skip
            await self._connect(mine, reads=False)
            await self._connect(answers, reads=True)

    def send(self, order: dict[str, Any]) -> None:
        """Tell the scheduler something; nothing happens if it is gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(json.dumps(order, separators=(",", ":")).encode() + b"\n")

    def alive(self, title: str) -> bool:
        """Whether a child still runs (a stopped one does)."""
        return title in self._processes

    def send_signal(self, title: str, signum: signal.Signals) -> None:
        """Signal a process of the engine by its title; nothing happens if it has ended."""
        pidfd = self._pidfds.get(title)
        if pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signum)

    def kill_all(self) -> None:
        """SIGKILL every process of the engine but this one."""
        for title in self._pidfds:
            self.send_signal(title, signal.SIGKILL)

    def _spawn(self, title: str, module: str, sockets: list[socket.socket], *arguments: str) -> None:
        fds = [sock.fileno() for sock in sockets]
        process = spawn_module(module, self._inherited, self._spec.to_json(), fds, *arguments)
        for sock in sockets:
            sock.close()
        self._processes[title] = process
        self._note(title, process.pid)
        asyncio.get_running_loop().add_reader(self._pidfds[title], self._reap, title)

    def _note(self, title: str, pid: int) -> None:
        self.pids[title] = pid
        self._pidfds[title] = os.pidfd_open(pid)

    def _reap(self, title: str) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfds[title])
        self._processes.pop(title).wait()
        self._on_death(title)

    async def _connect(self, sock: socket.socket, *, reads: bool) -> None:
        loop = asyncio.get_running_loop()
        on_line = self._take if reads else lambda _line: None
        transport, _ = await loop.create_connection(lambda: _Link(on_line), sock=sock)
        if self._transport is None:
            self._transport = transport

    def _take(self, line: bytes) -> None:
        update = Update.decode(line)
        for title, pid in update.pids.items():
            if title not in self.pids:
                with contextlib.suppress(ProcessLookupError):  # a worker may have ended since it was told of
                    self._note(title, pid)
        self._on_update(update)
