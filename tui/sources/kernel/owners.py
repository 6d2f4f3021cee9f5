"""Who runs a process."""

from __future__ import annotations

import functools
import os
import pwd

from tui.model.text import clean
from tui.sources.kernel.procfs import read_start


def uids(proc: str, pid: int) -> frozenset[int]:
    """Real, effective, saved and file-system user id of a process; empty where they cannot be read.

    Not the owner of its folder in /proc: that is root of anybody's process that may not be dumped.

    Args:
        proc: where procfs is mounted.
        pid: the process.
    """
    try:
        status = read_start(f"{proc}/{pid}/status", 8192)
    except OSError:
        return frozenset()
    line = next((line for line in status.split(b"\n") if line.startswith(b"Uid:")), b"Uid:")
    return frozenset(int(word) for word in line.split()[1:] if word.isdigit())


def is_ours_or_roots(proc: str, pid: int) -> bool:
    """Whether nobody but root and this user could have started a process."""
    found = uids(proc, pid)
    return bool(found) and found <= {0, os.geteuid()}


@functools.lru_cache(maxsize=256)
def user(uid: int) -> str:
    """The name of a user, for a person; ``uid N`` where there is none. May ask a directory service."""
    try:
        return clean(pwd.getpwuid(uid).pw_name, 40)
    except KeyError:
        return f"uid {uid}"
