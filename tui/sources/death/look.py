"""One look into why an engine has gone: supervisor, kernel and log at once, none waits for another."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from tui.model.death import DeathReading, ExitReading, KernelLine
from tui.model.readings import Missing
from tui.model.status import SourceError
from tui.sources import offloop
from tui.sources.deadline import within
from tui.sources.death.kernel_log import kernel_lines
from tui.sources.death.lines import core_crashed, error_lines, last_run, stop_mark
from tui.sources.death.logs import log_of
from tui.sources.docker import ContainerSource
from tui.sources.systemd import UnitSource

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from tui.model.death import DeathCase

DEADLINE_S: Final = 4.0
"""For each of the three; the kernel's log may be asked for twice."""

T = TypeVar("T")


class DeathSource:
    """An ``AsyncSource`` of one end.

    Args:
        case: what is known before.
    """

    def __init__(self, case: DeathCase) -> None:
        self.name = f"end of {case.url}"
        self._case = case

    async def read(self) -> DeathReading:
        """One look."""
        return await look_into(self._case)

    async def close(self) -> None:
        """Nothing is held."""


async def look_into(case: DeathCase) -> DeathReading:
    """What can be known of an end. What cannot is named in ``missing``; nothing is raised."""
    ended, kernel, log = await asyncio.gather(
        _bounded(_exit(case)), _bounded(_kernel(case)), _bounded(_log(case))
    )
    found, missing = DeathReading(), []
    if isinstance(ended, SourceError):
        missing.append(Missing("exit", ended.detail or ended.reason, _enable_exit(ended, case)))
    else:
        found = dataclasses.replace(found, exit=ended[0], restarted=ended[1])
    if isinstance(kernel, SourceError):
        enable = "run as root, or put this user into the group systemd-journal"
        missing.append(Missing("kernel", kernel.detail or kernel.reason, enable))
    else:
        found = dataclasses.replace(found, kernel=kernel)
    if isinstance(log, SourceError):
        enable = 'set log of its [[engines]]: a file, "unit:NAME" or "docker:NAME"'
        missing.append(Missing("log", log.detail or log.reason, enable))
    else:
        text, origin = log
        run = text if found.restarted else last_run(text)
        found = dataclasses.replace(
            found,
            log=error_lines(run),
            log_origin=origin,
            asked_to_stop=bool(stop_mark(text).line),
            core_crashed=core_crashed(run),
        )
    return dataclasses.replace(found, missing=tuple(missing))


async def _bounded(work: Coroutine[Any, Any, T]) -> T | SourceError:
    try:
        return await within(DEADLINE_S, work)
    except SourceError as error:
        return error
    except asyncio.TimeoutError:
        return SourceError("timeout", f"no answer within {DEADLINE_S:g} s")


async def _exit(case: DeathCase) -> tuple[ExitReading, bool]:
    """What its supervisor says, and whether it runs again."""
    kind, _, name = case.log.partition(":")
    container = name if kind == "docker" else case.container_id
    if container:
        return await _of_container(container, case)
    unit = (name if "." in name else f"{name}.service") if kind == "unit" else case.unit
    if unit:
        return await _of_unit(unit, case)
    raise SourceError("not_supported", "neither systemd nor Docker started it: nobody kept its exit status")


async def _of_container(container: str, case: DeathCase) -> tuple[ExitReading, bool]:
    source = ContainerSource(container, case.runtime)
    try:
        found = await source.read()
    finally:
        await source.close()
    name = found.name or container[:12]
    return (
        ExitReading(
            source="docker",
            name=name,
            code=found.exit_code,
            ended_at=found.finished_at,
            oom_killed=found.oom_killed,
            error=found.error or "",
            policy=found.restart_policy,
            restarts=found.restarts,
            grace_s=found.stop_timeout_s,
            mem_limit_mib=found.mem_limit_mib,
        ),
        _runs_again(found.state in ("running", "paused"), found.started_at, case, f"container {name}"),
    )


async def _of_unit(unit: str, case: DeathCase) -> tuple[ExitReading, bool]:
    found = await UnitSource(unit, user=case.user_unit, manager_uid=case.manager_uid).read()
    if found.started_at is None and case.log.startswith("unit:") and not case.user_unit:
        with suppress(SourceError):  # only named, and not one of the system's: of our own, if we have one
            own = await UnitSource(unit, user=True).read()
            found = own if own.started_at is not None else found
    running = found.exit_code is None and found.main_pid is not None
    again = _runs_again(running, found.started_at, case, unit)
    return (
        ExitReading(
            source="systemd",
            name=unit,
            code=found.exit_code,
            ended_at=found.ended_at,
            result=None if running else found.result,
            oom_killed=None if running or found.result is None else found.result == "oom-kill",
            policy=found.restart,
            restarts=found.restarts,
            grace_s=found.stop_timeout_s,
            mem_limit_mib=found.mem_limit_mib,
        ),
        again,
    )


def _runs_again(running: bool, started_at: float | None, case: DeathCase, name: str) -> bool:
    """Whether it has been started since the engine was last seen to serve.

    Raises:
        SourceError: it runs, and has all the time: the engine was only a part of it.
    """
    if running and case.since is not None and (started_at is None or started_at < case.since):
        raise SourceError("not_supported", f"{name} runs on without it: nobody kept its exit status")
    return running


async def _kernel(case: DeathCase) -> tuple[KernelLine, ...]:
    if not case.local:
        return ()
    return await offloop.start(lambda: kernel_lines(case), "kernel log")


async def _log(case: DeathCase) -> tuple[str, str]:
    """The end of its log, and where that is."""
    log = log_of(case)
    if log is None:
        raise SourceError("not_supported", "its log is not known")
    try:
        return await log.tail(), log.origin
    finally:
        await log.close()


def _enable_exit(error: SourceError, case: DeathCase) -> str:
    if case.pod_uid is not None:
        return "kubectl describe pod tells its Last State"
    if error.reason == "404":
        return "a container started with --rm is removed with its exit status: leave that out"
    if error.reason == "no_permission" and case.container_id is not None:
        return "run as root, or put this user into the group docker"
    return "start it as a systemd unit or a container"
