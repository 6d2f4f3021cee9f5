"""Servers on loopback that behave as told: engines, and the ways in which a server can go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Union

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Reply:
    """An ordinary answer."""

    status: int = 200
    body: bytes | str = b""
    content_type: str = CONTENT_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What the server was asked."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


Raw = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]
"""Writes what it likes; the connection is closed when it returns."""
Handler = Union[Reply, Callable[[], Reply], "RawRoute"]


@dataclass(frozen=True)
class RawRoute:
    """A route that is not HTTP as usual."""

    write: Raw


class Server:
    """An HTTP server with a fixed answer for each path; anything else is a 404.

    ``routes`` may be changed at any time. The key ``*`` answers what no other path does.
    """

    def __init__(self, routes: Mapping[str, Handler]) -> None:
        self.routes = dict(routes)
        self.requests: list[Request] = []
        self.open_connections = 0
        self.most_at_once = 0
        self.connections = 0
        self.port = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self._scheme = "http"
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def count(self, path: str) -> int:
        return Counter(request.path for request in self.requests)[path]

    async def start(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self._scheme = "http" if tls is None else "https"
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port or self.port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse from now on, and drop every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def go_away(self) -> None:
        """As ``stop``, from another thread than the loop's."""
        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(self.stop(), self.loop).result(10)

    def come_back(self) -> None:
        """Listen again on the same port, from another thread than the loop's."""
        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(self.start(), self.loop).result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open_connections += 1
        self.most_at_once = max(self.most_at_once, self.open_connections)
        self.connections += 1
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open_connections -= 1
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        pairs = (line.split(":", 1) for line in head[1:] if line)
        headers_sent = {name.lower(): value.strip() for name, value in pairs}
        body_sent = await reader.readexactly(int(headers_sent.get("content-length", 0)))
        request = Request(method, path, headers_sent, body_sent)
        self.requests.append(request)
        route = self.routes.get(
            path, self.routes.get("*", Reply(404, '{"detail":"Not Found"}', "application/json"))
        )
        if isinstance(route, RawRoute):
            writing = asyncio.ensure_future(route.write(request, writer))
            hung_up = asyncio.ensure_future(reader.read(1))
            try:
                await asyncio.wait((writing, hung_up), return_when=asyncio.FIRST_COMPLETED)
            finally:
                writing.cancel()
                hung_up.cancel()
                await asyncio.gather(writing, hung_up, return_exceptions=True)
            return False
        reply = route if isinstance(route, Reply) else route()
        body = reply.body.encode() if isinstance(reply.body, str) else reply.body
        headers = {"Content-Type": reply.content_type, "Content-Length": str(len(body)), **reply.headers}
        close = request.headers.get("connection", "").lower() == "close"
        lines = [f"HTTP/1.1 {reply.status} X", *(f"{name}: {value}" for name, value in headers.items())]
        if close:
            lines.append("Connection: close")
        writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        await writer.drain()
        return not close


@contextlib.asynccontextmanager
async def serve(
    routes: Mapping[str, Handler], *, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """A server on the running loop."""
    server = Server(routes)
    await server.start(port, tls)
    try:
        yield server
    finally:
        await server.stop()


@contextlib.contextmanager
def serve_in_thread(routes: Mapping[str, Handler], *, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server on a loop of its own, for tests of whole programs."""
    server = Server(routes)
    ready = threading.Event()
    stop: list[Callable[[], object]] = []

    async def main() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(done.set))
        await server.start(tls=tls)
        ready.set()
        await done.wait()
        await server.stop()

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        stop[0]()
        thread.join(10)


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Wait for something that has no event of its own; fails when it does not come."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        await asyncio.sleep(0.002)


def json_reply(value: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value), "application/json")


def vllm(
    metrics: Handler | str, *, version: str = "0.32.0", model: str = "tiny-llama", owned_by: str = "vllm"
) -> dict[str, Handler]:
    """The routes of a vLLM server."""
    return {
        "/version": json_reply({"version": version}),
        "/v1/models": json_reply({"object": "list", "data": [{"id": model, "owned_by": owned_by}]}),
        "/health": Reply(200),
        "/metrics": Reply(200, metrics) if isinstance(metrics, str) else metrics,
    }


# ------------------------------------------------------------------------------- what can go wrong


async def _never(_request: Request, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


NEVER = RawRoute(_never)
"""Takes the request and says nothing."""


def drip(per_s: float = 1.0) -> RawRoute:
    """A proper head, then a byte at a time, for ever."""

    async def write(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 50000\r\n\r\n")
        while True:
            writer.write(b"#")
            await writer.drain()
            await asyncio.sleep(1 / per_s)

    return RawRoute(write)


def endless(total: int, *, announced: bool = False, sent: list[int] | None = None) -> RawRoute:
    """A body of ``total`` bytes, chunked, or with its length in the head; counts what it could send."""

    async def write(_request: Request, writer: asyncio.StreamWriter) -> None:
        kind = f"Content-Length: {total}" if announced else "Transfer-Encoding: chunked"
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{kind}\r\n\r\n".encode())
        block = b"# padding\n" * 6400
        for _ in range(total // len(block) + 1):
            writer.write(block if announced else f"{len(block):x}\r\n".encode() + block + b"\r\n")
            await writer.drain()
            if sent is not None:
                sent.append(len(block))

    return RawRoute(write)


async def _cut(_request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5000\r\n\r\nvllm:half")
    await writer.drain()
    writer.transport.abort()


CUT = RawRoute(_cut)
"""Resets the connection in the middle of the body."""


def raw(data: bytes) -> RawRoute:
    """Writes these bytes and closes the connection properly."""

    async def write(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return RawRoute(write)


def gzip_bomb(inflated: int) -> Reply:
    """A small body that inflates to ``inflated`` zero bytes."""
    return Reply(200, gzip.compress(bytes(inflated)), headers={"Content-Encoding": "gzip"})
