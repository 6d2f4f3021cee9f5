"""Swap, kills for memory, interface speeds and InfiniBand adapters of the host, from a made-up /proc and /sys."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

import pytest

from tests.support.clock import ManualClock
from tests.support.proctree import ProcTree
from tui.sources.host import HostSource

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.readings import HostReading


class Host:
    def __init__(self, root: Path) -> None:
        self.tree = ProcTree(root)
        self.clock = ManualClock()
        self.source = HostSource(self.tree.proc, self.tree.sys, self.clock.monotonic)

    def read(self, after: float = 0.0) -> HostReading:
        self.clock.now += after
        return self.source.read()

    def port(
        self, name: str, received: int, sent: int, state: str = "4: ACTIVE", rate: str = "400 Gb/sec (4X NDR)"
    ) -> None:
        folder = self.tree.sys / "class/infiniband" / name / "ports/1"
        (folder / "counters").mkdir(parents=True, exist_ok=True)
        (folder / "state").write_text(f"{state}\n")
        (folder / "rate").write_text(f"{rate}\n")
        (folder / "counters/port_rcv_data").write_text(f"{received // 4}\n")
        (folder / "counters/port_xmit_data").write_text(f"{sent // 4}\n")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_swap_traffic_is_a_rate_and_kills_are_counted_from_the_first_look(host: Host) -> None:
    host.tree.write(
        "meminfo", "MemTotal: 8192 kB\nMemAvailable: 4096 kB\nSwapTotal: 4096 kB\nSwapFree: 1024 kB\n"
    )
    host.tree.swap(100, 200, oom_kills=7)
    first = host.read()
    assert (first.swap_in_mb_s, first.swap_out_mb_s, first.oom_kills, first.oom_age_s) == (
        None,
        None,
        0,
        None,
    )
    assert (first.swap_used_mib, first.swap_total_mib) == (3.0, 4.0)
    host.tree.swap(100 + 500, 200 + 1000, oom_kills=9)
    second = host.read(2.0)
    assert second.swap_in_mb_s == pytest.approx(250 * mmap.PAGESIZE / 1e6)
    assert second.swap_out_mb_s == pytest.approx(500 * mmap.PAGESIZE / 1e6)
    assert (second.oom_kills, second.oom_age_s) == (2, 0.0)
    assert host.read(5.0).oom_age_s == 5.0


def test_a_host_without_swap_or_its_counters_says_so(host: Host) -> None:
    host.tree.write("meminfo", "MemTotal: 8 kB\nMemAvailable: 4 kB\n")
    (host.tree.proc / "vmstat").unlink()
    reading = host.read()
    assert (reading.swap_used_mib, reading.swap_in_mb_s, reading.oom_kills) == (None, None, None)
    assert {"swap_in_mb_s", "oom_kills"} <= {m.field for m in reading.missing}


def test_the_interface_nearest_to_its_speed_is_named(host: Host) -> None:
    for name, speed in (("eth0", "1000"), ("eth1", "100000"), ("eth2", "-1")):
        host.tree.interface(name, hardware=True)
        (host.tree.sys / "class/net" / name / "speed").write_text(f"{speed}\n")
    host.tree.interfaces({"eth0": (0, 0), "eth1": (0, 0), "eth2": (0, 0)})
    assert host.read().net_util_pct is None
    host.tree.interfaces({"eth0": (20_000_000, 200_000_000), "eth1": (2_000_000_000, 0), "eth2": (9, 9)})
    reading = host.read(2.0)
    assert (reading.net_busiest, reading.net_busiest_mb_s, reading.net_speed_mb_s) == ("eth0", 100.0, 125.0)
    assert reading.net_util_pct == 80.0
    assert reading.net_mb_s == pytest.approx(1110.0, abs=0.1)


def test_without_a_speed_there_is_no_share(host: Host) -> None:
    host.tree.interface("eth0", hardware=True)
    host.tree.interfaces({"eth0": (0, 0)})
    host.read()
    host.tree.interfaces({"eth0": (2_000_000, 0)})
    reading = host.read(2.0)
    assert (reading.net_rx_mb_s, reading.net_busiest, reading.net_util_pct) == (1.0, None, None)


def test_adapters_count_words_of_four_bytes_and_only_active_ports(host: Host) -> None:
    host.port("mlx5_0", 0, 0)
    host.port("mlx5_1", 0, 0, rate="100 Gb/sec (4X EDR)")
    host.port("mlx5_2", 0, 0, state="1: DOWN")
    assert host.read().ib_rx_mb_s is None
    host.port("mlx5_0", 20_000_000_000, 4_000_000_000)
    host.port("mlx5_1", 0, 20_000_000_000, rate="100 Gb/sec (4X EDR)")
    host.port("mlx5_2", 9_000_000_000, 0, state="1: DOWN")
    reading = host.read(2.0)
    assert (reading.ib_rx_mb_s, reading.ib_tx_mb_s) == (10_000.0, 12_000.0)
    assert (reading.ib_port, reading.ib_util_pct) == ("mlx5_1/1", 80.0)
    host.port("mlx5_0", 0, 0)  # reset: its counters began anew
    host.port("mlx5_1", 2_000_000_000, 20_000_000_000, rate="100 Gb/sec (4X EDR)")
    assert host.read(2.0).ib_rx_mb_s == 1000.0


def test_a_host_without_adapters_has_no_such_figures_and_misses_none(host: Host) -> None:
    reading = host.read()
    assert (reading.ib_rx_mb_s, reading.ib_util_pct) == (None, None)
    assert not {m.field for m in reading.missing} & {"ib_rx_mb_s", "ib_tx_mb_s"}
