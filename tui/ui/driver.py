"""A terminal driver that writes only what changed on screen, and never waits for a slow terminal."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import signal
import sys
import termios
import time
from typing import TYPE_CHECKING, Any

from textual import constants
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from tui.ui.cells import Buffer, Parser, paint
from tui.ui.lines import in_ascii

if TYPE_CHECKING:
    from textual.geometry import Size

    from tui.ui.cells import Cell, Look

SWITCH = "INFERTOP_STOCK_DRIVER"
"""Environment variable: 1 draws by Textual's own driver."""
BACKLOG = 8
"""Writes that may wait for the terminal; with more, frames are left out until it has caught up."""
WAIT_S = 0.25
"""A write that takes longer than this has waited for the terminal."""
CALM_S = 20.0
"""For so long no write may have waited until the link counts as quick again."""
LAST_CHANCE_S = 0.5
"""How long leaving waits for a terminal that takes nothing."""
_SYNC_BEGIN, _SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
_TITLE_KEEP = "\x1b[22;2t"
_TITLE_BACK = "\x1b]2;\x07\x1b[23;2t"
"""Empty where the terminal keeps no titles: better than one that was true once."""
_HARMLESS = re.compile(
    r"(?:\x1b\[[?<>=][0-9;]*\$?[a-zA-Z]"  # modes, queries, keyboard protocol
    r"|\x1b\](?!8;)[^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, clipboard
    r"|\x07)+"
)
"""Writes that leave every cell as it is."""


class _Outlet:
    """The terminal as the writer thread sees it: counts what got through, and outlives a hang-up.

    It writes to the descriptor itself: a buffered file would keep its lock while a terminal takes nothing,
    and the interpreter could not end.
    """

    def __init__(self, fileno: int) -> None:
        self._fileno = fileno
        self._pending: list[str] = []
        self.written = 0
        """Writes that the terminal has taken."""
        self._began: float | None = None
        """When the write that the terminal has not taken yet began, in monotonic seconds."""
        self._waited: float | None = None
        """When the last write ended that had to wait."""

    def write(self, text: str) -> None:
        """Keep text until ``flush``: a frame is one system call where the terminal takes it whole."""
        self._pending.append(text)

    def flush(self) -> None:
        """Hand everything to the terminal, however long it takes."""
        count, data = len(self._pending), "".join(self._pending).encode(errors="replace")
        self._pending.clear()
        began = self._began = time.monotonic()
        with contextlib.suppress(OSError):  # the terminal is gone: whoever still writes must not die of it
            while data:
                try:
                    data = data[os.write(self._fileno, data) :]
                except BlockingIOError:
                    select.select([], [self._fileno], [], 1.0)
        self.written += count
        self._began, ended = None, time.monotonic()
        if ended - began > WAIT_S:
            self._waited = ended

    @property
    def slow(self) -> bool:
        """A write has waited for the terminal, now or not long ago."""
        now, began, waited = time.monotonic(), self._began, self._waited
        return (began is not None and now - began > WAIT_S) or (waited is not None and now - waited < CALM_S)

    def fileno(self) -> int:
        """The terminal's descriptor."""
        return self._fileno


