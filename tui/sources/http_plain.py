"""HTTP/1.1 over connections without TLS: h11 on asyncio's own transports, in place of httpcore's pool.

That takes three locks a request, each of which goes once around the event loop, and opens a cancel scope
around each read and write: half of the CPU of a scrape. Our requests have one deadline for all of it, which
their caller keeps.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, cast

import h11
import httpcore

from tui.sources.deadline import within

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

_ENOUGH = 1 << 18
"""Bytes that wait to be read, from which on the other end is told to wait."""
_PIECE = 1 << 16
_MOST_HEAD = 100 * 1024


class PlainPool:
    """Each request has a connection of its own; the last one that ended well rests for the next request.

    Args:
        keep_alive_s: how long it may rest.
        unix_socket: connect to this, whatever the host of a request.
    """

    def __init__(self, keep_alive_s: float, unix_socket: str = "") -> None:
        self._keep_alive_s = keep_alive_s
        self._unix_socket = unix_socket
        self._in_use: set[_Connection] = set()
        self._resting: _Connection | None = None
        self._rests_until = 0.0

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        """Send a request; its answer must be closed.

        Raises:
            Exception: one of ``http_failures.failures``.
        """
        connection = self._rested() or _Connection(await self._connect(request))
        self._in_use.add(connection)
        try:
            head = await connection.ask(request)
        except BaseException:
            self._end(connection)
            raise
        body = _Body(self, connection)
        return httpcore.Response(head.status_code, headers=head.headers.raw_items(), content=body)

    async def aclose(self) -> None:
        """End every connection."""
        for connection in (*self._in_use, *filter(None, (self._resting,))):
            self._end(connection)
        self._resting = None
        await asyncio.sleep(0)  # transports close their sockets in the next turn of the loop

    def done(self, connection: _Connection) -> None:
        """Its answer has been read, or nobody wants the rest."""
        if connection in self._in_use and self._resting is None and connection.starts_again():
            self._in_use.discard(connection)
            self._resting, self._rests_until = connection, time.monotonic() + self._keep_alive_s
        else:
            self._end(connection)

    def _rested(self) -> _Connection | None:
        connection, self._resting = self._resting, None
        if connection is None or (connection.wire.quiet and time.monotonic() < self._rests_until):
            return connection
        self._end(connection)
        return None

    def _end(self, connection: _Connection) -> None:
        self._in_use.discard(connection)
        connection.wire.abort()

    async def _connect(self, request: httpcore.Request) -> Wire:
        timeout: float | None = request.extensions["timeout"]["connect"]
        url = request.url
        return await connect(url.host.decode(), url.port or 80, timeout, self._unix_socket)


async def connect(host: str, port: int, timeout_s: float | None, unix_socket: str = "") -> Wire:
    """Connect.

    Args:
        host: a literal address.
        port: of TCP; asyncio sets TCP_NODELAY.
        timeout_s: None: as long as it takes.
        unix_socket: in place of both, if given.

    Raises:
        httpcore.ConnectError: it is refused, or out of reach.
        httpcore.ConnectTimeout: it takes longer.
    """
    loop, wire = asyncio.get_running_loop(), Wire()
    if unix_socket:
        connecting = within(timeout_s, loop.create_unix_connection(lambda: wire, unix_socket))
    else:
        connecting = within(timeout_s, loop.create_connection(lambda: wire, host, port))
    try:
        await connecting
    except asyncio.TimeoutError as error:
        wire.abort()
        raise httpcore.ConnectTimeout from error
    except OSError as error:
        raise httpcore.ConnectError from error
    except asyncio.CancelledError:
        wire.abort()
        raise
    return wire


class _Connection:
    """One request after the other."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD)

    async def ask(self, request: httpcore.Request) -> h11.Response:
        """Send a request; the head of its answer."""
        try:
            head = h11.Request(method=request.method, target=request.url.target, headers=request.headers)
            words = self._http.send(head) or b""
            async for piece in cast("AsyncIterable[bytes]", request.stream):
                words += self._http.send(h11.Data(data=piece)) or b""
            words += self._http.send(h11.EndOfMessage()) or b""
        except h11.LocalProtocolError as error:
            raise httpcore.LocalProtocolError(str(error)) from error
        await self.wire.write(words)
        while not isinstance(event := await self.event(), h11.Response):
            if event is h11.PAUSED:
                raise httpcore.RemoteProtocolError("another protocol, which was not asked for")
        return event

    async def event(self) -> h11.Event | type[h11.PAUSED]:
        """The next thing that the server says."""
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise httpcore.RemoteProtocolError(str(error)) from error
            if event is not h11.NEED_DATA:
                return cast("h11.Event | type[h11.PAUSED]", event)
            data = await self.wire.read(_PIECE)
            if not data and self.wire.error is not None:
                raise httpcore.ReadError from self.wire.error
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise httpcore.RemoteProtocolError("disconnected without an answer")
            self._http.receive_data(data)

    def starts_again(self) -> bool:
        """Whether it can take another request."""
        both_done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if not both_done or self._http.trailing_data[0] or not self.wire.quiet:
            return False
        self._http.start_next_cycle()
        return True


class _Body:
    """The body of an answer, as it comes."""

    def __init__(self, pool: PlainPool, connection: _Connection) -> None:
        self._pool = pool
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._connection.event(), h11.Data):
            yield bytes(event.data)

    async def aclose(self) -> None:
        self._pool.done(self._connection)


class Wire(asyncio.Protocol):
    """One connection: what has come and was not read yet, and whether more can come."""

    def __init__(self) -> None:
        self.chunks: deque[bytes] = deque()
        self.ended = False
        self.error: Exception | None = None
        self.transport: asyncio.Transport | None = None
        self._held = 0
        self._full = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._writes_wait = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio calls it."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """As asyncio calls it."""
        self.chunks.append(data)
        self._held += len(data)
        if self._held > _ENOUGH and not self._full and self.transport is not None:
            self._full = True
            self.transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        """As asyncio calls it; nothing that we have still to say is of use."""
        self.ended = True
        _wake(self._reader)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio calls it."""
        self.ended, self.error = True, exc
        _wake(self._reader)
        self.resume_writing()

    def pause_writing(self) -> None:
        """As asyncio calls it."""
        self._writes_wait = True

    def resume_writing(self) -> None:
        """As asyncio calls it."""
        self._writes_wait = False
        _wake(self._writer)

    @property
    def quiet(self) -> bool:
        """At rest: it is not over, and has no words in it that nobody asked for."""
        return not self.ended and not self.chunks

    def abort(self) -> None:
        """End it, if it was begun; an answer that is not complete by now is not waited for."""
        if self.transport is not None:
            self.transport.abort()

    async def read(self, most: int) -> bytes:
        """What has come, once something has; empty at the end, and where it broke."""
        while not self.chunks and not self.ended:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if not self.chunks:
            return b""
        data = self.chunks.popleft()
        if len(data) > most:
            self.chunks.appendleft(data[most:])
            data = data[:most]
        self._held -= len(data)
        if self._full and self._held <= _ENOUGH and self.transport is not None:
            self._full = False
            if not self.ended:
                self.transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Hand it over, and wait until the other end takes it or goes; it may have answered before that."""
        if self.transport is not None and not self.ended:
            self.transport.write(data)
        while self._writes_wait and not self.ended:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
