"""What the Docker Engine API tells of one container: GETs over its Unix socket, never anything else.

Podman answers the same request in the same form.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import os
import re
from typing import TYPE_CHECKING, Any

from tui.model.places import ContainerReading, Healthcheck, PublishedPort
from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources.command_line import redact
from tui.sources.http import HttpTarget

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tui.sources.answers import Answer

SOCKET = "/var/run/docker.sock"
PODMAN_SOCKET = "/run/podman/podman.sock"
DEADLINE_S = 3.0
_MOST_WORDS = 32
"""Of a health check's command."""
_MOST_PORTS = 64
LOG_LINES = 200
"""More than the tracebacks of an API server and its core that end together."""
_MOST_LOG_BYTES = 1 << 20
_FRAME_HEAD = 8
_STDERR = 2
_MIB = 1024.0 * 1024.0


class ContainerSource:
    """An ``AsyncSource`` of one container of Docker or Podman, whose API is the same.

    Args:
        container_id: its id, or its name.
        runtime: as in ``Place``; of what it does not name, Docker is asked.
        sockets: of the API, asked in turn until one knows the container; by default those that the
            environment names (``DOCKER_HOST``, ``CONTAINER_HOST``), else the runtime's own and the user's.
    """

    def __init__(self, container_id: str, runtime: str | None = None, sockets: Sequence[str] = ()) -> None:
        self.name = f"container {container_id[:12]}"
        self._id = container_id
        self._targets = [
            HttpTarget("http://localhost", unix_socket=socket, keep_alive=False)
            for socket in sockets or _sockets(runtime)
        ]

    async def read(self) -> ContainerReading:
        """One look.

        Raises:
            SourceError: any of the reasons of ``HttpTarget.get``; 404: the runtime does not know the
                container, which another one may have made; 5xx; parse; not_supported: a runtime without
                an API that is read here.
        """
        found = (await self._ask(f"/containers/{self._id}/json")).json()
        if not isinstance(found, dict):
            raise SourceError("parse", "the API: no JSON object")
        return _reading(self._id, found)

    async def log(self) -> str:
        """The last lines of its output, both streams in the order of their arrival; not cleaned.

        Raises:
            SourceError: as ``read``; parse also where its log driver keeps nothing that can be read.
        """
        asked = f"/containers/{self._id}/logs?stdout=1&stderr=1&tail={LOG_LINES}"
        body = (await self._ask(asked, most_bytes=_MOST_LOG_BYTES)).body
        return _demultiplexed(body).decode("utf-8", "replace")

    async def close(self) -> None:
        """Close the connections."""
        for target in self._targets:
            await target.close()

    async def _ask(self, path: str, most_bytes: int | None = None) -> Answer:
        """The first answer of the sockets; with ``most_bytes`` the rest of a longer one is left unread."""
        if not self._targets:
            told = "no API that is read here; name, image, limits and restarts are not known"
            raise SourceError("not_supported", told, unsupported=True)
        failed: list[SourceError] = []
        deadline_s = DEADLINE_S / len(self._targets)
        for target in self._targets:
            try:
                if most_bytes is None:
                    answer = await target.get(path, deadline_s)
                else:
                    answer = await target.get(path, deadline_s, max_bytes=most_bytes, cut=True)
                if answer.status == 200:
                    return answer
                failed.append(_refusal(answer))
            except SourceError as error:
                failed.append(error)
        # that a socket is not there says less than what another one answered
        raise next((error for error in failed if error.reason != "refused"), failed[0])


def _refusal(answer: Answer) -> SourceError:
    if answer.status == 404:
        return SourceError("404", "this container is not known there")
    return answer.refusal("the API")


def _demultiplexed(body: bytes) -> bytes:
    """The output in the frames of the API (stream, 0, 0, 0, length); that of a terminal comes as it is."""
    found, at = bytearray(), 0
    while at + _FRAME_HEAD <= len(body):
        if body[at] > _STDERR or body[at + 1 : at + 4] != b"\0\0\0":
            return body  # no frame: a container with a terminal
        length = int.from_bytes(body[at + 4 : at + _FRAME_HEAD], "big")
        at += _FRAME_HEAD
        found += body[at : at + length]
        at += length
    return bytes(found) if at else body


def _sockets(runtime: str | None) -> list[str]:
    if runtime not in (None, "docker", "podman"):
        return []
    podman = runtime == "podman"
    named = os.environ.get("CONTAINER_HOST" if podman else "DOCKER_HOST", "")
    if named.startswith("unix:///"):
        return [named.removeprefix("unix://")]
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    rest = "podman/podman.sock" if podman else "docker.sock"
    return [
        PODMAN_SOCKET if podman else SOCKET,
        *([f"{own}/{rest}"] if own.startswith("/") else []),
    ]


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
        published=tuple(_published(container_id, _part(found, "NetworkSettings"))),
    )


def _published(container_id: str, network: Mapping[str, Any]) -> Iterator[PublishedPort]:
    networks = [network, *(_part(_part(network, "Networks"), name) for name in _part(network, "Networks"))]
    address = next((text for part in networks if (text := _text(part, "IPAddress"))), "")
    for inside, bindings in itertools.islice(_part(network, "Ports").items(), _MOST_PORTS):
        port, _, protocol = str(inside).partition("/")
        for bound in bindings if isinstance(bindings, list) and protocol == "tcp" else ():
            ours = _text(bound, "HostPort") if isinstance(bound, dict) else None
            if _is_port(port) and _is_port(ours or ""):
                host = _text(bound, "HostIp") or ""
                yield PublishedPort(host, int(ours or 0), address, int(port), container_id)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536


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
