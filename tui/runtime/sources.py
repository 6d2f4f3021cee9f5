"""Where the monitor gets its sources: the real ones, or others with the same faces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tui.memory.model_files import ModelFiles
    from tui.model.places import ContainerReading, UnitReading
    from tui.model.readings import EngineKind, EngineReading, GpuSet, HostReading, ProbeReading, ProcessTable
    from tui.model.settings import EngineTarget
    from tui.sources.base import AsyncSource, BlockingSource


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """One probe route and how often it is called."""

    source: AsyncSource[ProbeReading]
    period_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Sources:
    """How to make each source. Nothing is opened until the first read."""

    gpus: Callable[[], BlockingSource[GpuSet]]
    host: Callable[[], BlockingSource[HostReading]]
    processes: Callable[[], BlockingSource[ProcessTable]]
    engine: Callable[[EngineTarget], AsyncSource[EngineReading]]
    probes: Callable[[EngineTarget, EngineKind], tuple[ProbePlan, ...]]
    is_local: Callable[[str], bool]
    simulated: bool = False
    container: Callable[[str], AsyncSource[ContainerReading]] | None = None
    """Of a container by its id; None: containers are not asked about."""
    model: Callable[[Mapping[str, str], int], ModelFiles] | None = None
    """Reads the model files of an engine, given its options and a process of it; may block."""
    unit: Callable[[str], AsyncSource[UnitReading]] | None = None
    """Of a systemd unit by its name."""
    state: Path | None = None
    """The directory of what is kept between runs; None: nothing is."""
