"""``--log FILE``: Python's log in a file of its own, and nowhere else while the screen stands."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import stat
import threading
from typing import TYPE_CHECKING

from tui.commands.usage import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLOSE_S = 0.3
"""How long leaving waits for the last lines to reach the disk."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogFile(logging.Handler):
    """Appends lines from a thread of its own: a file system that hangs must not stop the screen.

    Args:
        descriptor: of the open file; it is closed with the handler.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line for the thread."""
        self._lines.put(self.format(record) + "\n")

    def close(self) -> None:
        """Write what is left, if that does not take long."""
        self._lines.put(None)
        self._thread.join(CLOSE_S)
        super().close()

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            data = line.encode(errors="replace")
            with contextlib.suppress(OSError):  # a full disk costs lines, not the screen
                while data:
                    data = data[os.write(self._descriptor, data) :]
        os.close(self._descriptor)


@contextlib.contextmanager
def logging_to(path: Path | None) -> Iterator[None]:
    """Send the log to a file (None: to nobody), never to stderr, where the screen is.

    Raises:
        UsageError: the file cannot be opened, or is none.
    """
    root = logging.getLogger()
    handler: logging.Handler = logging.NullHandler() if path is None else LogFile(_open(path))
    level = root.level
    root.addHandler(handler)
    if path is not None:
        root.setLevel(logging.WARNING)
        logging.getLogger("infertop").setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()


def _open(path: Path) -> int:
    """The file, for appending, readable by nobody else."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(path.expanduser(), flags, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UsageError(f"--log {path}: not a file")
        os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise UsageError(f"--log {path}: {error.strerror}") from None
    return descriptor
