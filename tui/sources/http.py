"""HTTP to one target: a total deadline, a bounded body, no redirects, no cookies, a proxy only if asked.

Over httpcore, on which httpx is built, or, without TLS and proxy, over ``http_plain``: redirects, cookies,
proxies and ``.netrc`` cannot happen, it takes a third of the time to import, and a scrape of 60 KB takes
0.8 ms of CPU instead of 1.5. It is imported before the first request, off the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import ipaddress
import os
import re
import ssl
import sys
import threading
import time
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import quote, urlsplit

import tui
from tui.model.status import SourceError
from tui.model.text import clean
from tui.model.urls import host_port
from tui.sources import offloop
from tui.sources.answers import Answer
from tui.sources.deadline import within
from tui.sources.http_failures import failure, failures
from tui.sources.inflate import Inflate
from tui.sources.proxies import proxy_for
from tui.sources.resolve import Resolver

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Mapping

    import httpcore

    from tui.model.settings import EngineTarget
    from tui.sources.http_plain import PlainPool
    from tui.sources.proxies import Proxy

MAX_BODY = 20_000_000
"""Bytes of one answer, inflated."""
KEEP_ALIVE_S = 4.0
"""Less than the 5 s after which uvicorn closes an idle connection, so that we never write into its close."""
CLOSE_S = 0.9
_MOST_PARTS = 64
_IN_TARGETS = "%/?:@!$&'()*+,;=~[]"
"""Characters of a path and its query that stay as they were written."""
_NEEDED = ("httpcore", "tui.sources.http_plain")
_BEHIND = ("h11", "httpcore._backends.anyio", "anyio._backends._asyncio")
"""What httpcore itself imports at its first request, on the loop then: 0.1 s of CPU."""

_loaded = threading.Event()
"""Not whether it is in ``sys.modules``: there it is from the first line of its import on."""


def _load() -> None:
    for name in _NEEDED:
        importlib.import_module(name)
    for name in _BEHIND:
        with contextlib.suppress(ImportError):  # private names: without them the first request is slower
            importlib.import_module(name)
    if importlib.util.find_spec("sniffio") is None:
        # httpcore tries to import it at every lock of every request: 0.4 ms of CPU a request to find nothing
        sys.modules["sniffio"] = None  # type: ignore[assignment]
    _loaded.set()


class HttpTarget:
    """One origin and what it takes to ask it. Nothing is opened before the first request.

    Args:
        url: a canonical address; its path is put before the path of each request.
        token: sent as a bearer token; never part of an error or a repr.
        headers: more headers, or others in place of ours.
        ca_file: trust only these authorities.
        verify: check the server's certificate.
        keep_alive: keep the connection for the next request.
        unix_socket: path of a Unix socket of this host to connect to, whatever the host of ``url``.
        proxy: as in ``EngineTarget``; the token goes through it where ``url`` is not https.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        headers: Mapping[str, str] | None = None,
        ca_file: str = "",
        verify: bool = True,
        keep_alive: bool = True,
        unix_socket: str = "",
        proxy: str = "",
    ) -> None:
        parts = urlsplit(url)
        self.url = f"unix://{unix_socket}" if unix_socket else url
        self._unix_socket = unix_socket
        self._scheme, self._base = parts.scheme, parts.path.rstrip("/")
        self._ca_file, self._verify = ca_file, verify
        self._host, self._port = host_port(url)
        self._proxied = proxy if not unix_socket else ""
        self._proxy: Proxy | None = None
        self._resolver = Resolver("127.0.0.1" if unix_socket else self._host, self._port)
        own = {
            "host": re.sub(r"%[^\]]+", "", parts.netloc),  # a zone means nothing at the other end
            "accept": "*/*",
            "user-agent": f"infertop/{tui.__version__}",
            "connection": "keep-alive" if keep_alive else "close",
        }
        if token:
            own["authorization"] = f"Bearer {token}"
        own |= {name.lower(): value for name, value in (headers or {}).items()}
        self._headers = [(name.encode(), value.encode()) for name, value in own.items()]
        self._context: ssl.SSLContext | None = None
        self._pools: dict[str, httpcore.AsyncConnectionPool | PlainPool] = {}
        """By the address of the proxy; without one there is but one."""
        self._parts: dict[tuple[str, str, bool], tuple[httpcore.URL, list[tuple[bytes, bytes]]]] = {}
        """Address and headers of requests, by where they go and whether they ask or send."""
        self._opened = False
        self._received: int | None = None

    @classmethod
    def of(
        cls, target: EngineTarget, url: str = "", *, keep_alive: bool = True, unix_socket: str = ""
    ) -> HttpTarget:
        """What a target's settings ask for; ``url`` in place of its own where given.

        One that was found by us, not named by the operator, never gets a token.
        """
        token = target.token or os.environ.get(target.token_env, "").strip()
        return cls(
            url or target.url,
            token="" if target.discovered else token,
            headers=target.headers,
            ca_file=target.ca_file,
            verify=target.verify,
            keep_alive=keep_alive,
            unix_socket=unix_socket,
            proxy=target.proxy,
        )

    async def prepare(self) -> None:
        """Load what requests need and make the client, so that no latency has their cost in it.

        Raises:
            SourceError: tls (the authorities cannot be read), not_supported (the environment's proxy).
        """
        await self._open()

    async def get(
        self, path: str, deadline_s: float, *, max_bytes: int = MAX_BODY, cut: bool = False
    ) -> Answer:
        """GET a path.

        Args:
            path: begins with a slash.
            deadline_s: for all of it: name, connection, TLS, answer to the last byte, and ``prepare``
                where that was not awaited before.
            max_bytes: most bytes of the body, inflated.
            cut: leave the rest of a longer body unread instead of failing.

        Raises:
            SourceError: no complete answer: refused, timeout, dns, tls, reset, too_large, parse (a damaged
                encoding), not_metrics (not HTTP), no_permission. A status, whatever it is, is an answer.
        """
        return await self._within(deadline_s, path, max_bytes, cut, None)

    async def post(
        self, path: str, content: bytes, deadline_s: float, *, max_bytes: int = MAX_BODY
    ) -> Answer:
        """POST JSON to a path; else as ``get``."""
        return await self._within(deadline_s, path, max_bytes, False, content)

    @property
    def stage(self) -> Literal["name", "answer", "body"]:
        """What the newest request waits for, or waited for when it ended; ``body``: its status has come."""
        if self._resolver.waiting:
            return "name"
        return "answer" if self._received is None else "body"

    async def close(self) -> None:
        """Close the connections; at most a second."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            try:
                await within(CLOSE_S, pool.aclose())
            except asyncio.TimeoutError:
                return  # a peer that does not answer the end of TLS: nobody waits for it

    async def _within(
        self, deadline_s: float, path: str, max_bytes: int, cut: bool, content: bytes | None
    ) -> Answer:
        self._received = None
        try:
            work = self._exchange(path, deadline_s, max_bytes, cut, content)
            return await within(deadline_s, work)
        except asyncio.TimeoutError:
            raise self._too_late(deadline_s) from None

    def _too_late(self, deadline_s: float) -> SourceError:
        if self._resolver.waiting:
            name = self._resolver.host
            return SourceError("dns", clean(f"{name} was not resolved within {deadline_s:.3g} s"))
        if self._received is None:
            return SourceError("timeout", f"no answer within {deadline_s:.3g} s")
        return SourceError("timeout", f"{self._received} bytes in {deadline_s:.3g} s and no end")

    async def _exchange(
        self, path: str, deadline_s: float, max_bytes: int, cut: bool, content: bytes | None
    ) -> Answer:
        await self._open()
        started = time.monotonic()
        response = await self._send(path, deadline_s, content)
        try:
            self._received = 0
            headers = _headers(response)
            body = await self._read(response, headers, max_bytes, cut)
        finally:
            await response.aclose()
        return Answer(response.status, body, headers, time.monotonic() - started)

    async def _open(self) -> None:
        if self._opened:
            return
        if not _loaded.is_set():
            await offloop.start(_load, "import httpcore")
        if self._proxied and (proxy := proxy_for(self._proxied, self.url)) is not None:
            self._proxy, self._resolver = proxy, proxy.resolver()
        if self._scheme == "https":
            try:
                self._context = await offloop.start(self._trust, f"TLS {self._host}")
            except OSError as error:  # ssl.SSLError is one
                store = self._ca_file or "the store of authorities"
                raise SourceError(
                    "tls", clean(f"{store} cannot be read: {error.strerror or error}")
                ) from None
        if self._proxy is not None and self._proxy.scheme == "https":
            await self._proxy.trust()
        self._opened = True

    def _pool(self, address: str) -> httpcore.AsyncConnectionPool | PlainPool:
        via = "" if self._proxy is None else address
        if via not in self._pools:
            self._pools[via] = self._new_pool(via)
        return self._pools[via]

    def _new_pool(self, via: str) -> httpcore.AsyncConnectionPool | PlainPool:
        import httpcore

        from tui.sources.http_plain import PlainPool

        if self._proxy is not None:
            return self._proxy.pool(via, self._context, KEEP_ALIVE_S)
        if self._scheme == "http":
            return PlainPool(KEEP_ALIVE_S, self._unix_socket)
        return httpcore.AsyncConnectionPool(
            ssl_context=self._context,
            max_connections=None,
            max_keepalive_connections=1,
            keepalive_expiry=KEEP_ALIVE_S,
            uds=self._unix_socket or None,
        )

    def _trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._ca_file or None)
        if not self._verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    async def _send(self, path: str, deadline_s: float, content: bytes | None) -> httpcore.Response:
        import httpcore

        addresses = await self._resolver.addresses()
        for address in addresses:
            last = address == addresses[-1]
            share = None if last else deadline_s / len(addresses)
            try:
                request = self._request(address, path, share, content)
                response = await self._pool(address).handle_async_request(request)
            except failures() as error:
                if last or not isinstance(error, (httpcore.ConnectError, httpcore.ConnectTimeout)):
                    self._resolver.forget()
                    raise failure(error, self._scheme, self._proxy) from None
            else:
                self._resolver.prefer(address)
                if self._proxy is not None and response.status == 407:
                    await response.aclose()
                    raise SourceError("403", f"{self._proxy}: HTTP 407: it wants a user name and password")
                return response
        raise SourceError("dns", clean(f"{self._resolver.host} has no address"))

    def _request(
        self, address: str, path: str, connect_s: float | None, content: bytes | None
    ) -> httpcore.Request:
        import httpcore

        # made for each request they are 0.1 ms of CPU
        key = (address, path, content is None)
        if key not in self._parts:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            self._parts[key] = self._parts_of(address, path, content is not None)
        url, headers = self._parts[key]
        if content is not None:
            headers = [*headers, (b"content-length", b"%d" % len(content))]
        return httpcore.Request(
            b"GET" if content is None else b"POST",
            url,
            headers=headers,
            content=content,
            extensions={
                "sni_hostname": self._resolver.host.partition("%")[0],
                "timeout": {"connect": connect_s},
            },
        )

    def _parts_of(
        self, address: str, path: str, json_sent: bool
    ) -> tuple[httpcore.URL, list[tuple[bytes, bytes]]]:
        import httpcore

        # compressing costs the engine's own event loop more than loopback ever will
        near = self._proxy is None and ipaddress.ip_address(address).is_loopback
        encoding = b"identity" if near else b"gzip"
        host = address if self._proxy is None else self._host
        json_type = [(b"content-type", b"application/json")] if json_sent else []
        url = httpcore.URL(
            scheme=self._scheme.encode(),
            host=host.encode() if host.isascii() else host.encode("idna"),
            port=self._port,
            target=quote(self._base + path, safe=_IN_TARGETS).encode(),
        )
        return url, [*self._headers, *json_type, (b"accept-encoding", encoding)]

    async def _read(
        self, response: httpcore.Response, headers: Mapping[str, str], max_bytes: int, cut: bool
    ) -> bytes:
        length = headers.get("content-length", "")
        if not cut and length.isdecimal() and int(length) > max_bytes:
            raise SourceError("too_large", f"{int(length)} bytes announced, at most {max_bytes} are read")
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise SourceError("parse", clean(f"content-encoding {encoding}, which was not asked for"))
        inflate = Inflate() if "gzip" in encoding else None
        body = bytearray()
        try:
            async for chunk in cast("AsyncIterable[bytes]", response.stream):
                body += chunk if inflate is None else inflate.feed(chunk, max_bytes + 1 - len(body))
                self._received = len(body)
                if len(body) > max_bytes:
                    if cut:
                        return bytes(body[:max_bytes])
                    raise SourceError("too_large", f"more than {max_bytes} bytes")
        except failures() as error:
            raise failure(error, self._scheme, self._proxy) from None
        if inflate is not None and body and not inflate.complete:
            raise SourceError("parse", "the gzip body ends too early")
        return bytes(body)


def _headers(response: httpcore.Response) -> dict[str, str]:
    """By their names in lower case; those that came twice are joined."""
    found: dict[str, str] = {}
    for raw_name, raw_value in response.headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
