"""The addresses of a network namespace, from the ``net`` folder of a process that is in it."""

from __future__ import annotations

import ipaddress
import re

from tui.sources.kernel.procfs import read_file

_LOCAL = re.compile(rb"\|-- (\d+\.\d+\.\d+\.\d+)\n\s+/32 host LOCAL")
_GLOBAL = b"00"  # scope of an address in if_inet6: link-local ones need a zone that only the namespace knows


def addresses(net: str) -> tuple[str, ...]:
    """Addresses that others may connect to, IPv4 first; loopback and link-local ones are left out.

    Args:
        net: a ``/proc/PID/net``.

    Raises:
        OSError: neither table can be read.
    """
    found: dict[str, None] = {}
    failed: OSError | None = None
    try:
        for text in _LOCAL.findall(read_file(f"{net}/fib_trie")):
            address = ipaddress.ip_address(text.decode("ascii"))
            if not address.is_loopback and not address.is_link_local:
                found[str(address)] = None
    except OSError as error:
        failed = error
    try:
        lines = read_file(f"{net}/if_inet6").split(b"\n")
    except OSError:  # a kernel without IPv6
        if failed is not None:
            raise failed from None
        lines = []
    for line in lines:
        words = line.split()
        if len(words) == 6 and words[3] == _GLOBAL:
            found[str(ipaddress.IPv6Address(bytes.fromhex(words[0].decode("ascii"))))] = None
    return tuple(found)
