"""Plain connections: more than anybody reads at once, both ways, and ends at any moment."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import httpcore
import pytest

from tests.support.servers import Reply, raw, serve
from tests.support.waiting import until
from tui.model.status import SourceError
from tui.sources.http import HttpTarget
from tui.sources.http_plain import connect

if TYPE_CHECKING:
    from pathlib import Path

MUCH = bytes(range(256)) * 16384  # 4 MiB


async def test_what_nobody_reads_waits_at_the_other_end_and_arrives_whole() -> None:
    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(MUCH)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(pour, "127.0.0.1", 0) as server:
        wire = await connect("127.0.0.1", server.sockets[0].getsockname()[1], None)
        await until(lambda: wire.transport is not None and not wire.transport.is_reading(), 5)
        assert sum(map(len, wire.chunks)) < len(MUCH) / 4
        got = bytearray()
        while piece := await wire.read(65536):
            assert len(piece) <= 65536
            got += piece
        assert got == MUCH
        wire.abort()


@pytest.mark.parametrize("reads", [True, False])
async def test_a_write_waits_until_the_other_end_reads_or_goes(reads: bool) -> None:
    goes_on = asyncio.Event()
    got = bytearray()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await goes_on.wait()
        if reads:
            got.extend(await reader.readexactly(len(MUCH)))
        writer.transport.abort()

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        wire = await connect("127.0.0.1", server.sockets[0].getsockname()[1], 5.0)
        writing = asyncio.ensure_future(wire.write(MUCH))
        await until(lambda: wire.transport is not None and wire.transport.get_write_buffer_size() > 0, 5)
        assert not writing.done()
        goes_on.set()
        await writing
        if reads:
            await until(lambda: got == MUCH, 5)
        else:
            assert wire.ended
        wire.abort()


async def test_a_connection_that_the_server_ended_at_rest_is_not_used_again() -> None:
    async with serve({"/": Reply(200, "hello")}) as server:
        target = HttpTarget(server.url)
        await target.get("/", 5)
        await server.stop()
        await server.start()
        await until(lambda: server.open_connections == 0, 5)
        assert (await target.get("/", 5)).text() == "hello"
        assert server.connections == 2
        await target.close()


async def test_a_unix_socket_and_one_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "engine.sock")
    with pytest.raises(httpcore.ConnectError) as caught:
        await connect("", 0, None, path)
    assert isinstance(caught.value.__cause__, FileNotFoundError)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async with await asyncio.start_unix_server(greet, path):
        wire = await connect("", 0, None, path)
        assert (await wire.read(3), await wire.read(9), await wire.read(9)) == (b"hel", b"lo", b"")
        wire.abort()


async def test_a_connection_that_is_not_had_in_time_is_given_up() -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
        with pytest.raises(httpcore.ConnectTimeout):
            await connect("127.0.0.1", server.sockets[0].getsockname()[1], 0.0)


async def test_requests_at_once_have_a_connection_each_and_one_is_kept() -> None:
    async with serve({"/": Reply(200, "hello")}) as server:
        target = HttpTarget(server.url)
        answers = await asyncio.gather(*(target.get("/", 5) for _ in range(3)))
        assert [answer.text() for answer in answers] == ["hello"] * 3
        await until(lambda: server.open_connections == 1, 5)
        await target.get("/", 5)
        assert server.connections == 3
        await target.close()
        await until(lambda: server.open_connections == 0, 5)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", "not_metrics"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", "reset"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000, "not_metrics"),
        (b"", "reset"),
    ],
    ids=["another protocol", "cut", "endless head", "nothing"],
)
async def test_answers_that_are_none(said: bytes, reason: str) -> None:
    async with serve({"*": raw(said)}) as server:
        target = HttpTarget(server.url)
        with pytest.raises(SourceError) as caught:
            await target.get("/", 5)
        assert caught.value.reason == reason
        await target.close()


async def test_words_that_nobody_asked_for_are_no_answer_to_the_next_request() -> None:
    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d" % next(numbers))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong")
        await writer.drain()
        await reader.read()
        writer.close()

    numbers = itertools.count(1)
    async with await asyncio.start_server(twice, "127.0.0.1", 0) as server:
        target = HttpTarget(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert [(await target.get("/", 5)).text() for _ in range(3)] == ["1", "2", "3"]
        await target.close()


async def test_a_body_of_ours_arrives_whole() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
        body = await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        target = HttpTarget(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert (await target.post("/", MUCH[:100_000], 5)).body == MUCH[:100_000]
        await target.close()
