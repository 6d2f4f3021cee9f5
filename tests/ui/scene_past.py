"""Half an hour before a scene: each series ends at the figure that the scene shows."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from tests.ui.scene_parts import NOW
from tui.model.history import History

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.snapshot import HostSnapshot

ENGINE_PAST = ("gen_tok_s", "waiting", "kv_usage")
GPU_PAST = ("sm_pct", "power_w")
HOST_PAST = ("cpu_pct_total", "disk_util_pct", "net_mb_s")
_WAVE_S = 600


class Late(NamedTuple):
    """What a series did of late in place of its usual wave."""

    scope: str
    signal: str
    lasts_s: int
    value: float | None
    slope: float = 0.0
    """Added each second."""


def filled(url: str) -> tuple[Late, ...]:
    """Two minutes of a full KV cache, and of those who wait for it."""
    return (
        Late(url, "gen_tok_s", 120, 610.0),
        Late(url, "waiting", 112, 0.0, 1 / 3),
        Late(url, "kv_usage", 120, 0.99),
    )


def settled(shown: HostSnapshot, lasts_s: int) -> tuple[Late, ...]:
    """For so long every figure has been what it is now."""
    return tuple(Late(scope, signal, lasts_s, figure) for scope, signal, figure in _figures(shown))


def history(shown: HostSnapshot, seconds: int = 1800, late: tuple[Late, ...] = ()) -> History:
    """Smooth figures at one a second, with one gap of the engines'; shared, nobody adds to it.

    Args:
        shown: each figure's wave ends at what it is here.
        seconds: points of each series.
        late: what came after the waves.
    """
    return _history(tuple(_figures(shown)), seconds, late)


def _figures(shown: HostSnapshot) -> Iterator[tuple[str, str, float]]:
    """Scope, signal and newest figure of each series."""
    readings = [(view.url, view.engine.reading, ENGINE_PAST) for view in shown.engines]
    cards = shown.gpus.reading.gpus if shown.gpus.reading else ()
    sources = (
        *readings,
        *((f"gpu:{card.uuid}", card, GPU_PAST) for card in cards),
        ("host", shown.host.reading, HOST_PAST),
    )
    for scope, reading, signals in sources:
        for signal in signals:
            if (figure := getattr(reading, signal, None)) is not None:
                yield scope, signal, figure


@functools.lru_cache(maxsize=64)
def _history(figures: tuple[tuple[str, str, float], ...], seconds: int, late: tuple[Late, ...]) -> History:
    found = History()
    lately = {(one.scope, one.signal): one for one in late}
    for scope, signal, figure in figures:
        one = lately.get((scope, signal))
        for left in range(seconds, 0, -1):
            value: float | None = figure * (1 - 0.5 * ((left - 1) % _WAVE_S) / _WAVE_S)
            if signal in ENGINE_PAST and 300 < left <= 360:
                value = None
            if one is not None and left <= one.lasts_s:
                value = None if one.value is None else one.value + one.slope * (one.lasts_s - left)
            found.add(scope, signal, NOW - left + 0.5, value)
    return found
