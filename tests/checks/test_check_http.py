"""The GETs of ``infertop check``: TLS, Unix sockets, and what is not an answer."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.servers import Reply, Server, raw, serve
from tui.checks.health_http import Asker
from tui.model.status import SourceError

if TYPE_CHECKING:
    from tui.sources.answers import Answer

TLS = Path(__file__).parent.parent / "fixtures" / "tls"


async def get(asker: Asker, path: str = "/x", *, max_bytes: int = 1000) -> Answer:
    return await asyncio.to_thread(asker.ask, path, 5.0, max_bytes=max_bytes)


async def failure(asker: Asker, *, max_bytes: int = 1000) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await get(asker, max_bytes=max_bytes)
    return caught.value


async def test_tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "loopback.pem")
    async with serve({"*": Reply(200, "x")}, tls=context) as server:
        unknown = await failure(Asker(server.url))
        assert (unknown.reason, "self" in unknown.detail) == ("tls", True)
        assert (await get(Asker(server.url, ca_file=str(TLS / "loopback.crt")))).body == b"x"
        assert (await get(Asker(server.url, verify=False))).body == b"x"
        missing = await failure(Asker(server.url, ca_file="/does/not/exist.pem"))
        assert (missing.reason, "/does/not/exist.pem" in missing.detail) == ("tls", True)


async def test_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "engine.sock")
    assert (await failure(Asker("http://localhost", unix_socket=path))).reason == "refused"
    served = Server({"/x": Reply(200, "figures")})
    listening = await asyncio.start_unix_server(served._serve, path)
    async with listening:
        assert (await get(Asker("http://localhost", unix_socket=path))).body == b"figures"


async def test_an_answer_is_kept_and_nothing_is_followed_or_sent_twice() -> None:
    routes = {"/base/x": Reply(302, headers={"Location": "/base/y", "Set-Cookie": "a=b"})}
    async with serve(routes) as server:
        asker = Asker(f"{server.url}/base", token="t", headers={"X-Route": "blue"})
        assert (await get(asker)).status == 302
        assert (await get(asker)).headers["location"] == "/base/y"
        (request,) = server.requests
        assert request.headers["authorization"] == "Bearer t"
        assert request.headers["x-route"] == "blue"
        assert request.headers["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf", "reset"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal", "reset"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n", "reset"),
        (b"", "reset"),
        (b"\x00\x01\x02", "not_metrics"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", "not_metrics"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001, "too_large"),
    ],
    ids=["cut", "cut chunk", "no chunk", "nothing", "binary", "long header", "large"],
)
async def test_what_is_no_answer(answer: bytes, reason: str) -> None:
    async with serve({"*": raw(answer)}) as server:
        assert (await failure(Asker(server.url))).reason == reason


async def test_what_cannot_be_reached_or_sent(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert (await failure(Asker(url))).reason == "refused"
    assert (await failure(Asker("http://no-such-host.invalid"))).reason == "dns"
    async with serve({"*": Reply()}) as server:
        error = await failure(Asker(server.url, token="s3cret\r\nX-Smuggled: 1"))
        assert error.reason == "parse"
        assert "s3cret" not in str(error)
        assert (await failure(Asker(server.url, token="s3cret–"))).reason == "parse"
        assert not server.requests
