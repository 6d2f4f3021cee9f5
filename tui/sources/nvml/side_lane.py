"""The lane of what is slow: a pass over the devices whenever the last one has ended, waited for by nobody."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tui.model.text import clean
from tui.sources.nvml.errors import NvmlCallError
from tui.sources.nvml.gpm import GAP_S
from tui.sources.nvml.lanes import Lane, Sweep
from tui.sources.nvml.side import SideDevice

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tui.sources.nvml.binding import Binding, CallNvml
    from tui.sources.nvml.device import Device

STUCK_AFTER_S = 3.0
"""The slowest call takes 20 ms: one that has not returned after this does not return soon."""


class SideLane:
    """Slow figures of all devices. Its methods are for one thread, which is not the lane's.

    Args:
        binding: the session that others begin and end.
        monotonic: seconds that only grow.
    """

    def __init__(self, binding: Binding, monotonic: Callable[[], float]) -> None:
        self.lane = Lane("nvml slow", monotonic)
        self._binding = binding
        self._monotonic = monotonic
        self._devices: dict[Device, SideDevice] = {}
        self._sweep: Sweep[SideDevice] = Sweep()
        self._failure = ""
        self._hurry = threading.Event()

    def of(self, device: Device) -> SideDevice | None:
        """What there is for a device."""
        return self._devices.get(device)

    def problem(self) -> str:
        """Why figures are missing, as ``missing`` has it; empty where all is well."""
        if self.lane.busy and self._monotonic() - self.lane.since >= STUCK_AFTER_S:
            return f"stuck: {self.lane.stuck()}"
        return self._failure

    def begin(self, devices: Sequence[Device], held: Collection[Device], chore: Callable[[], None]) -> None:
        """Start a pass, if the last one has ended.

        Args:
            devices: all devices, just asked.
            held: those that hold a call of another lane; they are left alone.
            chore: done after the pass; it may take long, too.
        """
        if self.lane.busy:
            return
        gone = [self._devices.pop(device) for device in list(self._devices) if device not in devices]
        for device in devices:
            if device.handle is None or isinstance(device.handle, NvmlCallError):
                continue
            side = self._devices.get(device)
            if side is None:
                side = self._devices[device] = SideDevice(self._binding, device.handle)
            side.figures = device.found.failure is None
            side.gpu_instances = tuple(
                dict.fromkeys(i.gpu_instance for i in device.found.instances if i.gpu_instance is not None)
            )
        sweep = self._sweep = Sweep(side for device, side in self._devices.items() if device not in held)
        self._hurry.clear()
        now = self._monotonic()
        self.lane.start(lambda: self._pass(sweep, gone, chore, now))

    def quiet(self, seconds: float) -> bool:
        """End the pass early; whether it has ended within so long."""
        self._sweep.give_up()
        self._hurry.set()
        return self.lane.wait(seconds)

    def drop(self, call: CallNvml) -> None:
        """Give everything back before the session ends; only after ``quiet``."""
        devices, self._devices = self._devices, {}
        self._failure = ""
        for side in devices.values():
            side.close(call)

    def _pass(
        self, sweep: Sweep[SideDevice], gone: list[SideDevice], chore: Callable[[], None], now: float
    ) -> None:
        call = self._binding.calls(self.lane)
        try:
            for side in gone:
                side.close(call)
            while (side_device := sweep.take()) is not None:
                side_device.ask(call, now)
            # so that a program that reads twice and ends has them, too
            waiting = [side for side in sweep.done if side.waits]
            if waiting and not self._hurry.wait(GAP_S):
                for side in waiting:
                    side.again(call, now)
            self._failure = ""
            self.lane.doing, self.lane.since = "the state file", self._monotonic()
            chore()
            self.lane.doing = ""
        except NvmlCallError as error:
            self._failure = f"{error.reason}: {error}"
        except Exception as error:  # noqa: BLE001  # a bug here must cost neither the thread nor the fast figures
            self._failure = clean(f"driver_error: unexpected {type(error).__name__}: {error}")
