"""What the Docker Engine API tells of one container: one GET over its Unix socket, never anything else."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from typing import TYPE_CHECKING, Any

from tui.model.places import ContainerReading, Healthcheck
from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources.command_line import redact
from tui.sources.http import HttpTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET = "/var/run/docker.sock"
DEADLINE_S = 3.0
_MOST_WORDS = 32
"""Of a health check's command."""
_MIB = 1024.0 * 1024.0


class ContainerSource:
    """An ``AsyncSource`` of one container.

    Args:
        container_id: its id.
        socket: of the Engine API; by default the one that ``DOCKER_HOST`` names, else Docker's own.
    """

    def __init__(self, container_id: str, socket: str = "") -> None:
        self.name = f"container {container_id[:12]}"
        self._id = container_id
        self._socket = socket or _from_environment() or SOCKET
        self._http = HttpTarget("http://localhost", unix_socket=self._socket, keep_alive=False)

    async def read(self) -> ContainerReading:
        """One look.

        Raises:
            SourceError: any of the reasons of ``HttpTarget.get``; 404: Docker does not know the container,
                which another runtime may have made; 5xx; parse.
        """
        answer = await self._http.get(f"/containers/{self._id}/json", DEADLINE_S)
        if answer.status == 404:
            raise SourceError("404", "Docker does not know this container")
        if answer.status != 200:
            raise answer.refusal("Docker's API")
        found = answer.json()
        if not isinstance(found, dict):
            raise SourceError("parse", "Docker's API: no JSON object")
        return _reading(self._id, found)

    async def close(self) -> None:
        """Close the connection."""
        await self._http.close()


def _from_environment() -> str:
    host = os.environ.get("DOCKER_HOST", "")
    return host.removeprefix("unix://") if host.startswith("unix:///") else ""


def _reading(container_id: str, found: Mapping[str, Any]) -> ContainerReading:
    host, config, state = (_part(found, name) for name in ("HostConfig", "Config", "State"))
    nano, quota, period = (_number(host, name) for name in ("NanoCpus", "CpuQuota", "CpuPeriod"))
    memory = _number(host, "Memory")
    oom, ended = state.get("OOMKilled"), _instant(state, "FinishedAt")
    code = _number(state, "ExitCode") if ended and state.get("Running") is not True else None
    return ContainerReading(
        container_id=container_id,
        name=(_text(found, "Name") or "").lstrip("/") or None,
        image=_text(config, "Image"),
        state=_text(state, "Status"),
        restart_policy=_text(_part(host, "RestartPolicy"), "Name"),
        restarts=None if (n := _number(found, "RestartCount")) is None else int(n),
        mem_limit_mib=memory / _MIB if memory else None,
        cpus=nano / 1e9 if nano else quota / (period or 100_000.0) if quota and quota > 0 else None,
        oom_killed=oom if isinstance(oom, bool) else None,
        stop_timeout_s=_number(config, "StopTimeout"),
        healthcheck=_healthcheck(_part(config, "Healthcheck")),
        health=health if (health := _text(_part(state, "Health"), "Status")) != "none" else None,
        started_at=_instant(state, "StartedAt"),
        finished_at=ended,
        exit_code=None if code is None else int(code),
        error=redact([error])[0] if (error := _text(state, "Error")) else None,
    )


def _healthcheck(found: Mapping[str, Any]) -> Healthcheck | None:
    test = found.get("Test")
    if not isinstance(test, list) or len(test) < 2 or not all(isinstance(word, str) for word in test):
        return None  # none, or ["NONE"], which switches off that of the image

    def seconds(name: str, default: float) -> float:
        return nano / 1e9 if (nano := _number(found, name)) and nano > 0 else default

    retries = _number(found, "Retries")
    return Healthcheck(
        test=redact(test[:_MOST_WORDS]),
        interval_s=seconds("Interval", 30.0),
        timeout_s=seconds("Timeout", 30.0),
        retries=int(retries) if retries and retries >= 1 else 3,
        start_period_s=seconds("StartPeriod", 0.0),
    )


def _instant(fields: Mapping[str, Any], name: str) -> float | None:
    """An RFC 3339 instant; Docker's year 1 means that it never happened."""
    found = re.match(
        r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$", _text(fields, name) or ""
    )
    if found is None or found[1] < "1970":
        return None
    try:
        # nanoseconds are more than fromisoformat takes before Python 3.11
        whole = dt.datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00"))
    except ValueError:
        return None
    return whole.timestamp() + float(found[2] or 0)


def _part(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return clean(value, 120) or None if isinstance(value, str) else None


def _number(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < math.inf:
        return None
    try:
        return float(value)
    except OverflowError:  # JSON bounds no integer
        return None
