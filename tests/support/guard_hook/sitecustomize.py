"""Keeps every Python process of the suite from signalling what the suite did not start.

Python imports this by its name in each process whose PYTHONPATH has this folder; the test process itself
installs it from ``tests.support.signal_guard``. Standard library only, and none of it that costs time.
"""

import os
import sys
from collections.abc import Iterable

MARK = "TESTS_OF_INFERTOP"
"""In the environment of whatever this test process starts, and inherited by what that starts:
``PID-RANDOM``."""
STRAY = "TESTS_OF_INFERTOP_STRAY"
"""The file that notes each attempt."""


class StraySignalError(PermissionError):
    """A signal that was kept from a process which the suite did not start."""


def _fields(pid: int | str) -> list[str]:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        text = file.read()
    return text[text.rindex(")") + 2 :].split()


def _marked(pid: int) -> bool:
    mark = os.fsencode(f"{MARK}={os.environ[MARK]}")
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def is_ours(pid: int) -> bool:
    """Whether the suite started a process, or it has ended, or it is the one that asks."""
    if pid == os.getpid():
        return True
    root = int(os.environ[MARK].partition("-")[0])
    if pid == root:
        return False
    try:
        if _fields(pid)[0] in "ZX" or _marked(pid):
            return True
        while pid > 1:
            pid = int(_fields(pid)[1])
            if pid == root:
                return True
    except OSError:
        return True
    return False


def _check(pids: Iterable[int], signum: int) -> None:
    strangers = [pid for pid in pids if not is_ours(pid)]
    if signum and strangers:
        text = f"pid {os.getpid()} {sys.argv[:3]} would send signal {int(signum)} to {strangers}\n"
        with open(os.environ[STRAY], "a", encoding="utf-8") as file:
            file.write(text)
        raise StraySignalError(1, text)


def _group(pgid: int) -> list[int]:
    members = []
    for name in os.listdir("/proc"):  # noqa: PTH208  # pathlib costs each process 10 ms
        if name.isdigit():
            try:
                if int(_fields(name)[2]) == pgid:
                    members.append(int(name))
            except OSError:
                continue
    return members


def _held(pidfd: int) -> list[int]:
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
        return [int(line[4:]) for line in file if line.startswith("Pid:") and int(line[4:]) > 0]


def install() -> None:
    """Guard every way in which Python sends a signal to a process."""
    import _signal  # type: ignore[import-not-found]  # signal itself costs each process 2 ms

    kill, killpg, pidfd_send = os.kill, os.killpg, _signal.pidfd_send_signal

    def guarded_kill(pid: int, signum: int) -> None:
        _check([pid] if pid > 0 else _group(-pid or os.getpgrp()), signum)
        kill(pid, signum)

    def guarded_killpg(pgid: int, signum: int) -> None:
        _check(_group(pgid or os.getpgrp()), signum)
        killpg(pgid, signum)

    def guarded_pidfd_send(pidfd: int, signum: int, siginfo: None = None, flags: int = 0) -> None:
        _check(_held(pidfd), signum)
        pidfd_send(pidfd, signum, siginfo, flags)

    os.kill, os.killpg = guarded_kill, guarded_killpg
    _signal.pidfd_send_signal = guarded_pidfd_send
    if "signal" in sys.modules:
        sys.modules["signal"].pidfd_send_signal = guarded_pidfd_send  # type: ignore[attr-defined]


if __name__ == "sitecustomize" and MARK in os.environ and STRAY in os.environ:
    install()
