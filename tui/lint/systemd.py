"""systemd service units: one workload with one container, the main command."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.lint import commandline
from tui.lint.shape import Container, LintError, Workload
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_STOP_S = 90.0
DEFAULT_RESTART_S = 0.1

_SPAN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([a-zµ]*)\s*")
_SECONDS = {
    "": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "msec": 1e-3, "us": 1e-6,
    "usec": 1e-6, "µs": 1e-6, "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0,
    "hr": 3600.0, "hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Setting:
    line: int
    value: str


def is_unit(name: str, text: str) -> bool:
    """By its name; else by its first line that says anything."""
    if name.endswith((".service", ".service.in")):
        return True
    first = next((line for line in text.splitlines() if line.strip() and line.strip()[0] not in "#;"), "")
    return re.fullmatch(r"\[(Unit|Service|Install)\]", first.strip()) is not None


def workloads(text: str, file: str, errors: list[LintError]) -> list[Workload]:
    """The service of a unit file; empty, with an error, when it has none."""
    settings, line = _service(text, file, errors)
    if line is None:
        errors.append(LintError(file, 1, "no [Service] section"))
        return []
    name = clean(file.rpartition("/")[2], 80)
    command = settings.get("ExecStart")
    words = () if command is None else commandline.split(command.value.lstrip("@-:+!|"))
    if not words:
        errors.append(LintError(file, line, "no ExecStart="))
    lines = {key: setting.line for key, setting in settings.items()}
    stop = "TimeoutStopSec" if "TimeoutStopSec" in settings else "TimeoutSec"
    return [
        Workload(
            platform="systemd",
            kind="unit",
            name=name,
            file=file,
            line=line,
            containers=(
                Container(
                    name=name,
                    line=lines.get("ExecStart", line),
                    command=words,
                    env=_environment(settings),
                    lines=lines,
                ),
            ),
            grace_s=_seconds(settings, stop, DEFAULT_STOP_S, file, errors),
            restart=settings["Restart"].value if "Restart" in settings else "no",
            restart_delay_s=_seconds(settings, "RestartSec", DEFAULT_RESTART_S, file, errors),
            kill_mode=settings["KillMode"].value if "KillMode" in settings else "control-group",
            lines=lines,
        )
    ]


def _service(text: str, file: str, errors: list[LintError]) -> tuple[dict[str, _Setting], int | None]:
    """The settings of ``[Service]`` and its line. The last of several counts; an empty one resets."""
    settings: dict[str, _Setting] = {}
    section, found = "", None
    for line, content in _logical_lines(text):
        if content.startswith("["):
            if not content.endswith("]"):
                errors.append(LintError(file, line, f"not a section: {clean(content, 40)!r}"))
            section = content[1:-1]
            found = line if section == "Service" and found is None else found
            continue
        key, equals, value = content.partition("=")
        key = key.strip()
        if not equals or not section:
            errors.append(
                LintError(file, line, f"expected KEY=VALUE in a section, found {clean(content, 40)!r}")
            )
        elif section == "Service":
            _assign(settings, key, _Setting(line, value.strip()))
    return settings, found


def _assign(settings: dict[str, _Setting], key: str, setting: _Setting) -> None:
    if not setting.value:
        settings.pop(key, None)
    elif key == "Environment" and key in settings:
        settings[key] = _Setting(setting.line, f"{settings[key].value} {setting.value}")
    else:
        settings[key] = setting


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments, continued ones joined; each with the number of its first."""
    found: list[tuple[int, str]] = []
    parts: list[str] = []
    start = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.startswith(("#", ";")) or (not line and not parts):
            continue
        if not parts:
            start = number
        if line.endswith("\\"):
            parts.append(line[:-1].rstrip())
            continue
        found.append((start, " ".join([*parts, line]).strip()))
        parts = []
    if parts:
        found.append((start, " ".join(parts)))
    return [(number, line) for number, line in found if line]


def _environment(settings: Mapping[str, _Setting]) -> dict[str, str]:
    if "Environment" not in settings:
        return {}
    pairs = (word.partition("=") for word in commandline.split(settings["Environment"].value))
    return {name: value for name, equals, value in pairs if equals}


def _seconds(
    settings: Mapping[str, _Setting], key: str, default: float, file: str, errors: list[LintError]
) -> float:
    setting = settings.get(key)
    if setting is None:
        return default
    if setting.value == "infinity":
        return math.inf
    total, rest = 0.0, setting.value
    while rest:
        part = _SPAN.match(rest)
        if part is None or part[2] not in _SECONDS:
            errors.append(
                LintError(file, setting.line, f"{key}: not a time span: {clean(setting.value, 40)!r}")
            )
            return default
        total += float(part[1]) * _SECONDS[part[2]]
        rest = rest[part.end() :]
    # 0 means no limit for the time-outs of a stop
    return math.inf if total == 0.0 and key.startswith("Timeout") else total
