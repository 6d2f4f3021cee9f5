"""Runs a simulated engine and what belongs to it, and leaves nothing behind however it ends itself.

Every process below it is in one process group, led by a process that does nothing but wait for this
one's end (``leash.py``). What the engine's processes do to each other is left alone: killing the API
server makes orphans of core and worker, as it does with the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal

from tui.demo.command_line import command_line
from tui.demo.control import ControlError, parse_order
from tui.demo.holder import LeashHolder
from tui.demo.load import EngineLoad, LoadMeter
from tui.demo.parts import Parts
from tui.demo.process import module_command
from tui.demo.spec import EngineSpec, MachineSpec, SpecError
from tui.demo.traffic import TrafficSpec
from tui.sources.deadline import within

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.demo.control import ControlFile
    from tui.demo.process import Inherited

RestartPolicy = Literal["no", "on-failure", "always"]
_CONTROL_PERIOD_S = 0.1
_END_S = 2.0
# The shell runs its trap only once the command has ended: SIGTERM to it never reaches the engine.
_SWALLOW = 'trap : TERM INT; "$@"; exit $?'


class StartError(RuntimeError):
    """The engine could not be started: the text says why."""


class Supervisor:
    """One simulated engine with its traffic.

    Args:
        spec: the engine; port 0 takes a free one.
        traffic: what to send to it.
        under_shell: start it below a shell that swallows SIGTERM.
        restart: whether to start it again when it has ended.
        control: orders to follow; with one, the supervisor goes on when the engine has ended.
        log: descriptor for the engine's log, or ``subprocess.DEVNULL``; standard error if None.
        on_event: called with each line worth telling (started, exited, a bad order).
    """

    def __init__(
        self,
        spec: EngineSpec,
        *,
        traffic: TrafficSpec | None = None,
        under_shell: bool = False,
        restart: RestartPolicy = "no",
        control: ControlFile | None = None,
        log: int | None = None,
        on_event: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._spec = spec
        self._traffic_spec = traffic or TrafficSpec()
        self._machine = MachineSpec()
        self._under_shell, self._restart = under_shell, restart
        self._control, self._log, self._on_event = control, log, on_event
        self._reserved: socket.socket | None = None
        self._leash: LeashHolder | None = None
        self._engine: subprocess.Popen[bytes] | None = None
        self._traffic: subprocess.Popen[bytes] | None = None
        self._alive = 0
        self._watched: set[int] = set()
        self._parts = Parts()
        self._meter = LoadMeter()
        self._started = asyncio.Event()
        self._all_gone = asyncio.Event()
        self._ended = asyncio.Event()
        self._restarting = False
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------------------ what it tells

    @property
    def url(self) -> str:
        """Where the engine listens, or will."""
        return f"http://{self._spec.host}:{self._spec.port}"

    @property
    def pid(self) -> int | None:
        """The API server's pid; None when there is none."""
        return self._meter.pids.get("api")

    @property
    def pids(self) -> dict[str, int]:
        """The engine's processes by title; the API server is ``api``."""
        return dict(self._meter.pids)

    @property
    def machine(self) -> MachineSpec:
        """What the machine around the engine is like, for whoever simulates it."""
        return self._machine

    @property
    def load(self) -> EngineLoad:
        """What the engine does now: the hook for whoever simulates its machine."""
        return self._meter.load

    # ------------------------------------------------------------------------------ start and end

    async def start(self) -> None:
        """Reserve the port and start everything; returns when the API server's process runs.

        Raises:
            StartError: the port is taken, or a process could not be started.
        """
        try:
            self._reserve_port()
        except OSError as error:
            self._close()
            raise StartError(f"{self._spec.host}:{self._spec.port}: {error.strerror}") from None
        self._leash = LeashHolder()
        if not await self._leash.ready():
            await self.stop()
            raise StartError("the leash process did not start")
        self._start_engine(self._leash.inherited)
        if self._traffic_spec.rate > 0:
            self._start_traffic(self._leash.inherited)
        if self._control is not None:
            self._run(self._follow_orders(self._control))
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._started, self._ended)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for future in waiting:
            future.cancel()
        if not self._started.is_set():
            await self.stop()
            raise StartError("the engine's process ended before it had begun")

    async def ended(self) -> None:
        """Wait until the last process of the engine, orphans too, has ended, or ``stop`` was ordered."""
        await self._ended.wait()

    async def stop(self) -> None:
        """End everything now; two seconds at most."""
        for task in self._tasks:
            task.cancel()
        if self._leash is not None:
            self._leash.let_go()
        deadline_s = time.monotonic() + _END_S
        if self._alive:
            with contextlib.suppress(asyncio.TimeoutError):
                await within(_END_S, self._all_gone.wait())
        for process in (self._engine, self._traffic, self._leash.process if self._leash else None):
            if process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline_s - time.monotonic()))
                _close_input(process)
        self._close()

    def _close(self) -> None:
        for fd in list(self._watched):
            self._unwatch(fd)
        self._parts.forget()
        if self._reserved is not None:
            self._reserved.close()
        self._ended.set()

    def _watch(self, fd: int, callback: Callable[..., None], *arguments: Any) -> None:
        """Call when a descriptor can be read; it is closed with the rest at the latest."""
        self._watched.add(fd)
        asyncio.get_running_loop().add_reader(fd, callback, fd, *arguments)

    def _unwatch(self, fd: int) -> None:
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        self._watched.discard(fd)

    def _reserve_port(self) -> None:
        """Keep the port for the engine: a bound socket that never listens refuses nobody else's connect."""
        self._reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((self._spec.host, self._spec.port))
        self._spec = replace(self._spec, port=self._reserved.getsockname()[1])

    def _start_engine(self, inherited: Inherited) -> None:
        alive_reader, alive = os.pipe()
        report_reader, report = os.pipe()
        inherited = replace(inherited, alive=alive)
        command = command_line(self._spec)
        if self._under_shell:
            command = ["/bin/sh", "-c", _SWALLOW, "sh", *command]
        self._engine = subprocess.Popen(
            command,
            env=inherited.environment(self._spec.to_json(), report),
            pass_fds=(*inherited.fds, report),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
        )
        os.close(alive)
        os.close(report)
        self._alive += 1
        self._all_gone.clear()
        self._watch(alive_reader, self._on_tree_ended)
        os.set_blocking(report_reader, False)
        self._watch(report_reader, self._on_report, bytearray())
        self._watch(os.pidfd_open(self._engine.pid), self._on_engine_exit, self._engine)
        self._restarting = False

    def _start_traffic(self, inherited: Inherited) -> None:
        self._traffic = subprocess.Popen(
            module_command("traffic", self._spec.host, str(self._spec.port), self._spec.model),
            env={**inherited.environment(), "INFERTOP_DEMO_TOKEN": self._spec.api_key},
            pass_fds=inherited.fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
        )
        _tell(self._traffic, asdict(self._traffic_spec))

    # ------------------------------------------------------------------------------ what happens

    def _on_report(self, fd: int, inbox: bytearray) -> None:
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return
        if not data:
            self._unwatch(fd)
            return
        inbox += data
        *lines, rest = inbox.split(b"\n")
        inbox[:] = rest
        before = self.pid
        for line in lines:
            self._meter.take(bytes(line), time.monotonic())
        self._parts.note(self._meter.pids)
        if self.pid != before:
            self._on_event(f"{self.url} pid={self.pid}")
            self._started.set()

    def _on_engine_exit(self, pidfd: int, process: subprocess.Popen[bytes]) -> None:
        self._unwatch(pidfd)
        code = process.wait()
        _close_input(process)
        self._engine = None
        self._meter.clear()
        if self._leash is None or self._leash.cut:  # this is us ending it
            return
        self._on_event(f"exited pid={process.pid} " + (f"code={code}" if code >= 0 else f"signal={-code}"))
        if self._restart == "always" or (self._restart == "on-failure" and code != 0):
            self._restarting = True
            self._run(self._start_again(self._leash.inherited))
        self._end_if_done()

    async def _start_again(self, inherited: Inherited) -> None:
        await asyncio.sleep(self._spec.scaled(1.0))
        self._parts.forget()
        self._start_engine(inherited)

    def _on_tree_ended(self, alive_reader: int) -> None:
        self._unwatch(alive_reader)
        self._alive -= 1
        if not self._alive:
            self._all_gone.set()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if not self._alive and self._engine is None and not self._restarting and self._control is None:
            self._ended.set()

    def _run(self, job: Any) -> None:
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------------------------ orders

    async def _follow_orders(self, control: ControlFile) -> None:
        while True:
            for line in control.lines():
                try:
                    self.order(parse_order(line))
                except ControlError as error:
                    self._on_event(f"order refused: {error}")
            await asyncio.sleep(_CONTROL_PERIOD_S)

    def order(self, order: dict[str, Any]) -> None:
        """Carry out one order of the control file's form.

        Raises:
            ControlError: it cannot be carried out now.
        """
        action, what = order["do"], order.get("what", "core")
        if action == "hang":
            self._parts.send(what, signal.SIGSTOP)
        elif action == "resume":
            self._parts.send_all(signal.SIGCONT)
        elif action == "kill":
            self._parts.send(what, signal.SIGKILL)
        elif action == "terminate":
            if self._engine is None:
                raise ControlError("no engine runs")
            self._engine.send_signal(signal.SIGTERM)
        elif action == "start":
            self._start_by_order()
        elif action == "stop":
            self._ended.set()
        else:
            self._change(action, {name: value for name, value in order.items() if name != "do"})

    def _start_by_order(self) -> None:
        if self._engine is not None or self._leash is None or self._restarting:
            raise ControlError("the engine runs already")
        self._parts.forget()
        self._start_engine(self._leash.inherited)

    def _change(self, action: str, changes: dict[str, Any]) -> None:
        try:
            if action == "machine":
                self._machine = self._machine.changed(changes)
            elif action == "set":
                self._spec = self._spec.changed(changes)
                _tell(self._engine, changes)
            else:
                self._traffic_spec = self._traffic_spec.changed(changes)
                if self._traffic is not None:
                    _tell(self._traffic, asdict(self._traffic_spec))
                elif self._leash is not None:
                    self._start_traffic(self._leash.inherited)
        except (SpecError, ValueError) as error:
            raise ControlError(str(error)) from None


def _tell(process: subprocess.Popen[bytes] | None, row: dict[str, Any]) -> None:
    """Write a line of JSON to a process's standard input; one that has ended is not told."""
    if process is not None and process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(row).encode() + b"\n")
            process.stdin.flush()


def _close_input(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
