"""Connections without TLS for httpcore: asyncio's own transports, without the layers of anyio in between.

httpcore's own backend opens a cancel scope around each read and write. Our requests have one deadline for all
of it, which their caller keeps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import httpcore

from tui.sources.deadline import within

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

_ENOUGH = 1 << 18
"""Bytes that wait to be read, from which on the other end is told to wait."""


class PlainBackend(httpcore.AsyncNetworkBackend):
    """Connects to TCP ports and Unix sockets; what needs TLS needs another backend."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a literal address; asyncio sets TCP_NODELAY."""
        loop, incoming = asyncio.get_running_loop(), _Incoming()
        return await _connected(incoming, loop.create_connection(lambda: incoming, host, port), timeout)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a Unix socket of this host."""
        loop, incoming = asyncio.get_running_loop(), _Incoming()
        return await _connected(incoming, loop.create_unix_connection(lambda: incoming, path), timeout)

    async def sleep(self, seconds: float) -> None:
        """As asyncio's."""
        await asyncio.sleep(seconds)


async def _connected(
    incoming: _Incoming, connecting: Coroutine[Any, Any, object], timeout: float | None
) -> PlainStream:
    try:
        await (connecting if timeout is None else within(timeout, connecting))
    except asyncio.TimeoutError as error:
        incoming.abort()
        raise httpcore.ConnectTimeout from error
    except OSError as error:
        raise httpcore.ConnectError from error
    except asyncio.CancelledError:
        incoming.abort()
        raise
    return PlainStream(incoming)


class _Incoming(asyncio.Protocol):
    """What has come and was not read yet, and whether more can come."""

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
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.chunks.append(data)
        self._held += len(data)
        if self._held > _ENOUGH and not self._full and self.transport is not None:
            self._full = True
            self.transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self.ended = True
        _wake(self._reader)
        return False  # nothing that we have still to say is of use

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended, self.error = True, exc
        _wake(self._reader)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._writes_wait = True

    def resume_writing(self) -> None:
        self._writes_wait = False
        _wake(self._writer)

    def abort(self) -> None:
        """End the connection, if there is one."""
        if self.transport is not None:
            self.transport.abort()

    async def read(self, most: int) -> bytes:
        """What has come, once something has; empty at the end."""
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
        """Hand it over, and wait until the other end takes it."""
        if self.transport is not None:
            self.transport.write(data)
        while self._writes_wait and not self.ended:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer


class PlainStream(httpcore.AsyncNetworkStream):
    """One connection; the total deadline of the caller bounds its reads and writes."""

    def __init__(self, incoming: _Incoming) -> None:
        self._incoming = incoming

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come; raises ``httpcore.ReadError`` where the connection broke."""
        data = await self._incoming.read(max_bytes)
        if not data and self._incoming.error is not None:
            raise httpcore.ReadError from self._incoming.error
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send; raises ``httpcore.WriteError`` where the connection is over."""
        if self._incoming.ended:
            raise httpcore.WriteError from self._incoming.error
        await self._incoming.write(buffer)

    async def aclose(self) -> None:
        """At once: an answer that is not complete by now is not waited for."""
        self._incoming.abort()

    def get_extra_info(self, info: str) -> Any:
        """``is_readable``: a connection at rest is over, or has words in it that nobody asked for."""
        if info == "is_readable":
            return self._incoming.ended or bool(self._incoming.chunks)
        return None


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
