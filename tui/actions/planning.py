"""A plan from a URL, the settings and a fresh look: nothing is acted on; the process is held from here on."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple

from tui.actions import stops, supervisor
from tui.actions.audit import cut_off, requester
from tui.actions.held import HeldTree
from tui.actions.launch import running
from tui.actions.plan import Plan, ReadinessProbe, RefusedError, TestTarget, Traffic
from tui.actions.targets import check_local, find
from tui.actions.units import OwnUnit, own_unit
from tui.memory.model_files import read_model
from tui.model.status import SourceError
from tui.model.urls import host_port
from tui.runtime.probe_settings import default_specs, in_force
from tui.sources import offloop
from tui.sources.command_line import command_args
from tui.sources.deadline import within
from tui.sources.engines.source import EngineSource

if TYPE_CHECKING:
    from tui.actions.plan import Start, Stop
    from tui.actions.stops import Wish
    from tui.actions.targets import Found
    from tui.model.readings import EngineKind, EngineReading
    from tui.model.settings import Config, EngineTarget

MODEL_S = 3.0
"""For the files of the model, which may lie on a file system that hangs: the test does without them."""


class Prepared(NamedTuple):
    """A plan, and its processes held; whoever has it closes ``held``."""

    plan: Plan
    held: HeldTree


async def make_plan(wish: Wish, target: EngineTarget, config: Config) -> Prepared:
    """What would be done.

    Args:
        wish: what was asked for.
        target: the engine's endpoint, with what it takes to ask it.
        config: the settings.

    Raises:
        RefusedError: the target is not one engine of this host, or cannot be tested like this. What else
            speaks against the test (``safety.refusals``) is not looked at.
    """
    command = wish.stops_by_command(config.actions)
    found, warnings = await _find(target.url, by_command=bool(command))
    unit = OwnUnit() if found is None else await own_unit(found)
    held = HeldTree(() if found is None else found.held)
    try:
        reading = await _read(target, found)
        engine = reading.engine
        assert engine is not None  # _read raises without it
        stop = stops.stop(wish, () if found is None else found.held, unit, command)
        start, about_start = await stops.start(wish, config.actions, found, unit, stop.way)
        cmdline = () if found is None else found.main.cmdline
        grace = stops.grace(wish, config.actions, unit, engine, cmdline)
        plan = Plan(
            test=wish.test,
            target=await _target(target.url, reading, engine, found, unit, stop),
            stop=stop,
            start=start,
            grace_s=grace.seconds,
            grace_from=grace.origin,
            readiness=_readiness(engine, target, config),
            traffic=_traffic(wish, target, reading, engine),
            kill_after_grace=wish.kill_after_grace,
            with_traffic=wish.with_traffic or not config.actions.require_idle,
            others_running=reading.running,
            others_waiting=reading.waiting,
            warnings=(
                *warnings,
                *about_start,
                *_warnings(stop, start, found, unit, grace.seconds, engine),
                *_left_by_the_last_test(),
            ),
            by=requester(),
        )
        held.verify()
    except BaseException:  # a cancelled plan lets go of its process, too
        held.close()
        raise
    return Prepared(plan, held)


async def _find(url: str, *, by_command: bool) -> tuple[Found | None, list[str]]:
    """The engine; None where a command stops it and its processes cannot be had."""
    try:
        found = await find(url)
    except RefusedError as error:
        if not by_command:
            raise
        await check_local(url)
        return None, [f"its processes cannot be watched: {error}"]
    return found, list(found.warnings)


async def _read(target: EngineTarget, found: Found | None) -> EngineReading:
    """What the engine says of itself now."""
    source = EngineSource(target)
    try:
        reading = await source.read()
    except SourceError as error:
        raise RefusedError(f"{target.url} does not answer as an engine does: {error}") from None
    finally:
        await source.close()
    if reading.engine is None:
        raise RefusedError(f"{target.url} does not say which engine it is")
    if found is not None and found.main.engine != reading.engine:
        raise RefusedError(
            f"{target.url} answers as {reading.engine}, but pid {found.main.pid} is {found.main.engine}"
        )
    return reading


async def _target(
    url: str, reading: EngineReading, engine: EngineKind, found: Found | None, unit: OwnUnit, stop: Stop
) -> TestTarget:
    own = unit.reading is not None and stop.way != "command"
    name = unit.reading.unit if unit.reading is not None and own else f"{engine}:{host_port(url)[1]}"
    return TestTarget(
        kind="command" if stop.way == "command" else "systemd" if own else "process",
        name=name,
        url=url,
        engine=engine,
        version=reading.version,
        model=reading.model,
        main=None if found is None else found.held[0],
        tree=() if found is None else found.held,
        unit=None if unit.reading is None else unit.reading.unit,
        user_unit=unit.user,
        parameters_b=await _parameters(found),
    )


async def _parameters(found: Found | None) -> float | None:
    """Parameters of the model in billions; None where its files cannot be read, or not soon."""
    if found is None:
        return None
    args, pid = command_args(found.main.cmdline), found.main.pid

    async def look() -> float | None:
        files = await offloop.start(lambda: read_model(args, pid), f"model of pid {pid}")
        count = None if files.weights is None else files.weights.parameters
        return None if count is None else count / 1e9

    try:
        return await within(MODEL_S, look())
    except (asyncio.TimeoutError, OSError):
        return None


def _readiness(engine: EngineKind, target: EngineTarget, config: Config) -> ReadinessProbe:
    spec = in_force(engine, target, config.probes).specs.get("readiness")
    if spec is None or spec.handler != "httpGet":  # none that could be made from here
        spec = default_specs(engine)["readiness"]
    return ReadinessProbe(
        spec.path, spec.period_s, spec.timeout_s, spec.failure_threshold, spec.success_threshold
    )


def _traffic(wish: Wish, target: EngineTarget, reading: EngineReading, engine: EngineKind) -> Traffic:
    if wish.cache_traffic and engine != "sglang":
        raise RefusedError(
            "--cache-traffic measures the recovery of SGLang's cache, and of no other engine's"
        )
    if engine != "triton":
        return Traffic(wish.requests, model=reading.model, prefix_heavy=wish.cache_traffic)
    if not (target.generate_path and target.generate_body):
        raise RefusedError(
            "Triton has no common route for requests: set generate_path and generate_body of this engine "
            "in the config"
        )
    return Traffic(wish.requests, target.generate_path, target.generate_body, reading.model, streaming=False)


def _left_by_the_last_test() -> list[str]:
    """What a test whose process was killed may have left behind; one that runs still is not meant."""
    text = "" if running() is not None else cut_off()
    return [f"{text}: its engine may be down, or half ended"] if text else []


def _warnings(
    stop: Stop, start: Start, found: Found | None, unit: OwnUnit, grace_s: float, engine: EngineKind
) -> list[str]:
    """What the user has to know, who starts it again aside."""
    warnings = []
    if stop.way == "sigterm" and found is not None:
        warnings += supervisor.signal_warnings(found.main.pid)
    if stop.way == "kill_api_server" and engine == "vllm":
        warnings.append(
            "its engine core and workers live on without it, hold their GPU memory and have to be ended by "
            "hand; a new server starts beside them"
        )
    reading = unit.reading
    if reading is None:
        return [*warnings, unit.warning] if unit.warning and start.by != "unknown" else warnings
    if stop.way in ("systemctl_stop", "systemctl_restart"):
        if not unit.user and os.geteuid() != 0:
            warnings.append("systemctl may refuse this user: it is a unit of the system's")
        if reading.kill_mode == "control-group":
            warnings.append(
                "KillMode=control-group: systemd sends SIGTERM to every process of the unit at once"
            )
        if reading.stop_timeout_s is not None and reading.stop_timeout_s < grace_s:
            warnings.append(
                f"systemd itself sends SIGKILL after TimeoutStopSec={reading.stop_timeout_s:g} s, "
                "before the grace period ends"
            )
    return warnings
