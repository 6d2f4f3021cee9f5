from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.captures import FIXTURES
from tests.support.servers import CUT, NEVER, RawRoute, Reply, drip, endless, raw, serve, until
from tui.model.settings import EngineTarget, ProbeSpec
from tui.probing.outcomes import MAX_REQUESTS, Outcome
from tui.sources.probes import HttpProber, ProbeResult, TcpProber, prober

if TYPE_CHECKING:
    from tests.support.servers import Handler, Request

SPEC = ProbeSpec("/health")
OK = Reply(200)


async def ask(answer: Handler, within_s: float = 0.3, spec: ProbeSpec = SPEC) -> ProbeResult:
    async with serve({"/health": answer}) as server:
        return await given_up(HttpProber(EngineTarget(server.url), spec), within_s)


async def given_up(one: HttpProber | TcpProber, within_s: float) -> ProbeResult:
    """As whoever waits does it: what is unanswered then is told before the request is cancelled."""
    await one.prepare()
    asking = asyncio.ensure_future(one.ask(10.0))
    await asyncio.wait({asking}, timeout=within_s)
    result = asking.result() if asking.done() else one.unanswered()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await one.close()
    return result


@pytest.mark.parametrize(
    ("answer", "status", "outcome"),
    [
        (OK, 200, Outcome.SUCCESS),
        (Reply(404), 404, Outcome.FAILURE),
        (Reply(503), 503, Outcome.FAILURE),
        (NEVER, "timeout", Outcome.FAILURE),
        (drip(1000.0), "timeout", Outcome.DISCARDED),
        (CUT, "reset", Outcome.DISCARDED),
        (raw(b""), "reset", Outcome.FAILURE),
        (raw(b"SSH-2.0-x\r\n\r\n"), "reset", Outcome.FAILURE),
        (endless(50_000_000), 200, Outcome.SUCCESS),
    ],
    ids=["200", "404", "503", "never", "body stalls", "body cut", "closed", "ssh", "huge"],
)
async def test_what_an_answer_is(answer: Handler, status: object, outcome: Outcome) -> None:
    quick = answer is not NEVER and status != "timeout"
    found = await ask(answer, 5.0 if quick else 0.3)
    assert (found.status, found.outcome) == (status, outcome)


async def test_a_body_that_stalls_after_10_kib_passes() -> None:
    async def write(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"#" * 10_241)
        await writer.drain()
        await asyncio.Event().wait()

    assert (await ask(RawRoute(write), 5.0)).outcome is Outcome.SUCCESS


@pytest.mark.parametrize(
    ("location", "status", "outcome"),
    [
        ("/ok?a=b", 200, Outcome.SUCCESS),
        ("/bad", 503, Outcome.FAILURE),
        ("http://elsewhere.example/x", 302, Outcome.WARNING),
        ("", 302, Outcome.WARNING),
        ("/health", 302, Outcome.FAILURE),
        ("gopher://127.0.0.1/", 302, Outcome.FAILURE),
    ],
    ids=["same host", "to a failure", "other host", "nowhere", "loop", "scheme"],
)
async def test_redirects(location: str, status: int, outcome: Outcome) -> None:
    headers = {"Location": location} if location else {}
    routes = {"/health": Reply(302, headers=headers), "/ok?a=b": OK, "/bad": Reply(503)}
    async with serve(routes) as server:
        one = HttpProber(EngineTarget(server.url), SPEC)
        found = await one.ask(5.0)
        assert (found.status, found.outcome) == (status, outcome)
        assert server.count("/health") == (MAX_REQUESTS if location == "/health" else 1)
        await one.close()


async def test_a_redirect_to_another_port_is_followed_with_the_address_as_it_is() -> None:
    async with serve({"/x": Reply(204)}) as other:
        routes = {"/health": Reply(307, headers={"Location": f"{other.url}/x"})}
        async with serve(routes) as server:
            one = HttpProber(EngineTarget(server.url), SPEC)
            assert (await one.ask(5.0)).status == 204
            await one.close()


async def test_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        target = EngineTarget(f"http://127.0.0.1:{taken.getsockname()[1]}")
        http = await prober(target, SPEC).ask(5.0)
        tcp = await prober(target, ProbeSpec(handler="tcpSocket")).ask(5.0)
    assert (http.status, http.outcome) == (tcp.status, tcp.outcome) == ("refused", Outcome.FAILURE)


async def test_a_port_that_accepts_passes_even_over_a_server_that_hangs() -> None:
    async with serve({"/health": NEVER}) as server:
        found = await TcpProber(EngineTarget(server.url), ProbeSpec(handler="tcpSocket")).ask(5.0)
        assert (found.status, found.outcome) == (200, Outcome.SUCCESS)


def test_what_runs_in_the_container_is_never_run_here() -> None:
    for kind in ("exec", "grpc"):
        with pytest.raises(ValueError, match=kind):
            prober(EngineTarget("http://127.0.0.1:1"), ProbeSpec(handler=kind))


