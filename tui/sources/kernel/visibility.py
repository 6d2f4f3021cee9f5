"""Whether the processes of the whole host can be seen from here."""

from __future__ import annotations

from typing import NamedTuple

from tui.sources.kernel.procfs import link, read_start

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
