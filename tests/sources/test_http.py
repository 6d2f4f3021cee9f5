from __future__ import annotations

import asyncio
import gzip
import ipaddress
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.servers import CUT, NEVER, Reply, drip, endless, gzip_bomb, raw, serve, until
from tui.model.settings import EngineTarget
from tui.model.status import SourceError
from tui.model.urls import parse_url
from tui.sources.http import HttpTarget

SECRET = "sk-very-secret"
TLS = Path(__file__).parent.parent / "fixtures" / "tls"


async def failure(target: HttpTarget, path: str = "/", deadline_s: float = 5.0) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await target.get(path, deadline_s)
    await target.close()
    return caught.value


async def test_an_answer_is_complete_and_the_connection_is_kept() -> None:
    async with serve({"/a": Reply(200, "hello"), "/b": Reply(503, "no", "text/html")}) as server:
        target = HttpTarget(server.url)
        for _ in range(3):
            answer = await target.get("/a", 5)
        bad = await target.get("/b", 5)
        assert (answer.status, answer.text(), answer.content_type) == (200, "hello", "text/plain")
        assert 0 < answer.took_s < 5
        assert (bad.status, bad.body, bad.content_type) == (503, b"no", "text/html")
        assert server.connections == 1
        await target.close()
        await until(lambda: server.open_connections == 0)


async def test_without_keep_alive_each_request_has_its_connection() -> None:
    async with serve({"/": Reply()}) as server:
        target = HttpTarget(server.url, keep_alive=False)
        for _ in range(3):
            await target.get("/", 5)
        assert server.connections == 3
        await until(lambda: server.open_connections == 0)


async def test_the_path_of_the_url_is_a_prefix() -> None:
    async with serve({"/prefix/metrics": Reply(200, "x")}) as server:
        target = HttpTarget(f"{server.url}/prefix")
        assert (await target.get("/metrics", 5)).status == 200
        await target.close()


async def test_refused() -> None:
    with socket.socket() as taken:  # bound and not listening: nobody else can get the port
        taken.bind(("127.0.0.1", 0))
        error = await failure(HttpTarget(f"http://127.0.0.1:{taken.getsockname()[1]}"))
    assert error.reason == "refused"


async def test_no_answer_ends_at_the_deadline() -> None:
    async with serve({"*": NEVER}) as server:
        started = time.monotonic()
        error = await failure(HttpTarget(server.url), deadline_s=0.2)
        assert error.reason == "timeout"
        assert time.monotonic() - started < 4 * 0.5
        await until(lambda: server.open_connections == 0)


async def test_a_byte_at_a_time_ends_at_the_total_deadline() -> None:
    async with serve({"*": drip(per_s=20)}) as server:
        started = time.monotonic()
        error = await failure(HttpTarget(server.url), deadline_s=0.4)
        assert error.reason == "timeout"
        assert "bytes in 0.4 s and no end" in error.detail
        assert time.monotonic() - started < 4 * 0.5
        await until(lambda: server.open_connections == 0)


async def test_a_timed_out_request_leaves_the_target_usable() -> None:
    async with serve({"/slow": NEVER, "/": Reply(200, "x")}) as server:
        target = HttpTarget(server.url)
        for _ in range(3):
            with pytest.raises(SourceError):
                await target.get("/slow", 0.05)
            assert (await target.get("/", 5)).status == 200
        await until(lambda: server.open_connections == 1)
        await target.close()


@pytest.mark.parametrize("announced", [True, False])
async def test_a_huge_body_costs_little(announced: bool) -> None:
    sent: list[int] = []
    async with serve({"*": endless(200_000_000, announced=announced, sent=sent)}) as server:
        target = HttpTarget(server.url)
        cpu = time.process_time()
        error = await failure(target)
        assert error.reason == "too_large"
        assert time.process_time() - cpu < 1.0  # server and client together
        assert sum(sent) < 40_000_000
        await until(lambda: server.open_connections == 0)


