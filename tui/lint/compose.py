"""Compose files: each service as a workload with one container."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tui.lint import commandline
from tui.lint.fields import Fields, expand
from tui.lint.nodes import Scalar
from tui.lint.shape import Container, HealthCheck, Workload
from tui.model.text import clean

if TYPE_CHECKING:
    from tui.lint.nodes import Node
    from tui.lint.shape import LintError

DEFAULT_STOP_S = 10.0
DEFAULT_SHM_MIB = 64.0

_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:us|ms|s|m|h))+")
_PART = re.compile(r"([0-9.]+)(us|ms|s|m|h)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([bkmg]?)b?", re.IGNORECASE)
_MIB = {"": 2**-20, "b": 2**-20, "k": 2**-10, "m": 1.0, "g": 1024.0}
_SWARM = ("update_config", "rollback_config", "placement", "mode", "endpoint_mode")
_CONDITIONS = {"none": "no", "on-failure": "on-failure", "any": "always"}


def workloads(root: Node, file: str, errors: list[LintError]) -> list[Workload]:
    """The services of a Compose file."""
    services = Fields(file, errors, root, 0, "a Compose file").map("services")
    each = {name: services.map(name) for name in services}
    healed = any("autoheal" in service.text("image") for service in each.values())
    return [_service(service, clean(name, 80), file, healed=healed) for name, service in each.items()]


def _service(raw: Fields, name: str, file: str, *, healed: bool) -> Workload:
    deploy = raw.map("deploy")
    container = Container(
        name=name,
        line=raw.line,
        image=clean(expand(raw.text("image")) or "", 300),
        command=_command(raw, "entrypoint"),
        args=_command(raw, "command"),
        env={name: expand(value) or "" for name, value in raw.pairs("environment").items()},
        gpus=_gpus(raw, deploy),
        health=_health(raw),
        shm_mib=None if raw.text("ipc") in ("host", "shareable") else _shm(raw),
        init=raw.boolean("init") is True,
        lines=raw.lines(),
    )
    return Workload(
        platform="compose",
        kind="service",
        name=name,
        file=file,
        line=raw.line,
        containers=(container,),
        grace_s=_seconds(raw, "stop_grace_period", DEFAULT_STOP_S),
        restart=_restart(raw, deploy),
        restart_delay_s=0.1,
        actor=healed or any(key in deploy for key in _SWARM) or "autoheal" in raw.pairs("labels"),
        lines=raw.lines(),
    )


def _restart(raw: Fields, deploy: Fields) -> str:
    condition = deploy.map("restart_policy").text("condition")
    if condition:
        return _CONDITIONS.get(condition, clean(condition, 40))
    return clean(expand(raw.text("restart")) or "", 40) or "no"


def _command(raw: Fields, name: str) -> tuple[str, ...] | None:
    """A list as it is; a text is split as a shell would, but no shell runs it."""
    node = raw.node(name)
    if node is None:
        return None
    words = commandline.split(node.text) if isinstance(node, Scalar) else raw.words(name) or ()
    # an unknown variable stays as it is written: its option is then no number
    return tuple(word if (known := expand(word)) is None else known for word in words)


def _gpus(raw: Fields, deploy: Fields) -> int:
    found = 0
    for device in deploy.map("resources").map("reservations").maps("devices"):
        if "gpu" in (device.words("capabilities") or ()) or device.text("driver") == "nvidia":
            ids = device.words("device_ids")
            count = device.text("count")
            found += len(ids) if ids else int(count) if re.fullmatch("[0-9]{1,4}", count) else 1
    return found or int(raw.text("runtime") == "nvidia" or "gpus" in raw)


def _health(raw: Fields) -> HealthCheck | None:
    if "healthcheck" not in raw:
        return None
    check = raw.map("healthcheck")
    test = check.node("test")
    words = check.words("test") if test is not None and not isinstance(test, Scalar) else None
    if check.boolean("disable") or words == ("NONE",) or (isinstance(test, Scalar) and test.text == "NONE"):
        return None
    retries = expand(check.text("retries"))
    shell = ("CMD-SHELL", test.text) if isinstance(test, Scalar) else None
    return HealthCheck(
        line=raw.at("healthcheck"),
        interval_s=_seconds(check, "interval", 30.0),
        timeout_s=_seconds(check, "timeout", 30.0),
        retries=_retries(check, retries),
        start_period_s=_seconds(check, "start_period", 0.0),
        words=commandline.docker_test(shell or words or ()),
        lines=check.lines(),
    )


def _retries(check: Fields, text: str | None) -> int | None:
    if text is None:
        return None
    if not text:
        return 3
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    check.error(check.at("retries"), f"retries: expected a whole number, found {clean(text, 40)!r}")
    return 3


def _seconds(raw: Fields, name: str, default: float) -> float | None:
    text = expand(raw.text(name))
    if text is None:
        return None
    text = text.strip()
    if not text or text == "0":
        return 0.0 if text else default
    if not _DURATION.fullmatch(text):
        raw.error(raw.at(name), f"{name}: expected a duration such as 1m30s, found {clean(text, 40)!r}")
        return default
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def _shm(raw: Fields) -> float | None:
    text = expand(raw.text("shm_size"))
    if text is None:
        return None
    if not text:
        return DEFAULT_SHM_MIB
    size = _SIZE.fullmatch(text.strip())
    if size is None:
        raw.error(raw.at("shm_size"), f"shm_size: expected a size such as 1gb, found {clean(text, 40)!r}")
        return DEFAULT_SHM_MIB
    return float(size[1]) * _MIB[size[2].lower()]
