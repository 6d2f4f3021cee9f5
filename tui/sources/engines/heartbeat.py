"""Does a rank make progress? Followed from scrape to scrape by counters that move at every step."""

from __future__ import annotations


class Heartbeat:
    """The step heartbeat of one rank, and for how long it stood still while work was present."""

    __slots__ = ("_beat", "_moved_at", "_since", "_span", "scrapes", "since_step_s", "stalled_s", "working")

    def __init__(self) -> None:
        self._beat: tuple[float, ...] | None = None
        self._moved_at = 0.0
        self._since = 0.0
        self._span = 0  # scrapes with work since the beat was last seen to move, that one counted
        self.since_step_s: float | None = None
        """Seconds since the beat was seen to move, or since the first scrape; None before a second one."""
        self.stalled_s = 0.0
        """Seconds for which work was present at every scrape and the beat stood still."""
        self.scrapes = 0
        """Scrapes of that span, both ends counted; 0 where the beat moved or there is no work."""
        self.working = False
        """Work was present at the last scrape."""

    def update(self, at: float, beat: tuple[float, ...], working: bool) -> None:
        """Take one scrape.

        Args:
            at: monotonic seconds.
            beat: the heartbeat counters; any difference is progress.
            working: requests run or wait.
        """
        first, moved = self._beat is None, beat != self._beat
        self._beat = beat
        self.working = working
        if moved:
            self._moved_at = at
        self.since_step_s = None if first else at - self._moved_at
        if not working:
            self._span = 0
        elif moved or self._span == 0:
            self._since, self._span = at, 1
        else:
            self._span += 1
        standing = working and not moved
        self.stalled_s = at - self._since if standing else 0.0
        self.scrapes = self._span if standing else 0
