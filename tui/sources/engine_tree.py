"""The processes of one engine among those of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tui.model.urls import host_port
from tui.sources.addresses import answers_at, parse_address
from tui.sources.recognition import HTTP_ROLES

if TYPE_CHECKING:
    from tui.model.places import PublishedPort
    from tui.model.readings import EngineProcess, ProcessTable


def tree_of(table: ProcessTable, url: str) -> tuple[EngineProcess, ...]:
    """The engine behind a URL: its HTTP process (the launcher where there are several), then its descendants.

    An engine core that outlived its server is in no tree: nothing serves a URL from it. Where several
    servers ask for the port, the one that listens is meant, else the one that lives, else the newest.

    Args:
        table: the engine processes of this host.
        url: an endpoint for which ``is_local`` holds.

    Returns:
        Empty where no engine of this host has that address.
    """
    host, port = host_port(url)
    published = _published_at(table, host, port)
    if published is not None:
        host, port = published.container_host, published.container_port
    by_pid = {process.pid: process for process in table.processes}
    roots: dict[int, list[EngineProcess]] = {}
    for process in table.processes:
        asked_for = process.role in HTTP_ROLES and process.port == port
        if asked_for and (_reaches(process, host) or _is_in(process, published)):
            roots.setdefault(_root(by_pid, process), []).append(process)
    if not roots:
        return ()
    listening = [root for root, group in roots.items() if any(p.listening and not p.zombie for p in group)]
    if not listening:
        best = max(roots, key=lambda pid: (not by_pid[pid].zombie, by_pid[pid].started_at or 0.0, pid))
        return _descend(table, by_pid[best])
    return tuple(process for root in sorted(listening) for process in _descend(table, by_pid[root]))


def is_in_other_network(table: ProcessTable, url: str) -> bool:
    """Whether a server of this host answers at a URL by an address of its own network namespace."""
    host, port = host_port(url)
    return any(p.other_network and p.port == port and _reaches(p, host) for p in table.processes)


def reached_at(table: ProcessTable, url: str) -> str:
    """Where this host reaches the server of a URL: by a published port, if its container's network is closed.

    A rootless container has such a network: an address that is only good inside, and the runtime tells none.
    """
    parts = urlsplit(url)
    host, port = host_port(url)
    for process in table.processes:
        if process.other_network and process.port == port and _reaches(process, host):
            for found in table.published:
                if not found.container_host and found.container_port == port and _is_in(process, found):
                    bound = parse_address(found.host)
                    at = "127.0.0.1" if bound is None or bound.is_unspecified else str(bound)
                    return f"{parts.scheme}://{f'[{at}]' if ':' in at else at}:{found.port}"
    return url


def on_sockets(table: ProcessTable) -> tuple[EngineProcess, ...]:
    """The servers that take HTTP at a Unix socket and at no port, one of those that share a socket."""
    rows = (p for p in table.processes if p.unix_socket and p.role in HTTP_ROLES and not p.zombie)
    return tuple({(p.unix_socket, p.place): p for p in reversed(tuple(rows))}.values())[::-1]


def _root(by_pid: dict[int, EngineProcess], process: EngineProcess) -> int:
    """The topmost ancestor that is a server or launcher of the same engine."""
    seen = {process.pid}
    while (parent := by_pid.get(process.ppid)) is not None and parent.pid not in seen:
        if parent.role not in HTTP_ROLES or parent.engine != process.engine:
            break
        seen.add(parent.pid)
        process = parent
    return process.pid


def _descend(table: ProcessTable, root: EngineProcess) -> tuple[EngineProcess, ...]:
    children: dict[int, list[EngineProcess]] = {}
    for process in table.processes:
        children.setdefault(process.ppid, []).append(process)
    found: dict[int, EngineProcess] = {}
    waiting = [root]
    while waiting:
        process = waiting.pop()
        if process.pid not in found:
            found[process.pid] = process
            waiting.extend(reversed(children.get(process.pid, ())))
    return tuple(found.values())


def _published_at(table: ProcessTable, host: str, port: int) -> PublishedPort | None:
    """The published port that an address is; None where it is none."""
    return next((p for p in table.published if p.port == port and answers_at(p.host, host)), None)


def _is_in(process: EngineProcess, published: PublishedPort | None) -> bool:
    """Whether a process runs in the container that a port leads into."""
    if published is None or published.container_id is None or process.place is None:
        return False
    return process.place.container_id == published.container_id


def _reaches(process: EngineProcess, host: str) -> bool:
    """Whether a connection from this machine to a host ends at the process."""
    if not process.other_network:
        return answers_at(process.host, host)
    wanted = parse_address(host)
    return wanted is not None and any(parse_address(own) == wanted for own in process.addresses)
