"""Every NVML function that the source calls, and the fields of a reading that fail with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.sources.nvml.gpm import FIELDS as GPM_FIELDS

if TYPE_CHECKING:
    from tui.model.status import Reason

ABSENT: dict[int, Reason] = {3: "not_supported", 13: "old_driver"}
REFUSED: dict[int, Reason] = {4: "no_permission", 999: "driver_error"}

_ECC = ("ecc_uncorrected", "ecc_corrected", "ecc_aggregate_uncorrected", "ecc_aggregate_corrected")
_REMAP = ("remap_corrected", "remap_uncorrected", "remap_pending", "remap_failed")
_RETIRED = ("retired_pages", "retired_pending")

CALLS: dict[str, tuple[str, ...]] = {
    "nvmlDeviceGetUUID": ("uuid",),
    "nvmlDeviceGetName": ("name",),
    "nvmlDeviceGetUtilizationRates": ("sm_pct", "mem_ctrl_pct"),
    "nvmlDeviceGetPowerUsage": ("power_w",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit_w",),
    "nvmlDeviceGetTemperature": ("temp_c",),
    "nvmlDeviceGetClockInfo": ("clock_sm_mhz", "clock_mem_mhz"),
    "nvmlDeviceGetMaxClockInfo": ("clock_max_mhz",),
    "nvmlDeviceGetTotalEccErrors": _ECC,
    "nvmlDeviceGetRemappedRows": _REMAP,
    "nvmlDeviceGetFieldValues": (*_RETIRED, "mem_temp_c"),
    "fi_30": _RETIRED,
    "fi_82": ("mem_temp_c",),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("pcie_gen",),
    "nvmlDeviceGetCurrPcieLinkWidth": ("pcie_width",),
    "nvmlDeviceGetMaxPcieLinkGeneration": ("pcie_gen_max",),
    "nvmlDeviceGetMaxPcieLinkWidth": ("pcie_width_max",),
    "nvmlDeviceGetPciInfo_v3": ("pci_bus_id",),
    "nvmlDeviceGetMigMode": ("mig",),
    "nvmlDeviceGetTotalEnergyConsumption": ("energy_j",),
    "nvmlDeviceGetPersistenceMode": ("persistence",),
    "nvmlDeviceGetComputeMode": ("compute_mode",),
}
"""Each function, and each field value, that answers alone for its fields."""

FALLBACKS: dict[tuple[str, str], tuple[str, ...]] = {
    ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"): (
        "mem_used_mib",
        "mem_total_mib",
        "mem_reserved_mib",
    ),
    ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"): ("throttle",),
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"): ("processes",),
}
"""A new function and the older one for the same fields."""

SLOW_CALLS: dict[str, tuple[str, ...]] = {
    "nvmlDeviceGetPcieThroughput": ("pcie_tx_mb_s", "pcie_rx_mb_s"),
    "nvmlDeviceGetNvLinkState": ("nvlinks", "nvlinks_up", "nvlink_errors"),
    "fi_91": ("nvlinks", "nvlinks_up", "nvlink_errors"),
    "fi_138": ("nvlink_tx_mb_s", "nvlink_rx_mb_s"),
    "nvmlDeviceGetProcessUtilization": ("process_sm_pct",),
    "nvmlGpmQueryDeviceSupport": GPM_FIELDS,
    "nvmlGpmSampleGet": GPM_FIELDS,
    "nvmlGpmMetricsGet": GPM_FIELDS,
    "nvmlDeviceGetSupportedEventTypes": ("xid",),
    "nvmlDeviceRegisterEvents": ("xid",),
    "nvmlEventSetWait_v2": ("xid",),
}
"""Those of the slow lane, with the fields of ``missing``."""

WHOLE = ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2")
"""Those that concern no single device."""
