"""The real program in a pseudo-terminal, read by a terminal emulator."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyte

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence

_PRIVATE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_KITTY = re.compile(rb"\x1b\[([><=])([0-9;]*)u")
CURSOR_SHOWN = "25"
AUTOWRAP = "7"
ON_AT_FIRST = {CURSOR_SHOWN, AUTOWRAP}


class _Screen(pyte.Screen):
    """pyte takes no private SGR or mode reports: what it does not know must not end a test."""

    def select_graphic_rendition(self, *attrs: int, **kwargs: Any) -> None:
        if not kwargs.get("private"):
            super().select_graphic_rendition(*attrs)

    def report_device_status(self, mode: int, **kwargs: Any) -> None:
        if not kwargs.get("private"):
            super().report_device_status(mode)


class Terminal:
    """Runs a command on a pty of its own and keeps what a person would see.

    Use as a context manager: what still runs at the end is killed.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 160,
        rows: int = 45,
        env: dict[str, str] | None = None,
        term: str = "xterm-256color",
    ) -> None:
        self.columns, self.rows = columns, rows
        self.raw = bytearray()
        self._screen = _Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._master, self._slave = pty.openpty()
        self._resize_tty(columns, rows)
        self.tty_before = termios.tcgetattr(self._slave)
        environment = {**os.environ, "TERM": term, "COLORTERM": "truecolor", "LANG": "C.UTF-8", **(env or {})}
        for name in ("NO_COLOR", "TEXTUAL", "CI"):
            environment.pop(name, None)
        environment.update(env or {})
        self.process = subprocess.Popen(
            argv,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env=environment,
            start_new_session=True,
            preexec_fn=self._take_terminal,
        )
        self._parked = threading.Event()
        self._reading = threading.Event()
        self._reading.set()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    # ------------------------------------------------------------------ what a person sees and does

    def lines(self) -> list[str]:
        with self._lock:
            return list(self._screen.display)

    def cells(self) -> list[list[Any]]:
        """Character, colours and attributes of every cell."""
        with self._lock:
            return [[self._screen.buffer[y][x] for x in range(self.columns)] for y in range(self.rows)]

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines())

    def wait_for(self, pattern: str, within_s: float = 20.0) -> re.Match[str]:
        def look() -> re.Match[str] | None:
            if self.process.poll() is not None:
                raise AssertionError(f"the program ended with {self.process.returncode}:\n{self.text()}")
            return re.search(pattern, self.text())

        try:
            return wait_for(look, within_s, f"{pattern!r} on screen")
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen was:\n{self.text()}") from None

    def send(self, keys: str | bytes) -> None:
        os.write(self._master, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, columns: int, rows: int) -> None:
        with self._lock:
            self._screen.resize(rows, columns)
        self.columns, self.rows = columns, rows
        self._resize_tty(columns, rows)
        self.signal(signal.SIGWINCH)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_for_stop(self) -> None:
        """Until the process is stopped; a SIGCONT that came before that would be lost."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        wait_for(lambda: stat.read_text().rpartition(") ")[2][0] == "T", 10, "the stop")

    def wait(self, within_s: float = 10.0) -> int:
        """The exit status, once everything that was written has been read."""
        status = self.process.wait(within_s)
        self.settle()
        return status

    def hold(self) -> None:
        """Take nothing more from the program, as a dead link does: the buffer between is full."""
        self._reading.clear()
        slave = os.open(os.ttyname(self._slave), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            for _ in range(2):  # the reader may be in a read that still takes some
                with contextlib.suppress(BlockingIOError):
                    while True:
                        os.write(slave, b"\x00" * 4096)
                time.sleep(0.01)
        finally:
            os.close(slave)

    def release(self) -> None:
        """Take again what the program writes."""
        self._reading.set()

    def settle(self, quiet_s: float = 0.1, within_s: float = 5.0) -> None:
        """Wait until nothing more has come for a moment."""
        limit, seen, since = time.monotonic() + within_s, -1, time.monotonic()
        while time.monotonic() < limit:
            if len(self.raw) != seen:
                seen, since = len(self.raw), time.monotonic()
            elif time.monotonic() - since > quiet_s:
                return
            time.sleep(0.01)

    # ------------------------------------------------------------------ what is left behind

    def modes_left(self) -> set[str]:
        """Private modes that differ from a fresh terminal's, and keyboard protocols left pushed."""
        modes = set(ON_AT_FIRST)
        for numbers, action in _PRIVATE.findall(bytes(self.raw)):
            for number in numbers.decode().split(";"):
                (modes.add if action == b"h" else modes.discard)(number)
        depth = 0
        for kind, _ in _KITTY.findall(bytes(self.raw)):
            depth += {b">": 1, b"<": -1, b"=": 0}[kind]
        left = modes ^ ON_AT_FIRST
        return left | {"kitty keyboard"} if depth > 0 else left

    def tty_changed(self) -> bool:
        return termios.tcgetattr(self._slave) != self.tty_before

    # ------------------------------------------------------------------ life

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        self._reading.set()
        # the reader's read ends with EIO once nobody holds the other side
        with contextlib.suppress(OSError):
            os.close(self._slave)
        self._reader.join(5)
        with contextlib.suppress(OSError):
            os.close(self._master)

    def hang_up(self) -> None:
        """What a lost connection does: the terminal goes away, and with it comes SIGHUP."""
        self.signal(signal.SIGHUP)

    def vanish(self) -> None:
        """The terminal's other side is closed, as when its emulator is killed; the kernel tells whom it will.

        The program must be writing now and then.
        """
        self._reading.clear()
        assert self._parked.wait(10), "nothing was written"
        os.close(self._master)
        self._master = -1

    def _take_terminal(self) -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def _resize_tty(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        while True:
            if not self._reading.is_set():
                self._parked.set()
                self._reading.wait()
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            if not data:
                return
            # pyte does not know the kitty protocol, and would print its parameters
            known = re.sub(rb"\x1b\[[<>=][0-9;]*[a-zA-Z]|\x1b\[\?[0-9;]*\$p|\x1b\[\?u", b"", data)
            with self._lock:
                self.raw += data
                self._stream.feed(known)
