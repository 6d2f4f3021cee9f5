"""The machine around the GPUs: CPU, memory, pressure, disks, network, and who is busiest."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from tui.model.readings import HostReading, Missing
from tui.model.status import SourceError
from tui.sources.kernel.busiest import Busiest, BusiestMeter
from tui.sources.kernel.cpu import CpuFigures, CpuMeter
from tui.sources.kernel.disks import DiskMeter
from tui.sources.kernel.gauges import Memory, load1, memory, pressure
from tui.sources.kernel.infiniband import InfinibandMeter, InfinibandRates
from tui.sources.kernel.network import NetworkMeter, NetworkRates
from tui.sources.kernel.swap import SwapFigures, SwapMeter
from tui.sources.kernel.visibility import Visibility, visibility

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

_BUSIEST: Final = ("busiest_process", "busiest_thread")
_NETWORK: Final = ("net_mb_s", "net_rx_mb_s", "net_tx_mb_s")
_SWAP: Final = ("swap_in_mb_s", "swap_out_mb_s", "oom_kills")
_INFINIBAND: Final = ("ib_rx_mb_s", "ib_tx_mb_s")
_DISKS: Final = ("disks", "disk_util_pct", "disk_read_mb_s", "disk_write_mb_s")
_MEMORY: Final = ("mem_used_pct", "mem_used_mib", "mem_total_mib")


class HostSource:
    """Reads /proc and /sys; implements ``BlockingSource[HostReading]``.

    Rates are over the time since this object's own last ``read``: None on the first one, and for the one
    reading after a counter was reset. A figure that cannot be had here is named in ``missing``.

    Args:
        proc: where procfs is mounted.
        sys: where sysfs is mounted.
        monotonic: the clock.
    """

    name = "host"

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.doing = ""
        self._proc = os.fspath(proc)
        self._cpu = CpuMeter(self._proc, monotonic)
        self._disks = DiskMeter(self._proc, os.fspath(sys), monotonic)
        self._network = NetworkMeter(self._proc, os.fspath(sys), monotonic)
        self._swap = SwapMeter(self._proc, monotonic)
        self._infiniband = InfinibandMeter(os.fspath(sys), monotonic)
        self._busiest = BusiestMeter(self._proc, monotonic)
        self._visible: Visibility | None = None

    def read(self) -> HostReading:
        """One reading; raises ``SourceError`` only where /proc itself is not there."""
        try:
            return self._read()
        finally:
            self.doing = ""

    def close(self) -> None:
        """Nothing is held between readings."""

    def _read(self) -> HostReading:
        missing: list[Missing] = []
        cpu = self._read_cpu()
        busiest = self._read_busiest(missing)
        mem = self._gauge("meminfo", memory, _MEMORY, missing) or Memory()
        disks = self._try(self._disks.path, self._disks.read, _DISKS, missing)
        if disks == ():
            missing.extend(Missing(field, "this host has no disk") for field in _DISKS[1:])
        net = self._read_network(missing)
        reading = HostReading(
            cpu_pct_total=cpu.total_pct,
            cpu_cores=cpu.cores,
            cpu_pct_per_core=cpu.per_core_pct,
            load1=self._gauge("loadavg", load1, ("load1",), missing),
            busiest_process_cpu_pct=busiest.process_pct,
            busiest_process=busiest.process,
            busiest_process_pid=busiest.process_pid,
            busiest_thread_cpu_pct=busiest.thread_pct,
            busiest_thread=busiest.thread,
            busiest_thread_pid=busiest.thread_pid,
            iowait_pct=cpu.iowait_pct,
            disk_util_pct=max(_known(disk.util_pct for disk in disks or ()), default=None),
            disk_read_mb_s=_sum(disk.read_mb_s for disk in disks or ()),
            disk_write_mb_s=_sum(disk.write_mb_s for disk in disks or ()),
            mem_used_pct=mem.used_pct,
            mem_used_mib=mem.used_mib,
            mem_total_mib=mem.total_mib,
            psi_cpu=self._pressure("cpu", "psi_cpu", missing),
            psi_io=self._pressure("io", "psi_io", missing),
            psi_mem=self._pressure("memory", "psi_mem", missing),
            ctx_switches_s=cpu.ctx_switches_s,
            net_mb_s=_sum((net.rx_mb_s, net.tx_mb_s)),
            net_rx_mb_s=net.rx_mb_s,
            net_tx_mb_s=net.tx_mb_s,
            disks=disks,
            swap_used_mib=mem.swap_used_mib,
            swap_total_mib=mem.swap_total_mib,
            net_busiest=net.busiest,
            net_busiest_mb_s=net.busiest_mb_s,
            net_speed_mb_s=net.speed_mb_s,
            net_util_pct=_share(net.busiest_mb_s, net.speed_mb_s),
        )
        return replace(self._with_meters(reading, missing), missing=tuple(missing))

    def _with_meters(self, reading: HostReading, missing: list[Missing]) -> HostReading:
        """With what swap and adapters did since the last reading."""
        swap = self._try(self._swap.path, self._swap.read, _SWAP, missing) or SwapFigures()
        ib = self._try(self._infiniband.path, self._infiniband.read, _INFINIBAND, missing)
        ib = ib or InfinibandRates()
        return replace(
            reading,
            swap_in_mb_s=swap.in_mb_s,
            swap_out_mb_s=swap.out_mb_s,
            oom_kills=swap.oom_kills,
            oom_age_s=swap.oom_age_s,
            ib_rx_mb_s=ib.rx_mb_s,
            ib_tx_mb_s=ib.tx_mb_s,
            ib_util_pct=ib.util_pct,
            ib_port=ib.port,
        )

    def _read_cpu(self) -> CpuFigures:
        self.doing = f"reading {self._cpu.path}"
        try:
            return self._cpu.read()
        except FileNotFoundError:
            raise SourceError("not_supported", "there is no /proc/stat here", unsupported=True) from None
        except PermissionError:
            raise SourceError("no_permission", "/proc/stat may not be read") from None
        except (OSError, ValueError) as error:
            raise SourceError("parse", f"/proc/stat: {error}") from error

    def _read_busiest(self, missing: list[Missing]) -> Busiest:
        busiest = self._try(self._proc, self._busiest.read, _BUSIEST, missing)
        if busiest is None:
            return Busiest()
        if self._visible is None:  # asked once: it does not change while we run
            self._visible = visibility(self._proc)
        if not self._visible.complete:
            missing.extend(Missing(field, self._visible.why, self._visible.enable) for field in _BUSIEST)
        return busiest

    def _read_network(self, missing: list[Missing]) -> NetworkRates:
        net = self._try(self._network.path, self._network.read, _NETWORK, missing)
        if net is None:
            return NetworkRates(None, None, physical=False)
        if not net.physical:
            why = "no interface with hardware is visible: this network namespace's own traffic only"
            missing.append(Missing("net_mb_s", why, "run on the host, or with its network"))
        return net

    def _try(
        self,
        path: str,
        read: Callable[[], T],
        fields: Iterable[str],
        missing: list[Missing],
        enable: str = "",
    ) -> T | None:
        """What ``read`` gives; None, and its fields named as missing, where the kernel does not have it."""
        self.doing = f"reading {path}"
        try:
            return read()
        except OSError as error:
            why = f"{path}: {error.strerror}"
        except (ValueError, IndexError) as error:
            why = f"{path}: {error}"
        missing.extend(Missing(field, why, enable) for field in fields)
        return None

    def _gauge(
        self, file: str, parse: Callable[[str], T], fields: Iterable[str], missing: list[Missing]
    ) -> T | None:
        path = f"{self._proc}/{file}"
        return self._try(path, lambda: parse(path), fields, missing)

    def _pressure(self, resource: str, field: str, missing: list[Missing]) -> float | None:
        path = f"{self._proc}/pressure/{resource}"
        return self._try(
            path, lambda: pressure(path), (field,), missing, "a kernel with CONFIG_PSI, and psi=1"
        )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _share(rate: float | None, speed: float | None) -> float | None:
    return None if rate is None or not speed else min(100.0, 100.0 * rate / speed)


def _sum(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) if known else None
