"""The source of GPU readings: one session with the driver, kept, and begun again when it has gone bad."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from tui.model.readings import GpuSet
from tui.model.text import clean
from tui.sources.nvml.binding import Binding
from tui.sources.nvml.device import Device
from tui.sources.nvml.errors import LIBRARY_FATAL, NvmlCallError, source_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.readings import GpuReading

RECOVER_FIRST_S = 30.0
RECOVER_MAX_S = 300.0
"""A lost or broken device often comes back only in a new session. One is begun after 30 s, then after twice
as long up to 300 s: it may cost a second for each device that nobody else holds open."""


class NvmlSource:
    """NVIDIA devices of this host. A ``BlockingSource[GpuSet]``: for one thread, which it may block for ever.

    Args:
        monotonic: seconds that only grow.
    """

    name = "nvml"

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.doing = ""
        self._monotonic = monotonic
        self._binding = Binding(self._report)
        self._devices: tuple[Device, ...] = ()
        self._counted: int | None = None
        self._driver_version: str | None = None
        self._recover_at: float | None = None
        self._recover_delay_s = RECOVER_FIRST_S

    def read(self) -> GpuSet:
        """All devices, in NVML's order; one that is lost or broken keeps its row, without figures.

        Raises:
            SourceError: ``no_driver``, ``driver_mismatch``, ``no_permission``, ``insufficient_power``,
                ``old_driver``, ``timeout`` or ``driver_error``: NVML as a whole cannot be used.
        """
        now = self._monotonic()
        call = self._binding.call
        if self._recover_at is not None and now >= self._recover_at:
            self._binding.close()
        try:
            if not self._binding.initialised:
                self._begin_session()
            count: int = call("nvmlDeviceGetCount")
            if count != self._counted:
                self._enumerate(count, now)
            gpus = tuple(device.read(call, now) for device in self._devices)
        except NvmlCallError as error:
            self._binding.close()
            raise source_error(error) from error
        self._plan_recovery(gpus, now)
        return GpuSet(gpus, self._driver_version)

    def close(self) -> None:
        """End the session with the driver."""
        self._binding.close()

    def _report(self, function: str) -> None:
        self.doing = function

    def _begin_session(self) -> None:
        self._binding.initialise()
        self._counted = None
        self._recover_at = None
        self._driver_version = None
        with contextlib.suppress(NvmlCallError):  # for show only; if NVML is unusable the next call says so
            self._driver_version = clean(self._binding.call("nvmlSystemGetDriverVersion"))

    def _enumerate(self, count: int, now: float) -> None:
        """Take the devices anew. Indices may have moved: a device is known by its UUID."""
        before = self._devices
        devices = tuple(Device(index, self._handle(index)) for index in range(count))
        for device in devices:
            device.identify(self._binding.call, now)
        present = {device.uuid for device in devices}
        for device, previous in zip(devices, before, strict=False):
            if device.uuid is None and previous.uuid not in present:
                device.remember(previous)
        self._devices = devices
        self._counted = count

    def _handle(self, index: int) -> object:
        """NVML's handle, or why there is none: one device must not hide the others."""
        try:
            handle: object = self._binding.call("nvmlDeviceGetHandleByIndex", index)
        except NvmlCallError as error:
            if error.code in LIBRARY_FATAL:
                raise
            return error
        return handle

    def _plan_recovery(self, gpus: tuple[GpuReading, ...], now: float) -> None:
        if all(gpu.state == "ok" for gpu in gpus):
            self._recover_at = None
            self._recover_delay_s = RECOVER_FIRST_S
        elif self._recover_at is None:
            self._recover_at = now + self._recover_delay_s
            self._recover_delay_s = min(2.0 * self._recover_delay_s, RECOVER_MAX_S)
