"""How a process ended, where the kernel tells it to others than its parent (Linux 6.15 and later)."""

from __future__ import annotations

import fcntl
import os
import struct
from typing import NamedTuple

_INFO = struct.Struct("=QQ11Ii")  # struct pidfd_info of linux/pidfd.h, its first 64 bytes
_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11  # _IOWR(PIDFS_IOCTL_MAGIC, 11, ...)
_EXIT = 1 << 3  # PIDFD_INFO_EXIT


class Exit(NamedTuple):
    """One of the two is set; both are None where it is not known."""

    code: int | None = None
    signal: int | None = None


UNKNOWN = Exit()


def exit_of(pidfd: int) -> Exit:
    """The exit of the process behind a pidfd; not known before its parent has asked for it."""
    buffer = bytearray(_INFO.pack(_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, _GET_INFO, buffer, True)
    except OSError:  # an older kernel
        return UNKNOWN
    mask, *_, status = _INFO.unpack(buffer)
    return from_status(status) if mask & _EXIT else UNKNOWN


def from_status(status: int) -> Exit:
    """Of a wait status."""
    code = os.waitstatus_to_exitcode(status)
    return Exit(code=code) if code >= 0 else Exit(signal=-code)
