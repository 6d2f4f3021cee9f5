"""A proxy is taken only where the settings ask for one: a real one on loopback, for both of its ways."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.servers import Reply, serve
from tui.model.settings import EngineTarget
from tui.model.status import SourceError
from tui.sources.http import HttpTarget
from tui.sources.proxies import name_of_proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TLS = Path(__file__).parents[1] / "fixtures" / "tls"
SECRET = "p4ss-word"
VARIABLES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


class Proxy:
    """Forwards absolute-form requests and CONNECT tunnels to the ports that its table gives for a host."""

    def __init__(self, ports: dict[str, int], refuses: bytes = b"") -> None:
        self.heads: list[str] = []
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self._ports, self._refuses = ports, refuses

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._carry(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        method, target, _ = head.split(" ", 2)
        if self._refuses:
            writer.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % self._refuses)
            await writer.drain()
            return
        host = target.removeprefix("http://").partition("/")[0].partition(":")[0]
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._ports[host])
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            far_writer.write(head.replace(target, "/" + target.split("/", 3)[3], 1).encode())
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            far_writer.close()
            await far_writer.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


@contextlib.asynccontextmanager
async def proxy(ports: dict[str, int], refuses: bytes = b"") -> AsyncIterator[Proxy]:
    found = Proxy(ports, refuses)
    server = await asyncio.start_server(found.accept, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for task in found.tasks:
            task.cancel()
        await asyncio.gather(*found.tasks, return_exceptions=True)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


async def test_http_goes_in_absolute_form_by_the_name_that_only_the_proxy_knows() -> None:
    async with serve({"/llm/metrics": Reply(200, "far")}) as server, proxy({"gpu7.test": server.port}) as via:
        asked = f"http://us%40er:{SECRET}@localhost:{via.port}"
        target = HttpTarget.of(EngineTarget("http://gpu7.test:8000/llm", token="key", proxy=asked))
        answer = await target.get("/metrics", 5)
        await target.close()
        assert (answer.status, answer.text()) == (200, "far")
        (head,) = via.heads
        assert head.startswith("GET http://gpu7.test:8000/llm/metrics HTTP/1.1\r\n")
        credentials = base64.b64encode(f"us@er:{SECRET}".encode()).decode()
        assert f"proxy-authorization: basic {credentials}".lower() in head.lower()
        (request,) = server.requests
        assert request.headers["host"] == "gpu7.test:8000"
        assert request.headers["authorization"] == "Bearer key"


async def test_https_goes_through_a_tunnel_whose_far_end_is_checked_and_alone_gets_the_token() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "loopback.pem")
    async with serve({"*": Reply(200, "far")}, tls=context) as server:
        async with proxy({"engine.example": server.port, "other.test": server.port}) as via:
            for host, reason in (("engine.example", ""), ("other.test", "tls")):
                target = HttpTarget(
                    f"https://{host}:8443",
                    token="key",
                    ca_file=str(TLS / "loopback.crt"),
                    proxy=f"http://127.0.0.1:{via.port}",
                )
                if reason:
                    with pytest.raises(SourceError) as error:
                        await target.get("/", 5)
                    assert error.value.reason == reason
                else:
                    assert (await target.get("/", 5)).text() == "far"
                await target.close()
            assert via.heads[0].startswith("CONNECT engine.example:8443 HTTP/1.1\r\n")
            assert not any("key" in head for head in via.heads)
        assert [request.headers["authorization"] for request in server.requests] == ["Bearer key"]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_what_the_environment_says_reaches_nobody_unless_asked(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    context = None
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "loopback.pem")
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve({"*": Reply(200, "x")}, tls=context))
        via = await stack.enter_async_context(proxy({"127.0.0.1": server.port}))
        for name in VARIABLES:
            monkeypatch.setenv(name, f"http://127.0.0.1:{via.port}")
        for asked, spared, taken in (("", "", 0), ("env", "", 1), ("env", "example.org,127.0.0.1", 1)):
            monkeypatch.setenv("NO_PROXY", spared)
            target = HttpTarget(server.url, verify=False, proxy=asked)
            assert (await target.get("/", 5)).status == 200
            await target.close()
            assert len(via.heads) == taken


async def failure(url: str, asked: str) -> SourceError:
    target = HttpTarget(url, token="key", proxy=asked)
    with pytest.raises(SourceError) as error:
        await target.get("/", 5)
    await target.close()
    assert SECRET not in str(error.value)
    return error.value


async def test_a_proxy_out_of_reach_is_no_engine_that_refuses() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = await failure("http://gpu7.test", f"http://u:{SECRET}@127.0.0.1:{port}")
    assert error.reason == "timeout"
    assert error.detail == f"the proxy 127.0.0.1:{port} cannot be reached: connection refused"


@pytest.mark.parametrize(
    ("url", "status", "reason", "words"),
    [
        ("http://gpu7.test", b"407 Who", "403", "407"),
        ("https://gpu7.test", b"407 Who", "403", "407"),
        ("https://gpu7.test", b"502 No", "timeout", "502"),
    ],
)
async def test_what_a_proxy_refuses(url: str, status: bytes, reason: str, words: str) -> None:
    async with proxy({}, refuses=status) as via:
        error = await failure(url, f"http://u:{SECRET}@127.0.0.1:{via.port}")
        assert not any("key" in head for head in via.heads if url.startswith("https"))
    assert error.reason == reason
    assert "the proxy" in error.detail
    assert words in error.detail


async def test_a_socks_proxy_of_the_environment_is_said_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"socks5://u:{SECRET}@127.0.0.1:1")
    error = await failure("http://127.0.0.1:9", "env")
    assert error.reason == "not_supported"
    assert "SOCKS" in error.detail


def test_the_password_is_in_no_repr() -> None:
    target = EngineTarget("http://gpu7.test", proxy=f"http://u:{SECRET}@p.test:1")
    assert SECRET not in repr(target)


def test_its_name_has_no_credentials_and_none_is_named_where_none_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (*VARIABLES, "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def named(asked: str) -> str:
        return name_of_proxy(EngineTarget("http://gpu7.test:8000", proxy=asked))

    assert named(f"http://u:{SECRET}@p.test:3128") == "p.test:3128"
    assert named("") == named("env") == ""
    monkeypatch.setenv("HTTP_PROXY", f"http://u:{SECRET}@env.test:1")
    assert named("env") in ("env.test:1", "")  # a server's own variable of that name is not taken
    monkeypatch.setenv("http_proxy", f"http://u:{SECRET}@env.test:1")
    assert named("env") == "env.test:1"
    assert named("") == ""
    monkeypatch.setenv("http_proxy", f"socks5://u:{SECRET}@env.test:1")
    assert named("env") == ""
