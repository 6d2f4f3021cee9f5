"""From a URL to the one engine of this host that answers there, proven by the socket itself.

What only looks like it is refused: a remote address with the same port here, a process that asks for the
port and does not have it, a proxy or another program that listens in the engine's place.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tui.actions.ancestry import ancestors, stat_of
from tui.actions.plan import HeldProcess, RefusedError
from tui.model.status import SourceError
from tui.model.text import clean
from tui.model.urls import host_port, parse_url
from tui.sources import offloop
from tui.sources.addresses import answers_at, is_local, parse_address
from tui.sources.deadline import within
from tui.sources.engine_tree import is_in_other_network, tree_of
from tui.sources.kernel.cgroup import place as place_of
from tui.sources.kernel.procfs import link, numbered
from tui.sources.kernel.sockets import held_by, listeners, listeners_here
from tui.sources.processes import ProcessSource
from tui.sources.resolve import Resolver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.places import Place
    from tui.model.readings import EngineProcess, ProcessTable
    from tui.sources.kernel.sockets import Listener

DEADLINE_S = 5.0
"""For the look-up of the name, and again for the look at the processes."""
_BUILT_LATER = "tests of {} are not built yet; with --stop-command the engine can still be tested"


@dataclass(frozen=True, slots=True)
class Found:
    """An engine of this host: its main process is, or is the launcher of, what listens at the URL."""

    tree: tuple[EngineProcess, ...]
    """The main process first."""
    held: tuple[HeldProcess, ...]
    """The same; those that have ended since are left out."""
    place: Place | None = None
    warnings: tuple[str, ...] = ()

    @property
    def main(self) -> EngineProcess:
        """The API server, or the launcher of several."""
        return self.tree[0]


async def find(url: str, proc: str = "/proc") -> Found:
    """The engine behind a URL.

    Args:
        url: a canonical address.
        proc: where procfs is mounted.

    Raises:
        RefusedError: it is not on this host, cannot be proven, or is in a container or pod.
    """
    addresses = await _addresses(url)

    async def look() -> Found:
        return await offloop.start(lambda: _find(url, addresses, proc), f"processes behind {url}")

    try:
        return await within(DEADLINE_S, look())
    except asyncio.TimeoutError:
        raise RefusedError(f"the processes of this host were not read within {DEADLINE_S:g} s") from None
    except SourceError as error:
        raise RefusedError(
            f"the processes of this host cannot be read: {error.detail or error.reason}"
        ) from None


async def check_local(url: str) -> None:
    """Raises RefusedError where a URL does not lead to this host, or not only."""
    for address in await _addresses(url):
        if not is_local(_at(url, address)):
            raise _remote(address)


async def _addresses(url: str) -> tuple[str, ...]:
    """The addresses of a URL's host, best first."""
    host, port = host_port(url)
    try:
        found = await within(DEADLINE_S, Resolver(host, port).addresses())
    except SourceError as error:
        raise RefusedError(f"{url}: {error.detail or error.reason}") from None
    except asyncio.TimeoutError:
        raise RefusedError(f"{url}: the name was not resolved within {DEADLINE_S:g} s") from None
    return tuple(found)


def _find(url: str, addresses: Sequence[str], proc: str) -> Found:
    table = ProcessSource(Path(proc)).read()
    found: list[tuple[EngineProcess, ...]] = []
    inodes: dict[int, Listener] = {}
    port = host_port(url)[1]
    for address in addresses:
        here = _at(url, address)
        _refuse_elsewhere(table, here, address, proc)
        sockets = sockets_at(address, port, proc)
        inodes.update(sockets)
        tree = tree_of(table, here)
        if tree and tree not in found and sockets:
            found.append(tree)
    if not inodes:
        raise RefusedError(f"nothing listens at {url}")
    if not found:
        raise _no_engine(url, inodes, proc)
    tree = found[0]
    if len(found) > 1:
        pids = ", ".join(str(tree[0].pid) for tree in found)
        raise RefusedError(f"{url} leads to several engines (pids {pids}): name an address")
    _refuse_contained(tree[0], proc)
    _refuse_several_roots(tree, url)
    warnings = _prove(tree, url, inodes, proc)
    held = tuple(process for row in tree if (process := _held(row, proc)) is not None)
    if not held or held[0].pid != tree[0].pid:
        raise RefusedError(f"pid {tree[0].pid} ({tree[0].comm}) has ended")
    return Found(tree, held, place_of(proc, tree[0].pid), warnings)


def sockets_at(address: str, port: int, proc: str = "/proc") -> dict[int, Listener]:
    """The listening sockets of our network namespace that take a connection to an address, by inode.

    One bound to the very address takes it before one bound to all.
    """
    try:
        table = listeners_here() if proc == "/proc" else listeners(f"{proc}/net")
    except OSError as error:
        raise RefusedError(f"the sockets of this host cannot be read: {error.strerror}") from None
    at_port = {inode: one for inode, one in table.items() if one.port == port}
    wanted = parse_address(address)
    exact = {inode: one for inode, one in at_port.items() if parse_address(one.address) == wanted}
    return exact or {inode: one for inode, one in at_port.items() if answers_at(one.address, address)}


# ------------------------------------------------------------------------------ what is refused


