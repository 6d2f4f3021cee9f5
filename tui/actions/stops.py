"""How a target is stopped, who starts it again, how long it gets: chosen, not yet carried out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tui.actions import supervisor
from tui.actions.plan import RefusedError, Start, Stop, TestKind
from tui.actions.units import OwnUnit, systemctl
from tui.sources.command_line import command_args, redact
from tui.sources.docker import ContainerSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.actions.plan import HeldProcess, StopWay
    from tui.actions.targets import Found
    from tui.model.places import Place
    from tui.model.readings import EngineKind
    from tui.model.settings import ActionSettings

RestartMode = Literal["graceful", "api-server", "tree", "supervisor"]

TEAR_DOWN_S: Final = 6.0
"""A real vLLM needed 5.6 s from its last request to its exit."""
_KILLS: Final[dict[RestartMode, StopWay]] = {"tree": "kill_tree", "api-server": "kill_api_server"}
_DRAIN_OPTION: Final[dict[EngineKind, tuple[str, float]]] = {
    "vllm": ("shutdown-timeout", 0.0),
    "triton": ("exit-timeout-secs", 30.0),
}
"""The engine's own limit of a drain, and its default; 0: it does not drain."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asks for, the URL aside."""

    test: TestKind
    mode: RestartMode = "tree"
    """Of a restart test."""
    grace_s: float | None = None
    requests: int = 8
    with_traffic: bool = False
    kill_after_grace: bool = False
    stop_command: tuple[str, ...] = ()
    start_command: tuple[str, ...] = ()
    cache_traffic: bool = False

    def stops_by_command(self, settings: ActionSettings) -> tuple[str, ...]:
        """The command that stops it; empty where a signal or systemctl does.

        Raises:
            RefusedError: a kill by SIGKILL and a command were both asked for.
        """
        graceful = self.test == "drain" or self.mode == "graceful"
        if self.stop_command and not graceful:
            raise RefusedError(f"a stop command and --mode {self.mode} exclude each other: --mode graceful")
        return (self.stop_command or settings.stop_command) if graceful else ()


class Grace(NamedTuple):
    """How long it may take to end."""

    seconds: float
    origin: str


def stop(wish: Wish, held: Sequence[HeldProcess], unit: OwnUnit, command: tuple[str, ...]) -> Stop:
    """How it is stopped.

    Args:
        wish: what was asked for.
        held: the engine, its main process first; empty only with a command.
        unit: its systemd unit.
        command: a command that stops it, in place of a signal or systemctl.

    Raises:
        RefusedError: the mode needs a unit and there is none.
    """
    if command:
        return Stop("command", f"the command: {shown(command)}", command)
    if wish.test == "restart" and wish.mode in _KILLS:
        return _kill(_KILLS[wish.mode], held)
    if unit.reading is not None:
        verb, way = "stop", "systemctl_stop"
        if wish.test == "restart" and not (wish.mode == "graceful" and wish.start_command):
            verb, way = "restart", "systemctl_restart"
        words = systemctl(verb, unit.reading.unit, user=unit.user)
        text = f"systemctl {'--user ' if unit.user else ''}{verb} {unit.reading.unit}"
        return Stop(way, text, words)  # type: ignore[arg-type]  # a StopWay by the two lines above
    if wish.test == "restart" and wish.mode == "supervisor":
        why = unit.warning or f"pid {held[0].pid} is in none"
        raise RefusedError(f"--mode supervisor restarts a systemd unit: {why}")
    return Stop("sigterm", f"SIGTERM to pid {held[0].pid} ({held[0].name})")


def _kill(way: StopWay, held: Sequence[HeldProcess]) -> Stop:
    if way == "kill_api_server":
        return Stop(way, f"SIGKILL to pid {held[0].pid} ({held[0].name}) alone")
    pids = ", ".join(str(process.pid) for process in held)
    return Stop(way, f"SIGKILL to the whole engine: pid{'s' if len(held) > 1 else ''} {pids}")


async def start(
    wish: Wish, settings: ActionSettings, found: Found | None, unit: OwnUnit, way: StopWay
) -> tuple[Start, list[str]]:
    """Who starts it again after a stop in that way, and what is to be said about it."""
    natural = await _by_itself(found, unit, way)
    command = wish.start_command or settings.start_command
    sure = natural.by in ("systemd", "docker", "kubelet")
    if not command or (sure and not wish.start_command):
        return natural, _start_warnings(wish, natural)
    warnings = []
    if natural.by not in ("nobody", "unknown"):
        warnings.append(f"two may start it again: the start command, and {natural.text}")
    return supervisor.of_command(command, shown(command)), warnings


async def _by_itself(found: Found | None, unit: OwnUnit, way: StopWay) -> Start:
    if unit.reading is not None:
        return supervisor.of_unit(unit.reading, way)
    if found is None:
        return Start("unknown", "not known: its processes are not seen here")
    place = found.place
    if place is not None and (place.pod_uid or place.container_id):
        return await _by_runtime(place)
    if unit.warning:
        return Start("unknown", f"not known: {unit.warning}")
    return supervisor.of_parents(found.main.pid)


async def _by_runtime(place: Place) -> Start:
    """Of an engine that shares our container: who starts that one again when its main process ends."""
    from tui.model.status import SourceError

    reading = None
    if place.container_id and not place.pod_uid and place.runtime in (None, "docker"):
        source = ContainerSource(place.container_id)
        try:
            reading = await source.read()
        except SourceError:
            reading = None
        finally:
            await source.close()
    return supervisor.of_container(place, reading)


def _start_warnings(wish: Wish, natural: Start) -> list[str]:
    if natural.by == "nobody" and wish.test == "drain":
        return ["nobody will start it again: it stays down after the test"]
    if natural.by in ("unknown", "parent"):
        return ["it may stay down after the test: who starts it again is not certain"]
    return []


def grace(
    wish: Wish, settings: ActionSettings, unit: OwnUnit, engine: EngineKind, cmdline: Sequence[str]
) -> Grace:
    """How long it may take, by the first of these that says so."""
    if wish.grace_s is not None:
        return Grace(wish.grace_s, "--grace")
    of_unit = None if unit.reading is None else unit.reading.stop_timeout_s
    if of_unit is not None and math.isfinite(of_unit) and of_unit > 0:
        return Grace(of_unit, f"TimeoutStopSec of {unit.reading.unit}" if unit.reading else "")
    if engine in _DRAIN_OPTION:
        option, default = _DRAIN_OPTION[engine]
        given = command_args(cmdline).get(option)
        limit = _seconds(given, default)
        if limit > 0:
            origin = f"--{option} {limit:g}" if given is not None else f"the default of --{option}"
            return Grace(limit + TEAR_DOWN_S, f"{origin} + {TEAR_DOWN_S:g} s to tear down")
    return Grace(settings.grace_s, "[actions] grace_s")


def _seconds(text: str | None, default: float) -> float:
    try:
        value = default if text is None else float(text)
    except ValueError:
        return default
    return value if math.isfinite(value) else default


def shown(command: Sequence[str]) -> str:
    """A command for a person.

    Raises:
        RefusedError: a secret stands in it, which would be kept in the plan and the log.
    """
    words = redact(command)
    if words != tuple(command):
        raise RefusedError(
            f"a secret, or a control character, stands in the command {' '.join(words)}: "
            "put it into a script, or into a file that the command reads"
        )
    return " ".join(words)
