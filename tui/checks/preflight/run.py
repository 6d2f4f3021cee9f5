"""All checks before a start: each topic on a thread of its own, all under one deadline."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from tui.checks.finding import CheckFinding
from tui.checks.preflight import cuda, engine_package, fit, gpus, host, ports
from tui.checks.preflight.engine_package import Installed
from tui.checks.preflight.model_directory import ModelLook, locate, read_model_directory
from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources import offloop

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.checks.preflight.gpus import GpuLook
    from tui.checks.preflight.intent import Intent

T = TypeVar("T")

_SPARE_S: Final = 10.0
"""For the end of a Python that has not ended by itself."""


async def examine(intent: Intent, timeout_s: float) -> list[CheckFinding]:
    """Every finding, topic by topic.

    A topic that has not answered when the time is over is an error of its own, and costs the others nothing:
    a network file system or a driver that hangs would hang the engine, too.

    Args:
        intent: what is to be started.
        timeout_s: for all of it together.
    """
    deadline = asyncio.get_running_loop().time() + timeout_s
    devices = asyncio.ensure_future(_within(deadline, partial(gpus.look, timeout_s), "driver"))
    orphans, model, installed, disks, limits, port = await asyncio.gather(
        _orphans(intent, deadline, devices),
        _within(deadline, partial(read_model_directory, intent), "model-directory"),
        _within(deadline, partial(engine_package.read_installed, intent), "engine-package"),
        _within(deadline, partial(_disks, intent), "disk"),
        _within(deadline, partial(_limits, intent), "host"),
        _within(deadline, partial(ports.port_finding, intent), "port"),
    )
    seen = await devices
    look = None if isinstance(seen, CheckFinding) else seen
    found = _commands(intent)
    found += [seen] if isinstance(seen, CheckFinding) else gpus.findings(intent, seen)
    found.append(_driver_for_cuda(intent, look, installed))
    found += [model] if isinstance(model, CheckFinding) else model.findings
    found += _fit(intent, look, model, installed)
    for part in (disks, limits, orphans):
        found += [part] if isinstance(part, CheckFinding) else part
    found.append(port)
    found.append(
        installed
        if isinstance(installed, CheckFinding)
        else engine_package.package_finding(intent, installed)
    )
    return found


async def import_engine(intent: Intent) -> CheckFinding:
    """The slow truth: the engine's own Python imports it; under a deadline of its own."""
    deadline = asyncio.get_running_loop().time() + engine_package.IMPORT_S + _SPARE_S
    return await _within(deadline, partial(engine_package.import_finding, intent), "import")


async def _within(deadline: float, work: Callable[[], T], topic: str) -> T | CheckFinding:
    """What ``work`` returns; a finding where it failed, or did not end in time."""
    future = offloop.start(work, topic)
    left = max(0.0, deadline - asyncio.get_running_loop().time())
    done, _ = await asyncio.wait({future}, timeout=left)
    if not done:
        text = f"{topic}: no answer within the time: what would hang here, hangs the engine, too"
        return CheckFinding(topic, "error", text)
    try:
        return future.result()
    except SourceError as error:
        return CheckFinding(topic, "error", f"{topic}: {clean(error.detail or error.reason)}", error.reason)
    except OSError as error:
        return CheckFinding(topic, "error", f"{topic}: {clean(str(error))}")


async def _orphans(
    intent: Intent, deadline: float, devices: asyncio.Future[GpuLook | CheckFinding]
) -> list[CheckFinding] | CheckFinding:
    seen = await devices
    look = None if isinstance(seen, CheckFinding) else seen
    return await _within(deadline, partial(host.orphan_findings, intent, look), "orphans")


def _disks(intent: Intent) -> list[CheckFinding]:
    return list(host.disk_findings(intent, locate(intent) if intent.model else None))


def _limits(intent: Intent) -> list[CheckFinding]:
    return [host.shm_finding(intent), *host.limit_findings(intent)]


def _commands(intent: Intent) -> list[CheckFinding]:
    """What the command line runs, and what its wrapper does, where that cannot be found."""
    names = dict.fromkeys(name for words in (intent.command, intent.program) for name in words[:1])
    return [
        CheckFinding("command", "error", f"{clean(name)}: no such command", clean(name))
        for name in names
        if shutil.which(name, path=intent.environment.get("PATH")) is None
    ]


def _driver_for_cuda(
    intent: Intent, look: GpuLook | None, installed: Installed | CheckFinding
) -> CheckFinding:
    release, source = intent.cuda, "--cuda"
    if release is None:
        found = Installed(why="give --cuda") if isinstance(installed, CheckFinding) else installed
        release, source = found.cuda, found.why
    if look is None:
        return CheckFinding(
            "driver-cuda", "ok", "not checked: the driver against a CUDA release: it does not answer"
        )
    library = None if isinstance(installed, CheckFinding) else installed.compatibility
    return cuda.driver_finding(look.last.driver_version, release, source, library)


def _fit(
    intent: Intent, look: GpuLook | None, model: ModelLook | CheckFinding, installed: Installed | CheckFinding
) -> list[CheckFinding]:
    if look is None or isinstance(model, CheckFinding):
        why = "the GPUs could not be read" if look is None else "its directory could not be read"
        return [fit.not_judged(why)]
    version = None if isinstance(installed, CheckFinding) else installed.engine
    return list(fit.fit_findings(intent, model, look.last, version))
