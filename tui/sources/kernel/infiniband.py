"""Traffic of InfiniBand and RoCE adapters: it passes the kernel by, so that no interface counts it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from tui.model.text import clean
from tui.sources.kernel.procfs import read_start

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_AGAIN_S = 30.0  # an adapter may be reset, and its ports come back under other names
_WORD = 4  # port_rcv_data and port_xmit_data count words of 4 bytes


class InfinibandRates(NamedTuple):
    """10^6 bytes a second over all ports; None on the first reading, after a reset and without adapters."""

    rx_mb_s: float | None = None
    tx_mb_s: float | None = None
    port: str | None = None
    """The port whose faster direction is nearest to its rate, e.g. ``mlx5_0/1``."""
    util_pct: float | None = None
    """That direction over that rate, 0-100."""


class InfinibandMeter:
    """Differences ``/sys/class/infiniband/*/ports/*/counters`` over its own last reading.

    Args:
        sys: where sysfs is mounted.
        monotonic: the clock.
    """

    def __init__(self, sys: str, monotonic: Callable[[], float]) -> None:
        self.path = f"{sys}/class/infiniband"
        self._monotonic = monotonic
        self._at = 0.0
        self._looked: float | None = None
        self._speeds: dict[str, float | None] = {}
        self._before: dict[str, tuple[int, int]] = {}

    def read(self) -> InfinibandRates:
        """One reading; empty on a host without adapters. Raises ValueError where a counter is no number."""
        at = self._monotonic()
        if self._looked is None or at - self._looked >= _LOOK_AGAIN_S:
            self._speeds, self._looked = _ports(self.path), at
        after: dict[str, tuple[int, int]] = {}
        for port in self._speeds:
            counters = f"{self.path}/{port}/counters"
            try:
                after[port] = _number(f"{counters}/port_rcv_data"), _number(f"{counters}/port_xmit_data")
            except OSError:
                continue  # the adapter is being reset, or its firmware counts nothing
        before, since, self._before, self._at = self._before, at - self._at, after, at
        rates: dict[str, tuple[float, float]] = {}
        for port, (rx, tx) in after.items():
            was = before.get(port)
            if was is not None and since > 0 and rx >= was[0] and tx >= was[1]:
                rates[port] = (rx - was[0]) * _WORD / since / 1e6, (tx - was[1]) * _WORD / since / 1e6
        if not rates:
            return InfinibandRates()
        shares = [(100.0 * max(rates[p]) / v, p) for p, v in self._speeds.items() if v and p in rates]
        share, busiest = max(shares, default=(None, None))
        name = None if busiest is None else clean(busiest.replace("/ports/", "/"), 40)
        return InfinibandRates(
            sum(rx for rx, _ in rates.values()), sum(tx for _, tx in rates.values()), name, share
        )


def _ports(folder: str) -> dict[str, float | None]:
    """Active ports, as ``mlx5_0/ports/1``, with their rate in 10^6 bytes a second."""
    found: dict[str, float | None] = {}
    try:
        devices = os.listdir(folder)  # noqa: PTH208 names are all that is wanted
    except OSError:
        return found
    for device in sorted(devices):
        try:
            ports = os.listdir(f"{folder}/{device}/ports")  # noqa: PTH208 as above
        except OSError:
            continue
        for port in sorted(ports):
            path = f"{folder}/{device}/ports/{port}"
            try:
                if b"ACTIVE" not in read_start(f"{path}/state", 64):
                    continue
                gigabits = float(read_start(f"{path}/rate", 64).split(None, 1)[0])  # "400 Gb/sec (4X NDR)"
            except OSError:
                continue
            except (ValueError, IndexError):
                gigabits = 0.0
            found[f"{device}/ports/{port}"] = gigabits * 125.0 or None
    return found


def _number(path: str) -> int:
    return int(read_start(path, 64))
