"""Raw reads of /proc: open, read, close. Called thousands of times a minute: nothing is built in between."""

from __future__ import annotations

import os
from typing import Final

from tui.model.text import clean

# Positions in the fields of /proc/PID/stat that follow the command name (proc_pid_stat(5) minus three).
STATE: Final = 0
PPID: Final = 1
SESSION: Final = 3
FLAGS: Final = 6
UTIME: Final = 11
STIME: Final = 12
THREADS: Final = 17
START: Final = 19

_COMM_MAX = 15  # TASK_COMM_LEN - 1: a longer name is cut by the kernel


def read_start(path: str, size: int = 4096) -> bytes:
    """The first ``size`` bytes that one read gives; raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def read_file(path: str, limit: int = 4 << 20) -> bytes:
    """A whole file, at most ``limit`` bytes; raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = []
        left = limit
        while left > 0:
            chunk = os.read(fd, min(left, 65536))
            if not chunk:
                break
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)


def link(path: str) -> str:
    """Where a symbolic link points; raises OSError."""
    return os.readlink(path)  # noqa: PTH115 a Path each costs ten times more


def numbered(directory: str) -> list[str]:
    """The entries of a directory that are numbers: pids of /proc, tids of a task folder; raises OSError."""
    return [name for name in os.listdir(directory) if name.isdigit()]  # noqa: PTH208 a Path each costs ten times more


def parse_stat(data: bytes) -> tuple[bytes, list[bytes]] | None:
    """Command name and the fields after it of a /proc/PID/stat; None when the text is not one.

    The name may hold blanks and brackets, so that only its last closing bracket counts.
    """
    begin, end = data.find(b"("), data.rfind(b")")
    if begin < 0 or end < begin:
        return None
    fields = data[end + 2 :].split(b" ", START + 1)
    return (data[begin + 1 : end], fields) if len(fields) > START else None


def full_name(proc: str, pid: str, comm: bytes) -> str:
    """A process's name, safe to show, whole where the kernel cut it (``VLLM::EngineCor`` has a rank behind).

    Args:
        proc: where procfs is mounted.
        pid: the process.
        comm: its name as /proc/PID/stat has it.
    """
    name = comm.decode("utf-8", "replace")
    if len(comm) >= _COMM_MAX:
        try:
            words = read_start(f"{proc}/{pid}/cmdline").split(b"\0", 2)[:2]
        except OSError:
            words = []  # gone meanwhile: the cut name has to do
        for word in words:
            base = word.strip(b" ").rpartition(b"/")[2]
            if base.startswith(comm):
                name = base.decode("utf-8", "replace")
                break
    return clean(name, 64)
