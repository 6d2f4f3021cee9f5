"""The simulated machine behind the faces of the real sources."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from tui.demo.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.demo.load import EngineLoad
    from tui.demo.spec import MachineSpec
    from tui.model.readings import GpuSet, HostReading


class Loaded(Protocol):
    """Who knows what the engine does now: the supervisor."""

    @property
    def load(self) -> EngineLoad:
        """The engine's work over the last second."""

    @property
    def machine(self) -> MachineSpec:
        """What the machine around it is like."""

    @property
    def pids(self) -> Mapping[str, int]:
        """Its processes by title."""


class SimulatedGpus:
    """A ``BlockingSource[GpuSet]`` that never blocks.

    ``load`` and ``pids`` are whole objects that the loop's thread replaces: reading them needs no lock.
    """

    name = "nvml"
    doing = ""

    def __init__(self, engine: Loaded, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._machine = Machine()

    def read(self) -> GpuSet:
        """The cards now."""
        self._machine.advance(self._engine.load, self._monotonic(), self._engine.machine)
        return self._machine.gpus(self._engine.pids)

    def close(self) -> None:
        """Nothing is held."""


class SimulatedHost:
    """A ``BlockingSource[HostReading]`` for the same machine; only its disk remembers anything."""

    name = "host"
    doing = ""

    def __init__(self, engine: Loaded, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._machine = Machine()

    def read(self) -> HostReading:
        """The host now."""
        now = self._monotonic()
        self._machine.advance(self._engine.load, now, self._engine.machine)
        return self._machine.host(now)

    def close(self) -> None:
        """Nothing is held."""
