"""Does a rank make progress? Followed from scrape to scrape by counters that move at every step."""

from __future__ import annotations

from collections import deque

from tui.model.readings import WARM_UP_STEPS

NORMAL_WINDOW_S = 300.0


class Heartbeat:
    """The step heartbeat of one rank, and for how long it stood still while work was present."""

    __slots__ = (
        "_beat", "_ended", "_moved_at", "_since", "_span", "scrapes", "since_step_s", "stalled_s", "working",
    )  # fmt: skip

    def __init__(self) -> None:
        self._beat: list[float | None] = []
        self._ended: deque[tuple[float, float]] = deque()  # (at, stall), each longer than those after it
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

    @property
    def count(self) -> float | None:
        """The first heartbeat figure as last seen: steps since start, tokens where steps are not counted."""
        return self._beat[0] if self._beat else None

    @property
    def longest_stall_s(self) -> float:
        """The longest span of the last minutes that ended with a step, warm-up left out; 0 without any."""
        return self._ended[0][1] if self._ended else 0.0

    def update(
        self, at: float, beat: tuple[float | None, ...], working: bool, age_s: float | None = None
    ) -> None:
        """Take one scrape.

        Args:
            at: monotonic seconds.
            beat: the heartbeat figures; any difference is progress, one that is not known is none.
            working: requests run or wait.
            age_s: seconds since the last step by the engine's own word.
        """
        first = not self._beat
        before = self._beat or [None] * len(beat)
        moved = first or any(
            now is not None and then is not None and now != then
            for now, then in zip(beat, before, strict=True)
        )
        self._remember(at, ended=moved and (self.count or 0.0) >= WARM_UP_STEPS)
        self._beat = [then if now is None else now for now, then in zip(beat, before, strict=True)]
        self.working = working
        if moved:
            self._moved_at = at
        self.since_step_s = age_s if age_s is not None else None if first else at - self._moved_at
        if not working:
            self._span = 0
        elif moved or self._span == 0:
            self._since, self._span = at, 1
        else:
            self._span += 1
        standing = working and not moved
        self.stalled_s = at - self._since if standing else 0.0
        self.scrapes = self._span if standing else 0

    def _remember(self, at: float, *, ended: bool) -> None:
        while self._ended and at - self._ended[0][0] > NORMAL_WINDOW_S:
            self._ended.popleft()
        if ended and self.stalled_s > 0:
            while self._ended and self._ended[-1][1] <= self.stalled_s:
                self._ended.pop()
            self._ended.append((at, self.stalled_s))
