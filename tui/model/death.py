"""How an engine that is gone has ended, as far as this host can tell afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tui.model.readings import Missing

ExitSource = Literal["systemd", "docker"]


@dataclass(frozen=True, slots=True)
class ExitReading:
    """What its supervisor kept of the end of a process, and what it will do next."""

    source: ExitSource
    name: str
    """Of the unit or container."""
    code: int | None = None
    """0-255 as a shell would have it, 128 + signal included; None while it runs again, and where nobody
    kept it."""
    ended_at: float | None = None
    """Epoch seconds."""
    result: str | None = None
    """systemd's word for it: ``success``, ``exit-code``, ``signal``, ``core-dump``, ``oom-kill``,
    ``timeout``, ``watchdog``, ``start-limit-hit`` ..."""
    oom_killed: bool | None = None
    """The kernel ended it for memory; None where that is not told."""
    error: str = ""
    """Why it could not be started, in Docker's words."""
    policy: str | None = None
    """When it is started again: ``no``, ``always``, ``on-failure`` ..."""
    restarts: int | None = None
    """How often its supervisor has started it again."""
    grace_s: float | None = None
    """Seconds that its supervisor waits between SIGTERM and SIGKILL; infinite: for ever."""
    mem_limit_mib: float | None = None


@dataclass(frozen=True, slots=True)
class KernelLine:
    """A line of the kernel's log about this engine."""

    kind: Literal["oom", "xid"]
    text: str
    at: float | None = None
    """Epoch seconds."""


@dataclass(frozen=True, slots=True)
class DeathReading:
    """Everything that was found out about one end."""

    exit: ExitReading | None = None
    kernel: tuple[KernelLine, ...] = ()
    """Oldest first."""
    log: tuple[str, ...] = ()
    """The last lines of its log that tell of an error, oldest first, 3 at most; secrets redacted."""
    log_origin: str = ""
    """For a person: where they stand; empty where no log could be read."""
    asked_to_stop: bool = False
    """Before it ended its log, or its supervisor, told that it was asked to."""
    core_crashed: bool = False
    """Its engine core had gone before it; then even exit code 0 is a crash."""
    restarted: bool = False
    """It has been started again since."""
    missing: tuple[Missing, ...] = ()
    """What could not be looked at, why, and what would bring it."""


@dataclass(frozen=True, slots=True)
class DeathCase:
    """What is known of an engine before it is looked into why it ended."""

    url: str
    log: str = ""
    """As in ``EngineTarget``."""
    output: str = ""
    """The file that its server's output was sent to, as in ``EngineProcess``."""
    container_id: str | None = None
    runtime: str | None = None
    pod_uid: str | None = None
    unit: str | None = None
    user_unit: bool = False
    manager_uid: int | None = None
    pids: frozenset[int] = field(default_factory=frozenset)
    """Of its processes when they were last seen."""
    local: bool = True
    """It ran on this host."""
    since: float | None = None
    """Epoch seconds of when it was last seen to serve: nothing older is about this end."""


@dataclass(frozen=True, slots=True)
class StopMark:
    """Whether the newest word of an engine's log on the matter is that it stops, or that it starts."""

    line: str = ""
    """The line that tells of the stop; empty: it was not asked to, as far as the log goes."""
    started: bool = False
    """It is that it starts; neither where no such word stands in what was read."""
