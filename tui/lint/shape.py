"""One shape for what manifests, Compose files and units say: values, and the line of every field.

``None`` is a value that is not known (a variable, an image's own default). Platform defaults are filled in
by the readers; ``lines`` has a key only for fields that are written, by the file's own name of the field.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.settings import ProbeSpec
    from tui.model.verdicts import Level

Platform = Literal["kubernetes", "compose", "systemd"]
ProbeName = Literal["liveness", "readiness", "startup"]
HandlerKind = Literal["httpGet", "tcpSocket", "exec", "grpc", "sleep"]


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One finding, as the JSON contract has it."""

    id: str
    level: Level
    file: str
    line: int | None
    object: str
    text: str
    arithmetic: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True)
class LintError:
    """Why a file, or a part of it, could not be linted."""

    file: str
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Handler:
    """How a probe asks, or what a pre-stop hook runs."""

    kind: HandlerKind
    line: int
    path: str = ""
    port: int | str | None = None
    """A number, or the name of a container port."""
    scheme: str = "HTTP"
    host: str = ""
    """Empty: the pod's address."""
    headers: frozenset[str] = frozenset()
    """Names in lower case."""
    words: tuple[str, ...] = ()
    header_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As written, by name; may hold a token."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of a container, defaults filled in."""

    kind: ProbeName
    line: int
    spec: ProbeSpec
    handlers: tuple[Handler, ...] = ()
    grace_s: float | None = None
    """Its own ``terminationGracePeriodSeconds``; None: the pod's."""
    lines: Mapping[str, int] = field(default_factory=dict)

    def at(self, name: str) -> int:
        """The line of a field; the probe's own where it is not written."""
        return self.lines.get(name, self.line)


@dataclass(frozen=True, slots=True)
class PreStop:
    """The hook that runs before the stop signal."""

    line: int
    seconds: float | None
    """Run time where it can be read off (sleeps); None: not known."""
    waits: bool = False
    """It loops until something is so, without a limit of its own."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """Docker's health check; None where the value is a variable."""

    line: int
    interval_s: float | None = 30.0
    timeout_s: float | None = 30.0
    retries: int | None = 3
    start_period_s: float | None = 0.0
    words: tuple[str, ...] = ()
    """What it runs, as ``docker_test`` gives it; empty: the image's own, or not told."""
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Container:
    """A container; of a systemd unit, its main command."""

    name: str
    line: int
    image: str = ""
    command: tuple[str, ...] | None = None
    """What replaces the image's entry point; None: it is the image's own."""
    args: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    gpus: int = 0
    """GPUs asked for; of Compose's ``all``: 1."""
    probes: Mapping[ProbeName, Probe] = field(default_factory=dict)
    pre_stop: PreStop | None = None
    health: HealthCheck | None = None
    shm_mib: float | None = None
    """Size of /dev/shm; None: the host's, or not limited here."""
    init: bool = False
    """The runtime puts an init before the command."""
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gateway:
    """An annotation in the same file that bounds a request, or keeps a pod in a balancer."""

    line: int
    name: str
    read_timeout_s: float | None = None
    deregistration_s: float | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod template with its controller, a Compose service, or a systemd unit."""

    platform: Platform
    kind: str
    name: str
    file: str
    line: int
    containers: tuple[Container, ...] = ()
    namespace: str = ""
    replicas: int | None = None
    strategy: str = ""
    """``RollingUpdate``, ``Recreate``, ``OnDelete``; empty where there is none."""
    surge: int | str = 0
    unavailable: int | str = 0
    progress_deadline_s: float | None = None
    grace_s: float | None = None
    """Grace period, ``stop_grace_period`` or ``TimeoutStopSec``."""
    restart: str = ""
    """As the platform spells it."""
    restart_delay_s: float = 0.0
    kill_mode: str = ""
    actor: bool = False
    """Something beside Docker acts on ``unhealthy``."""
    gateways: tuple[Gateway, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)

    def at(self, *names: str) -> int:
        """The line of the first of these fields that is written; else the workload's own."""
        return next((self.lines[name] for name in names if name in self.lines), self.line)

    def label(self, container: Container | None = None) -> str:
        """How findings call it, e.g. ``Deployment prod/llm container vllm``."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        if container is None or self.platform != "kubernetes":
            return f"{self.kind} {name}"
        return f"{self.kind} {name} container {container.name}"