async def test_a_gzip_bomb_is_not_inflated() -> None:
    bomb = gzip_bomb(60_000_000)
    async with serve({"*": bomb}) as server:
        cpu = time.process_time()
        assert (await failure(HttpTarget(server.url))).reason == "too_large"
        assert time.process_time() - cpu < 0.5


async def test_gzip_is_read_and_damage_is_named() -> None:
    packed = gzip.compress(b"# HELP x\n" * 5000)
    encoded = {"Content-Encoding": "gzip"}
    routes = {
        "/good": Reply(200, packed, headers=encoded),
        "/short": Reply(200, packed[:-20], headers=encoded),
        "/broken": Reply(200, b"\x1f\x8b" + b"?" * 50, headers=encoded),
        "/br": Reply(200, b"x", headers={"Content-Encoding": "br\x1b[31m"}),
        "/none": Reply(200, b"", headers=encoded),
    }
    async with serve(routes) as server:
        target = HttpTarget(server.url)
        assert (await target.get("/good", 5)).body == b"# HELP x\n" * 5000
        assert (await target.get("/none", 5)).body == b""
        for path in ("/short", "/broken"):
            assert (await failure(target, path)).reason == "parse"
        error = await failure(target, "/br")
        assert error.reason in ("parse", "not_metrics")
        assert "\x1b" not in str(error)
        assert server.requests[0].headers["accept-encoding"] == "identity"  # loopback


async def test_cut_reads_no_more_than_asked() -> None:
    async with serve({"*": endless(5_000_000)}) as server:
        target = HttpTarget(server.url)
        answer = await target.get("/", 5, max_bytes=1000, cut=True)
        assert (answer.status, len(answer.body)) == (200, 1000)
        await until(lambda: server.open_connections == 0)


async def test_reset_in_the_body_and_before_the_answer() -> None:
    async with serve({"/cut": CUT, "/closed": raw(b"")}) as server:
        target = HttpTarget(server.url)
        assert (await failure(target, "/cut")).reason == "reset"
        assert (await failure(target, "/closed")).reason == "reset"


