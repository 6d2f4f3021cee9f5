"""NVML's answers as the values of a reading: units of ours, names of the JSON contract, text made safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.model.text import clean
from tui.sources.nvml.errors import INVALID_ARGUMENT, NOT_SUPPORTED, UNKNOWN, NvmlCallError
from tui.sources.nvml.processes import gpu_processes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.sources.nvml.binding import CallNvml

    Values = tuple[object, ...]

_MIB = 1024.0 * 1024.0
_MB = 1e6

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

COMPUTE_MODES = ("default", "exclusive_thread", "prohibited", "exclusive_process")
"""By nvmlComputeMode_t."""

# Members of nvmlValue_t by nvmlValueType_t.
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

# Fields of nvmlDeviceGetFieldValues, by NVML_FI_DEV_*.
MEMORY_TEMP = 82
RETIRED = (29, 30, 31)  # pages for single-bit, for double-bit errors; any pending
_NVLINK_COUNT = 91
_ALL_LINKS = 0xFFFFFFFF
NVLINK_DATA = ((138, _ALL_LINKS), (139, _ALL_LINKS))  # sent, received; KiB since the driver was loaded
_NVLINK_ERROR_TOTALS = (38, 45, 52, 59)  # flit CRC, data CRC, replay, recovery, over all links
_NVLINK_LINK_ERRORS = (161, 162, 163)  # replay, recovery, CRC of one link: where there are no totals

_FIELDS = "nvmlDeviceGetFieldValues"


def plain(answer: Any) -> Values:
    """As it is."""
    return (answer,)


def text(answer: str) -> Values:
    """Text from outside."""
    return (clean(answer),)


def flag(answer: int) -> Values:
    """nvmlEnableState_t."""
    return (answer == 1,)


def thousandths(answer: int) -> Values:
    """Milliwatts as W, millijoules as J."""
    return (answer / 1000.0,)


def whole(number: int) -> Values:
    """A count in its unit."""
    return (float(number),)


def kilobytes(rate: int) -> Values:
    """KB/s, which NVML counts as 1000 bytes, as MB/s."""
    return (rate / 1000.0,)


def utilization(rates: Any) -> Values:
    """nvmlUtilization_t."""
    return (float(rates.gpu), float(rates.memory))


def memory_v2(memory: Any) -> Values:
    """nvmlMemory_v2_t."""
    used = memory.total - memory.free - memory.reserved
    return (used / _MIB, memory.total / _MIB, memory.reserved / _MIB)


def memory_v1(memory: Any) -> Values:
    """nvmlMemory_t, whose ``used`` counts the reserved memory."""
    return ((memory.total - memory.free) / _MIB, memory.total / _MIB, None)


def throttle(bits: int) -> Values:
    """Names of the active reasons; unknown bits are left out."""
    return (tuple(name for bit, name in THROTTLE if bits & bit),)


def remapped(rows: tuple[int, int, int, int]) -> Values:
    """Rows for corrected, for uncorrected errors; pending; failed."""
    return (rows[0], rows[1], bool(rows[2]), bool(rows[3]))


def current_mode(modes: list[int]) -> Values:
    """The present one of present and pending."""
    return (modes[0] == 1,)


def compute_mode(mode: int) -> Values:
    """Its name; unknown for one that came after this table."""
    return (COMPUTE_MODES[mode] if 0 <= mode < len(COMPUTE_MODES) else None,)


def bus_id(info: Any) -> Values:
    """PCI address as sysfs spells it: NVML writes the domain with eight digits, and capital letters."""
    spelled = info.busId
    if isinstance(spelled, bytes):
        spelled = spelled.decode("ascii", "replace")
    domain, colon, rest = clean(spelled).lower().partition(":")
    return (f"{domain.lstrip('0').rjust(4, '0')}{colon}{rest}",)


def processes(found: Any) -> Values:
    """nvmlProcessInfo_t of each."""
    return (gpu_processes((process.pid, process.usedGpuMemory) for process in found),)


def field(answer: Any) -> float:
    """The value of one nvmlFieldValue_t.

    Raises:
        NvmlCallError: the driver has none.
    """
    if answer.nvmlReturn != 0:
        raise NvmlCallError(answer.nvmlReturn, _FIELDS, f"field {answer.fieldId}")
    if answer.valueType >= len(_MEMBERS):
        raise NvmlCallError(UNKNOWN, _FIELDS, f"field {answer.fieldId} is of an unknown type")
    value: float = getattr(answer.value, _MEMBERS[answer.valueType])
    return value


def one_field(answers: Any) -> Values:
    """A single field."""
    return (float(field(answers[0])),)


def retired(answers: Any) -> Values:
    """All retired pages; whether some wait."""
    single, double, pending = (int(field(answer)) for answer in answers)
    return (single + double, pending != 0)


def nvlink_data(answers: Any) -> Values:
    """10^6 bytes sent and received."""
    return tuple(field(answer) * 1024.0 / _MB for answer in answers)


def nvlinks(call: CallNvml, handle: object) -> Values:
    """Links that there are, that are up, and the errors of all."""
    there = int(field(call(_FIELDS, handle, [_NVLINK_COUNT])[0]))
    if not there:
        return (0, 0, None)
    up, unwired = [], 0
    for link in range(there):
        try:
            if call("nvmlDeviceGetNvLinkState", handle, link) == 1:
                up.append(link)
        except NvmlCallError as error:
            unwired += (
                1  # a link that this board does not wire; if it is all of them, the question is at fault
            )
            if unwired == there or error.code not in (NOT_SUPPORTED, INVALID_ARGUMENT):
                raise
    errors = _sum(call(_FIELDS, handle, list(_NVLINK_ERROR_TOTALS)))
    if errors is None and up:
        errors = _sum(call(_FIELDS, handle, [(kind, link) for link in up for kind in _NVLINK_LINK_ERRORS]))
    return (there, len(up), errors)


def _sum(answers: Iterable[Any]) -> int | None:
    """Of those that the driver has; None where it has none."""
    known = [int(field(answer)) for answer in answers if answer.nvmlReturn == 0]
    return sum(known) if known else None
