"""POSTs to one engine, each over a connection of its own, read as their bytes come."""

from __future__ import annotations

import contextlib
import os
import ssl
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import httpx

import tui
from tui.model.status import SourceError
from tui.model.text import clean
from tui.model.urls import host_port
from tui.sources import offloop
from tui.sources.resolve import Resolver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tui.model.settings import EngineTarget

CONNECT_S = 5.0


class Client:
    """Sends what a test sends. Kept connections would hold up the exit of what is tested: there are none.

    Args:
        target: whom; its token and headers go with each request, through no proxy: it is on this host.
    """

    def __init__(self, target: EngineTarget) -> None:
        parts = urlsplit(target.url)
        host, self._port = host_port(target.url)
        self._target = target
        self._scheme, self._base = parts.scheme, parts.path.rstrip("/")
        self._resolver = Resolver(host, self._port)
        own = {
            "host": parts.netloc,
            "accept": "*/*",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": f"infertop/{tui.__version__}",
            "connection": "close",
        }
        token = target.token or os.environ.get(target.token_env, "").strip()
        if token and not target.discovered:
            own["authorization"] = f"Bearer {token}"
        own |= {name.lower(): value for name, value in target.headers.items()}
        self._headers = own
        self._transport: httpx.AsyncHTTPTransport | None = None
        self._address = ""

    async def prepare(self) -> None:
        """Look up the name and read the authorities, so that no request has their cost in it.

        Raises:
            SourceError: dns, tls (the authorities cannot be read).
        """
        self._address = (await self._resolver.addresses())[0]
        context: ssl.SSLContext | bool = False
        if self._scheme == "https":
            try:
                context = await offloop.start(self._trust, "TLS of the test's requests")
            except OSError as error:
                raise SourceError("tls", clean(f"authorities cannot be read: {error.strerror}")) from None
        self._transport = httpx.AsyncHTTPTransport(
            verify=context, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    @contextlib.asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        """Send a request: its status, and its body to be read while the context is open.

        Leaving the context, by cancellation too, closes the connection.

        Raises:
            httpx.HTTPError: there was no answer, or it broke off.
        """
        assert self._transport is not None  # prepared
        url = httpx.URL(
            scheme=self._scheme, host=self._address, port=self._port, raw_path=(self._base + path).encode()
        )
        request = httpx.Request(
            "POST",
            url,
            headers=self._headers,
            content=body,
            extensions={"sni_hostname": self._resolver.host, "timeout": {"connect": CONNECT_S}},
        )
        response = await self._transport.handle_async_request(request)
        try:
            yield response.status_code, aiter_of(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close what is open."""
        if self._transport is not None:
            await self._transport.aclose()

    def _trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._target.ca_file or None)
        if not self._target.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


async def aiter_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """The raw pieces of a body; raises httpx.HTTPError where it breaks off."""
    async for piece in cast("httpx.AsyncByteStream", response.stream):
        yield piece


def refused(error: httpx.HTTPError) -> bool:
    """No connection came about."""
    return isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
