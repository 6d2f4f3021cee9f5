"""A closed port: a server that died, or one that was started again and loads."""

from __future__ import annotations

import os
import time

from tui.model.urls import host_port
from tui.sources.kernel.procfs import START, parse_stat, read_start
from tui.sources.kernel.visibility import in_own_namespace

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """Of this boot of the host, the same in its containers; empty where the kernel does not tell."""
    try:
        return read_start(_BOOT_ID, 64).decode("ascii", "replace").strip()
    except OSError:
        return ""


def started_within(url: str, seconds: float) -> bool:
    """Whether a server for an address of this host was started in the last seconds.

    It is looked for among the engines of the process table; in a container its first process counts too,
    for a restart of the container is one of the engine. False where nothing of it can be seen.
    """
    # psutil and all of the process table: 0.1 s of CPU that only a closed port is worth
    from tui.sources.addresses import is_local
    from tui.sources.processes import ProcessSource
    from tui.sources.recognition import HTTP_ROLES

    if not is_local(url):
        return False
    ports = (host_port(url)[1], None)
    servers = [
        process.pid
        for process in ProcessSource().read().processes
        if process.role in HTTP_ROLES and process.port in ports and not process.zombie
    ]
    first = [1] if in_own_namespace("/proc") else []
    ages = map(_age_s, (*first, *servers))
    return any(age_s is not None and age_s < seconds for age_s in ages)


def _age_s(pid: int) -> float | None:
    """Since a process was started, to 10 ms; the epoch second of a process table is rounded."""
    try:
        parsed = parse_stat(read_start(f"/proc/{pid}/stat"))
    except OSError:
        return None
    if parsed is None:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(parsed[1][START]) / os.sysconf("SC_CLK_TCK")
