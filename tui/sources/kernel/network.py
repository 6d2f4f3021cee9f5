"""Network throughput of the host from /proc/net/dev."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from tui.sources.kernel.devices import DeviceSet
from tui.sources.kernel.procfs import read_file

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self._physical = DeviceSet(f"{sys}/class/net", _has_hardware, monotonic)
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
        both = [(before[name], after[name]) for name in after if name in before]
        if not both or since <= 0 or any(now < then for b, a in both for then, now in zip(b, a, strict=True)):
            return NetworkRates(None, None, physical)
        rx = sum(a[0] - b[0] for b, a in both) / since / 1e6
        tx = sum(a[1] - b[1] for b, a in both) / since / 1e6
        return NetworkRates(rx, tx, physical)


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