async def test_something_that_is_not_http() -> None:
    async with serve({"*": raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")}) as server:
        assert (await failure(HttpTarget(server.url))).reason == "not_metrics"


async def test_redirects_are_not_followed() -> None:
    away = Reply(302, headers={"Location": "http://other.example/\x1b[31m"})
    async with serve({"/a": away, "/other": Reply()}) as server:
        target = HttpTarget(server.url, token=SECRET)
        refusal = (await target.get("/a", 5)).refusal("/a")
        assert refusal.reason == "redirect"
        assert "other.example" in refusal.detail
        assert "\x1b" not in refusal.detail
        assert len(server.requests) == 1
        await target.close()


async def test_the_token_goes_to_named_targets_only_and_is_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINE_TOKEN", f"{SECRET}\n")
    async with serve({"*": Reply()}) as server:
        for settings, expected in (
            (EngineTarget(server.url, token=SECRET), f"Bearer {SECRET}"),
            (EngineTarget(server.url, token_env="ENGINE_TOKEN"), f"Bearer {SECRET}"),
            (EngineTarget(server.url, token=SECRET, discovered=True), None),
            (EngineTarget(server.url), None),
        ):
            target = HttpTarget.of(settings)
            await target.get("/", 5)
            await target.close()
            assert server.requests[-1].headers.get("authorization") == expected
            assert SECRET not in repr(target) + repr(settings)


@pytest.mark.parametrize("token", [f"{SECRET}\r\nX-Evil: 1", f"{SECRET}é"])
async def test_an_impossible_token_is_never_part_of_an_error(token: str) -> None:
    async with serve({"*": NEVER}) as server:
        target = HttpTarget(server.url, token=token)
        try:
            await target.get("/", 0.2)
        except SourceError as error:
            assert SECRET not in repr(error) + error.detail
            assert error.__suppress_context__
        assert all("x-evil" not in request.headers for request in server.requests)
        await target.close()


async def test_headers_of_the_settings_replace_ours() -> None:
    async with serve({"*": Reply()}) as server:
        target = HttpTarget.of(EngineTarget(server.url, headers={"User-Agent": "mine", "X-Org": "a"}))
        await target.get("/", 5)
        await target.close()
        headers = server.requests[0].headers
        assert (headers["user-agent"], headers["x-org"]) == ("mine", "a")


async def test_a_simulated_server_says_so() -> None:
    async with serve({"/a": Reply(headers={"X-Infertop-Simulated": "1"}), "/b": Reply()}) as server:
        target = HttpTarget(server.url)
        assert (await target.get("/a", 5)).simulated
        assert not (await target.get("/b", 5)).simulated
        await target.close()


async def test_a_resolver_that_hangs_is_dns_and_gets_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    calls: list[object] = []

    def hang(host: str, port: int, **_: object) -> list[object]:
        calls.append(host)
        release.wait(20)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async with serve({"*": Reply(200, "x")}) as server:
        monkeypatch.setattr("tui.sources.resolve.socket.getaddrinfo", hang)
        target = HttpTarget(f"http://engine.example:{server.port}")
        for _ in range(3):
            with pytest.raises(SourceError) as caught:
                await target.get("/", 0.05)
            assert caught.value.reason == "dns"
        assert len(calls) == 1
        release.set()
        assert (await target.get("/", 5)).body == b"x"
        assert len(calls) == 1
        await target.close()


async def test_an_unknown_name_is_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("tui.sources.resolve.socket.getaddrinfo", fail)
    error = await failure(HttpTarget("http://nowhere.example:8000"))
    assert (error.reason, "Name or service not known" in error.detail) == ("dns", True)


async def test_the_second_address_is_tried_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(_: str, port: int, **__: object) -> list[object]:
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, ("127.0.0.2", port)), (*kind, ("127.0.0.1", port))]

    async with serve({"*": Reply(200, "x")}) as server:  # listens on 127.0.0.1 alone
        monkeypatch.setattr("tui.sources.resolve.socket.getaddrinfo", both)
        target = HttpTarget(f"http://both.example:{server.port}")
        for _ in range(2):
            assert (await target.get("/", 5)).status == 200
        assert server.requests[0].headers["host"] == f"both.example:{server.port}"
        assert server.connections == 1
        await target.close()


async def test_tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "loopback.pem")
    async with serve({"*": Reply(200, "x")}, tls=context) as server:
        unknown = await failure(HttpTarget(server.url))
        assert (unknown.reason, "self" in unknown.detail) == ("tls", True)
        trusting = HttpTarget(server.url, ca_file=str(TLS / "loopback.crt"))
        careless = HttpTarget(server.url, verify=False)
        for target in (trusting, careless):
            assert (await target.get("/", 5)).body == b"x"
            await target.close()
        missing = await failure(HttpTarget(server.url, ca_file="/does/not/exist.pem"))
        assert (missing.reason, "/does/not/exist.pem" in missing.detail) == ("tls", True)


async def test_tls_to_a_server_that_has_none() -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert (await failure(HttpTarget(f"https://127.0.0.1:{port}"))).reason == "tls"


def test_importing_the_module_imports_no_httpcore() -> None:
    code = "import sys, tui.sources.probes, tui.sources.engines.source; sys.exit('httpcore' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def link_local() -> str:
    """A link-local address of this machine with its zone."""
    table = Path("/proc/net/if_inet6")
    for line in table.read_text().splitlines() if table.exists() else ():
        packed, *_, zone = line.split()
        if packed.startswith("fe80"):
            return f"{ipaddress.IPv6Address(bytes.fromhex(packed))}%{zone}"
    pytest.skip("no interface of this machine has a link-local IPv6 address")


async def test_a_link_local_address_is_reached_by_its_zone_which_stays_here() -> None:
    address = link_local()
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, address, 0) as server:
        port = server.sockets[0].getsockname()[1]
        target = HttpTarget(parse_url(f"http://[{address.replace('%', '%25')}]:{port}"))
        assert (await target.get("/", 5)).text() == "hi"
        await target.close()
    host = address.partition("%")[0]
    assert f"host: [{host}]:{port}\r\n".encode() in heads[0].lower()
