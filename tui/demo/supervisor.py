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
from typing import IO, TYPE_CHECKING, Any, Literal

from tui.demo.command_line import command_line
from tui.demo.control import ControlError, parse_order
from tui.demo.load import EngineLoad, LoadMeter
from tui.demo.process import Inherited, module_command
from tui.demo.spec import EngineSpec, SpecError
from tui.demo.traffic import TrafficSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.demo.control import ControlFile

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
        log: descriptor for the engine's log; standard error if None.
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
        self._under_shell, self._restart = under_shell, restart
        self._control, self._log, self._on_event = control, log, on_event
        self._reserved: socket.socket | None = None
        self._leash_writer = -1
        self._inherited = Inherited()
        self._engine: subprocess.Popen[bytes] | None = None
        self._traffic: subprocess.Popen[bytes] | None = None
        self._leash: subprocess.Popen[bytes] | None = None
        self._alive: set[int] = set()
        self._pidfds: dict[str, int] = {}
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
        await self._start_leash()
        self._start_engine()
        if self._traffic_spec.rate > 0:
            self._start_traffic()
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
        self._restarting = False
        for task in self._tasks:
            task.cancel()
        if self._leash_writer >= 0:
            os.close(self._leash_writer)
            self._leash_writer = -1
        deadline_s = time.monotonic() + _END_S
        if self._alive:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), _END_S)
        for process in (self._engine, self._traffic, self._leash):
            if process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline_s - time.monotonic()))
                if process.stdin is not None:
                    with contextlib.suppress(OSError):
                        process.stdin.close()
        self._close()

    def _close(self) -> None:
        loop = asyncio.get_running_loop()
        for fd in [*self._alive, *self._pidfds.values()]:
            loop.remove_reader(fd)
            os.close(fd)
        self._alive.clear()
        self._pidfds.clear()
        if self._reserved is not None:
            self._reserved.close()
        self._ended.set()

    def _reserve_port(self) -> None:
        """Keep the port for the engine: a bound socket that never listens refuses nobody else's connect."""
        self._reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((self._spec.host, self._spec.port))
        self._spec = replace(self._spec, port=self._reserved.getsockname()[1])

    def _spawn_leash(self) -> IO[bytes]:
        reader, self._leash_writer = os.pipe()
        self._leash = subprocess.Popen(
            module_command("leash", str(reader)),
            env=Inherited().environment(),
            pass_fds=(reader,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        self._inherited = Inherited(leash=reader, group=self._leash.pid)
        assert self._leash.stdout is not None
        return self._leash.stdout

    async def _start_leash(self) -> None:
        """Start the process that holds the group, and wait until there is a group to join."""
        pipe = self._spawn_leash()
        ready = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(pipe.fileno(), ready.set)
        try:
            await asyncio.wait_for(ready.wait(), 10.0)
        except asyncio.TimeoutError:
            raise StartError("the leash process did not start") from None
        finally:
            loop.remove_reader(pipe.fileno())
            pipe.close()

    def _start_engine(self) -> None:
        alive_reader, alive = os.pipe()
        report_reader, report = os.pipe()
        inherited = replace(self._inherited, alive=alive)
        command = command_line(self._spec)
        if self._under_shell:
            command = ["/bin/sh", "-c", _SWALLOW, "sh", *command]
        self._engine = subprocess.Popen(
            command,
            env=inherited.environment(self._spec.to_json(), report),
            pass_fds=(*inherited.fds, report),
            stdin=subprocess.PIPE,
            stderr=self._log,
        )
        os.close(alive)
        os.close(report)
        loop = asyncio.get_running_loop()
        self._alive.add(alive_reader)
        self._all_gone.clear()
        loop.add_reader(alive_reader, self._on_tree_ended, alive_reader)
        os.set_blocking(report_reader, False)
        loop.add_reader(report_reader, self._on_report, report_reader, bytearray())
        pidfd = os.pidfd_open(self._engine.pid)
        loop.add_reader(pidfd, self._on_engine_exit, pidfd, self._engine)
        self._restarting = False

    def _start_traffic(self) -> None:
        self._traffic = subprocess.Popen(
            module_command("traffic", self._spec.host, str(self._spec.port), self._spec.model),
            env={**self._inherited.environment(), "INFERTOP_DEMO_TOKEN": self._spec.api_key},
            pass_fds=self._inherited.fds,
            stdin=subprocess.PIPE,
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
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)
            return
        inbox += data
        *lines, rest = inbox.split(b"\n")
        inbox[:] = rest
        before = self.pid
        for line in lines:
            self._meter.take(bytes(line), time.monotonic())
        for title, pid in self._meter.pids.items():
            if title not in self._pidfds:
                with contextlib.suppress(ProcessLookupError):
                    self._pidfds[title] = os.pidfd_open(pid)
        if self.pid != before:
            self._on_event(f"{self.url} pid={self.pid}")
            self._started.set()

    def _on_engine_exit(self, pidfd: int, process: subprocess.Popen[bytes]) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        code = process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        self._engine = None
        self._meter.clear()
        if self._leash_writer < 0:  # this is us ending it
            return
        self._on_event(f"exited pid={process.pid} " + (f"code={code}" if code >= 0 else f"signal={-code}"))
        if self._restart == "always" or (self._restart == "on-failure" and code != 0):
            self._restarting = True
            self._run(self._start_again())
        self._end_if_done()

    async def _start_again(self) -> None:
        await asyncio.sleep(self._spec.scaled(1.0))
        self._forget_processes()
        self._start_engine()

    def _forget_processes(self) -> None:
        """The old engine's processes can no longer be ordered about; the leash still holds them."""
        for fd in self._pidfds.values():
            os.close(fd)
        self._pidfds.clear()

    def _on_tree_ended(self, alive_reader: int) -> None:
        asyncio.get_running_loop().remove_reader(alive_reader)
        os.close(alive_reader)
        self._alive.discard(alive_reader)
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
        action = order["do"]
        if action == "hang":
            self._signal(order.get("what", "core"), signal.SIGSTOP)
        elif action == "resume":
            for part in ("core", "worker", "detokenizer", "api"):
                with contextlib.suppress(ControlError):
                    self._signal(part, signal.SIGCONT)
        elif action == "kill":
            self._signal(order.get("what", "core"), signal.SIGKILL)
        elif action == "terminate":
            if self._engine is None:
                raise ControlError("no engine runs")
            self._engine.send_signal(signal.SIGTERM)
        elif action == "start":
            if self._engine is not None:
                raise ControlError("the engine runs already")
            self._forget_processes()
            self._start_engine()
        elif action == "stop":
            self._ended.set()
        else:
            self._change(action, {name: value for name, value in order.items() if name != "do"})

    def _change(self, action: str, changes: dict[str, Any]) -> None:
        try:
            if action == "set":
                self._spec = self._spec.changed(changes)
                _tell(self._engine, changes)
            else:
                self._traffic_spec = self._traffic_spec.changed(changes)
                if self._traffic is None:
                    self._start_traffic()
                else:
                    _tell(self._traffic, asdict(self._traffic_spec))
        except (SpecError, ValueError) as error:
            raise ControlError(str(error)) from None

    def _signal(self, part: str, signum: signal.Signals) -> None:
        titles = {
            "api": ("api",),
            "core": ("VLLM::EngineCore", "sglang::scheduler"),
            "detokenizer": ("sglang::detokenizer",),
        }
        found = [
            fd for title, fd in self._pidfds.items()
            if title in titles.get(part, ()) or (part == "worker" and title.startswith("VLLM::Worker"))
        ]  # fmt: skip
        if not found:
            raise ControlError(f"there is no {part}")
        for fd in found:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signum)


def _tell(process: subprocess.Popen[bytes] | None, row: dict[str, Any]) -> None:
    """Write a line of JSON to a process's standard input; one that has ended is not told."""
    if process is not None and process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(row).encode() + b"\n")
            process.stdin.flush()
