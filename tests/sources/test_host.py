from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.clock import ManualClock
from tests.support.proctree import ProcTree
from tests.support.waiting import wait_for
from tui.model.status import SourceError
from tui.sources.host import HostSource

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.readings import HostReading


class Host:
    """A made-up machine, its clock, and the source that reads it."""

    def __init__(self, root: Path) -> None:
        self.tree = ProcTree(root)
        self.clock = ManualClock()
        self.source = HostSource(self.tree.proc, self.tree.sys, self.clock.monotonic)

    def read(self, after: float = 0.0) -> HostReading:
        self.clock.now += after
        return self.source.read()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def why(reading: HostReading) -> dict[str, str]:
    return {missing.field: missing.why for missing in reading.missing}


# ------------------------------------------------------------------------------------- this machine


def test_this_machine_is_read_sensibly() -> None:
    source = HostSource()
    first = source.read()
    assert first.cpu_pct_total is None
    assert first.ctx_switches_s is None
    second = wait_for(
        lambda: r if (r := source.read()).cpu_pct_per_core and r.cpu_pct_total is not None else None,
        5.0,
        "a second of CPU time",
    )
    assert second.cpu_cores == os.cpu_count() == len(second.cpu_pct_per_core or ())
    assert all(0 <= core <= 100 for core in second.cpu_pct_per_core or ())
    assert second.cpu_pct_total is not None
    assert 0 <= second.cpu_pct_total <= 100
    assert second.iowait_pct is not None
    assert 0 <= second.iowait_pct <= 100
    assert second.load1 is not None
    assert second.mem_total_mib == pytest.approx(psutil.virtual_memory().total / 2**20, rel=1e-3)
    assert second.mem_used_pct == pytest.approx(psutil.virtual_memory().percent, abs=10)
    assert second.ctx_switches_s is not None
    assert second.ctx_switches_s > 0
    assert source.doing == ""


def test_the_disks_of_this_machine_are_no_partitions() -> None:
    names = {disk.name for disk in HostSource().read().disks or ()}
    assert not {name for name in names if re.match(r"(loop|ram|zram|dm-|md|sd[a-z]+\d|nvme\d+n\d+p\d)", name)}


# ------------------------------------------------------------------------------------- CPU


def test_cpu_shares_are_of_the_time_since_the_last_reading(host: Host) -> None:
    host.tree.cpu({"cpu": (100, 0, 100, 800, 0, 0, 0, 0), "cpu0": (50, 0, 50, 400, 0, 0, 0, 0),
                   "cpu1": (50, 0, 50, 400, 0, 0, 0, 0)}, ctxt=1000)  # fmt: skip
    assert host.read().cpu_pct_total is None
    host.tree.cpu({"cpu": (140, 0, 120, 900, 20, 0, 10, 10), "cpu0": (90, 0, 60, 450, 0, 0, 0, 0),
                   "cpu1": (50, 0, 60, 450, 20, 0, 10, 10)}, ctxt=5000)  # fmt: skip
    reading = host.read(after=2.0)
    assert reading.cpu_pct_total == pytest.approx(40.0)  # stolen time is busy, iowait is not
    assert reading.iowait_pct == pytest.approx(10.0)
    assert reading.cpu_pct_per_core == pytest.approx((50.0, 30.0))
    assert reading.cpu_cores == 2
    assert reading.ctx_switches_s == pytest.approx(2000.0)


def test_cpu_counters_that_went_back_give_nothing_once(host: Host) -> None:
    host.tree.cpu({"cpu": (500, 0, 0, 500, 0, 0, 0, 0), "cpu0": (500, 0, 0, 500, 0, 0, 0, 0)}, ctxt=900)
    host.read()
    host.tree.cpu({"cpu": (10, 0, 0, 10, 0, 0, 0, 0), "cpu0": (10, 0, 0, 10, 0, 0, 0, 0)}, ctxt=10)
    reading = host.read(after=1.0)
    assert (reading.cpu_pct_total, reading.cpu_pct_per_core, reading.ctx_switches_s) == (None, None, None)
    host.tree.cpu({"cpu": (60, 0, 0, 60, 0, 0, 0, 0), "cpu0": (60, 0, 0, 60, 0, 0, 0, 0)}, ctxt=110)
    reading = host.read(after=1.0)
    assert (reading.cpu_pct_total, reading.ctx_switches_s) == (50.0, 100.0)


def test_idle_time_that_steps_back_is_not_busy_time(host: Host) -> None:
    host.tree.cpu({"cpu": (0, 0, 0, 100, 50, 0, 0, 0), "cpu0": (0, 0, 0, 100, 50, 0, 0, 0)})
    host.read()
    host.tree.cpu({"cpu": (0, 0, 0, 201, 49, 0, 0, 0), "cpu0": (0, 0, 0, 201, 49, 0, 0, 0)})
    reading = host.read(after=1.0)
    assert reading.cpu_pct_total == 0.0
    assert reading.iowait_pct == 0.0


