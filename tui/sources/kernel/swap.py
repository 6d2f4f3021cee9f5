"""Swap traffic and memory kills of the whole host, from /proc/vmstat."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, NamedTuple

from tui.sources.kernel.procfs import read_file

if TYPE_CHECKING:
    from collections.abc import Callable

_PAGE = mmap.PAGESIZE
_WANTED = (b"pswpin ", b"pswpout ", b"oom_kill ")


class SwapFigures(NamedTuple):
    """Rates in 10^6 bytes a second; None on the first reading and after a reset."""

    in_mb_s: float | None = None
    out_mb_s: float | None = None
    oom_kills: int | None = None
    """Since the meter's first reading; None on kernels before 4.13."""
    oom_age_s: float | None = None


class SwapMeter:
    """Differences /proc/vmstat over its own last reading.

    Args:
        proc: where procfs is mounted.
        monotonic: the clock.
    """

    def __init__(self, proc: str, monotonic: Callable[[], float]) -> None:
        self.path = f"{proc}/vmstat"
        self._monotonic = monotonic
        self._at = 0.0
        self._before: dict[bytes, int] = {}
        self._first_kills: int | None = None
        self._killed_at: float | None = None

    def read(self) -> SwapFigures:
        """One reading; raises OSError, ValueError."""
        at = self._monotonic()
        after = _counters(read_file(self.path))
        before, since, self._before, self._at = self._before, at - self._at, after, at
        kills = after.get(b"oom_kill")
        if kills is not None and self._first_kills is None:
            self._first_kills = kills
        if kills is not None and kills > before.get(b"oom_kill", kills):
            self._killed_at = at
        return SwapFigures(
            in_mb_s=_rate(before.get(b"pswpin"), after.get(b"pswpin"), since),
            out_mb_s=_rate(before.get(b"pswpout"), after.get(b"pswpout"), since),
            oom_kills=None if kills is None or self._first_kills is None else kills - self._first_kills,
            oom_age_s=None if self._killed_at is None else at - self._killed_at,
        )


def _counters(data: bytes) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for word in _WANTED:
        # by its place: vmstat has some 190 lines, of which three are wanted
        at = data.find(b"\n" + word)
        if at >= 0:
            at += len(word) + 1
            found[word[:-1]] = int(data[at : data.find(b"\n", at)])
    return found


def _rate(before: int | None, after: int | None, since: float) -> float | None:
    if before is None or after is None or after < before or since <= 0:
        return None
    return (after - before) * _PAGE / since / 1e6
