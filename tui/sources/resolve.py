"""Names to addresses: looked up once, off the loop, and again after the addresses failed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources import offloop


class Resolver:
    """The addresses of one host, best first.

    Args:
        host: a name or a literal address, which needs no look-up.
        port: of the service.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self._port = port
        self._lookup: asyncio.Future[list[str]] | None = None
        self._known: list[str] = []
        try:
            self._known = [str(ipaddress.ip_address(host))]
        except ValueError:
            self._literal = False
        else:
            self._literal = True

    @property
    def waiting(self) -> bool:
        """A look-up has not come back."""
        return self._lookup is not None

    async def addresses(self) -> list[str]:
        """The addresses; a look-up that hangs is waited for again, never a second one started.

        Raises:
            SourceError: dns.
        """
        if self._known:
            return list(self._known)
        if self._lookup is None:
            self._lookup = offloop.start(self._resolve, f"resolve {self.host}")
        await asyncio.wait([self._lookup])
        lookup, self._lookup = self._lookup, None
        try:
            self._known = lookup.result()
        except OSError as error:
            raise SourceError("dns", clean(f"{self.host}: {error.strerror or error}")) from None
        except UnicodeError:
            raise SourceError("dns", clean(f"{self.host}: no host name")) from None
        return list(self._known)

    def prefer(self, address: str) -> None:
        """It worked: it is the first to try."""
        if self._known[:1] != [address]:
            self._known = [address, *(other for other in self._known if other != address)]

    def forget(self) -> None:
        """They did not work: look up again next time."""
        if not self._literal:
            self._known = []

    def _resolve(self) -> list[str]:
        found = socket.getaddrinfo(self.host, self._port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in found))
