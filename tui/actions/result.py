"""What a test saw, as facts: from it alone the report is made and judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tui.actions.exits import UNKNOWN, Exit

if TYPE_CHECKING:
    from tui.actions.plan import HeldProcess, Plan
    from tui.actions.traffic import OwnRequest

EventName = Literal[
    "signal_sent", "first_refused", "last_accepted", "readiness_down", "port_closed", "first_exit",
    "main_exit", "clients_closed", "gpu_released", "killed", "spawned", "port_open", "ready", "first_token",
    "cache_warm",
]  # fmt: skip


class CannotRunError(Exception):
    """The test ended before anything was done to the engine; the message says why, for the user."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, in seconds of the test's monotonic clock."""

    at: float
    name: EventName
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of a restart, in seconds since the action."""

    name: Literal["down", "starting", "weights", "compile", "ready", "first_token", "cache_warm"]
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process of the engine that outlived its main process."""

    process: HeldProcess
    gpu_mem_mib: float | None
    """None where NVML does not tell."""


@dataclass(slots=True)
class Result:
    """One test, whole; instants are seconds of the test's monotonic clock."""

    plan: Plan
    started_at: float
    """Epoch seconds."""
    action_at: float
    events: list[Event] = field(default_factory=list)
    requests: list[OwnRequest] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    closed_at: float | None = None
    """When silent requests of ours were closed; None: it was not needed."""
    killed_at: float | None = None
    gave_up: bool = False
    """It did not exit, or did not come back, and was left as it is."""
    exit: Exit = UNKNOWN
    leftovers: list[Leftover] | None = None
    """None: the main process did not end, or its processes could not be watched."""
    downtime_s: float | None = None
    detect_s: float | None = None
    cancelled: bool = False
    target_state: str = ""
    """What the engine was doing when the test ended, for a person."""
    notes: list[str] = field(default_factory=list)

    def at(self, name: EventName) -> float | None:
        """When an event came first."""
        return next((event.at for event in self.events if event.name == name), None)

    @property
    def exit_after_s(self) -> float | None:
        """From the action to the end of the main process."""
        at = self.at("main_exit")
        return None if at is None else at - self.action_at