def test_a_core_that_went_offline_leaves_no_row_of_shifted_figures(host: Host) -> None:
    busy = (10, 0, 0, 10, 0, 0, 0, 0)
    host.tree.cpu({"cpu": busy, "cpu0": busy, "cpu1": busy})
    host.read()
    host.tree.cpu({"cpu": (20, 0, 0, 20, 0, 0, 0, 0), "cpu1": (20, 0, 0, 20, 0, 0, 0, 0)})
    reading = host.read(after=1.0)
    assert reading.cpu_pct_per_core is None
    assert reading.cpu_cores == 1
    assert reading.cpu_pct_total == 50.0


@pytest.mark.parametrize(
    ("text", "reason", "unsupported"), [(None, "not_supported", True), ("nonsense\n", "parse", False)]
)
def test_without_a_usable_stat_there_is_no_reading(
    host: Host, text: str | None, reason: str, unsupported: bool
) -> None:
    (host.tree.proc / "stat").unlink()
    if text is not None:
        host.tree.write("stat", text)
    with pytest.raises(SourceError) as caught:
        host.read()
    assert (caught.value.reason, caught.value.unsupported) == (reason, unsupported)
    assert host.source.doing == ""


# ------------------------------------------------------------------------------------- gauges


def test_memory_load_and_pressure(host: Host) -> None:
    host.tree.write("pressure/io", "some avg10=12.34 avg60=1.00 avg300=0.10 total=9\nfull avg10=3.00\n")
    reading = host.read()
    assert reading.mem_used_pct == pytest.approx(75.0)
    assert reading.mem_used_mib == pytest.approx(3000.0)
    assert reading.mem_total_mib == pytest.approx(4000.0)
    assert (reading.load1, reading.psi_cpu, reading.psi_io, reading.psi_mem) == (0.5, 0.0, 12.34, 0.0)


def test_what_the_kernel_lacks_is_named_and_costs_nothing_else(host: Host) -> None:
    (host.tree.proc / "pressure/cpu").unlink()
    host.tree.write("meminfo", "MemTotal: 5 kB\n")
    (host.tree.proc / "diskstats").unlink()
    host.tree.write("loadavg", "")
    reading = host.read()
    assert reading.psi_cpu is None
    assert reading.psi_io == 0.0
    assert reading.mem_used_pct is None
    assert reading.disks is None
    assert {"psi_cpu", "mem_used_pct", "disks", "disk_util_pct", "load1"} <= set(why(reading))
    assert (
        next(m.enable for m in reading.missing if m.field == "psi_cpu")
        == "a kernel with CONFIG_PSI, and psi=1"
    )
    assert reading.cpu_cores == 1


def test_a_call_that_never_returns_is_named(host: Host) -> None:
    (host.tree.proc / "meminfo").unlink()
    os.mkfifo(host.tree.proc / "meminfo")
    found: list[HostReading] = []
    reader = threading.Thread(target=lambda: found.append(host.read()), daemon=True)
    reader.start()
    wait_for(lambda: "meminfo" in host.source.doing, 5.0, "the name of the call")
    (host.tree.proc / "meminfo").write_text("MemTotal: 8 kB\nMemAvailable: 4 kB\n")
    reader.join(5.0)
    assert found[0].mem_used_pct == 50.0
    assert host.source.doing == ""


# ------------------------------------------------------------------------------------- disks


def test_only_disks_that_stand_for_themselves_are_counted(host: Host) -> None:
    names = ("nvme0n1", "nvme0n1p1", "nvme0c0n1", "sda", "sda1", "loop0", "ram0", "zram0", "dm-0", "md127",
             "nbd0", "cciss/c0d0", "sr0")  # fmt: skip
    host.tree.disks(dict.fromkeys(names, (0, 0, 0, 0, 0, 0, 0)))
    for name in ("nvme0n1", "sda", "loop0", "ram0", "zram0", "dm-0", "md127", "cciss!c0d0", "sr0"):
        host.tree.block(name)
    host.tree.block("nvme0c0n1", hidden=1)
    host.tree.block("nbd0", size=0)
    assert [disk.name for disk in host.read().disks or ()] == ["nvme0n1", "sda", "cciss/c0d0"]


