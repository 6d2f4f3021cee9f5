"""What a drain or restart test would do, as data: shown, confirmed, logged and carried out as it stands.

A plan holds no secret: command lines are redacted, and tokens reach the test process by another way.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tui.model.readings import EngineKind, ProcessRole

TestKind = Literal["drain", "restart"]
TargetKind = Literal["process", "systemd", "docker", "kubernetes", "command"]
StopWay = Literal["sigterm", "kill_api_server", "kill_tree", "systemctl_stop", "systemctl_restart", "command"]
Starter = Literal["systemd", "docker", "kubelet", "parent", "command", "nobody", "unknown"]


class RefusedError(Exception):
    """This test must not be run; the message says why, for the user. Exit status 2.

    Args:
        why: one line; text from outside in it must have passed ``clean``.
        kind: what the target turned out to be, where that is the reason.
    """

    def __init__(self, why: str, kind: TargetKind | None = None) -> None:
        super().__init__(why)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class HeldProcess:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    start_ticks: int
    """Clock ticks from boot to its start (``/proc/PID/stat``, field 22)."""
    name: str
    role: ProcessRole
    started_at: float | None = None
    """Epoch seconds."""
    cmdline: tuple[str, ...] = ()
    """Redacted; empty where a title took its place."""


@dataclass(frozen=True, slots=True)
class TestTarget:
    """The one engine that the test is about."""

    kind: TargetKind
    name: str
    """What has to be typed: ``<engine>:<port>``, the unit, the container, or ``namespace/pod``."""
    url: str
    engine: EngineKind
    version: str | None = None
    model: str | None = None
    main: HeldProcess | None = None
    """The API server or launcher; None for a custom stop command of an engine that is not found here."""
    tree: tuple[HeldProcess, ...] = ()
    """The whole engine, ``main`` first."""
    unit: str | None = None
    user_unit: bool = False
    parameters_b: float | None = None
    """Parameters of the model in billions, where its configuration can be read."""


@dataclass(frozen=True, slots=True)
class Stop:
    """How it is stopped."""

    way: StopWay
    text: str
    """For a person: ``SIGTERM to pid 4711 (vllm serve)``."""
    command: tuple[str, ...] = ()
    """Of ``systemctl_stop``, ``systemctl_restart`` and ``command``."""


@dataclass(frozen=True, slots=True)
class Start:
    """Who starts it again."""

    by: Starter
    text: str
    """For a person: ``systemd (Restart=always)``, ``nobody: it stays down``."""
    command: tuple[str, ...] = ()
    """Run by us after the exit, where ``by`` is ``command``."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The tool's own requests."""

    requests: int = 8
    path: str = "/v1/completions"
    body: str = ""
    """Sent as it is where the engine has no OpenAI route (Triton); else empty."""
    model: str | None = None
    streaming: bool = True
    max_tokens: int = 512
    """At first; lengthened until the streams outlast the signal."""
    outlast_s: float = 5.0
    """At least so long after the signal a stream must still run if left alone."""
    prefix_heavy: bool = False
    """Restart only: repeat long shared prompts, so that SGLang's cache recovery can be measured."""


@dataclass(frozen=True, slots=True)
class ReadinessProbe:
    """The probe whose detection time is compared with what was measured."""

    path: str
    period_s: float
    timeout_s: float
    failure_threshold: int
    success_threshold: int = 1


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asked for the test, for the audit log: the test's own process has no terminal any more."""

    uid: int
    user: str = ""
    tty: str = ""
    ssh_client: str = ""
    """The address that the SSH session came from."""
    sudo_user: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One test, whole."""

    test: TestKind
    target: TestTarget
    stop: Stop
    start: Start
    grace_s: float
    grace_from: str
    """Where the grace period came from: ``[actions] grace_s``, ``--grace``, a unit's ``TimeoutStopSec``"""
    readiness: ReadinessProbe
    traffic: Traffic = Traffic()
    kill_after_grace: bool = False
    with_traffic: bool = False
    others_running: float | None = None
    """Requests of others, running and waiting, when the plan was made; None: not known."""
    others_waiting: float | None = None
    restart_deadline_s: float = 900.0
    """How long a restart may take until the test gives up waiting."""
    warnings: tuple[str, ...] = ()
    """What the user has to know before confirming: ``nobody will start it again`` ..."""
    by: Requester | None = None

    def document(self) -> dict[str, Any]:
        """As JSON; ``from_document`` reads it back."""
        return {"schema": 1, **dataclasses.asdict(self)}


def from_document(document: dict[str, Any]) -> Plan:
    """The plan that ``Plan.document`` wrote.

    Raises:
        ValueError: it is no such document.
    """
    if not isinstance(document, dict) or document.get("schema") != 1:
        raise ValueError("not a plan of schema 1")
    try:
        target = dict(document["target"])
        main = target["main"]
        target["main"] = None if main is None else _process(main)
        target["tree"] = tuple(_process(process) for process in target["tree"])
        rest = {key: value for key, value in document.items() if key != "schema"}
        rest["target"] = TestTarget(**target)
        rest["stop"] = Stop(**{**rest["stop"], "command": tuple(rest["stop"]["command"])})
        rest["start"] = Start(**{**rest["start"], "command": tuple(rest["start"]["command"])})
        rest["readiness"] = ReadinessProbe(**rest["readiness"])
        rest["traffic"] = Traffic(**rest["traffic"])
        rest["warnings"] = tuple(rest["warnings"])
        rest["by"] = None if rest.get("by") is None else Requester(**rest["by"])
        plan = Plan(**rest)
        parts = (plan, plan.target, plan.stop, plan.start, plan.readiness, plan.traffic, plan.by)
        for part in (*parts, *plan.target.tree, plan.target.main):
            _check(part)
        return plan
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a plan: {error}") from None


_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str, "int": int, "bool": bool, "float": (int, float), "TestKind": str, "TargetKind": str,
    "StopWay": str, "Starter": str, "EngineKind": str, "ProcessRole": str, "tuple[str, ...]": tuple,
}  # fmt: skip


def _check(part: Any) -> None:
    """Every plain field has the type that is written beside it.

    Raises:
        TypeError: one has not.
    """
    for field in () if part is None else dataclasses.fields(part):
        kind, value = str(field.type), getattr(part, field.name)
        expected = _TYPES.get(kind.removesuffix(" | None"), object)
        absent = value is None and kind.endswith(" | None")
        words = value if expected is tuple and isinstance(value, tuple) else ()
        if not (absent or (isinstance(value, expected) and all(type(word) is str for word in words))):
            raise TypeError(f"{field.name} is {type(value).__name__}, not {kind}")


def _process(values: dict[str, Any]) -> HeldProcess:
    return HeldProcess(**{**values, "cmdline": tuple(values["cmdline"])})