async def test_certificates_are_not_verified_and_tls_failures_are_tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FIXTURES / "tls" / "loopback.pem")

    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with (
        serve({"/health": OK}, tls=context) as server,
        await asyncio.start_server(plain, "127.0.0.1", 0) as other,
    ):
        assert (await HttpProber(EngineTarget(server.url), SPEC).ask(5.0)).status == 200
        spec = ProbeSpec("/health", port=other.sockets[0].getsockname()[1], scheme="https")
        assert (await HttpProber(EngineTarget(server.url), spec).ask(5.0)).status == "tls"


@pytest.mark.parametrize(
    ("settings", "sent"),
    [({}, None), ({"ca_file": str(FIXTURES / "tls/loopback.crt")}, "b"), ({"verify": False}, "b")],
)
async def test_headers_of_the_settings_go_only_to_whom_the_settings_trust(
    settings: dict[str, Any], sent: str | None
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FIXTURES / "tls" / "loopback.pem")
    spec = ProbeSpec("/health", headers=(("X-Of-The-Probe", "1"),))
    async with serve({"/health": OK}, tls=context) as server:
        one = HttpProber(EngineTarget(server.url, headers={"X-A": "b"}, **settings), spec)
        for _ in range(2):
            assert (await one.ask(5.0)).status == 200
        await one.close()
        assert {request.headers.get("x-a") for request in server.requests} == {sent}
        assert {request.headers.get("x-of-the-probe") for request in server.requests} == {"1"}


@pytest.mark.parametrize("named", ["port", "host", "redirect"])
async def test_headers_of_the_settings_stay_at_the_targets_own_origin(named: str) -> None:
    async with serve({"/health": OK}) as other, serve({"/health": OK}) as server:
        target, spec = EngineTarget(server.url, headers={"X-A": "b"}), SPEC
        if named == "port":
            spec = ProbeSpec("/health", port=other.port)
        elif named == "host":
            target = EngineTarget(f"http://localhost:{other.port}", headers={"X-A": "b"})
            spec = ProbeSpec("/health", host="127.0.0.1")
        else:
            server.routes["/health"] = Reply(302, headers={"Location": f"{other.url}/health"})
        one = HttpProber(target, spec)
        assert (await one.ask(5.0)).status == 200
        await one.close()
        assert other.requests
        assert all("x-a" not in request.headers for request in other.requests)
        assert all(request.headers["x-a"] == "b" for request in server.requests)


async def test_an_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("tui.sources.resolve.socket.getaddrinfo", fail)
    target = EngineTarget("http://nowhere.example:8000")
    assert (await HttpProber(target, SPEC).ask(5.0)).status == "dns"
    assert (await TcpProber(target, ProbeSpec(handler="tcpSocket")).ask(5.0)).status == "dns"


async def test_no_connection_is_kept_and_no_key_is_sent() -> None:
    async with serve({"/health": OK}) as server:
        spec = ProbeSpec("/health", headers=(("X-Of-The-Probe", "1"),))
        one = HttpProber(EngineTarget(server.url, token="secret", headers={"X-A": "b"}), spec)
        for _ in range(3):
            await one.ask(5.0)
        await until(lambda: server.open_connections == 0)
        assert server.connections == 3
        assert all("authorization" not in request.headers for request in server.requests)
        sent = server.requests[0].headers
        assert (sent["connection"], sent["x-a"], sent["x-of-the-probe"]) == ("close", "b", "1")
        await one.close()


def test_header_values_are_never_shown() -> None:
    assert "hunter2" not in repr(ProbeSpec(headers=(("Authorization", "hunter2"),)))


# ---------------------------------------------------------------------------------------- the first latency

COLD = """
import asyncio, sys, time
from tests.support.servers import Reply, serve, vllm
from tests.support.vllm_text import exposition
from tui.model.settings import EngineTarget, ProbeSpec
from tui.runtime.clock import SystemClock
from tui.runtime.probe_route import Route
from tui.sources.engines.source import EngineSource
from tui.sources.probes import HttpProber

async def main():
    async with serve(vllm(exposition())) as server:
        target = EngineTarget(server.url)
        assert "httpcore" not in sys.modules
        spec = ProbeSpec("/health", timeout_s=5.0)
        routes = [Route(HttpProber(target, spec), SystemClock(), 5.0) for _ in range(3)]
        source = EngineSource(target)
        async def probe(route):
            await route.prepare()
            return await route.ask(5.0)
        cold = await asyncio.gather(source.read(), *map(probe, routes))
        warm = await asyncio.gather(source.read(), *map(probe, routes))
        for reading in (cold, warm):
            print(reading[0].scrape_s, *(asked.took_s for asked in reading[1:]))
        for one in (source, *routes):
            await one.close()

asyncio.run(main())
"""


def test_the_first_latency_has_no_import_in_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLD], capture_output=True, text=True, timeout=50, check=True
    )
    cold, warm = ([float(figure) for figure in line.split()] for line in done.stdout.split("\n")[:2])
    # loading httpcore takes 0.2 s and more here; a cold request is a few times a warm one
    assert max(cold) < 0.1 + 5 * max(warm)
