"""Files that a command is told to read: regular ones, and pipes as ``cat`` reads them."""

from __future__ import annotations

import errno
import os
import select
import stat
from pathlib import Path
from typing import BinaryIO

FIFO_WAIT_S = 10.0
_NULL = os.makedev(1, 3)


def open_input(path: Path) -> BinaryIO:
    """Open a file for reading.

    A pipe that the shell made (``<(command)``) is waited for as long as its command takes: it will end. A
    FIFO with a name may be one to which nobody ever writes: it must have something within 10 s. Of devices
    only /dev/null has an end; that of ``/dev/stdin`` is what stands behind it.

    Raises:
        OSError: it cannot be opened, is none of these, or nothing came.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISFIFO(found.st_mode):
            _await_writer(descriptor)
            os.set_blocking(descriptor, True)
        elif stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        elif not stat.S_ISREG(found.st_mode) and found.st_rdev != _NULL:
            raise OSError(errno.EINVAL, "not a regular file or a pipe")
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def _await_writer(descriptor: int) -> None:
    if str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith("pipe:"):
        return
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    if not waiting.poll(FIFO_WAIT_S * 1000):
        raise TimeoutError(errno.ETIMEDOUT, f"nothing was written to it within {FIFO_WAIT_S:g} s")
