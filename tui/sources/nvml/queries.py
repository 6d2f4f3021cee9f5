"""What each device is asked, how often, and by which functions: a table, newest function first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tui.model.text import clean
from tui.sources.nvml.processes import gpu_processes

if TYPE_CHECKING:
    from collections.abc import Callable

# Arguments by their values in nvml.h, so that the table needs no import of the binding.
_CLOCK_SM, _CLOCK_MEM = 1, 2
_TEMPERATURE_GPU = 0
_ECC_UNCORRECTED, _ECC_VOLATILE = 1, 0
_MEMORY_V2 = 0x02000028

_MIB = 1024.0 * 1024.0

EACH = 0.0
"""At every reading."""
SLOW = 5.0
"""Every 5 s: what changes seldom."""
ONCE = float("inf")
"""Once in a session with the driver: what never changes."""

THROTTLE: tuple[tuple[int, str], ...] = (
    (0x04, "sw_power_cap"),
    (0x08, "hw_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x20, "sw_thermal_slowdown"),
    (0x80, "hw_power_brake"),
    (0x10, "sync_boost"),
    (0x02, "applications_clocks"),
    (0x100, "display_clocks"),
    (0x01, "idle"),
)
"""Clocks event reasons: nvmlClocksEventReason* bits and the names of the JSON contract."""


class Call(NamedTuple):
    """One function that answers a query: its arguments after the handle, and its answer as values."""

    function: str
    arguments: tuple[int, ...]
    convert: Callable[[Any], tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Query:
    """One question to a device.

    Attributes:
        fields: fields of ``GpuReading`` that the answer fills, in the order of the converted values.
        calls: functions that answer it, newest first; the next is tried where one is absent.
        period_s: seconds between two asks.
        enable: what would bring the figure where a device does not support it.
    """

    fields: tuple[str, ...]
    calls: tuple[Call, ...]
    period_s: float = EACH
    enable: str = ""


def _plain(answer: Any) -> tuple[object, ...]:
    return (answer,)


def _text(answer: str) -> tuple[object, ...]:
    return (clean(answer),)


def _watts(milliwatts: int) -> tuple[object, ...]:
    return (milliwatts / 1000.0,)


def _whole(number: int) -> tuple[object, ...]:
    return (float(number),)


def _utilization(rates: Any) -> tuple[object, ...]:
    return (float(rates.gpu), float(rates.memory))


def _memory_v2(memory: Any) -> tuple[object, ...]:
    used = memory.total - memory.free - memory.reserved
    return (used / _MIB, memory.total / _MIB, memory.reserved / _MIB)


def _memory_v1(memory: Any) -> tuple[object, ...]:
    return ((memory.total - memory.free) / _MIB, memory.total / _MIB, None)


def _throttle(bits: int) -> tuple[object, ...]:
    return (tuple(name for bit, name in THROTTLE if bits & bit),)


def _remap_pending(rows: tuple[int, int, int, int]) -> tuple[object, ...]:
    return (bool(rows[2]),)


def _current_mode(modes: list[int]) -> tuple[object, ...]:
    return (modes[0] == 1,)


def _processes(found: Any) -> tuple[object, ...]:
    return (gpu_processes((process.pid, process.usedGpuMemory) for process in found),)


def _one(
    field: str,
    function: str,
    *arguments: int,
    convert: Callable[[Any], tuple[object, ...]] = _plain,
    period_s: float = EACH,
    enable: str = "",
) -> Query:
    return Query((field,), (Call(function, arguments, convert),), period_s, enable)


IDENTITY: tuple[Query, ...] = (
    _one("uuid", "nvmlDeviceGetUUID", convert=_text, period_s=ONCE),
    _one("name", "nvmlDeviceGetName", convert=_text, period_s=ONCE),
)
QUERIES: tuple[Query, ...] = (
    *IDENTITY,
    Query(
        ("sm_pct", "mem_ctrl_pct"),
        (Call("nvmlDeviceGetUtilizationRates", (), _utilization),),
        enable="a GPU that is not in MIG mode",
    ),
    Query(
        ("mem_used_mib", "mem_total_mib", "mem_reserved_mib"),
        (
            Call("nvmlDeviceGetMemoryInfo", (_MEMORY_V2,), _memory_v2),
            Call("nvmlDeviceGetMemoryInfo", (), _memory_v1),
        ),
        enable="a GPU with memory of its own",
    ),
    _one("power_w", "nvmlDeviceGetPowerUsage", convert=_watts),
    _one("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", convert=_watts, period_s=SLOW),
    _one("temp_c", "nvmlDeviceGetTemperature", _TEMPERATURE_GPU, convert=_whole),
    Query(
        ("throttle",),
        (
            Call("nvmlDeviceGetCurrentClocksEventReasons", (), _throttle),
            Call("nvmlDeviceGetCurrentClocksThrottleReasons", (), _throttle),
        ),
    ),
    _one("clock_sm_mhz", "nvmlDeviceGetClockInfo", _CLOCK_SM, convert=_whole),
    _one("clock_mem_mhz", "nvmlDeviceGetClockInfo", _CLOCK_MEM, convert=_whole),
    _one("clock_max_mhz", "nvmlDeviceGetMaxClockInfo", _CLOCK_SM, convert=_whole, period_s=ONCE),
    Query(
        ("processes",),
        (
            Call("nvmlDeviceGetComputeRunningProcesses_v3", (), _processes),
            Call("nvmlDeviceGetComputeRunningProcesses_v2", (), _processes),
        ),
    ),
    _one(
        "ecc_uncorrected",
        "nvmlDeviceGetTotalEccErrors",
        _ECC_UNCORRECTED,
        _ECC_VOLATILE,
        period_s=SLOW,
        enable="ECC memory with its ECC mode on",
    ),
    _one(
        "remap_pending",
        "nvmlDeviceGetRemappedRows",
        convert=_remap_pending,
        period_s=SLOW,
        enable="a GPU that remaps rows (Ampere or newer, with ECC memory)",
    ),
    _one("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration", period_s=SLOW),
    _one("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", period_s=SLOW),
    _one("pcie_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", period_s=ONCE),
    _one("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", period_s=ONCE),
    _one("mig", "nvmlDeviceGetMigMode", convert=_current_mode, period_s=SLOW, enable="a GPU that has MIG"),
)
"""In the order of asking."""