def _refuse_elsewhere(table: ProcessTable, url: str, address: str, proc: str) -> None:
    """A published port, another network namespace of this host, or another host."""
    port = host_port(url)[1]
    proxied = any(p.port == port and answers_at(p.host, address) for p in table.published)
    other_network = is_in_other_network(table, url)
    if proxied or other_network:
        tree = tree_of(table, url)
        if tree:
            _refuse_contained(tree[0], proc)
        if proxied:
            why = "docker-proxy carries this port into a container"
            raise RefusedError(f"{why}: {_BUILT_LATER.format('containers')}", "docker")
        raise RefusedError(f"the engine at {address} is in a network namespace of its own")
    if not is_local(url):
        raise _remote(address)


def _refuse_contained(main: EngineProcess, proc: str) -> None:
    """A process of a container or pod that we are not in ourselves."""
    found, ours = place_of(proc, main.pid), place_of(proc, os.getpid())
    if found is not None and found.pod_uid is not None and (ours is None or ours.pod_uid != found.pod_uid):
        raise RefusedError(
            f"pid {main.pid} is in the Kubernetes pod {found.pod_uid}: {_BUILT_LATER.format('pods')}",
            "kubernetes",
        )
    container = None if found is None else found.container_id
    if container is not None and (ours is None or ours.container_id != container):
        raise RefusedError(
            f"pid {main.pid} is in the container {container[:12]}: {_BUILT_LATER.format('containers')}",
            "docker",
        )
    for kind, what in (("net", "network"), ("pid", "pid")):
        try:
            same = link(f"{proc}/{main.pid}/ns/{kind}") == link(f"{proc}/self/ns/{kind}")
        except OSError:
            raise RefusedError(_unproven(main, f"its {what} namespace")) from None
        if not same:
            raise RefusedError(f"pid {main.pid} ({main.comm}) is in another {what} namespace")


def _refuse_several_roots(tree: tuple[EngineProcess, ...], url: str) -> None:
    """API servers that share a port and have no launcher above them (it died, or they are two engines)."""
    inside = {tree[0].pid}
    for process in tree[1:]:
        if process.ppid not in inside:
            raise RefusedError(
                f"pids {tree[0].pid} and {process.pid} both serve {url} and have no launcher in common"
            )
        inside.add(process.pid)


def _prove(
    tree: tuple[EngineProcess, ...], url: str, sockets: dict[int, Listener], proc: str
) -> tuple[str, ...]:
    """Every socket at the address is the engine's; warnings about who else holds it.

    Raises:
        RefusedError: one is not, or who holds it cannot be seen.
    """
    main = tree[0]
    if main.zombie:
        raise RefusedError(f"pid {main.pid} ({main.comm}) has ended already")
    holders: dict[int, set[int]] = {inode: set() for inode in sockets}
    for process in tree:
        try:
            held = held_by(proc, process.pid)
        except OSError:
            if process.pid == main.pid or process.role == "api_server":
                raise RefusedError(_unproven(process, "which sockets it holds")) from None
            continue
        for inode in held & sockets.keys():
            holders[inode].add(process.pid)
    if not all(holders.values()):
        missing = {inode: sockets[inode] for inode, pids in holders.items() if not pids}
        raise _no_engine(url, missing, proc)
    inside = {process.pid for process in tree}
    above = {kin.pid for kin in ancestors(main.pid, proc)}
    outside = _holders(sockets, proc) - inside
    if strangers := outside - above:
        raise RefusedError(
            f"{_names(strangers, proc)} holds the socket of {url} too, and is not of the engine"
        )
    if outside:
        return (
            f"{_names(outside, proc)} holds the listening socket too: the port stays open after the exit",
        )
    return ()


def _no_engine(url: str, sockets: dict[int, Listener], proc: str) -> RefusedError:
    """Why what listens is not taken for the engine."""
    pids = _holders(sockets, proc)
    if pids:
        return RefusedError(f"{_names(pids, proc)} listens at {url}: not the server of a known engine")
    uids = ", ".join(str(uid) for uid in sorted({one.uid for one in sockets.values()}))
    return RefusedError(
        f"which process listens at {url} cannot be seen: run as root, or as the user with uid {uids}"
    )


def _remote(address: str) -> RefusedError:
    return RefusedError(f"{address} is no address of this host: tests act on local engines only")


def _unproven(process: EngineProcess, what: str) -> str:
    return f"pid {process.pid} ({process.comm}): {what} cannot be seen: run as root, or as its user"


# ------------------------------------------------------------------------------ parts


def _at(url: str, address: str) -> str:
    """A URL with an address in place of its host."""
    port = host_port(url)[1]
    return parse_url(f"http://{f'[{address}]' if ':' in address else address}:{port}")


def _holders(sockets: dict[int, Listener], proc: str) -> set[int]:
    """The processes that have one of these sockets open, of those that we may look into."""
    found = set()
    for name in numbered(proc):
        try:
            if held_by(proc, int(name)) & sockets.keys():
                found.add(int(name))
        except OSError:
            continue  # another user's, or it has ended
    return found


def _names(pids: set[int], proc: str) -> str:
    shown = []
    for pid in sorted(pids)[:4]:
        stat = stat_of(pid, proc)
        shown.append(f"pid {pid} ({stat.comm})" if stat is not None else f"pid {pid}")
    return ", ".join(shown)


def _held(process: EngineProcess, proc: str) -> HeldProcess | None:
    stat = stat_of(process.pid, proc)
    if stat is None or stat.zombie or stat.start_ticks != process.start_ticks:
        return None
    return HeldProcess(
        pid=process.pid,
        start_ticks=stat.start_ticks,
        name=clean(process.title or process.comm, 64),
        role=process.role,
        started_at=process.started_at,
        cmdline=process.cmdline,
    )
