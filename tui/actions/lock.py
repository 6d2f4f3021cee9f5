"""One test at a time: a lock file for this user's tests, and one in the kernel for each engine tested."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import socket
import time
from typing import TYPE_CHECKING

from tui.actions.ancestry import stat_of
from tui.actions.plan import RefusedError
from tui.config.state import parse_json, state_dir
from tui.model.text import clean
from tui.sources.kernel.procfs import read_file

if TYPE_CHECKING:
    from pathlib import Path

    from tui.actions.plan import Plan, TestTarget

_MOST_BYTES = 4096
_MOST_OF_LOCKS = 1 << 18


def lock_path() -> Path | None:
    """Where the lock file is; None without a home."""
    home = state_dir()
    return None if home is None else home / "test.lock"


class TestLock:
    """Held by the process of a test for as long as it runs; the kernel lets go of it with that process.

    Two locks: the file keeps this user to one test; one on the engine keeps all users of the host to one
    test an engine.

    Args:
        plan: the test.

    Raises:
        RefusedError: another test runs; the message names its process and target.
    """

    __test__ = False  # for pytest: this is none of its classes

    def __init__(self, plan: Plan) -> None:
        path = lock_path()
        if path is None:
            raise RefusedError("tests need a home for their lock: set XDG_STATE_HOME")
        self._file = _open(path)
        self._engine: _EngineLock | None = None
        try:
            _lock(self._file)
            self._engine = _EngineLock(plan.target)
            self._say_who(plan)
        except RefusedError:
            self.release()
            raise

    def release(self) -> None:
        """Let the next test begin."""
        if self._engine is not None:
            self._engine.release()
        os.close(self._file)

    def __enter__(self) -> TestLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _say_who(self, plan: Plan) -> None:
        stat = stat_of(os.getpid())
        holder = {
            "pid": os.getpid(),
            "start_ticks": None if stat is None else stat.start_ticks,
            "test": plan.test,
            "target": plan.target.name,
            "since": time.time(),
        }
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(holder).encode(), 0)
        except OSError as error:
            raise RefusedError(f"the lock file cannot be written: {error.strerror}") from None


def check_free(target: TestTarget) -> None:
    """Whether a test of it could begin now.

    Raises:
        RefusedError: another test runs; or there is no place for a lock.
    """
    path = lock_path()
    if path is None:
        raise RefusedError("tests need a home for their lock: set XDG_STATE_HOME")
    file = _open(path)
    try:
        _lock(file)
    finally:
        os.close(file)
    _EngineLock(target).release()


class _EngineLock:
    """On ``/proc/PID/stat``, which all who see the process share, whatever network namespace they are in.

    An engine whose process is not known has a Unix socket in the abstract name space in its place, by its
    URL, which is one of this network namespace too.

    Raises:
        RefusedError: another test holds it, or its process has ended.
    """

    def __init__(self, target: TestTarget) -> None:
        self._name: socket.socket | None = None
        self._stat: int | None = None
        main = target.main
        try:
            if main is None:
                self._name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._name.bind(f"\0infertop/test/{hashlib.sha256(target.url.encode()).hexdigest()[:32]}")
            else:
                self._stat = os.open(f"/proc/{main.pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
                fcntl.flock(self._stat, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            held = "" if self._stat is None else _flocked_by(self._stat)
            self.release()
            if main is not None and error.errno in (errno.ENOENT, errno.ESRCH):
                raise RefusedError(f"pid {main.pid} of {target.name} has ended") from None
            if error.errno not in (errno.EWOULDBLOCK, errno.EADDRINUSE):
                raise RefusedError(f"{target.name} cannot be locked: {error.strerror}") from None
            raise RefusedError(f"another user tests {target.name} on this host now{held}") from None

    def release(self) -> None:
        """Let others test it."""
        if self._name is not None:
            self._name.close()
        if self._stat is not None:
            os.close(self._stat)


def _flocked_by(file: int) -> str:
    """Whose lock it is, by /proc/locks: anybody can hold it, and for ever; empty where that does not tell."""
    at = os.fstat(file)
    where = f"{os.major(at.st_dev):02x}:{os.minor(at.st_dev):02x}:{at.st_ino}"
    try:
        lines = read_file("/proc/locks", _MOST_OF_LOCKS).decode("ascii", "replace").splitlines()
    except OSError:
        return ""
    for words in map(str.split, lines):  # "1: FLOCK ADVISORY WRITE 4711 00:15:3077761 0 EOF"
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == where and words[4].isdecimal():
            return f": pid {words[4]} holds its lock"
    return ""


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RefusedError(f"the lock file {path} cannot be opened: {error.strerror}") from None


def _lock(file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RefusedError(f"another test runs: {_holder(file)}") from None
    except OSError as error:
        raise RefusedError(f"the lock file cannot be locked: {error.strerror}") from None


def _holder(file: int) -> str:
    """Who holds the lock, as it wrote there itself."""
    try:
        found = parse_json(os.pread(file, _MOST_BYTES, 0))
        return clean(f"{found['test']} test of {found['target']}, pid {found['pid']}")
    except (OSError, ValueError, KeyError, TypeError):
        return "its process has not said which"
