"""The socket at which an engine's server takes HTTP, told from the dozen others that its tree listens on."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tui.sources.addresses import answers_at, parse_address
from tui.sources.kernel.interfaces import addresses
from tui.sources.kernel.procfs import link
from tui.sources.kernel.sockets import ephemeral_ports, held_by, listeners, listeners_here
from tui.sources.recognition import DEFAULT_HOST, DEFAULT_PORT, HTTP_ROLES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tui.model.readings import EngineKind
    from tui.sources.kernel.sockets import Listener
    from tui.sources.recognition import Identity


@dataclass(frozen=True, slots=True)
class HttpSocket:
    """Where a server listens, or will."""

    port: int | None
    host: str | None = None
    """The bound address, else what the command line asks for."""
    listening: bool = False
    other_network: bool = False
    """In a network namespace other than ours."""
    tls: bool = False
    addresses: tuple[str, ...] = ()
    """Those of the other namespace at which the socket answers; none: this host cannot reach it."""
    closed: bool = False
    """Another user's, and we may not look at its sockets and namespaces."""
    taken: bool = False
    """Somebody listens at the port that it asks for: a child of its own, or a stranger."""
    unix: str = ""
    """The Unix socket at which it takes HTTP in place of a port."""

    @property
    def reachable(self) -> bool:
        """It listens where this host can connect to it."""
        return self.listening and self._in_reach()

    @property
    def expected(self) -> bool:
        """Nobody listens yet, or any more, at an address where this host could connect to it."""
        named = self.host in (None, "localhost") or parse_address(self.host or "") is not None
        unheard = self.port is not None and not (self.listening or self.taken or self.closed)
        return unheard and named and self._in_reach()

    def _in_reach(self) -> bool:
        return not self.other_network or bool(self.addresses)

    def url(self) -> str:
        """The URL at which this host reaches it."""
        host = "127.0.0.1" if self.host in (None, "0.0.0.0", "::", "localhost") else self.host
        if self.other_network and self.addresses:
            host = self.addresses[0]
        return f"http{'s' if self.tls else ''}://{f'[{host}]' if host and ':' in host else host}:{self.port}"


