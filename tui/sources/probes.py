"""Health routes asked as the kubelet asks them: a new connection each time, a status or why there is none.

When to ask, for how long to wait and what follows is ``tui.probing``'s to say and ``tui.runtime``'s to do.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit, urlunsplit

from tui.model.status import SourceError
from tui.model.urls import host_port
from tui.probing.outcomes import (
    BODY_LIMIT,
    Outcome,
    RedirectError,
    http_outcome,
    next_url,
    tcp_outcome,
)
from tui.sources.deadline import within
from tui.sources.http import HttpTarget
from tui.sources.resolve import Resolver

if TYPE_CHECKING:
    from tui.model.readings import ProbeStatus
    from tui.model.settings import EngineTarget, ProbeSpec
    from tui.model.status import Reason

_NO_STATUS: dict[Reason, ProbeStatus] = {
    "refused": "refused", "timeout": "timeout", "tls": "tls", "dns": "dns", "reset": "reset",
}  # fmt: skip


def no_status(error: SourceError) -> ProbeStatus:
    """How a probe calls a failed exchange; what answers and is not HTTP is a broken one: reset."""
    return _NO_STATUS.get(error.reason, "reset")


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One answer, or the lack of one, and what the kubelet makes of it."""

    status: ProbeStatus
    outcome: Outcome
    note: str = ""
    """For a person; what is from outside in it has passed ``clean``."""


class Prober(Protocol):
    """Asks one route, one request at a time. ``ask`` must bear being cancelled at any await."""

    async def prepare(self) -> None:
        """Load what requests need, so that no latency has the cost of it; raises nothing."""
        ...

    async def ask(self, limit_s: float) -> ProbeResult:
        """Ask once; whoever waits gives up in his own time, at the latest after ``limit_s``."""
        ...

    def unanswered(self) -> ProbeResult:
        """What the request that runs is if it is given up now."""
        ...

    async def close(self) -> None:
        """Close what a cancelled request may have left; at most a second."""
        ...


def prober(target: EngineTarget, spec: ProbeSpec) -> Prober:
    """What makes a probe with these settings; exec and grpc are not made from outside the container.

    Raises:
        ValueError: such a one.
    """
    if spec.handler == "tcpSocket":
        return TcpProber(target, spec)
    if spec.handler != "httpGet":
        raise ValueError(f"no {spec.handler} probe is made by this program")
    return HttpProber(target, spec)


def origin(target: EngineTarget, spec: ProbeSpec) -> str:
    """Where a probe goes: the target's own address, or another port, host or scheme of the settings."""
    if not spec.port and not spec.host:
        return target.url
    host, port = host_port(target.url)
    host = spec.host or host
    return f"{spec.scheme}://{f'[{host}]' if ':' in host else host}:{spec.port or port}"