def test_a_network_disk_counts_once_it_is_attached(host: Host) -> None:
    host.tree.disks({"nbd0": (0, 0, 0, 0, 0, 0, 0)})
    host.tree.block("nbd0", size=0)
    reading = host.read()
    assert reading.disks == ()
    assert why(reading)["disk_util_pct"] == "this host has no disk"
    (host.tree.sys / "block/nbd0/size").write_text("2000\n")
    assert [disk.name for disk in host.read(after=31.0).disks or ()] == ["nbd0"]


def test_disk_rates(host: Host) -> None:
    host.tree.block("sda")
    host.tree.block("sdb")
    host.tree.disks({"sda": (100, 1000, 50, 10, 100, 20, 70), "sdb": (0, 0, 0, 0, 0, 0, 0)})
    first = host.read()
    assert first.disk_util_pct is None
    assert [(d.r_s, d.await_ms) for d in first.disks or ()] == [(None, None), (None, None)]
    host.tree.disks(
        {"sda": (300, 1000 + 400_000, 650, 110, 100 + 4000, 320, 570), "sdb": (0, 0, 0, 0, 0, 0, 0)}
    )
    reading = host.read(after=2.0)
    sda, sdb = reading.disks or ()
    assert (sda.r_s, sda.w_s) == (100.0, 50.0)
    assert sda.read_mb_s == pytest.approx(102.4)  # 400,000 sectors of 512 bytes in 2 s
    assert sda.write_mb_s == pytest.approx(1.024)
    assert sda.util_pct == pytest.approx(25.0)
    assert sda.await_ms == pytest.approx(3.0)  # 600 + 300 ms over 300 transfers
    assert (sdb.r_s, sdb.util_pct, sdb.await_ms) == (0.0, 0.0, None)
    assert reading.disk_util_pct == pytest.approx(25.0)
    assert reading.disk_read_mb_s == pytest.approx(102.4)
    assert reading.disk_write_mb_s == pytest.approx(1.024)


def test_disk_counters_that_went_back_give_nothing(host: Host) -> None:
    host.tree.block("sda")
    host.tree.disks({"sda": (100, 1000, 4_294_967_290, 10, 100, 20, 70)})
    host.read()
    host.tree.disks({"sda": (110, 1010, 4, 10, 100, 20, 80)})  # only the 32-bit milliseconds wrapped
    disk = (host.read(after=1.0).disks or ())[0]
    assert (disk.r_s, disk.await_ms, disk.util_pct) == (10.0, None, 1.0)
    host.tree.disks({"sda": (1, 10, 1, 1, 1, 1, 1)})
    disk = (host.read(after=1.0).disks or ())[0]
    assert (disk.r_s, disk.w_s, disk.read_mb_s, disk.util_pct, disk.await_ms) == (None,) * 5


# ------------------------------------------------------------------------------------- network


def test_network_counts_each_byte_once(host: Host) -> None:
    for name in ("lo", "docker0", "veth1", "bond0"):
        host.tree.interface(name, hardware=False)
    for name in ("eth0", "eth1"):
        host.tree.interface(name, hardware=True)
    names = ("lo", "eth0", "eth1", "bond0", "docker0", "veth1")
    host.tree.interfaces(dict.fromkeys(names, (0, 0)))
    assert host.read().net_mb_s is None
    host.tree.interfaces(dict.fromkeys(names, (4_000_000, 1_000_000)))
    reading = host.read(after=2.0)
    assert (reading.net_rx_mb_s, reading.net_tx_mb_s, reading.net_mb_s) == (4.0, 1.0, 5.0)
    assert "net_mb_s" not in why(reading)


def test_in_a_container_the_network_is_its_own_and_says_so(host: Host) -> None:
    for name in ("lo", "eth0"):
        host.tree.interface(name, hardware=False)
    host.tree.interfaces({"lo": (0, 0), "eth0": (0, 0)})
    host.read()
    host.tree.interfaces({"lo": (9_000_000, 9_000_000), "eth0": (1_000_000, 0)})
    reading = host.read(after=1.0)
    assert reading.net_mb_s == 1.0
    assert "network namespace" in why(reading)["net_mb_s"]


def test_an_interface_that_came_or_was_reset_makes_no_spike(host: Host) -> None:
    for name in ("eth0", "eth1"):
        host.tree.interface(name, hardware=True)
    host.tree.interfaces({"eth0": (1_000_000, 0)})
    host.read()
    host.tree.interfaces({"eth0": (2_000_000, 0), "eth1": (900_000_000, 900_000_000)})
    assert host.read(after=1.0).net_mb_s == 1.0
    host.tree.interfaces({"eth0": (0, 0), "eth1": (900_000_000, 900_000_000)})
    assert host.read(after=1.0).net_mb_s is None
    host.tree.interfaces({})
    assert "no interface" in why(host.read(after=1.0))["net_mb_s"]
