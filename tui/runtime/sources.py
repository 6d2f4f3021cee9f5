"""Where the monitor gets its sources: the real ones, or others with the same faces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tui.memory.model_files import ModelFiles
    from tui.model.death import DeathCase, DeathReading
    from tui.model.own_test import OwnTest
    from tui.model.places import ContainerReading, Place, UnitReading
    from tui.model.readings import EngineKind, EngineReading, GpuSet, HostReading, ProcessTable
    from tui.model.settings import EngineTarget, ProbeSpec
    from tui.runtime.stops import StopMarkSource
    from tui.sources.base import AsyncSource, BlockingSource
    from tui.sources.engine_processes import EngineProcessSource
    from tui.sources.probes import Prober


@dataclass(frozen=True, slots=True)
class Sources:
    """How to make each source. Nothing is opened until the first read."""

    gpus: Callable[[], BlockingSource[GpuSet]]
    host: Callable[[], BlockingSource[HostReading]]
    processes: Callable[[], BlockingSource[ProcessTable]]
    engine: Callable[[EngineTarget], AsyncSource[EngineReading]]
    prober: Callable[[EngineTarget, ProbeSpec], Prober]
    """Makes one probe, httpGet or tcpSocket."""
    generator: Callable[[EngineTarget, EngineKind], Prober]
    """Makes the generate probe of an engine that has a route for it."""
    is_local: Callable[[str], bool]
    simulated: bool = False
    container: Callable[[Place], AsyncSource[ContainerReading]] | None = None
    """Of a place's container; None: containers are not asked about."""
    model: Callable[[Mapping[str, str], int], ModelFiles] | None = None
    """Reads the model files of an engine, given its options and a process of it; may block."""
    unit: Callable[[Place], AsyncSource[UnitReading]] | None = None
    """Of a place's systemd unit."""
    state: Path | None = None
    """The directory of what is kept between runs; None: nothing is."""
    death: Callable[[DeathCase], AsyncSource[DeathReading]] | None = None
    """Of one engine that has gone; None: its end is not looked into."""
    stop_mark: Callable[[DeathCase], StopMarkSource | None] | None = None
    """Of an engine's log, where one is known; None: logs are not read."""
    tests: Callable[[], AsyncSource[Mapping[str, OwnTest]]] | None = None
    """Of the engines that tests of ours have stopped or are stopping, by URL."""
    own: Callable[[], EngineProcessSource] | None = None
    """Of the engines' own processes; None: they are not looked into."""
