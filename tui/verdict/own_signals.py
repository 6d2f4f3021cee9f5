"""What an engine's own threads and connections say, beside the host's figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from tui.model.engine_host import EngineHostReading, ThreadUse
    from tui.model.settings import Thresholds

FIGHT_SWITCHES_S = 5000.0
"""Thirty threads that wait for one lock with a timeout of 5 ms make 6,000."""
FIGHT_CPU_PCT = 80.0
"""A fight is over a core's worth of work, had or waited for; idle pools sleep on futexes too."""
READING_MB_S = 5.0
"""An engine that reads less than this is not held up by reads."""
RECENT_S = 600.0
"""A process that was ended for memory longer ago explains nothing of now."""
CROWD_PER_REQUEST = 4.0
LEAST_CROWD = 64.0
"""Idle connections of clients' pools are normal; these are many for any pool."""


def wanted_pct(thread: ThreadUse) -> float:
    """Share of the time in which a thread has something to do, with a core or waiting for one.

    One that got less than a quarter of what it wants is not what is slow: the machine is too full.
    """
    return min(100.0, thread.cpu_pct + min(thread.wait_pct or 0.0, 3.0 * thread.cpu_pct))


class OwnSignals:
    """One reading of an engine's own processes with its derived quantities; all false or None without one.

    Args:
        reading: what was read.
        thresholds: the limits in force.
    """

    def __init__(self, reading: EngineHostReading | None, thresholds: Thresholds) -> None:
        self.reading = reading
        self._thresholds = thresholds

    def thread(self, full_pct: float, pollers: Collection[str]) -> ThreadUse | None:
        """The thread that matters: a full one that is no busy poller, else the fullest."""
        threads = self.reading.threads if self.reading is not None else ()
        front = max((t for t in threads if t.role not in pollers), key=wanted_pct, default=None)
        if front is not None and wanted_pct(front) >= full_pct:
            return front
        return max(threads, key=wanted_pct, default=None)

    def throttled(self) -> bool:
        """The CPU quota of its control group runs out again and again."""
        share = self.reading.throttled_share if self.reading is not None else None
        return share is not None and share >= self._thresholds.throttled_ratio

    def starved(self) -> bool:
        """Its threads want a core and have none: others, or its own, hold them all."""
        own = self.reading
        if own is None or own.wait_pct is None:
            return False
        return own.wait_pct >= self._thresholds.run_wait_pct and (own.cpu_pct or 0.0) >= 50.0

    def fights(self) -> bool:
        """Its threads wait for each other: they switch all the time, and mostly for a lock."""
        own = self.reading
        if own is None or own.futex_share is None:
            return False
        return (
            own.futex_share >= self._thresholds.futex_ratio
            and (own.switches_s or 0.0) >= FIGHT_SWITCHES_S
            and (own.cpu_pct or 0.0) >= FIGHT_CPU_PCT * (1.0 - (own.wait_pct or 0.0) / 100.0)
        )

    def reads_mb_s(self) -> float | None:
        """What its processes read, from a device or the page cache."""
        own = self.reading
        rates = (own.read_mb_s, own.disk_read_mb_s) if own is not None else ()
        return max((rate for rate in rates if rate is not None), default=None)

    def slow_remote(self, limit_mb_s: float) -> bool:
        """It reads, slowly, and its model lies on a file system that comes over a network."""
        rate = self.reads_mb_s()
        remote = self.reading is not None and bool(self.reading.model_fs_remote)
        return remote and rate is not None and READING_MB_S <= rate < limit_mb_s

    def piled(self) -> bool:
        """Connections wait at its door: the server does not accept them."""
        own = self.reading
        if own is None or own.backlog is None:
            return False
        full = own.backlog_limit is not None and 0 < own.backlog_limit <= own.backlog
        return full or own.backlog >= self._thresholds.backlog

    def crowded(self, requests: float) -> bool:
        """Far more connections are open than requests run or wait."""
        open_now = self.reading.connections if self.reading is not None else None
        return open_now is not None and open_now >= LEAST_CROWD + CROWD_PER_REQUEST * requests

    def ended_for_memory(self) -> bool:
        """The kernel has just ended a process of its control group for memory."""
        own = self.reading
        return bool(own and own.oom_kills and own.oom_age_s is not None and own.oom_age_s <= RECENT_S)
