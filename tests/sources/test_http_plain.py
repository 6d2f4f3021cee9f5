"""Plain connections: more than anybody reads at once, both ways, and ends at any moment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpcore
import pytest

from tests.support.servers import Reply, serve
from tests.support.waiting import until
from tui.sources.http import HttpTarget
from tui.sources.http_plain import PlainBackend

if TYPE_CHECKING:
    from pathlib import Path

MUCH = bytes(range(256)) * 16384  # 4 MiB


async def test_what_nobody_reads_waits_at_the_other_end_and_arrives_whole() -> None:
    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(MUCH)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(pour, "127.0.0.1", 0) as server:
        stream = await PlainBackend().connect_tcp("127.0.0.1", server.sockets[0].getsockname()[1])
        held = stream._incoming  # type: ignore[attr-defined]
        await until(lambda: not held.transport.is_reading(), 5)
        assert sum(map(len, held.chunks)) < len(MUCH) / 4
        got = bytearray()
        while piece := await stream.read(65536):
            assert len(piece) <= 65536
            got += piece
        assert got == MUCH
        await stream.aclose()


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
        stream = await PlainBackend().connect_tcp("127.0.0.1", server.sockets[0].getsockname()[1], 5.0)
        writing = asyncio.ensure_future(stream.write(MUCH))
        held = stream._incoming  # type: ignore[attr-defined]
        await until(lambda: held.transport.get_write_buffer_size() > 0, 5)
        assert not writing.done()
        goes_on.set()
        await writing
        if reads:
            await until(lambda: got == MUCH, 5)
        else:
            with pytest.raises(httpcore.WriteError):
                await stream.write(b"x")
        await stream.aclose()


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
        await PlainBackend().connect_unix_socket(path)
    assert isinstance(caught.value.__cause__, FileNotFoundError)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async with await asyncio.start_unix_server(greet, path):
        stream = await PlainBackend().connect_unix_socket(path)
        assert (await stream.read(3), await stream.read(9), await stream.read(9)) == (b"hel", b"lo", b"")
        await stream.aclose()


async def test_a_connection_that_is_not_had_in_time_is_given_up() -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
        with pytest.raises(httpcore.ConnectTimeout):
            await PlainBackend().connect_tcp("127.0.0.1", server.sockets[0].getsockname()[1], 0.0)
