"""Paths below another process's root or folder: its links lead to its own files, never to ours.

A container's ``/models/llama -> /data/llama`` is opened from here as ``/proc/PID/root/models/llama``, and the
kernel would take the link's ``/data`` for this host's.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from pathlib import Path
from typing import Final

LINKS_MAX: Final = 40
"""As the kernel: more are a circle."""
_OPENAT2: Final = 437  # the same number on every architecture but alpha
_NO_MAGICLINKS: Final = 0x02
_IN_ROOT: Final = 0x10
_BELOW = re.compile(r"(?P<process>/.*/[0-9]+)/(?P<kind>root|cwd)(?:/(?P<rest>.*))?", re.DOTALL)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_place(path: Path) -> int:
    """A descriptor with O_PATH of what a path leads to, inside its process's root where it names one.

    Raises:
        OSError: there is nothing, or nothing that may be looked at.
        ValueError: a NUL in the name.
    """
    below = _below(path)
    if below is None:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    root, rest = below
    try:
        return _open_in_root(root, rest)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):  # before Linux 5.6, or a sandbox
            raise
    return os.open(_resolved(root, rest), os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)


def real(path: Path) -> Path:
    """The same place by a path without links; one that names no process's root is left as it is.

    Raises:
        OSError: the links lead in a circle.
    """
    below = _below(path)
    return path if below is None else _resolved(*below)


def _below(path: Path) -> tuple[str, str] | None:
    """The root of the process that a path goes through, and the path inside; None where it names none."""
    match = _BELOW.fullmatch(str(path))
    # a person's own folder may have such a name, but not these two links in it
    if match is None or not all(Path(match["process"], name).is_symlink() for name in ("root", "cwd")):
        return None
    root, rest = f"{match['process']}/root", match["rest"] or ""
    if match["kind"] == "root":
        return root, rest
    folder = Path(match["process"], "cwd")
    try:
        inside = folder.readlink()
        if folder.samefile(f"{root}{inside}"):
            return root, f"{inside}/{rest}"
    except OSError:
        pass  # its root is hidden, or another: then what is below its folder is all that there is
    return None


def _open_in_root(root: str, rest: str) -> int:
    name = os.fsencode(rest or ".")
    if b"\0" in name:
        raise ValueError("embedded null byte")
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGICLINKS)
    at = os.open(root, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        found: int = library.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(at),
            ctypes.c_char_p(name),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
    finally:
        os.close(at)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


def _resolved(root: str, rest: str) -> Path:
    """Follow each link by hand; what is not there is for whoever opens it to find out."""
    left, at, links = rest.split("/")[::-1], list[str](), 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            del at[-1:]
            continue
        try:
            target = str(Path(root, *at, name).readlink())
        except OSError:
            at.append(name)
            continue
        links += 1
        if links > LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith("/"):
            at.clear()
        left += target.split("/")[::-1]
    return Path(root, *at)
