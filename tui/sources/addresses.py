"""Which addresses are this machine's own."""

from __future__ import annotations

import functools
import ipaddress
import socket
import time
from urllib.parse import urlsplit

import psutil

_REMEMBER_S = 30.0

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_local(url: str) -> bool:
    """Whether a URL's host is this machine: loopback, an address of an interface, or its own name.

    Never asks a name server: any other name is taken as another machine's.
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    address = parse_address(host)
    if address is None:
        own = socket.gethostname().lower()
        return host in ("localhost", own, own.partition(".")[0]) or host.endswith(".localhost")
    return (
        address.is_loopback
        or address.is_unspecified  # the kernel takes a connection to 0.0.0.0 as one to itself
        or address in _own_addresses(int(time.monotonic() / _REMEMBER_S))
    )


def parse_address(text: str) -> IPAddress | None:
    """An IP address without zone, IPv4 where it is one in IPv6 form; None for a name."""
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def answers_at(bound: str | None, host: str) -> bool:
    """Whether a socket bound to one address takes connections to a host of its machine."""
    bound_to, wanted = parse_address(bound or ""), parse_address(host)
    if bound_to is None or bound_to.is_unspecified:
        return bound != "localhost" or wanted is None or wanted.is_loopback
    if wanted is None:
        return host != "localhost" or bound_to.is_loopback
    return wanted.is_unspecified or wanted == bound_to


@functools.lru_cache(maxsize=1)
def _own_addresses(_period: int) -> frozenset[IPAddress]:
    """Addresses of every interface; asked again in each new period, as interfaces come and go."""
    found = (
        parse_address(entry.address)
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family in (socket.AF_INET, socket.AF_INET6)
    )
    return frozenset(address for address in found if address is not None)
