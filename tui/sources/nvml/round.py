"""One reading's calls as the job of a lane: the session, the count, then each device in turn."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tui.model.text import clean
from tui.sources.nvml.device import OPEN, Device
from tui.sources.nvml.errors import NvmlCallError
from tui.sources.nvml.lanes import Sweep

if TYPE_CHECKING:
    from collections.abc import Collection

    from tui.sources.nvml.binding import Binding, Caller
    from tui.sources.nvml.lanes import Lane
    from tui.sources.nvml.side_lane import SideLane


class Session:
    """One session with the driver and its devices. Used by one thread at a time.

    Args:
        binding: how NVML is called.
    """

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.devices: tuple[Device, ...] = ()
        self.driver_version: str | None = None
        self._counted: int | None = None

    def ready(self, caller: Caller, *, keep: bool) -> None:
        """Begin it, if there is none, and take the devices anew, if they have changed.

        Args:
            caller: the lane.
            keep: leave the devices as they are, for one of them holds a call.

        Raises:
            SourceError: no session can be had.
            NvmlCallError: the devices cannot be counted.
        """
        call = self.binding.calls(caller)
        if not self.binding.initialised:
            self.binding.initialise(caller)
            self._counted = None
            self.driver_version = None
            with contextlib.suppress(
                NvmlCallError
            ):  # for show only; if NVML is unusable the next call says so
                self.driver_version = clean(call("nvmlSystemGetDriverVersion"))
        count: int = call("nvmlDeviceGetCount")
        changed = count != self._counted or any(device.changed for device in self.devices)
        if changed and not keep:
            self.devices = tuple(Device(position) for position in range(count))
            self._counted = count

    def end(self, caller: Caller, side: SideLane) -> None:
        """End it; only while no other thread is in a call."""
        if self.binding.initialised:
            side.drop(self.binding.calls(caller))
            self.binding.close(caller)


class Round:
    """The calls of one reading.

    Args:
        session: the session.
        lane: whose job it is.
        now: monotonic seconds.
        skip: devices that hold a call of another lane.
    """

    def __init__(self, session: Session, lane: Lane, now: float, skip: Collection[Device]) -> None:
        self.sweep: Sweep[Device] | None = None
        """The pass over the devices; None before it has begun."""
        self._session = session
        self.lane = lane
        self._now = now
        self._skip = skip
        self._error: Exception | None = None

    @property
    def opening(self) -> bool:
        """It begins the session, or looks at a device for the first time."""
        return self.sweep is None or self.lane.doing == OPEN

    def start(self, ending: SideLane | None = None) -> None:
        """Start it on its lane.

        Args:
            ending: the slow lane, which must be quiet: the session is ended first and a new one begun.
        """
        self.lane.start(lambda: self._run(ending))

    def take_over(self, devices: Collection[Device]) -> None:
        """Start on what another round has left."""
        self.sweep = Sweep(devices)
        self.lane.start(lambda: self._run(None))

    def finish(self) -> None:
        """After its end: raise what it raised."""
        if self._error is not None:
            raise self._error

    def _run(self, ending: SideLane | None) -> None:
        try:
            if self.sweep is None:
                if ending is not None:
                    self._session.end(self.lane, ending)
                self._session.ready(self.lane, keep=bool(self._skip))
                self.sweep = Sweep(device for device in self._session.devices if device not in self._skip)
            call = self._session.binding.calls(self.lane)
            while (device := self.sweep.take()) is not None:
                device.read(call, self._now)
        except Exception as error:  # noqa: BLE001  # raised by ``finish``, on the thread that reads
            self._error = error
