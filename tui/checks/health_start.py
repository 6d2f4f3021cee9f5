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

    if not is_local(url):
        return False
    if in_own_namespace("/proc") and (age_s := _first_process_age_s()) is not None and age_s < seconds:
        return True
    port = host_port(url)[1]
    now = time.time()
    return any(
        process.started_at is not None and now - process.started_at < seconds
        for process in ProcessSource().read().processes
        if process.role in ("api_server", "launcher") and process.port in (port, None) and not process.zombie
    )


def _first_process_age_s() -> float | None:
    try:
        parsed = parse_stat(read_start("/proc/1/stat"))
        uptime_s = float(read_start("/proc/uptime", 64).split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return None if parsed is None else uptime_s - int(parsed[1][START]) / os.sysconf("SC_CLK_TCK")
