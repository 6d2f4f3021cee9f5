"""What is shown of a verdict that changes: at once, after it has held, or not more than once a minute."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.model.verdicts import AVAILABILITY, CALM
from tui.verdict.texts import TEXTS

if TYPE_CHECKING:
    from tui.model.settings import Thresholds
    from tui.model.verdicts import Verdict, VerdictName

OSCILLATION_S = 60.0
"""A bottleneck that comes back within this time of its end oscillates: it then changes this often at most."""
STEADY_S = 120.0
"""Without a change for this long it no longer oscillates."""
RESTLESS = 3
"""So many changes of a bottleneck within ``STEADY_S`` are an oscillation too, whatever they are between."""
TIMELINE = 600
"""Changes kept for each scope."""


class Hold:
    """The verdict of one scope over time.

    Availability shows on first evidence. A bottleneck shows once it has held ``hold_s``, and goes once
    it has been away for ``clear_s``; meanwhile the state is ``changing``.

    Args:
        thresholds: hold times in force.
        damped: what oscillates changes once a minute; off where what comes in is damped already.
    """

    def __init__(self, thresholds: Thresholds, *, damped: bool = True) -> None:
        self._thresholds = thresholds
        self._damped = damped
        self._held: Verdict | None = None
        self._away_since: float | None = None
        self._candidate: VerdictName | None = None
        self._candidate_since = 0.0
        self._candidate_wall = 0.0
        self._sick_since: float | None = None
        self._changed_at: float | None = None
        self._oscillates = False
        self._left: dict[VerdictName, float] = {}
        self._changes: deque[float] = deque(maxlen=RESTLESS)
        self.timeline: deque[tuple[float, VerdictName]] = deque(maxlen=TIMELINE)
        """Changes of what was shown: (epoch seconds, verdict), oldest first."""

    def update(self, new: Verdict, now: float, wall: float) -> Verdict:
        """What to show, given the verdict of the newest picture.

        Args:
            new: as ``judge`` gave it.
            now: monotonic seconds.
            wall: epoch seconds of the same instant.
        """
        held = self._held
        if new.verdict in CALM or new.verdict == "unknown":
            self._sick_since = None
        elif self._sick_since is None:
            self._sick_since = now
        if held is None:
            return self._first(new, now, wall)
        if new.verdict == held.verdict:
            self._away_since = self._candidate = None
            return self._show(replace(new, since=held.since))
        if self._away_since is None:
            self._away_since = now
        if new.verdict != self._candidate:
            self._candidate, self._candidate_since, self._candidate_wall = new.verdict, now, wall
        if self._due(held, new, now):
            self._mark(held.verdict, new.verdict, now)
            return self._change(new, self._candidate_wall)
        if held.verdict == "unknown":
            held = replace(_not_yet(new), since=held.since)  # what was not known may be known by now
        return self._show(replace(held, state="changing", changing_to=new.verdict))

    def _first(self, new: Verdict, now: float, wall: float) -> Verdict:
        if _immediate(new.verdict) or new.verdict == "unknown":
            return self._change(new, wall)
        self._away_since = self._candidate_since = now
        self._candidate, self._candidate_wall = new.verdict, wall
        self._held = replace(_not_yet(new), since=wall)
        self.timeline.append((wall, "unknown"))
        return replace(self._held, state="changing", changing_to=new.verdict)

    def _due(self, held: Verdict, new: Verdict, now: float) -> bool:
        if new.verdict in AVAILABILITY:
            return True
        limits = self._thresholds
        # only what comes and goes is damped: a hang that is over, or not knowing, is not worth holding on to
        lasting = held.verdict in AVAILABILITY or held.verdict == "unknown"
        bottleneck = not lasting and not (_immediate(held.verdict) and _immediate(new.verdict))
        if bottleneck and self._oscillates and self._changed_at is not None:
            since = now - self._changed_at
            if since >= STEADY_S:
                self._oscillates = False
            elif since < OSCILLATION_S:
                return False
        away = now - (now if self._away_since is None else self._away_since)
        steady = now - self._candidate_since
        if self._sick_since is not None and (held.verdict in CALM or held.verdict == "unknown"):
            steady = now - self._sick_since  # which limit it is may flicker: that there is one does not
        if away < _leave_s(held.verdict, limits):
            return False
        # an engine that is no longer down or hung must not be called so while its limits are still unclear
        return held.verdict in AVAILABILITY or steady >= _enter_s(held.verdict, new.verdict, limits)

    def _mark(self, old: VerdictName, new: VerdictName, now: float) -> None:
        left = self._left.get(new)
        if not (_immediate(old) and _immediate(new)):
            self._changes.append(now)
            restless = len(self._changes) == RESTLESS and now - self._changes[0] < STEADY_S
            returned = left is not None and now - left < OSCILLATION_S
            self._oscillates = self._damped and (self._oscillates or returned or restless)
            self._changed_at = now
        self._left[old] = now

    def _change(self, new: Verdict, since: float) -> Verdict:
        if self.timeline:
            since = max(since, self.timeline[-1][0])
        self.timeline.append((since, new.verdict))
        self._away_since = self._candidate = None
        return self._show(replace(new, since=since))

    def _show(self, verdict: Verdict) -> Verdict:
        changing = verdict.state == "changing"
        self._held = replace(verdict, state="held", changing_to=None) if changing else verdict
        return verdict


def _not_yet(new: Verdict) -> Verdict:
    """Unknown, with the evidence of what has not held for long enough."""
    return replace(new, verdict="unknown", title=TEXTS["unknown"].title, secondary=(), advice=())


def _immediate(name: VerdictName) -> bool:
    return name in AVAILABILITY or name in CALM


def _leave_s(name: VerdictName, limits: Thresholds) -> float:
    if name in CALM or name == "unknown":
        return 0.0
    if name in ("engine_down", "loading"):
        return 0.0  # an engine that answers is not down: one good scrape is all the proof there is
    return limits.hold_s if name in AVAILABILITY else limits.clear_s


def _enter_s(old: VerdictName, new: VerdictName, limits: Thresholds) -> float:
    if new not in CALM:
        return limits.hold_s
    return 0.0 if old in CALM or old == "unknown" else limits.hold_s
