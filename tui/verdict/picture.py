"""Everything that a rule may see of one engine and its host, at one instant or over one observation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tui.model.units import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.death import DeathReading
    from tui.model.engine_host import EngineHostReading
    from tui.model.readings import (
        EngineKind,
        EngineReading,
        EngineState,
        GpuReading,
        HostReading,
        ProbeKind,
        ProbeReading,
        ProcessRole,
    )
    from tui.model.status import Reason

CoreState = Literal["alive", "zombie", "gone"]
Hold = Literal["stopped", "traced", "blocked", "zombie"]
NO_DEVICE = frozenset(("no_driver", "not_supported"))
"""Why devices cannot be read where there are none."""
HELD_SHOWN = 3
"""Processes that cannot run are named up to here: a Ctrl-Z stops every rank."""
FATAL_XIDS: frozenset[int] = frozenset((48, 63, 64, 79, 94, 95, 119, 154))
"""Xid codes that end the use of a device: memory, bus and GSP faults; not those of a faulty kernel."""


@dataclass(frozen=True, slots=True)
class Trends:
    """What the last seconds add to a reading; None where nothing watched or too little was seen."""

    waiting_held_s: float | None = None
    """Seconds for which requests have been waiting without a break."""
    waiting_change: float | None = None
    """Requests waiting now, less those waiting at the start of the window (30 s)."""
    running_change: float | None = None
    preempting_per_s: float | None = None
    """The greatest preemption rate of the window: thrash comes in bursts."""
    error_ratio: float | None = None
    """The newest error ratio of the last minute: it exists only while requests finish."""
    idle_s: float | None = None
    """Seconds for which nothing has been running or waiting, 30 at most."""
    queue_ended: bool = False
    """Nobody waits now, but somebody did within the latencies' window: late first tokens are theirs."""
    hang_ended: bool = False
    """It steps, but was hung within the latencies' window: late tokens are those of requests that hung."""
    usual_prefix_hit_ratio: float | None = None
    """The mean of the last 30 min before the window."""


@dataclass(frozen=True, slots=True)
class HeldProcess:
    """A process without which an engine makes no step, and which cannot run."""

    pid: int
    name: str
    how: Hold
    held_s: float | None = None
    """For how long it has been blocked."""

    @property
    def text(self) -> str:
        """What is wrong with it."""
        words = {
            "stopped": "is stopped (SIGSTOP)",
            "traced": "is held by a debugger",
            "blocked": f"has been blocked in the kernel (state D) for {seconds(self.held_s)}",
            "zombie": "is dead (zombie)",
        }
        return f"{self.name} pid {self.pid} {words[self.how]}"


@dataclass(frozen=True, slots=True)
class Processes:
    """What the process table says of one engine on this host."""

    http_alive: bool
    """The process that serves HTTP, or its launcher, exists and is no zombie."""
    core: CoreState | None = None
    """The engine core or scheduler; None where this engine has none or none was ever seen."""
    orphans: tuple[int, ...] = ()
    """Engine processes whose HTTP process is gone: they hold device memory."""
    held: tuple[HeldProcess, ...] = ()
    pids: frozenset[int] = frozenset()
    roles: Mapping[int, ProcessRole] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Picture:
    """One engine, its GPUs and its host; a source that gave nothing fresh is None, with the reason.

    ``phase`` is what the supervisor believes (an observation) or what scrape, probes and process
    table say together (live).
    """

    scope: str
    """The engine's URL, or the observation's id."""
    kind: EngineKind | None = None
    live: bool = False
    gpus: tuple[GpuReading, ...] | None = None
    gpus_reason: Reason | None = None
    gpus_ours: bool = True
    """The devices are known to be this engine's; False where they are only those that nobody else claims."""
    engine: EngineReading | None = None
    engine_reason: Reason | None = None
    host: HostReading | None = None
    probes: Mapping[ProbeKind, ProbeReading] = field(default_factory=dict)
    phase: EngineState | None = None
    held_s: float | None = None
    """Seconds for which this picture has been stable; None where nobody measured it."""
    trends: Trends = Trends()
    processes: Processes | None = None
    others_pids: frozenset[int] = frozenset()
    """Processes of the other engines under watch: what they do is not this one's doing."""
    local: bool = False
    ever_served: bool = False
    silent_s: float | None = None
    """Live: seconds for which the scrape has failed without a break; None while it succeeds."""
    seats: float | None = None
    """The engine's own limit of running requests, from its figures or its command line."""
    args: Mapping[str, str] = field(default_factory=dict)
    """Command-line options by long name without dashes, for advice."""
    stopping: str = ""
    """Live: who says that it was asked to stop."""
    our_test: str = ""
    """Live: what a restart test of ours says of an engine that is not there."""
    death: DeathReading | None = None
    """Live: how its last end came about, where that was looked into."""
    ended_s: float | None = None
    """Seconds since that end."""
    own: EngineHostReading | None = None
    """What the kernel says of its processes; None where they are not of this host, or not seen yet."""

    @property
    def no_devices(self) -> bool:
        """Its host is known to have no devices."""
        return self.gpus == () or self.gpus_reason in NO_DEVICE
