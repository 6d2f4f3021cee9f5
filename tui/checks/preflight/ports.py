"""Whether the engine's port is free on this host, and if not, who has it."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

from tui.checks.finding import CheckFinding
from tui.model.text import clean
from tui.sources.addresses import answers_at, parse_address
from tui.sources.command_line import published_port, redact, split
from tui.sources.kernel.procfs import numbered, read_file, read_start
from tui.sources.kernel.sockets import held_by, listeners_here

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.checks.preflight.intent import Intent
    from tui.sources.kernel.sockets import Listener

_CMDLINE_MAX = 1 << 16
_SHOWN = 160
_UNPRIVILEGED = "sys/net/ipv4/ip_unprivileged_port_start"
_NET_BIND = 1 << 10  # CAP_NET_BIND_SERVICE


def port_finding(intent: Intent, proc: str = "/proc") -> CheckFinding:
    """Whether the engine could listen; nothing is bound to find out.

    vLLM sets SO_REUSEPORT: a second one on the port would start, and each would get half of the requests.
    """
    port = intent.port
    if port is None:
        return CheckFinding("port", "ok", "not checked: the port: give --port or --engine")
    try:
        taken = [found for found in listeners_here().values() if found.port == port]
    except OSError as error:
        text = f"port {port}: the kernel's table of sockets cannot be read: {clean(str(error))}"
        return CheckFinding("port", "warning", text, None, port)
    rivals = [found for found in taken if _conflicts(intent.host, found.address)]
    if rivals:
        who = _holder(proc, rivals)
        address = rivals[0].address
        shown = f"[{address}]" if ":" in address else address
        return CheckFinding("port", "error", f"port {port} is in use at {shown} by {who}", who, "free")
    if port < _first_unprivileged(proc) and not _may_bind(proc):
        text = f"port {port} is below {_first_unprivileged(proc)}: this user may not listen there"
        return CheckFinding("port", "error", text, port, _first_unprivileged(proc))
    return CheckFinding("port", "ok", f"port {port} is free", port, "free")


def _conflicts(host: str, bound: str) -> bool:
    """Whether two sockets of one port cannot both be: the same address, or one of them every address."""
    wanted = parse_address(host)
    return wanted is None or wanted.is_unspecified or answers_at(bound, host)


def _holder(proc: str, sockets: Iterable[Listener]) -> str:
    """Process and command line, secrets hidden; else whose it is."""
    inodes = {socket.inode: socket for socket in sockets}
    for name in numbered(proc):
        try:
            if not inodes.keys() & held_by(proc, int(name)):
                continue
            arguments = split(read_start(f"{proc}/{name}/cmdline", _CMDLINE_MAX))
        except OSError:
            continue  # it has ended, or is another user's
        shown = clean(" ".join(redact(arguments)), _SHOWN)
        published = published_port(arguments)
        if published is not None:
            shown = f"docker-proxy for the container at {published.container_host}:{published.container_port}"
        return f"pid {name} ({shown})"
    uid = next(iter(inodes.values())).uid
    try:
        user = clean(pwd.getpwuid(uid).pw_name, 40)
    except KeyError:
        user = f"uid {uid}"
    return f"a process of {user} that cannot be seen from here (as root it can)"


def _first_unprivileged(proc: str) -> int:
    try:
        return int(read_start(f"{proc}/{_UNPRIVILEGED}", 16))
    except (OSError, ValueError):
        return 1024  # the kernel's default


def _may_bind(proc: str) -> bool:
    if os.geteuid() == 0:
        return True
    try:
        status = read_file(f"{proc}/self/status")
    except OSError:
        return False
    line = next((line for line in status.split(b"\n") if line.startswith(b"CapEff:")), b"CapEff: 0")
    return bool(int(line.split()[1], 16) & _NET_BIND)
