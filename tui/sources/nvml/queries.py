"""What each device is asked, how often, and by which functions: tables, newest function first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tui.sources.nvml import convert

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.sources.nvml.binding import CallNvml

# Arguments by their values in nvml.h, so that the tables need no import of the binding.
_CLOCK_SM, _CLOCK_MEM = 1, 2
_TEMPERATURE_GPU = 0
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
_MEMORY_V2 = 0x02000028
_PCIE_TX, _PCIE_RX = 0, 1

EACH = 0.0
"""At every reading."""
CLOCKS = 3.5
"""At every fourth reading, one a second: clocks may be 5 s old, and are a quarter of what each would ask."""
SLOW = 5.0
"""Every 5 s: what changes seldom, or takes the driver long."""
RARE = 15.0
"""Every 15 s: what takes many calls."""
ONCE = float("inf")
"""Once in a session with the driver: what never changes."""


class Ask(Protocol):
    """One way of answering a query."""

    def ask(self, call: CallNvml, handle: object) -> tuple[object, ...]:
        """The values of its fields; raises ``NvmlCallError``."""
        ...


class Call(NamedTuple):
    """One function: its arguments after the handle, and its answer as values."""

    function: str
    arguments: tuple[object, ...]
    convert: Callable[[Any], tuple[object, ...]]

    def ask(self, call: CallNvml, handle: object) -> tuple[object, ...]:
        """Call it."""
        return self.convert(call(self.function, handle, *self.arguments))


class Calls(NamedTuple):
    """Several functions for one answer."""

    compose: Callable[[CallNvml, object], tuple[object, ...]]

    def ask(self, call: CallNvml, handle: object) -> tuple[object, ...]:
        """Call them."""
        return self.compose(call, handle)


@dataclass(frozen=True, slots=True)
class Query:
    """One question to a device.

    Attributes:
        fields: fields of ``GpuReading`` that the answer fills, in the order of the values.
        calls: ways to the answer, newest first; the next is tried where one is absent.
        period_s: seconds between two asks.
        enable: what would bring the figure where a device does not support it.
        rate: the answers only grow, and their growth in a second is the figure.
    """

    fields: tuple[str, ...]
    calls: tuple[Ask, ...]
    period_s: float = EACH
    enable: str = ""
    rate: bool = False


def _one(
    field: str,
    function: str,
    *arguments: object,
    to: Callable[[Any], tuple[object, ...]] = convert.plain,
    every: float = EACH,
    enable: str = "",
) -> Query:
    return Query((field,), (Call(function, arguments, to),), every, enable)


def _ecc(field: str, kind: int, since: int) -> Query:
    return _one(
        field,
        "nvmlDeviceGetTotalEccErrors",
        kind,
        since,
        every=SLOW,
        enable="ECC memory with its ECC mode on",
    )


IDENTITY: tuple[Query, ...] = (
    _one("uuid", "nvmlDeviceGetUUID", to=convert.text, every=RARE),
    _one("name", "nvmlDeviceGetName", to=convert.text, every=ONCE),
    _one("pci_bus_id", "nvmlDeviceGetPciInfo_v3", to=convert.bus_id, every=ONCE),
)
"""Who a device is, asked before anything else. The UUID is asked again: a handle is only as good as the card
behind it."""

_MEMORY = Query(
    ("mem_used_mib", "mem_total_mib", "mem_reserved_mib"),
    (
        Call("nvmlDeviceGetMemoryInfo", (_MEMORY_V2,), convert.memory_v2),
        Call("nvmlDeviceGetMemoryInfo", (), convert.memory_v1),
    ),
    enable="a GPU with memory of its own",
)
_PROCESSES = Query(
    ("processes",),
    (
        Call("nvmlDeviceGetComputeRunningProcesses_v3", (), convert.processes),
        Call("nvmlDeviceGetComputeRunningProcesses_v2", (), convert.processes),
    ),
)

QUERIES: tuple[Query, ...] = (
    Query(
        ("sm_pct", "mem_ctrl_pct"),
        (Call("nvmlDeviceGetUtilizationRates", (), convert.utilization),),
        enable="a GPU that is not in MIG mode",
    ),
    _MEMORY,
    _one("power_w", "nvmlDeviceGetPowerUsage", to=convert.thousandths),
    _one("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", to=convert.thousandths, every=SLOW),
    _one("temp_c", "nvmlDeviceGetTemperature", _TEMPERATURE_GPU, to=convert.whole),
    Query(
        ("throttle",),
        (
            Call("nvmlDeviceGetCurrentClocksEventReasons", (), convert.throttle),
            Call("nvmlDeviceGetCurrentClocksThrottleReasons", (), convert.throttle),
        ),
    ),
    _one("clock_sm_mhz", "nvmlDeviceGetClockInfo", _CLOCK_SM, to=convert.whole, every=CLOCKS),
    _one("clock_mem_mhz", "nvmlDeviceGetClockInfo", _CLOCK_MEM, to=convert.whole, every=CLOCKS),
    _one("clock_max_mhz", "nvmlDeviceGetMaxClockInfo", _CLOCK_SM, to=convert.whole, every=ONCE),
    _PROCESSES,
    _ecc("ecc_uncorrected", _UNCORRECTED, _VOLATILE),
    _ecc("ecc_corrected", _CORRECTED, _VOLATILE),
    _ecc("ecc_aggregate_uncorrected", _UNCORRECTED, _AGGREGATE),
    _ecc("ecc_aggregate_corrected", _CORRECTED, _AGGREGATE),
    Query(
        ("remap_corrected", "remap_uncorrected", "remap_pending", "remap_failed"),
        (Call("nvmlDeviceGetRemappedRows", (), convert.remapped),),
        SLOW,
        "a GPU that remaps rows (Ampere or newer, with ECC memory)",
    ),
    Query(
        ("retired_pages", "retired_pending"),
        (Call("nvmlDeviceGetFieldValues", (list(convert.RETIRED),), convert.retired),),
        SLOW,
        "a GPU that retires pages (older than Ampere, with ECC memory)",
    ),
    _one("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration", every=SLOW),
    _one("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", every=SLOW),
    _one("pcie_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", every=ONCE),
    _one("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", every=ONCE),
    _one("mig", "nvmlDeviceGetMigMode", to=convert.current_mode, every=SLOW, enable="a GPU that has MIG"),
    _one(
        "mem_temp_c",
        "nvmlDeviceGetFieldValues",
        [convert.MEMORY_TEMP],
        to=convert.one_field,
        every=SLOW,
        enable="a GPU that measures its memory (HBM)",
    ),
    _one("energy_j", "nvmlDeviceGetTotalEnergyConsumption", to=convert.thousandths, every=SLOW),
    _one("persistence", "nvmlDeviceGetPersistenceMode", to=convert.flag, every=SLOW),
    _one("compute_mode", "nvmlDeviceGetComputeMode", to=convert.compute_mode, every=SLOW),
)
"""Of each device, in the order of asking."""

MIG_QUERIES: tuple[Query, ...] = (*IDENTITY[:2], _MEMORY, _PROCESSES)
"""Of each MIG instance; the rest is its card's."""

SIDE_QUERIES: tuple[Query, ...] = (
    Query(
        ("nvlink_tx_mb_s", "nvlink_rx_mb_s"),
        (Call("nvmlDeviceGetFieldValues", (list(convert.NVLINK_DATA),), convert.nvlink_data),),
        2.0,
        "a GPU with NVLink",
        rate=True,
    ),
    Query(
        ("nvlinks", "nvlinks_up", "nvlink_errors"),
        (Calls(convert.nvlinks),),
        RARE,
        "a GPU with NVLink",
    ),
    # 20 ms a call, and that twice
    _one("pcie_tx_mb_s", "nvmlDeviceGetPcieThroughput", _PCIE_TX, to=convert.kilobytes, every=SLOW),
    _one("pcie_rx_mb_s", "nvmlDeviceGetPcieThroughput", _PCIE_RX, to=convert.kilobytes, every=SLOW),
)
"""Of each device, on a thread of their own: what may take long."""
