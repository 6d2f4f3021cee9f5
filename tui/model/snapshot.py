"""All latest readings and their statuses at one instant: what verdicts, screen and JSON are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tui.model.status import Observed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.death import DeathReading
    from tui.model.engine_host import EngineHostReading
    from tui.model.memory import EngineMemory, Orphan
    from tui.model.places import ContainerReading, Place, UnitReading
    from tui.model.readings import (
        EngineProcess,
        EngineReading,
        GpuSet,
        HostReading,
        Missing,
        ProbeKind,
        ProbeReading,
    )
    from tui.model.settings import ProbeSpec


@dataclass(frozen=True, slots=True)
class EngineView:
    """One engine endpoint as known at the instant: scrape, probes, and its processes on this host."""

    url: str
    engine: Observed[EngineReading] = Observed()
    known: EngineReading | None = None
    """Who it said to be, without figures, where the read failed after that."""
    probes: tuple[ProbeReading, ...] = ()
    probe_specs: Mapping[ProbeKind, ProbeSpec] = field(default_factory=dict)
    """The probes in force by kind, paths filled in; empty until the engine's kind is known."""
    probe_origin: str = ""
    """For a person: where these settings come from, e.g. ``vllm's defaults`` or ``pod.yaml:12``."""
    probe_platform: Literal["kubernetes", "docker"] = "kubernetes"
    """Whose rules the liveness probe follows; ``docker``: it is a HEALTHCHECK, which restarts nothing."""
    probe_requests: int = 0
    """Requests of this program to its health routes in the last 60 s."""
    local: bool = False
    """The URL is an address of this host, so that absence from the process table means something."""
    processes: tuple[EngineProcess, ...] | None = None
    """The engine's tree (HTTP process first); empty: none was found; None: not known."""
    ever_served: bool = False
    """This program has seen it serve."""
    served_last: float | None = None
    """Monotonic seconds of the last successful scrape."""
    discovered: bool = False
    place: Place | None = None
    """Where its server runs, or last ran."""
    container: Observed[ContainerReading] = Observed()
    unit: Observed[UnitReading] = Observed()
    unverified: bool = False
    """Its certificate is not checked, as the settings ask."""
    proxy: str = ""
    """Host and port of the HTTP proxy that it is read through, empty: none. Probes use none."""
    memory: EngineMemory | None = None
    """Where its GPU memory went; None where neither its model nor its processes are known."""
    args: Mapping[str, str] = field(default_factory=dict)
    """Command-line options as given, by long name without dashes; secrets redacted."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """What the engine's version does where an option was not given, as far as that is certain."""
    own: Observed[EngineHostReading] = Observed()
    """What the kernel says of its processes; pending where they are not of this host."""
    death: Observed[DeathReading] = Observed()
    """How its last end came about; pending until one was seen."""
    stopping: str = ""
    """Who says that it was asked to stop, for a person; empty: nobody does."""
    our_test: str = ""
    """What a restart test of ours says of an engine that is not there; empty: none waits for it."""
    as_planned: bool = False
    """... and that it is not there yet is what the test expects."""
    untold: tuple[Missing, ...] = ()
    """What nothing here tells of it, beside the figures of its scrape."""

    @property
    def simulated(self) -> bool:
        """It says, or last said, that it is none."""
        known = self.known or self.engine.reading
        return known is not None and known.simulated


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """The host at one instant. A lost source keeps its last reading; its status ages it."""

    taken_at: float
    """Monotonic seconds."""
    wall: float
    """Epoch seconds."""
    hostname: str = ""
    gpus: Observed[GpuSet] = Observed()
    host: Observed[HostReading] = Observed()
    engines: tuple[EngineView, ...] = ()
    interval_s: float = 1.0
    simulated: bool = False
    """Anything in it is."""
    read_only: bool = False
    discovery_done: bool = True
    """False until the first look for engines has ended."""
    hidden: str = ""
    """For a person: what cannot be seen of the processes of this host, and what would bring it."""
    generate: bool = False
    """The generate probe is switched on."""
    on_sockets: tuple[EngineProcess, ...] = ()
    """Servers found here that take HTTP at a Unix socket alone, so that no address leads to them."""
    orphans: tuple[Orphan, ...] | None = None
    """Processes that hold memory for nothing; None where neither process table nor driver can be read."""

    @property
    def simulated_engines(self) -> tuple[EngineView, ...]:
        """Those to be marked one by one: some among others; none where everything is simulated."""
        some = tuple(view for view in self.engines if view.simulated)
        return some if len(some) < len(self.engines) else ()