class SocketFinder:
    """Matches listening sockets to the servers that hold them.

    Which sockets a process holds is looked up only while its server's is not known or has gone.

    Args:
        proc: where procfs is mounted.
    """

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._ephemeral = ephemeral_ports(proc)
        self._inodes: dict[int, int] = {}
        self._elsewhere: dict[int, bool] = {}
        self._closed: set[int] = set()

    def find(
        self,
        found: Mapping[int, Identity],
        options: Mapping[int, Mapping[str, str]],
        parents: Mapping[int, int],
    ) -> dict[int, HttpSocket]:
        """The socket of each server and launcher, by pid; of another process where it listens in their place.

        Args:
            found: what each engine process is.
            options: the command-line options of each server and launcher.
            parents: the parent of each engine process.
        """
        here = self._listeners()
        self._inodes = {pid: inode for pid, inode in self._inodes.items() if pid in found}
        self._elsewhere = {pid: other for pid, other in self._elsewhere.items() if pid in found}
        self._closed &= found.keys()
        sockets: dict[int, HttpSocket] = {}
        for pid, identity in found.items():
            if identity.role in HTTP_ROLES:
                sockets[pid] = self._socket(pid, identity, options[pid], here)
        wanted = {port: pid for pid, s in sockets.items() if (port := s.port) and not s.listening}
        for listener in here.values():
            if (root := wanted.get(listener.port)) is not None and found[root].role == "api_server":
                heirs = [pid for pid in found if found[pid].role == "other" and _below(root, pid, parents)]
                for pid in heirs:
                    if self._listener(pid, listener.port, {listener.inode: listener}, sole=False) is not None:
                        sockets[pid] = _bound(sockets[root], listener)
        return sockets

    def _socket(
        self, pid: int, identity: Identity, options: Mapping[str, str], here: dict[int, Listener]
    ) -> HttpSocket:
        if "uds" in options or "headless" in options:
            return HttpSocket(None, unix=options.get("uds", ""))
        explicit = explicit_port(identity.engine, options)
        default = explicit or DEFAULT_PORT[identity.engine]
        asked = HttpSocket(
            port=explicit if identity.inferred else default,
            host=options.get("host") or options.get("http-address"),
            other_network=self._is_elsewhere(pid),
            tls="ssl-certfile" in options or "ssl-keyfile" in options,
            closed=pid in self._closed,
        )
        table = self._listeners(pid) if asked.other_network else here
        if identity.role == "launcher" and not identity.inferred:
            # its API servers listen; that it holds their socket too means nothing
            return self._unheard(pid, asked, identity.engine, table)
        # an offline program listens for its workers only; Triton for gRPC and metrics too
        sole = explicit is None and not identity.inferred and identity.engine != "triton"
        listener = self._listener(pid, default, table, sole=sole)
        if listener is None:
            return self._unheard(pid, asked, identity.engine, table)
        bound = _bound(asked, listener)
        return (
            replace(bound, addresses=self._reached_at(pid, listener.address))
            if bound.other_network
            else bound
        )

    def _unheard(
        self, pid: int, asked: HttpSocket, engine: EngineKind, table: Mapping[int, Listener]
    ) -> HttpSocket:
        """A server that does not listen: whether another does, and where it could be reached once it did."""
        host = asked.host or DEFAULT_HOST.get(engine)
        taken = any(
            listener.port == asked.port and (host is None or answers_at(listener.address, host))
            for listener in table.values()
        )
        reached = self._reached_at(pid, host) if asked.other_network and asked.port is not None else ()
        return replace(asked, taken=taken, addresses=reached)

    def _reached_at(self, pid: int, bound: str | None) -> tuple[str, ...]:
        """Addresses of a process's own network at which a socket answers us; not those that we have too."""
        try:
            found = addresses(f"{self._proc}/{pid}/net")
        except OSError:
            return ()  # it has ended
        try:
            ours = frozenset(addresses(f"{self._proc}/self/net"))
        except OSError:
            ours = frozenset()
        return tuple(a for a in found if a not in ours and answers_at(bound, a))

    def _listener(self, pid: int, port: int, table: Mapping[int, Listener], *, sole: bool) -> Listener | None:
        """The listening socket of a process at a port, or, if ``sole``, the only one that it chose itself."""
        known = table.get(self._inodes.get(pid, -1))
        if known is not None and (known.port == port or sole):
            return known
        at_port = [listener for listener in table.values() if listener.port == port]
        if not at_port and not sole:
            return None
        try:
            held = held_by(self._proc, pid)
        except OSError:
            # another user's: the port and the owner of the socket have to do
            return next((listener for listener in at_port if listener.uid == _uid(self._proc, pid)), None)
        mine = [table[inode] for inode in held if inode in table]
        chosen = [listener for listener in mine if listener.port == port]
        if not chosen and sole:
            # the workers of a model talk over ports that the kernel picked: none of those is HTTP
            chosen = [listener for listener in mine if listener.port not in self._ephemeral]
        if len({listener.port for listener in chosen}) != 1:
            return None
        self._inodes[pid] = chosen[0].inode
        return chosen[0]

    def _listeners(self, pid: int | None = None) -> dict[int, Listener]:
        """Listening sockets of a process's network namespace, by inode; of ours without one."""
        try:
            if pid is None and self._proc == "/proc":
                return listeners_here()
            return listeners(f"{self._proc}/net" if pid is None else f"{self._proc}/{pid}/net")
        except OSError:
            return {}  # no network, or a process that has ended: then nothing of it listens

    def _is_elsewhere(self, pid: int) -> bool:
        other = self._elsewhere.get(pid)
        if other is None:
            try:
                other = link(f"{self._proc}/{pid}/ns/net") != link(f"{self._proc}/self/ns/net")
            except OSError:
                other = False  # another user's, and no more to be learned about it
                if os.path.lexists(f"{self._proc}/{pid}/ns/net"):
                    self._closed.add(pid)
            self._elsewhere[pid] = other
        return other


def _bound(asked: HttpSocket, listener: Listener) -> HttpSocket:
    return replace(asked, port=listener.port, host=listener.address, listening=True)


def explicit_port(engine: EngineKind, options: Mapping[str, str]) -> int | None:
    """The HTTP port that a command line asks for; None where it asks for none."""
    text = options.get("http-port" if engine == "triton" else "port", "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 65536 else None


def _below(root: int, pid: int, parents: Mapping[int, int]) -> bool:
    seen: Collection[int] = {pid}
    while (above := parents.get(pid)) is not None and above not in seen:
        if above == root:
            return True
        seen, pid = {*seen, above}, above
    return False


def _uid(proc: str, pid: int) -> int | None:
    try:
        return Path(proc, str(pid)).stat().st_uid
    except OSError:
        return None
