"""Network throughput of the host from /proc/net/dev, against the speed of its interfaces."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from tui.model.text import clean
from tui.sources.kernel.devices import DeviceSet
from tui.sources.kernel.procfs import read_file, read_start

if TYPE_CHECKING:
    from collections.abc import Callable

_SPEED_S = 30.0  # asking for the speed may go to the firmware, and a link that was plugged in is soon seen
# Ends of tunnels and bridges: what they carry passes another interface too. Only asked where no interface
# has hardware behind it, as in a container, whose own end of the pair is called eth0.
_INNER = (
    "lo", "veth", "br", "docker", "virbr", "cni", "cali", "cilium", "lxc", "flannel", "vxlan", "kube",
    "nodelocaldns", "ifb", "dummy", "tun", "tap", "wg", "gre", "sit", "ip6tnl",
)  # fmt: skip


class NetworkRates(NamedTuple):
    """Throughput in 10^6 bytes a second; None on the first reading and after a reset."""

    rx_mb_s: float | None
    tx_mb_s: float | None
    physical: bool
    """The interfaces have hardware behind them: else this is a network namespace's own share."""
    busiest: str | None = None
    """The interface whose faster direction is nearest to its speed; None where none tells its speed."""
    busiest_mb_s: float | None = None
    speed_mb_s: float | None = None
    """Of that interface, in one direction."""


class NetworkMeter:
    """Differences /proc/net/dev over its own last reading, each byte counted once.

    Args:
        proc: where procfs is mounted.
        sys: where sysfs is mounted; it tells interfaces with hardware from bridges, bonds, VLANs and tunnels.
        monotonic: the clock.
    """

    def __init__(self, proc: str, sys: str, monotonic: Callable[[], float]) -> None:
        self.path = f"{proc}/net/dev"
        self._monotonic = monotonic
        self._folder = f"{sys}/class/net"
        self._physical = DeviceSet(self._folder, _has_hardware, monotonic)
        self._speeds: dict[bytes, float] = {}
        self._speeds_at: float | None = None
        self._at = 0.0
        self._before: dict[bytes, tuple[int, int]] = {}

    def read(self) -> NetworkRates:
        """One reading; raises OSError, or ValueError also where loopback is all there is."""
        at = self._monotonic()
        rows = _parse(read_file(self.path))
        try:
            chosen = self._physical.among(rows)
        except OSError:
            chosen = frozenset()  # no sysfs: names have to do
        physical = bool(chosen)
        if not physical:
            chosen = frozenset(name for name in rows if not os.fsdecode(name).startswith(_INNER))
        if not chosen:
            raise ValueError("no interface but loopback")
        after = {name: rows[name] for name in rows if name in chosen}
        before, since, self._before, self._at = self._before, at - self._at, after, at
        both = {name: (before[name], after[name]) for name in after if name in before}
        if not both or since <= 0 or any(_stepped_back(*pair) for pair in both.values()):
            return NetworkRates(None, None, physical)
        rates = {
            name: ((a[0] - b[0]) / since / 1e6, (a[1] - b[1]) / since / 1e6) for name, (b, a) in both.items()
        }
        speeds = self._speeds_of(frozenset(rates), at)
        full = max(speeds, key=lambda name: max(rates[name]) / speeds[name], default=None)
        return NetworkRates(
            rx_mb_s=sum(rx for rx, _ in rates.values()),
            tx_mb_s=sum(tx for _, tx in rates.values()),
            physical=physical,
            busiest=None if full is None else clean(os.fsdecode(full), 32),
            busiest_mb_s=None if full is None else max(rates[full]),
            speed_mb_s=None if full is None else speeds[full],
        )

    def _speeds_of(self, names: frozenset[bytes], at: float) -> dict[bytes, float]:
        """Speeds of those interfaces that tell theirs, in 10^6 bytes a second."""
        if self._speeds_at is None or at - self._speeds_at >= _SPEED_S or not self._speeds.keys() <= names:
            self._speeds = {n: v for n in names if (v := _speed(f"{self._folder}/{os.fsdecode(n)}"))}
            self._speeds_at = at
        return self._speeds


def _stepped_back(before: tuple[int, int], after: tuple[int, int]) -> bool:
    return after[0] < before[0] or after[1] < before[1]


def _speed(folder: str) -> float | None:
    """None where the link is down, or virtual: the kernel says -1 or an error then."""
    try:
        megabits = int(read_start(f"{folder}/speed", 32))
    except (OSError, ValueError):
        return None
    return megabits / 8.0 if megabits > 0 else None


def _has_hardware(folder: str) -> bool:
    return os.path.lexists(f"{folder}/device")


def _parse(data: bytes) -> dict[bytes, tuple[int, int]]:
    rows: dict[bytes, tuple[int, int]] = {}
    for line in data.splitlines()[2:]:
        name, colon, figures = line.rpartition(b":")
        words = figures.split()
        if colon and len(words) >= 9:
            rows[name.strip()] = int(words[0]), int(words[8])
    return rows