class CellDriver(LinuxDriver):
    """Textual's driver for Linux behind a memory of what the terminal shows.

    Whatever is not understood goes through as it is, and what the terminal shows counts as unknown from
    then on: the worst case is the stock driver's cost, never a wrong screen.
    """

    colourless = False
    """No colours, whatever the theme says (``NO_COLOR``)."""
    ascii_only = False
    """No characters beyond ASCII, whatever Textual's own widgets are made of."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # not stderr as the stock driver: whoever keeps that in a file would find the screen in it
        self._outlet = _Outlet(sys.__stdout__.fileno() if sys.__stdout__ else 1)
        self._file = self._outlet  # type: ignore[assignment]
        self._sent = 0
        self._buffer = Buffer()
        self._parser = Parser(colourless=self.colourless, ascii_only=self.ascii_only)
        self._cursor: tuple[int, int] | None = None
        self._behind = False
        self._sync = ""
        self._brackets = False
        """The terminal knows synchronized updates: Textual has asked it."""
        self._title = ""
        self._seen_size: Size | None = None
        self._raw: list[Any] | None = None
        """The terminal's settings while this program has it."""
        self._wake = os.eventfd(0)
        """Readable when no more keys are to be read."""

    def start_application_mode(self) -> None:
        """Take the terminal."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if title := self._title:  # it was given back in between
            self._title = ""
            self.set_title(title)
        with contextlib.suppress(termios.error):
            self._raw = termios.tcgetattr(self.fileno)

    def stop_application_mode(self) -> None:
        """Give it back."""
        self._raw = None
        if self._title:
            self._send(_TITLE_BACK)
        super().stop_application_mode()

    def forget(self) -> None:
        """The terminal's content is not known: the next frame is sent in full."""
        self._buffer.forget()
        self._cursor = None

    def set_title(self, text: str) -> None:
        """Have the terminal or the pane titled so until it is given back.

        Args:
            text: without control characters.
        """
        if self.ascii_only:
            text = in_ascii(text)
        if text == self._title or os.environ.get("TERM") == "linux":  # the console has none
            return
        keep = "" if self._title else _TITLE_KEEP
        self._title = text
        self._send(f"{keep}\x1b]2;{text}\x07")

    def catch_up(self) -> None:
        """Send what was left out while the terminal was slow, if it no longer is."""
        if self._behind:
            self._paint()

    def look_of(self, written: str) -> Look | None:
        """How a cell looks that Textual writes so; None where that is not understood."""
        cursor = self._parser.cursor
        frame = self._parser.parse(f"\x1b[1;1H{written}")
        self._parser.cursor = cursor
        return None if frame is None else frame[0][0][1][0][1]

    def cells(self, text: str, look: Look) -> list[Cell]:
        """The cells of a text without control characters; not to be changed."""
        return self._parser.cells(text, look)

    def put(self, y: int, x: int, cells: list[Cell]) -> None:
        """Have cells stand at a place; ``show`` brings them on screen.

        What Textual paints later must show the same there.
        """
        self._buffer.put(y, x, cells)

    @property
    def can_put(self) -> bool:
        """The size that the terminal has is the one that Textual draws for, and it was drawn once."""
        return self._app.size == self._seen_size and self._cursor is not None

    def show(self) -> None:
        """Write what ``put`` changed, as one update."""
        self._sync = _SYNC_BEGIN if self._brackets else ""
        self._paint()
        if self._brackets and not self._sync:
            self._send(_SYNC_END)
        self._sync = ""

    def write(self, data: str) -> None:
        """Write a frame as its difference, and anything else as it is."""
        if data == _SYNC_BEGIN:
            self._brackets = True
            self._sync = data  # held back: an update that changes no cell needs no bracket
            return
        if data == _SYNC_END:
            if not self._sync:
                self._send(data)
            self._sync = ""
            return
        if self._app.size != self._seen_size:
            self._seen_size = self._app.size
            self.forget()
        frame = self._parser.parse(data)
        if frame is not None:
            self._buffer.update(frame, self._app.size.width, self._app.size.height)
            self._paint()
            return
        if "1049" in data or not _HARMLESS.fullmatch(data):
            if self._behind:
                self._paint(even_if_slow=True)  # what is forgotten now would never be sent
            self.forget()
        self._open_bracket()
        self._send(data)

    @property
    def slow(self) -> bool:
        """The terminal takes longer for what is written than it should."""
        return self._outlet.slow

    @property
    def hung_up(self) -> bool:
        """The terminal is gone: whatever is read from it is its end, again and again."""
        poll = select.poll()
        poll.register(self.fileno, 0)  # a hang-up is told in any case
        return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))

    def run_input_thread(self) -> None:
        """Read keys until the end; a terminal that fails has gone, which is no fault of ours.

        It sleeps until there is something: Textual's own looks ten times a second, for 0.8 of the 23 ms of
        CPU that the whole program takes.
        """
        try:
            self._read_keys(XTermParser(self._debug))
        except OSError:
            if not self.exit_event.is_set():
                os.kill(os.getpid(), signal.SIGHUP)

    def _read_keys(self, parser: XTermParser) -> None:
        # a paste may hold any bytes, and a terminal may speak another charset
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        poll = select.poll()
        poll.register(self.fileno, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        last = float("-inf")
        while True:
            # only time tells an Escape from the beginning of another key
            pending = time.monotonic() - last < 2 * constants.ESCAPE_DELAY
            ready = dict(poll.poll(1000 * constants.ESCAPE_DELAY if pending else None))
            if self._wake in ready and self.exit_event.wait(LAST_CHANCE_S):
                return
            if self.fileno in ready:
                data = os.read(self.fileno, 4096)
                # what is no terminal and has ended is always ready
                if not data and self.exit_event.wait(constants.ESCAPE_DELAY):
                    return
                last = time.monotonic()
                text = decode(data)
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)

    def disable_input(self) -> None:
        """Read no more keys."""
        os.eventfd_write(self._wake, 1)
        super().disable_input()
        os.eventfd_read(self._wake)

    def close(self) -> None:
        """End the writer; a terminal that takes nothing more must not keep the program from leaving."""
        thread = self._writer_thread
        if thread is None:
            return
        if self._slow():
            thread.join(timeout=LAST_CHANCE_S)
        if not self._slow():
            super().close()

    def _sigcont_application(self, *args: object) -> None:
        """Go on after a stop.

        Only after SIGTSTP was the terminal given back first. After SIGSTOP it is still ours, and ``timeout``,
        systemd and shells send SIGCONT without any stop: Textual would take the terminal a second time, with
        a second thread for its keys that never ends, and give it back raw.
        """
        if self._must_signal_resume:
            super()._sigcont_application(*args)
        elif self._raw is not None:
            with contextlib.suppress(termios.error):  # a shell may have set it for its own prompt meanwhile
                termios.tcsetattr(self.fileno, termios.TCSANOW, self._raw)
            self.send_message(self.SignalResume())

    def _paint(self, *, even_if_slow: bool = False) -> None:
        self._behind = self._slow() and not even_if_slow
        if self._behind:
            return
        runs = self._buffer.changed()
        cursor = self._parser.cursor
        if runs or cursor != self._cursor:
            self._open_bracket()
            self._send(paint(runs, cursor, self._app.size.width))
            self._cursor = cursor

    def _open_bracket(self) -> None:
        if self._sync:
            self._send(self._sync)
            self._sync = ""

    def _slow(self) -> bool:
        return self._sent - self._outlet.written > BACKLOG

    def _send(self, data: str) -> None:
        self._sent += 1
        super().write(data)


def driver_class(*, colourless: bool = False, ascii_only: bool = False) -> type[LinuxDriver] | None:
    """The driver to use; None: Textual's own."""
    if os.environ.get(SWITCH) == "1":
        return None
    # Textual makes the driver itself, of a class
    return type("TerminalDriver", (CellDriver,), {"colourless": colourless, "ascii_only": ascii_only})
