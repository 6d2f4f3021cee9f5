"""Does an engine make steps between two looks: what a look keeps for the next one, in a small state file.

Instants are monotonic seconds of one boot, which every process of a host shares: a wall clock that is set
moves nothing. Looks may come from several probes at once; whichever is kept last is as good as the others.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tui.model.readings import WARM_UP_STEPS
from tui.model.urls import host_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STALLED_S = 5.0
"""No step of a working engine takes longer than this; one that did is judged to hang."""
WARM_UP_STALLED_S = 120.0
"""The same for the first steps, which compile."""
BUSY_STEP_S = 2.0
"""A scheduler without work writes its report many times a second: one silent for so long is in a step."""
LIMIT_BYTES = 1 << 16
_SCHEMA = 1
_MOST_RANKS = 1024
_LARGEST = 1e15
_SAME_START_S = 1.0


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank at one look."""

    beat: tuple[float | None, ...]
    """Figures of which one moves at every step; the first counts steps (tokens where steps are not told)."""
    running: float = 0.0
    waiting: float = 0.0
    age_s: float | None = None
    """Seconds since the last step by the engine's own word."""

    @property
    def in_step_s(self) -> float:
        """Seconds for which its scheduler has been silent, if that is long enough to be in a step; else 0."""
        return self.age_s if self.age_s is not None and self.age_s >= BUSY_STEP_S else 0.0

    @property
    def working(self) -> bool:
        """It has something to do; a first prefill is in no gauge before it is done."""
        return self.running > 0 or self.waiting > 0 or self.in_step_s > 0


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw of an engine."""

    at: float
    """Monotonic seconds."""
    boot: str
    """Of the host; instants of another boot mean nothing."""
    started: float | None = None
    """Epoch seconds at which the engine started, where it tells."""
    ranks: Mapping[str, Rank] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known from earlier looks."""

    boot: str
    up_since: float
    """When this start of the engine was first seen."""
    served_at: float
    """When it last answered."""
    started: float | None = None
    ranks: Mapping[str, tuple[tuple[float | None, ...], float | None]] = field(default_factory=dict)
    """By rank: its beat, and since when it stands at that beat with work; None without work."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A rank with work that makes no step."""

    rank: str
    seconds: float
    running: float
    waiting: float
    warming_up: bool

    @property
    def hung(self) -> bool:
        """For longer than any step takes."""
        return self.seconds >= (WARM_UP_STALLED_S if self.warming_up else STALLED_S)


def follow(kept: Kept | None, look: Look) -> tuple[Kept, Stall | None]:
    """Take a look.

    Args:
        kept: of the look before; None for a first one.
        look: the present one.

    Returns:
        What to keep, and the rank that has stood still for longest, if one with work does.
    """
    if kept is not None and _restarted(kept, look):
        kept = None
    before = {} if kept is None else kept.ranks
    ranks: dict[str, tuple[tuple[float | None, ...], float | None]] = {}
    stalls: list[Stall] = []
    for name, rank in look.ranks.items():
        beat, since = before.get(name, ((), None))
        if not rank.working:
            since = None
        elif since is None or _moved(beat, rank.beat):
            since = look.at
        ranks[name] = (rank.beat, since)
        stalled_s = max(0.0 if since is None else look.at - since, rank.in_step_s)
        if rank.working and stalled_s > 0:
            first = next(iter(rank.beat), None)
            warming_up = first is not None and first < WARM_UP_STEPS
            stalls.append(Stall(name, stalled_s, rank.running, rank.waiting, warming_up))
    up_since = look.at if kept is None else kept.up_since
    worst = max(stalls, key=lambda stall: (stall.hung, stall.seconds), default=None)
    return Kept(look.boot, up_since, look.at, look.started, ranks), worst


def answered(kept: Kept | None, boot: str, at: float) -> Kept:
    """What to keep of a look that saw no figures: it does not end a stall."""
    return Kept(boot, at, at) if kept is None else replace(kept, served_at=at)


def _restarted(kept: Kept, look: Look) -> bool:
    """Another start of the engine: its counters mean nothing against those before."""
    if None not in (kept.started, look.started):
        return abs((kept.started or 0.0) - (look.started or 0.0)) > _SAME_START_S
    return any(
        then is not None and now is not None and now < then
        for name, rank in look.ranks.items()
        if name in kept.ranks
        for then, now in zip(kept.ranks[name][0], rank.beat, strict=False)
    )


def _moved(before: tuple[float | None, ...], now: tuple[float | None, ...]) -> bool:
    """A step was made; where no figure can be compared, none is known to be missing."""
    pairs = [pair for pair in zip(before, now, strict=False) if None not in pair]
    return not pairs or any(then != here for then, here in pairs)


# ------------------------------------------------------------------------------- the file


def state_file(home: Path, url: str) -> Path:
    """Where the looks at an engine are kept: a name that a person recognises and no address can forge."""
    host, port = host_port(url)
    name = re.sub(r"[^A-Za-z0-9.-]", "_", host)[:60]
    return home / f"check-{name}-{port}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.json"


def to_document(kept: Kept, url: str) -> dict[str, Any]:
    """As it is written."""
    return {
        "schema": _SCHEMA,
        "url": url,
        "boot": kept.boot,
        "up_since": kept.up_since,
        "served_at": kept.served_at,
        "started": kept.started,
        "ranks": {name: {"beat": list(beat), "since": since} for name, (beat, since) in kept.ranks.items()},
    }


def from_document(document: Any, url: str, boot: str, now: float) -> Kept | None:
    """What was kept; None where it is not ours, of another boot or engine, or from the future.

    Args:
        document: anything that JSON can hold.
        url: of the engine.
        boot: of the host now.
        now: monotonic seconds.
    """
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        return None
    if document.get("url") != url or document.get("boot") != boot:
        return None
    up_since, served_at = _instant(document.get("up_since"), now), _instant(document.get("served_at"), now)
    if up_since is None or served_at is None:
        return None
    found = document.get("ranks")
    if not isinstance(found, dict) or len(found) > _MOST_RANKS:
        return None
    ranks: dict[str, tuple[tuple[float | None, ...], float | None]] = {}
    for name, rank in found.items():
        beat = rank.get("beat") if isinstance(rank, dict) else None
        if not isinstance(beat, list) or len(beat) > _MOST_RANKS:
            return None
        ranks[name] = (tuple(map(_figure, beat)), _instant(rank.get("since"), now))
    return Kept(boot, up_since, served_at, _figure(document.get("started")), ranks)


def _figure(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # compared before it is converted: an integer of a thousand digits has no float; NaN is below nothing
    return float(value) if -_LARGEST < value < _LARGEST else None


def _instant(value: object, now: float) -> float | None:
    figure = _figure(value)
    return figure if figure is not None and 0.0 <= figure <= now else None
