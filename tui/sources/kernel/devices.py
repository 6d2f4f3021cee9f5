"""Which devices of a class count: asked of sysfs once in a while, not at every reading."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_RECHECK_S = 30.0  # a medium may be inserted, a network disk attached, under a name that was there before


class DeviceSet:
    """The devices of one sysfs folder that pass a test, remembered for half a minute.

    Args:
        folder: a folder of /sys with one entry a device, e.g. ``/sys/block``.
        counts: whether the device with that folder counts.
        monotonic: the clock.
    """

    def __init__(self, folder: str, counts: Callable[[str], bool], monotonic: Callable[[], float]) -> None:
        self._folder = folder
        self._counts = counts
        self._monotonic = monotonic
        self._checked = 0.0
        self._names: frozenset[bytes] = frozenset()
        self._chosen: frozenset[bytes] = frozenset()

    def among(self, names: Iterable[bytes]) -> frozenset[bytes]:
        """Those of the names (as /proc has them) that count; raises OSError without the folder."""
        now, seen = self._monotonic(), frozenset(names)
        if seen != self._names or now - self._checked >= _RECHECK_S:
            # sysfs writes ! for the / of a name such as cciss/c0d0; a partition has no entry at this level
            present = set(os.listdir(self._folder))  # noqa: PTH208 names are all that is wanted
            folders = {name: os.fsdecode(name).replace("/", "!") for name in seen}
            self._chosen = frozenset(
                name
                for name, entry in folders.items()
                if entry in present and self._counts(f"{self._folder}/{entry}")
            )
            self._names, self._checked = seen, now
        return self._chosen
