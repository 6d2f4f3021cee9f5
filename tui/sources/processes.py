"""Finds the engines of this host by their processes, and the URLs at which they listen."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.model.readings import EngineProcess, ProcessTable
from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources.addresses import is_local
from tui.sources.command_line import command_args, published_port, redact, split
from tui.sources.engine_tree import tree_of
from tui.sources.http_socket import HttpSocket, SocketFinder, explicit_port
from tui.sources.kernel.cgroup import place
from tui.sources.kernel.output import output_file
from tui.sources.kernel.owners import is_ours_or_roots, uids, user
from tui.sources.kernel.procfs import (
    FLAGS,
    PPID,
    SESSION,
    START,
    STATE,
    STIME,
    UTIME,
    numbered,
    parse_stat,
    read_file,
    read_start,
)
from tui.sources.kernel.visibility import is_reaper, visibility
from tui.sources.recognition import HTTP_ROLES, Identity, by_command, by_title, runs_a_script, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.places import Place, PublishedPort
    from tui.sources.kernel.visibility import Visibility

__all__ = ["ProcessSource", "command_args", "is_local", "tree_of"]

_CMDLINE_MAX = 1 << 16
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD
EXPECTED_MAX: Final = 16
"""Servers that do not listen and are watched: anybody may start programs that look like one."""
_NO_SERVER: Final = frozenset(("help", "version", "grpc", "grpc-mode"))
# A process that is no engine's is left alone for a while once two looks agree; it may still become one by
# exec. Staggered by pid, so that the looks at 2,000 of them do not fall together.
_REST_S = (4.0, 5.0, 6.0)


@dataclass(slots=True)
class _Seen:
    """A process as long as neither its start nor its name changes."""

    start: bytes
    comm: bytes
    identity: Identity | None = None
    script: bool = False
    arguments: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    rests_until: float = 0.0
    ppid: int = 0
    session: int = 0
    zombie: bool = False
    state: bytes = b""
    ticks: int = 0
    blocked_since: float | None = None
    published: PublishedPort | None = None
    place: Place | None = None
    placed: bool = False
    output: str = ""


class ProcessSource:
    """Reads /proc; implements ``BlockingSource[ProcessTable]``.

    A process of an engine costs one read of its ``stat``; what it is is looked up again only when its name
    changes, as engines name their children up to 20 s after they started them. Others cost that once in
    about 5 s.

    Args:
        proc: where procfs is mounted.
        monotonic: the clock.
    """

    name = "processes"

    def __init__(self, proc: Path = Path("/proc"), monotonic: Callable[[], float] = time.monotonic) -> None:
        self.doing = ""
        self._proc = os.fspath(proc)
        self._monotonic = monotonic
        self._hz: Final = os.sysconf("SC_CLK_TCK")
        self._boot: float | None = None
        self._sight: Visibility | None = None
        self._complete: bool | None = None
        self._seen: dict[int, _Seen] = {}
        self._sockets = SocketFinder(self._proc)

    def read(self) -> ProcessTable:
        """One look at every process; raises ``SourceError`` only where /proc itself is not there."""
        try:
            return self._read()
        except FileNotFoundError:
            raise SourceError("not_supported", f"there is no {self._proc} here", unsupported=True) from None
        except PermissionError:
            raise SourceError("no_permission", f"{self._proc} may not be read") from None
        finally:
            self.doing = ""

    def close(self) -> None:
        """Nothing is held between readings."""

    def _read(self) -> ProcessTable:
        if self._complete is None or self._boot is None:
            self._boot = _boot_time(self._proc)
            self._sight = visibility(self._proc)
            self._complete = self._sight.complete
        self._look_at_all()
        found = self._identify()
        sockets = self._find_sockets(found) if found else {}
        orphans = self._orphans(found)
        rows = tuple(self._row(pid, found[pid], sockets.get(pid), orphans) for pid in sorted(found))
        listeners = _by_port({s.url(): s.port for s in sockets.values() if s.reachable})
        waiting = {pid: s for pid, s in sockets.items() if s.expected and pid in found}
        urls = {s.url(): s.port for pid, s in waiting.items() if self._will_listen(pid, found)}
        expected = _by_port({url: port for url, port in urls.items() if url not in listeners})
        published = tuple(seen.published for seen in self._seen.values() if seen.published)
        hidden = self._hidden(rows, len(expected) - EXPECTED_MAX)
        return ProcessTable(rows, listeners, self._complete, published, hidden, expected[:EXPECTED_MAX])

    def _will_listen(self, pid: int, found: dict[int, Identity]) -> bool:
        """Whether a server that does not listen is one that will, or did, at the port that is known of it."""
        identity, seen = found[pid], self._seen[pid]
        options = self._options(pid, found)
        if seen.zombie or identity.inferred or identity.role not in HTTP_ROLES or options.keys() & _NO_SERVER:
            return False
        if options.get("allow-http") in ("0", "false") or options.get("node-rank", "0") != "0":
            return False  # Triton with gRPC alone; the other machines of an engine have no server
        return "config" not in options or explicit_port(identity.engine, options) is not None

    def _hidden(self, rows: tuple[EngineProcess, ...], too_many: int) -> str:
        sight = self._sight
        found = [f"{sight.why}: {sight.enable}"] if sight is not None and not sight.complete else []
        closed = [str(row.pid) for row in rows if row.closed and not row.listening]
        if closed and not found:
            pids = ", ".join(closed[:4])
            found.append(f"ports and networks of another user's engine (pid {pids}) are hidden: run as root")
        if too_many > 0:
            found.append(f"{too_many} more servers that do not listen are not watched: name their URLs")
        return "; ".join(found)

    def _find_sockets(self, found: dict[int, Identity]) -> dict[int, HttpSocket]:
        """Sockets by pid; who turns out to listen is an API server, and who left that to a child is not."""
        self.doing = f"reading {self._proc}/net/tcp"
        parents = {pid: self._seen[pid].ppid for pid in found}
        options = {pid: self._options(pid, found) for pid in found if found[pid].role in HTTP_ROLES}
        sockets = self._sockets.find(found, options, parents)
        for pid, socket in sockets.items():
            if socket.listening and found[pid].role != "api_server":
                server = parents[pid]
                while server in found and found[server].role not in HTTP_ROLES:
                    server = parents[server]
                if server in found:
                    found[server] = found[server]._replace(role="launcher")
                found[pid] = found[pid]._replace(role="api_server")
        return sockets

    def _look_at_all(self) -> None:
        proc, before, now = self._proc, self._seen, self._monotonic()
        self.doing = f"listing {proc}"
        after: dict[int, _Seen] = {}
        for name in numbered(proc):
            pid = int(name)
            seen = before.get(pid)
            if seen is not None and now < seen.rests_until:
                after[pid] = seen
                continue
            try:
                parsed = parse_stat(read_start(f"{proc}/{name}/stat", 512))
            except OSError:
                continue  # it has ended since the listing
            if parsed is None:
                continue
            comm, fields = parsed
            zombie = fields[STATE] in (b"Z", b"X")
            known = seen is not None and seen.start == fields[START] and seen.comm == comm
            # a script may exec a server under the interpreter's name; a zombie's command line is gone
            if seen is None or not known or (seen.identity is None and seen.script and not zombie):
                seen = _Seen(fields[START], comm)
                if not int(fields[FLAGS]) & _KERNEL_THREAD:
                    self._look_at(name, seen)
            if known and seen.identity is None:
                seen.rests_until = now + _REST_S[pid % len(_REST_S)]
            seen.ppid, seen.session, seen.zombie = int(fields[PPID]), int(fields[SESSION]), zombie
            _note_state(seen, fields, now)
            after[pid] = seen
        self._seen = after

    def _look_at(self, pid: str, seen: _Seen) -> None:
        path = f"{self._proc}/{pid}/cmdline"
        self.doing = f"reading {path}"  # waits for the process's memory lock: it may take for ever
        try:
            arguments = split(read_start(path, _CMDLINE_MAX))
        except OSError:
            arguments = ()  # it has ended since its stat was read, or is hidden
        seen.identity = by_title(_text(seen.comm), arguments) or by_command(arguments)
        seen.script = runs_a_script(arguments)
        published = published_port(arguments)
        if published is not None and self._may_publish(int(pid)):
            seen.published = published
        # no secret is kept, and of what can be no part of an engine only the program
        whole = seen.identity is not None or seen.script or (arguments and "python" in arguments[0])
        seen.arguments = redact(arguments if whole else arguments[:1])

    def _identify(self) -> dict[int, Identity]:
        """Every engine process: recognised by itself, or a descendant or the parent of one that was."""
        found = {pid: seen.identity for pid, seen in self._seen.items() if seen.identity is not None}
        if not found:
            return found
        children: dict[int, list[int]] = {}
        for pid, seen in self._seen.items():
            children.setdefault(seen.ppid, []).append(pid)
        in_a_tree: set[int] = set()
        for pid, identity in tuple(found.items()):
            if identity.role in HTTP_ROLES and not identity.titled:
                self._adopt(pid, identity, found, children, in_a_tree)
        for pid, identity in tuple(found.items()):
            parent = self._seen[pid].ppid
            if not identity.titled or pid in in_a_tree or parent in found or parent <= 1:
                continue
            # a server started through a script of the operator's own; what an orphan was left to (init,
            # a container's shim, a shell) is no Python program
            if parent not in self._seen or is_reaper(self._proc, parent, self._comm(parent)):
                continue
            if self._seen[parent].script:
                found[parent] = Identity(identity.engine, "launcher", inferred=True)
                self._adopt(parent, found[parent], found, children, in_a_tree)
        for pid in tuple(found):
            parent = self._seen[pid].ppid
            if found[pid].titled and found[pid].role == "api_server" and parent in found:
                found[parent] = found[parent]._replace(role="launcher")
        for pid in found:
            self._seen[pid].rests_until = 0.0
        return found

    def _adopt(
        self,
        root: int,
        identity: Identity,
        found: dict[int, Identity],
        children: dict[int, list[int]],
        in_a_tree: set[int],
    ) -> None:
        """Add the descendants of a server."""
        waiting = [root]
        while waiting:
            parent = waiting.pop()
            if parent in in_a_tree:
                continue
            in_a_tree.add(parent)
            for pid in children.get(parent, ()):
                seen = self._seen[pid]
                forked = seen.arguments == self._seen[parent].arguments and not (
                    found.get(pid, identity).titled
                )
                if pid not in found or forked:  # a fork has its parent's command line until it names itself
                    found[pid] = within(identity.engine, _text(seen.comm), seen.arguments)
                waiting.append(pid)

    def _options(self, pid: int, found: dict[int, Identity]) -> dict[str, str]:
        """The options of a server; those of its launcher where a title has taken their place."""
        seen = self._seen[pid]
        if found[pid].titled and seen.ppid in found:
            seen = self._seen[seen.ppid]
        if not seen.options:
            seen.options = command_args(seen.arguments)
        return seen.options

    def _orphans(self, found: dict[int, Identity]) -> frozenset[int]:
        """Parts of engines that a reaper has taken over, and their parts.

        API servers that outlived their launcher serve on, from cores that have lost it too.
        """
        serving = {
            (found[pid].engine, self._seen[pid].session)
            for pid in found
            if found[pid].titled
            and found[pid].role in HTTP_ROLES
            and self._seen[pid].ppid not in found
            and not self._seen[pid].zombie
        }
        left = {
            pid
            for pid, identity in found.items()
            if identity.titled
            and identity.role not in HTTP_ROLES
            and not self._seen[pid].zombie
            and (identity.engine, self._seen[pid].session) not in serving
            and self._seen[pid].ppid not in found
            and is_reaper(self._proc, self._seen[pid].ppid, self._comm(self._seen[pid].ppid))
        }
        # their helpers without a title end with them, and hold nothing
        return frozenset(
            pid for pid in found if pid in left or (found[pid].titled and self._below(pid, left, found))
        )

    def _may_publish(self, pid: int) -> bool:
        """Whether it can be the runtime's own: anybody, and any container, may name a program so."""
        found = place(self._proc, pid)
        return is_ours_or_roots(self._proc, pid) and (found is None or found.container_id is None)

    def _place(self, pid: int) -> Place | None:
        seen = self._seen[pid]
        if not seen.placed:
            seen.place, seen.placed = place(self._proc, pid), True
        return seen.place

    def _comm(self, pid: int) -> str:
        seen = self._seen.get(pid)
        return _text(seen.comm) if seen is not None else ""

    def _below(self, pid: int, roots: set[int], found: dict[int, Identity]) -> bool:
        above: set[int] = set()
        while (pid := self._seen[pid].ppid) in found and pid not in above:
            if pid in roots:
                return True
            above.add(pid)
        return False

    def _row(
        self, pid: int, identity: Identity, socket: HttpSocket | None, orphans: frozenset[int]
    ) -> EngineProcess:
        seen = self._seen[pid]
        titled = identity.titled
        return EngineProcess(
            pid=pid,
            ppid=seen.ppid,
            comm=clean(_text(seen.comm), 64),
            role=identity.role,
            engine=identity.engine,
            started_at=None if self._boot is None else self._boot + int(seen.start) / self._hz,
            port=None if socket is None else socket.port,
            host=None if socket is None else socket.host,
            listening=socket is not None and socket.listening,
            zombie=seen.zombie,
            cmdline=() if titled else seen.arguments,
            title=clean(seen.arguments[0], 64) if titled and "::" in "".join(seen.arguments[:1]) else "",
            other_network=socket is not None and socket.other_network,
            orphan=pid in orphans,
            addresses=() if socket is None else socket.addresses,
            place=self._place(pid) if identity.role in HTTP_ROLES or pid in orphans else None,
            closed=socket is not None and socket.closed,
            start_ticks=int(seen.start),
            unix_socket="" if socket is None else clean(socket.unix, 200),
            output=self._output(pid, identity),
            user=self._user(pid) if pid in orphans else "",
            stopped=seen.state == b"T",
            traced=seen.state == b"t",
            blocked_s=None if seen.blocked_since is None else self._monotonic() - seen.blocked_since,
        )

    def _output(self, pid: int, identity: Identity) -> str:
        if identity.role not in HTTP_ROLES:
            return ""
        seen = self._seen[pid]
        if not seen.zombie:  # the files of one are closed, and why it ended stands in what was its output
            seen.output = output_file(self._proc, pid, (1, 2) if identity.engine == "vllm" else (2, 1))
        return seen.output

    def _user(self, pid: int) -> str:
        return ", ".join(sorted(user(uid) for uid in uids(self._proc, pid)))


def _note_state(seen: _Seen, fields: list[bytes], now: float) -> None:
    """Whether it can run, and since when not: reads of a disk sleep as deep, but end and use CPU time."""
    ticks = int(fields[UTIME]) + int(fields[STIME])
    if fields[STATE] != b"D":
        seen.blocked_since = None
    elif seen.blocked_since is None or ticks != seen.ticks:
        seen.blocked_since = now
    seen.state, seen.ticks = fields[STATE], ticks


def _by_port(urls: dict[str, int | None]) -> tuple[str, ...]:
    return tuple(sorted(urls, key=lambda url: (urls[url] or 0, url)))


def _text(comm: bytes) -> str:
    return comm.decode("utf-8", "replace")


def _boot_time(proc: str) -> float | None:
    """Epoch seconds at which the machine started; None where the kernel does not say."""
    for line in read_file(f"{proc}/stat").split(b"\n"):
        if line.startswith(b"btime "):
            return float(line[6:])
    return None
