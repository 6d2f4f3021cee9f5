"""Whether the processes of the whole host can be seen from here."""

from __future__ import annotations

from typing import NamedTuple

from tui.sources.kernel.procfs import link, read_start

_REAPERS = frozenset(
    (
        "systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "conmon", "s6-svscan", "runit",
        "infertop-leash",  # below it a simulated engine's orphans end up
    )
)  # fmt: skip
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO, fixed in the kernel's sources


class Visibility(NamedTuple):
    """How much of the host's process table /proc shows us."""

    complete: bool
    """False: that a process is not seen does not mean that there is none."""
    why: str = ""
    enable: str = ""


def visibility(proc: str) -> Visibility:
    """Judge by what can be done, as mount options and group rules only say what should be.

    Args:
        proc: where procfs is mounted.
    """
    if in_own_namespace(proc):
        return Visibility(
            False, "only this container's processes are visible", "share the host's pid namespace"
        )
    try:
        read_start(f"{proc}/1/stat", 16)
    except OSError:
        return Visibility(False, "other users' processes are hidden (hidepid)", "run as root")
    return Visibility(True)


def in_own_namespace(proc: str) -> bool:
    """Whether pids here are not the host's, as in most containers.

    Args:
        proc: where procfs is mounted.
    """
    try:
        return link(f"{proc}/self/ns/pid") != _INITIAL_PID_NAMESPACE
    except OSError:
        return False  # a kernel without namespaces


def is_reaper(proc: str, pid: int, comm: str) -> bool:
    """Whether a process takes over the children of others: init, a container's first process or its shim.

    Args:
        proc: where procfs is mounted.
        pid: the process.
        comm: its name.
    """
    if pid <= 1 or comm in _REAPERS or comm.startswith("containerd-shim"):
        return True
    try:
        status = read_start(f"{proc}/{pid}/status", 8192)
    except OSError:
        return False  # it has ended, and then its children are somebody else's by the next look
    line = next((line for line in status.split(b"\n") if line.startswith(b"NSpid:")), b"")
    return line.split()[-1:] == [b"1"]


def is_gone(pid: int, proc: str = "/proc") -> bool:
    """Whether a pid of this namespace has no process; false where that cannot be told."""
    try:
        read_start(f"{proc}/{pid}/stat", 16)
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    return False
