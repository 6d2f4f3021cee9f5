"""A small HTTP/1.1 server on asyncio: keep-alive, server-sent events, and what clients do when they leave."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

_HEAD_LIMIT = 64 * 1024
_BODY_LIMIT = 16 * 1024 * 1024
JSON = "application/json"


class Exchange:
    """One request and its answer, which may be given at once, later, in pieces, or never.

    Attributes:
        method: as sent.
        path: without the query.
        query: the raw query string.
        headers: lower-case names.
        body: the whole request body.
        status: of the answer; None until it began.
        open: false once the answer is complete or the client has gone.
        on_status: called once when the answer begins.
        on_hangup: called once if the client goes before the answer is complete.
        on_done: called once when the answer is complete or the client has gone.
    """

    __slots__ = (
        "_connection", "body", "headers", "method", "on_done", "on_hangup", "on_status", "open", "path",
        "query", "sent", "started_s", "status",
    )  # fmt: skip

    def __init__(
        self, connection: Connection, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> None:
        parts = urlsplit(target)
        self._connection = connection
        self.method, self.path, self.query = method, parts.path, parts.query
        self.headers, self.body = headers, body
        self.started_s = time.monotonic()
        self.status: int | None = None
        self.sent = 0
        self.open = True
        self.on_status: Callable[[], None] | None = None
        self.on_hangup: Callable[[], None] | None = None
        self.on_done: Callable[[], None] | None = None

    def respond(
        self,
        status: int,
        body: bytes = b"",
        content_type: str = "",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Answer whole. Does nothing if the client has gone."""
        if not self.open:
            return
        self._begin(status)
        extra = [*headers, ("content-length", str(len(body)))]
        if content_type:
            extra.append(("content-type", content_type))
        self.sent = len(body)
        self._connection.write(self._head(status, extra) + (b"" if self.method == "HEAD" else body))
        self._complete()

    def start_events(self) -> None:
        """Begin a stream of server-sent events, status 200."""
        if self.open:
            self._begin(200)
            kind = ("content-type", "text/event-stream; charset=utf-8")
            self._connection.write(self._head(200, [kind, ("transfer-encoding", "chunked")]))

    def send(self, data: bytes) -> None:
        """Send a piece of a stream as one chunk."""
        if self.open:
            self.sent += len(data)
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))

    def send_all(self, pieces: Sequence[bytes]) -> None:
        """Send pieces of a stream, each as one chunk, in one write."""
        if self.open:
            self.sent += sum(map(len, pieces))
            self._connection.write(b"".join([b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]))

    def finish(self) -> None:
        """End a stream in order."""
        if self.open:
            self._connection.write(b"0\r\n\r\n")
            self._complete()

    def client_gone(self) -> None:
        """The connection ended first."""
        if self.open:
            self.open = False
            if self.on_hangup is not None:
                self.on_hangup()
            if self.on_done is not None:
                self.on_done()

    @property
    def peer(self) -> str:
        """``address:port`` of the client."""
        return self._connection.peer

    def _begin(self, status: int) -> None:
        self.status = status
        if self.on_status is not None:
            self.on_status()

    def _head(self, status: int, headers: list[tuple[str, str]]) -> bytes:
        if not self._connection.keep_alive:
            headers.append(("connection", "close"))
        return _head(status, headers)

    def _complete(self) -> None:
        self.open = False
        if self.on_done is not None:
            self.on_done()
        self._connection.exchange_done()


class Connection(asyncio.Protocol):
    """One client connection; requests on it are answered in turn."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._inbox = bytearray()
        self._exchange: Exchange | None = None
        self.keep_alive = True
        self._continued = False
        self._taking = False
        self.peer = ""

    @property
    def busy(self) -> bool:
        """Whether an answer is owed."""
        return self._exchange is not None

    def write(self, data: bytes) -> None:
        """Send bytes; a client that reads slowly makes them queue up here."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Close after what was written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def exchange_done(self) -> None:
        """The current answer is complete: take the next request, or close."""
        self._exchange = None
        if not self.keep_alive or self._server.closing:
            self.close()
        elif self._inbox and not self._taking:
            self._take_requests()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        address = transport.get_extra_info("peername") or ("", 0)
        self.peer = f"{address[0]}:{address[1]}"
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._transport = None
        self._server.connections.discard(self)
        if self._exchange is not None:
            exchange, self._exchange = self._exchange, None
            exchange.client_gone()

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._inbox += data
        if self._exchange is None:
            self._take_requests()

    def _take_requests(self) -> None:
        self._taking = True
        try:
            self._take_each()
        finally:
            self._taking = False

    def _take_each(self) -> None:
        while self._exchange is None and self._transport is not None and not self._transport.is_closing():
            end = self._inbox.find(b"\r\n\r\n")
            if end < 0:
                if len(self._inbox) > _HEAD_LIMIT:
                    self._refuse(431)
                return
            try:
                method, target, version, headers = _parse_head(bytes(self._inbox[:end]))
                length = int(headers.get("content-length", "0"))
            except ValueError:
                self._refuse(400)
                return
            if "transfer-encoding" in headers:
                self._refuse(411)
                return
            if not 0 <= length <= _BODY_LIMIT:
                self._refuse(413)
                return
            if len(self._inbox) < end + 4 + length:
                if headers.get("expect", "").lower() == "100-continue" and not self._continued:
                    self._continued = True
                    self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            self._continued = False
            body = bytes(self._inbox[end + 4 : end + 4 + length])
            del self._inbox[: end + 4 + length]
            self.keep_alive = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
            self._exchange = Exchange(self, method, target, headers, body)
            self._server.handle(self._exchange)

    def _refuse(self, status: int) -> None:
        self.write(_head(status, [("content-length", "0"), ("connection", "close")]))
        self.close()


class HttpServer:
    """Listens on a bound socket and hands each request to ``handle``.

    Args:
        handle: gets each exchange; answers it now or later.
    """

    def __init__(self, handle: Callable[[Exchange], None]) -> None:
        self.handle = handle
        self.connections: set[Connection] = set()
        self.closing = False
        self._server: asyncio.Server | None = None

    async def start(self, sock: socket.socket) -> None:
        """Listen: from here on connections are accepted."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), sock=sock, backlog=2048)

    def stop_listening(self) -> None:
        """Refuse new connections and close idle ones; answers that are owed stay open."""
        self.closing = True
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            if not connection.busy:
                connection.close()


_date_s, _date = 0, ""


def _head(status: int, headers: list[tuple[str, str]]) -> bytes:
    global _date_s, _date
    now = int(time.time())
    if now != _date_s:
        _date_s, _date = now, time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now))
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"date: {_date}", "server: uvicorn"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines.append("X-Infertop-Simulated: 1\r\n\r\n")
    return "\r\n".join(lines).encode("latin-1")


def _parse_head(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    """Split a request head; ValueError if it is not one."""
    first, *rest = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1.") or not target.startswith("/"):
        raise ValueError(first)
    headers = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(line)
        headers[name.strip().lower()] = value.strip()
    return method, target, version, headers