class HttpProber:
    """An httpGet probe.

    Connections are not kept: an idle one would hold up Triton's exit. No token is sent, and certificates
    are not verified: the kubelet does neither. The probe's own headers go with each request. Those of the
    target's settings go to its own origin only, and over TLS only to a server that passes the target's
    own check of its certificate; one that does not is asked without them.

    Args:
        target: the endpoint.
        spec: path, and perhaps port, host, scheme and headers of its own.
    """

    def __init__(self, target: EngineTarget, spec: ProbeSpec) -> None:
        self._target, self._headers = target, dict(spec.headers)
        self._own_host = not spec.host
        self._origin = origin(target, spec)
        self._path = spec.path or "/"
        self._first = self._current = self._to(self._origin)

    def _to(self, url: str, *, doubted: bool = False) -> HttpTarget:
        target = self._target
        if doubted or not self._may_know(url):
            return HttpTarget(url, headers=self._headers, verify=False, keep_alive=False)
        return HttpTarget(
            url,
            headers={**target.headers, **self._headers},
            ca_file=target.ca_file,
            verify=target.verify,
            keep_alive=False,
        )

    def _may_know(self, url: str) -> bool:
        """Whether who answers there may have the headers of the target's settings."""
        return self._own_host and bool(self._target.headers) and _place(url) == _place(self._target.url)

    async def prepare(self) -> None:
        """Import httpcore and read the certificates' settings."""
        with contextlib.suppress(SourceError):  # the request will meet it again, and say so
            await self._first.prepare()

    async def ask(self, limit_s: float) -> ProbeResult:
        """GET the route, and where it redirects to on the same host."""
        first = url = self._origin + self._path
        made, doubted = 1, False
        http = self._current = self._first
        try:
            while True:
                try:
                    answer = await http.get(
                        url.removeprefix(http.url), limit_s, max_bytes=BODY_LIMIT, cut=True
                    )
                    further = next_url(first, url, answer.status, answer.headers.get("location"), made)
                except SourceError as error:
                    if error.reason != "tls" or doubted or not self._may_know(url):
                        return self._broken(error)
                    doubted = True  # perhaps not who the settings mean: ask as the kubelet does
                    http = self._current = self._to(http.url, doubted=True)
                    continue
                except RedirectError as error:
                    return ProbeResult(answer.status, Outcome.FAILURE, str(error))
                if further is None:
                    return ProbeResult(answer.status, http_outcome(answer.status))
                made += 1
                parts = urlsplit(further)
                base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
                url = base + urlunsplit(("", "", parts.path or "/", parts.query, ""))
                http = self._current = self._to(base, doubted=doubted)
        finally:
            if http is not self._first:
                await http.close()

    def unanswered(self) -> ProbeResult:
        """Too late: a failure while there is no status, thrown away once there is one."""
        if self._current.stage == "name":
            return ProbeResult("dns", Outcome.FAILURE, "its name was not resolved in time")
        if self._current.stage == "body":
            return ProbeResult("timeout", http_outcome(200, "unfinished"), "its answer began and did not end")
        return ProbeResult("timeout", Outcome.FAILURE)

    async def close(self) -> None:
        """Close what a cancelled request may have left."""
        await self._current.close()
        await self._first.close()

    def _broken(self, error: SourceError) -> ProbeResult:
        if self._current.stage == "body":
            return ProbeResult(no_status(error), http_outcome(200, "unfinished"), "its answer broke off")
        return ProbeResult(no_status(error), Outcome.FAILURE, error.detail)


def _place(url: str) -> tuple[str, str, int]:
    return (urlsplit(url).scheme, *host_port(url))


class TcpProber:
    """A tcpSocket probe: whether a connection opens.

    Args:
        target: the endpoint.
        spec: perhaps another port or host.
    """

    def __init__(self, target: EngineTarget, spec: ProbeSpec) -> None:
        host, self._port = host_port(origin(target, spec))
        self._resolver = Resolver(host, self._port)

    async def prepare(self) -> None:
        """Nothing is needed."""

    async def ask(self, limit_s: float) -> ProbeResult:
        """Open a connection and close it."""
        try:
            address = (await self._resolver.addresses())[0]
            _, writer = await within(limit_s, asyncio.open_connection(address, self._port))
        except SourceError as error:
            return ProbeResult(no_status(error), tcp_outcome(False), error.detail)
        except ConnectionRefusedError:
            return ProbeResult("refused", tcp_outcome(False))
        except ConnectionResetError:
            return ProbeResult("reset", tcp_outcome(False))
        except (OSError, asyncio.TimeoutError):  # no route to it, or nothing that answers
            self._resolver.forget()
            return ProbeResult("timeout", tcp_outcome(False))
        writer.transport.abort()
        return ProbeResult(OPEN, tcp_outcome(True), "the port accepts connections")

    def unanswered(self) -> ProbeResult:
        """Too late."""
        return ProbeResult("dns" if self._resolver.waiting else "timeout", tcp_outcome(False))

    async def close(self) -> None:
        """Nothing is held."""


OPEN = 200
"""The status of a port that opens: the contract has no other word for "passes"."""
