"""GPM, the profiling figures of Hopper and newer: what two samples some time apart have between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.sources.nvml.asking import RETRY_ERROR_MAX_S, RETRY_LASTING_S, missing
from tui.sources.nvml.errors import (
    DEVICE_FATAL,
    LASTING,
    LIBRARY_FATAL,
    NOT_SUPPORTED,
    NvmlCallError,
)

if TYPE_CHECKING:
    from tui.model.readings import Missing
    from tui.sources.nvml.binding import Binding, CallNvml

GAP_S = 0.12
"""The driver wants 100 ms between two samples."""
_ENABLE = "Hopper or newer; or DCGM's profiling fields"

_PERCENT = 100.0
_MIB_S = 1e6 / 1024.0**2

# NVML_GPM_METRIC_*: number, field, and how much of its unit is one of ours.
_METRICS: tuple[tuple[int, str, float], ...] = (
    (2, "gpm_sm_active", _PERCENT),
    (3, "gpm_sm_occupancy", _PERCENT),
    (5, "gpm_tensor_active", _PERCENT),
    (10, "gpm_dram_active", _PERCENT),
    (20, "pcie_tx_mb_s", _MIB_S),
    (21, "pcie_rx_mb_s", _MIB_S),
    (60, "nvlink_rx_mb_s", _MIB_S),
    (61, "nvlink_tx_mb_s", _MIB_S),
)
FIELDS = tuple(field for _, field, _ in _METRICS)[:4]
"""Those that only GPM has; the traffic is for devices that have no counters of it."""


class Gpm:
    """GPM of one device, or of one GPU instance of a device in MIG mode.

    Args:
        binding: for the structures.
        gpu_instance: the GPU instance; None for the whole device.
    """

    def __init__(self, binding: Binding, gpu_instance: int | None = None) -> None:
        self.values: dict[str, float] = {}
        self.missing: tuple[Missing, ...] = ()
        self._binding = binding
        self._gpu_instance = gpu_instance
        self._request: Any = None
        self._last: Any = None
        self._spare: Any = None
        self._sampled = False
        self._due = float("-inf")

    @property
    def waits(self) -> bool:
        """It has one sample and no figure yet."""
        return self._sampled and not self.values and not self.missing

    def ask(self, call: CallNvml, handle: object, now: float) -> None:
        """Take a sample and make figures of it and the one before.

        Raises:
            NvmlCallError: the device, or NVML as a whole, cannot be asked.
        """
        if now < self._due:
            return
        try:
            self._sample(call, handle)
            before, self._sampled = self._sampled, True
            self._last, self._spare = self._spare, self._last
            if before:
                self._figures(call)
            self.missing = ()
        except NvmlCallError as error:
            self.values = {}
            if error.code in LIBRARY_FATAL or error.code in DEVICE_FATAL:
                raise
            self.missing = tuple(missing(field, error, _ENABLE) for field in FIELDS)
            self._due = now + (RETRY_LASTING_S if error.code in LASTING else RETRY_ERROR_MAX_S)

    def close(self, call: CallNvml) -> None:
        """Give the samples back; may raise ``NvmlCallError``."""
        for sample in (self._last, self._spare):
            if sample is not None:
                call("nvmlGpmSampleFree", sample)
        self._last = self._spare = None
        self._sampled = False

    def _sample(self, call: CallNvml, handle: object) -> None:
        if self._request is None:
            support = call("nvmlGpmQueryDeviceSupport", handle)
            if not support.isSupportedDevice:
                raise NvmlCallError(
                    NOT_SUPPORTED, "nvmlGpmQueryDeviceSupport", "not supported by this device"
                )
            self._request = self._binding.gpm_request([number for number, _, _ in _METRICS])
        self._last = self._last or call("nvmlGpmSampleAlloc")
        self._spare = self._spare or call("nvmlGpmSampleAlloc")
        if self._gpu_instance is None:
            call("nvmlGpmSampleGet", handle, self._spare)
        else:
            call("nvmlGpmMigSampleGet", handle, self._gpu_instance, self._spare)

    def _figures(self, call: CallNvml) -> None:
        request = self._request
        request.sample1, request.sample2 = self._spare, self._last
        call("nvmlGpmMetricsGet", request)
        values = {}
        for place, (_, field, unit) in enumerate(_METRICS):
            metric = request.metrics[place]
            value = metric.value  # once: the binding's structures make each look 1.5 us
            if metric.nvmlReturn == 0 and value == value:  # NaN is unknown, too
                values[field] = value / unit
        self.values = values
