"""What the kernel says of one engine's own processes: threads, control group, bytes read, connections.

Shares ``_pct`` are 0-100; of one core where they are a thread's or a process's. ``None`` is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.model.readings import Missing, ProcessRole

ROLE_WORDS: dict[ProcessRole, str] = {
    "api_server": "API server", "launcher": "launcher", "engine_core": "engine core", "worker": "worker",
    "scheduler": "scheduler", "detokenizer": "detokenizer", "tokenizer": "tokenizer",
    "coordinator": "coordinator", "backend": "backend", "other": "helper",
}  # fmt: skip
"""What a process or thread does, for a person."""


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """One thread of an engine over the window of its reading."""

    pid: int
    tid: int
    role: ProcessRole
    """Of its process."""
    name: str = ""
    """Its own name (``comm``), or its process's title where it is the main thread."""
    cpu_pct: float = 0.0
    """Of one core, 0-100."""
    wait_pct: float | None = None
    """Share of the window in which it could have run and had no core (``schedstat``)."""
    switches_s: float | None = None
    """Times a second that it was given a core (``schedstat``)."""
    voluntary_s: float | None = None
    """Times a second that it gave its core up by itself: it waited for something (``status``)."""
    involuntary_s: float | None = None
    """Times a second that its core was taken from it."""


@dataclass(frozen=True, slots=True)
class EngineHostReading:
    """The processes of one engine as the kernel sees them; rates are over ``window_s``."""

    window_s: float | None = None
    """Seconds between the last two looks at the threads; None before the second."""
    threads: tuple[ThreadUse, ...] = ()
    """The busiest first, and the busiest of each role in any case."""
    thread_count: int | None = None
    busy_threads: int | None = None
    """Threads that used 5 % of a core or more."""
    cpu_pct: float | None = None
    """All threads together; 100 is one core."""
    wait_pct: float | None = None
    """Of the time in which the threads wanted a core, the share in which they had none."""
    switches_s: float | None = None
    """Of all threads."""
    voluntary_s: float | None = None
    """Of the threads that switch most, as far as they were looked into."""
    involuntary_s: float | None = None
    futex_share: float | None = None
    """0-1: of the looks that found a thread asleep that switches all the time, those on a futex: for a lock,
    or for word from another thread (``wchan``); over the last minute or so. None while too few
    were made, and where ``wchan`` may not be read."""
    quota_cores: float | None = None
    """CPU limit of the tightest control group above it; None without one."""
    throttled_share: float | None = None
    """0-1: periods in which that group ran out of its quota, of those in which it wanted to run."""
    cgroup_mem_mib: float | None = None
    cgroup_mem_max_mib: float | None = None
    """None without a limit."""
    oom_kills: int | None = None
    """Processes of its control group that the kernel ended for memory since this program has watched."""
    oom_age_s: float | None = None
    """Seconds since the last of them was seen; None where there was none."""
    psi_cpu: float | None = None
    """Pressure within its control group: the 10 s "some" percentage."""
    psi_io: float | None = None
    psi_mem: float | None = None
    disk_read_mb_s: float | None = None
    """Its own reads that reached a device (``read_bytes``)."""
    read_mb_s: float | None = None
    """Its own read calls, those from the page cache included (``rchar``)."""
    disk_write_mb_s: float | None = None
    read_total_mib: float | None = None
    """The greater of both kinds of reads since its processes began."""
    model_fs: str | None = None
    """Type of the file system that holds the model, e.g. ``ext4``, ``nfs4``."""
    model_fs_remote: bool | None = None
    """It is reached over a network."""
    backlog: int | None = None
    """Connections that the kernel has made and the server has not accepted."""
    backlog_limit: int | None = None
    """At how many of them the kernel lets no more in."""
    connections: int | None = None
    """Established connections to its port."""
    weights_mib: float | None = None
    """The model's stored weights, where its files could be read."""
    load_left_s: float | None = None
    """While it loads: seconds until the weights are read at this rate, at least."""
    missing: tuple[Missing, ...] = ()
