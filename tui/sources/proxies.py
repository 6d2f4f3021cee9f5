"""The HTTP proxy that an endpoint's settings ask for; none unless they do."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tui.model.status import SourceError
from tui.model.text import clean
from tui.model.urls import host_port, parse_proxy
from tui.sources import offloop
from tui.sources.resolve import Resolver

if TYPE_CHECKING:
    import httpcore

    from tui.model.settings import EngineTarget


class Proxy:
    """One proxy.

    Args:
        url: as ``parse_proxy`` returns it.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.scheme = parts.scheme
        self._host, self._port = host_port(url)
        self._auth = None
        if parts.username is not None:
            self._auth = unquote(parts.username), unquote(parts.password or "")
        self._context: ssl.SSLContext | None = None

    def __str__(self) -> str:
        """Never with its user name and password."""
        return f"the proxy {self.name}"

    @property
    def name(self) -> str:
        """Host and port, for a person."""
        return clean(f"{self._host}:{self._port}", 70)

    def resolver(self) -> Resolver:
        """Of its own name; that of the endpoint is the proxy's to look up."""
        return Resolver(self._host, self._port)

    async def trust(self) -> None:
        """Load what a proxy that is spoken to by TLS needs, off the loop."""
        self._context = await offloop.start(ssl.create_default_context, f"TLS {self._host}")

    def pool(
        self, address: str, context: ssl.SSLContext | None, keep_alive_s: float
    ) -> httpcore.AsyncConnectionPool:
        """Connections through it.

        Args:
            address: one of its own.
            context: what an endpoint that is spoken to by TLS needs.
            keep_alive_s: how long one may rest.
        """
        import httpcore

        url = httpcore.URL(scheme=self.scheme.encode(), host=address.encode(), port=self._port, target=b"/")
        auth = None if self._auth is None else (self._auth[0].encode(), self._auth[1].encode())
        return httpcore.AsyncHTTPProxy(
            url,
            proxy_auth=auth,
            ssl_context=context,
            proxy_ssl_context=self._context,
            max_connections=None,
            max_keepalive_connections=1,
            keepalive_expiry=keep_alive_s,
        )


def proxy_for(asked: str, url: str) -> Proxy | None:
    """The proxy to take to an endpoint.

    Args:
        asked: ``""`` for none whatever the environment says, ``env`` for the environment's
            (``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY``, ``NO_PROXY``), else its URL.
        url: the endpoint.

    Raises:
        SourceError: not_supported: what the environment names is no HTTP proxy.
    """
    if asked == "env":
        asked = _from_environment(url)
    if not asked:
        return None
    try:
        return Proxy(parse_proxy(asked))
    except ValueError as error:
        raise SourceError("not_supported", f"the environment's proxy cannot be used: {error}") from None


def name_of_proxy(target: EngineTarget) -> str:
    """Host and port of the proxy that an endpoint is read through; empty where that is none, or unusable."""
    try:
        proxy = proxy_for(target.proxy, target.url)
    except SourceError:
        return ""  # the read fails with it, and says so
    return "" if proxy is None else proxy.name


def _from_environment(url: str) -> str:
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = getproxies()
    if proxy_bypass(parts.netloc, proxies):
        return ""
    return proxies.get(parts.scheme) or proxies.get("all") or ""
