"""What readings the fake NVML's cards must give, and how to wait for those that come from its slow lane."""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.support.fake_nvml import MIB, gpu_values
from tui.model.readings import GpuReading
from tui.sources.nvml.expected import Expected, Places
from tui.sources.nvml.side import SIDE_FIELDS
from tui.sources.nvml.source import NvmlSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SLOW_MISSING = frozenset((*SIDE_FIELDS, "xid", "process_sm_pct"))
"""Fields of ``missing`` that come from the slow lane."""


class Clock:
    """Seconds that move when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def places(folder: Path) -> Places:
    """A host whose pids are ours, without PCI devices until a test makes some."""
    namespace = folder / "proc" / "self" / "ns"
    namespace.mkdir(parents=True, exist_ok=True)
    if not (namespace / "pid").is_symlink():
        (namespace / "pid").symlink_to("pid:[4026531836]")
    (folder / "proc" / "1").mkdir(exist_ok=True)
    (folder / "proc" / "1" / "stat").write_text("1 (init) S")
    return Places(
        proc=str(folder / "proc"),
        pci=str(folder / "pci"),
        driver=str(folder / "driver"),
        dev=str(folder / "dev"),
        state=folder / "state" / "expected-gpus.json",
    )


def make_source(
    folder: Path,
    clock: Callable[[], float],
    *,
    patience_s: float = 5.0,
    wall: Callable[[], float] = time.time,
) -> NvmlSource:
    """A source on a host of its own. It is patient, for the machine may be busy."""
    return NvmlSource(clock, expected=Expected(places(folder), clock, wall), patience_s=patience_s)


def calls(function: str) -> int:
    """How often the library was called in this process."""
    counter = ctypes.CDLL("libnvidia-ml.so.1").fake_nvml_calls
    counter.restype = ctypes.c_ulong
    return int(counter(function.encode()))


def row(card: int, tick: int = 0, *, index: int | None = None) -> GpuReading:
    """The reading that a card's values must give, without what comes from the slow lane."""
    values: dict[str, Any] = gpu_values(card, tick)
    return GpuReading(
        index=card if index is None else index,
        uuid=values["uuid"],
        name=values["name"],
        sm_pct=values["util_gpu"],
        mem_ctrl_pct=values["util_mem"],
        mem_used_mib=(values["mem_total"] - values["mem_free"] - values["mem_reserved"]) / MIB,
        mem_total_mib=values["mem_total"] / MIB,
        mem_reserved_mib=values["mem_reserved"] / MIB,
        power_w=values["power_mw"] / 1000,
        power_limit_w=values["power_limit_mw"] / 1000,
        temp_c=values["temp_c"],
        throttle=("sw_power_cap",) if values["reasons"] else (),
        clock_sm_mhz=values["clock_sm"],
        clock_max_mhz=values["clock_sm_max"],
        clock_mem_mhz=values["clock_mem"],
        ecc_uncorrected=0,
        ecc_corrected=0,
        ecc_aggregate_uncorrected=0,
        ecc_aggregate_corrected=0,
        remap_corrected=0,
        remap_uncorrected=0,
        remap_pending=False,
        remap_failed=False,
        retired_pages=values["fi_29"] + values["fi_30"],
        retired_pending=False,
        pcie_gen=5,
        pcie_gen_max=5,
        pcie_width=16,
        pcie_width_max=16,
        pci_bus_id=f"0000:{0x10 + card:02x}:00.0",
        mem_temp_c=values["fi_82"],
        energy_j=values["energy_mj"] / 1000,
        persistence=True,
        compute_mode="default",
        mig=False,
        processes=(),
    )


def fast(reading: GpuReading) -> GpuReading:
    """A reading without what comes from the slow lane, and without what looks back in time."""
    nothing: dict[str, Any] = dict.fromkeys((*SIDE_FIELDS, "throttle_share", "recovered_s"))
    kept = tuple(entry for entry in reading.missing if entry.field not in SLOW_MISSING)
    return replace(reading, missing=kept, **nothing)


def without(reading: GpuReading, fields: tuple[str, ...]) -> GpuReading:
    """A reading that does not know some fields."""
    unknown: dict[str, Any] = dict.fromkeys(fields)
    return replace(reading, **unknown)


def read(source: NvmlSource) -> tuple[GpuReading, ...]:
    """All rows, without what comes from the slow lane."""
    return tuple(map(fast, source.read().gpus))


def others_are_exact(gpus: tuple[GpuReading, ...], but: int, tick: int = 0) -> bool:
    """All of the eight cards but one have their values."""
    return [fast(gpu) for gpu in gpus if gpu.index != but] == [
        row(card, tick) for card in range(8) if card != but
    ]


def read_until(
    source: NvmlSource, condition: Callable[[tuple[GpuReading, ...]], bool], deadline_s: float = 20.0
) -> tuple[GpuReading, ...]:
    """Read until the rows are as wanted, as the slow lane tells when it has done."""
    deadline = time.monotonic() + deadline_s
    while not condition(gpus := source.read().gpus):
        assert time.monotonic() < deadline, gpus
        time.sleep(0.002)
    return gpus


class Lanes:
    """Threads that have begun to make NVML calls in this process since this was made."""

    def __init__(self) -> None:
        self._before = frozenset(threading.enumerate())

    def names(self) -> list[str]:
        """Theirs, sorted: one entry for each that is alive."""
        threads = frozenset(threading.enumerate()) - self._before
        return sorted(thread.name for thread in threads if thread.name.startswith("nvml"))
