"""Listening TCP sockets, and which of them a process holds."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from typing import NamedTuple

from tui.sources.kernel import sock_diag
from tui.sources.kernel.procfs import link, numbered, read_start

_LISTEN = b"0A"
_CHUNK = 1 << 16


class Listener(NamedTuple):
    """One socket in state LISTEN."""

    packed: bytes
    """The bound address, 4 or 16 bytes."""
    port: int
    uid: int
    inode: int

    @property
    def address(self) -> str:
        """The bound address; a wildcard is ``0.0.0.0`` or ``::``, an IPv4 address in IPv6 form is IPv4."""
        address = ipaddress.ip_address(self.packed)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return str(mapped or address)


def listeners_here() -> dict[int, Listener]:
    """Listening sockets of our own network namespace by inode; raises OSError where there is no table."""
    try:
        found: dict[int, Listener] = {}
        for family in (socket.AF_INET, socket.AF_INET6):
            found.update((row[3], Listener(*row)) for row in sock_diag.listening(family))
    except OSError:  # a kernel without the module, a sandbox without netlink
        return listeners("/proc/net")
    return found


def listeners(net: str) -> dict[int, Listener]:
    """Listening sockets by inode of the network namespace whose ``/proc/.../net`` folder that is.

    Raises OSError where neither the IPv4 nor the IPv6 table can be read.
    """
    found: dict[int, Listener] = {}
    failed: OSError | None = None
    for table in ("tcp", "tcp6"):
        try:
            _read_table(f"{net}/{table}", found)
        except OSError as error:  # a kernel without IPv6 has no tcp6
            if failed is not None:
                raise
            failed = error
    return found


def _read_table(path: str, found: dict[int, Listener]) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        rest = b""
        while chunk := os.read(fd, _CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            before = len(found)
            _read_lines(lines, found)
            # the kernel lists listening sockets first: what follows a page without any is connections,
            # of which a busy host has tens of thousands
            if len(found) == before and len(lines) > 1:
                break
    finally:
        os.close(fd)


def _read_lines(lines: list[bytes], found: dict[int, Listener]) -> None:
    for line in lines:
        words = line.split(None, 10)
        if len(words) >= 10 and words[3] == _LISTEN:
            address, _, port = words[1].partition(b":")
            inode = int(words[9])
            found[inode] = Listener(_packed(address), int(port, 16), int(words[7]), inode)


def _packed(text: bytes) -> bytes:
    data = bytes.fromhex(text.decode("ascii"))
    if sys.byteorder == "big":
        return data
    # the kernel prints each 32-bit word of the address in the machine's own byte order
    return b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))


def held_by(proc: str, pid: int) -> frozenset[int]:
    """Inodes of the sockets that a process has open; raises OSError (another user's are not shown)."""
    folder = f"{proc}/{pid}/fd"
    inodes = set()
    for fd in numbered(folder):
        try:
            target = link(f"{folder}/{fd}")
        except OSError:
            continue  # closed since the listing
        if target.startswith("socket:["):
            inodes.add(int(target[8:-1]))
    return frozenset(inodes)


def ephemeral_ports(proc: str) -> range:
    """The ports that the kernel hands out when none was asked for."""
    try:
        low, high = read_start(f"{proc}/sys/net/ipv4/ip_local_port_range", 64).split()
        return range(int(low), int(high) + 1)
    except (OSError, ValueError):
        return range(32768, 61000)  # the kernel's default
