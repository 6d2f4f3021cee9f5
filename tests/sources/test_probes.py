from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from tests.support.captures import FIXTURES
from tests.support.servers import CUT, NEVER, RawRoute, Reply, endless, raw, serve, until
from tui.model.settings import EngineTarget, ProbeSettings, ProbeSpec
from tui.sources.probes import ProbeSource, default_probes, probe_specs

if TYPE_CHECKING:
    from tests.support.servers import Handler, Request
    from tui.model.readings import ProbeKind, ProbeReading

SPEC = ProbeSpec("/health", period_s=10.0, timeout_s=0.3)


async def run(*answers: Handler, kind: ProbeKind = "liveness", spec: ProbeSpec = SPEC) -> list[ProbeReading]:
    async with serve({}) as server:
        source = ProbeSource(EngineTarget(server.url), kind, spec)
        readings = []
        for answer in answers:
            server.routes["/health"] = answer
            readings.append(await source.read())
        await source.close()
        return readings


OK, BAD = Reply(200), Reply(503)


@pytest.mark.parametrize(
    ("answer", "status", "ok"),
    [
        (OK, 200, True),
        (Reply(302, headers={"Location": "/x"}), 302, True),
        (Reply(404), 404, False),
        (BAD, 503, False),
        (NEVER, "timeout", False),
        (CUT, "reset", False),
        (raw(b""), "reset", False),
        (raw(b"SSH-2.0-x\r\n\r\n"), "reset", False),
        (endless(50_000_000), 200, True),
    ],
    ids=["200", "302", "404", "503", "never", "cut", "closed", "ssh", "huge"],
)
async def test_what_an_answer_is(answer: Handler, status: object, ok: bool) -> None:
    (found,) = await run(answer)
    assert (found.status, found.ok, found.kind, found.path) == (status, ok, "liveness", "/health")
    assert found.latency_s is not None
    assert 0 < found.latency_s < 2
    if status == "timeout":
        assert found.latency_s >= 0.3


async def test_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        source = ProbeSource(EngineTarget(f"http://127.0.0.1:{taken.getsockname()[1]}"), "liveness", SPEC)
        found = await source.read()
    assert (found.status, found.ok) == ("refused", False)


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
        found = await ProbeSource(EngineTarget(server.url), "liveness", SPEC).read()
        assert found.status == 200
        spec = ProbeSpec("/health", port=other.sockets[0].getsockname()[1], scheme="https", timeout_s=5.0)
        assert (await ProbeSource(EngineTarget(server.url), "liveness", spec).read()).status == "tls"


async def test_an_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("tui.sources.resolve.socket.getaddrinfo", fail)
    found = await ProbeSource(EngineTarget("http://nowhere.example:8000"), "liveness", SPEC).read()
    assert found.status == "dns"


async def test_no_connection_is_kept_and_no_key_is_sent() -> None:
    async with serve({"/health": OK}) as server:
        source = ProbeSource(
            EngineTarget(server.url, token="secret", headers={"X-A": "b"}), "readiness", SPEC
        )
        for _ in range(3):
            await source.read()
        await until(lambda: server.open_connections == 0)
        assert server.connections == 3
        assert all("authorization" not in request.headers for request in server.requests)
        assert server.requests[0].headers["connection"] == "close"


async def test_never_two_at_once() -> None:
    go = asyncio.Event()

    async def write(_: Request, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with serve({"/health": RawRoute(write)}) as server:
        source = ProbeSource(EngineTarget(server.url), "liveness", ProbeSpec("/health", timeout_s=10.0))
        reads = asyncio.gather(*(source.read() for _ in range(3)))
        await until(lambda: len(server.requests) == 1)
        for _ in range(100):  # the others have every chance to start
            await asyncio.sleep(0)
        assert server.connections == 1
        go.set()
        assert sorted(found.streak for found in await reads) == [1, 2, 3]
        await source.close()


async def test_streaks_and_what_the_kubelet_would_do() -> None:
    live = await run(OK, OK, BAD, BAD, BAD, BAD, OK)
    assert [found.streak for found in live] == [1, 2, -1, -2, -3, -4, 1]
    assert [(found.would, found.would_in_s) for found in live] == [
        ("none", None), ("none", None), ("restart", 20.0), ("restart", 10.0), ("restart", 0.0), ("restart", 0.0),
        ("none", None),
    ]  # fmt: skip


async def test_readiness_comes_back_after_enough_successes() -> None:
    spec = ProbeSpec("/health", period_s=5.0, timeout_s=0.3, success_threshold=2, failure_threshold=1)
    ready = await run(OK, OK, BAD, OK, OK, OK, kind="readiness", spec=spec)
    assert [(found.would, found.would_in_s) for found in ready] == [
        ("ready", 5.0), ("ready", 0.0), ("unready", 0.0), ("ready", 5.0), ("ready", 0.0), ("none", None),
    ]  # fmt: skip


async def test_the_percentile_is_of_the_last_hundred() -> None:
    found = (await run(NEVER, *[OK] * 99))[-1]
    assert found.latency_p99_s is not None
    assert found.latency_p99_s < 0.3  # one of a hundred is past the 99th
    two = (await run(NEVER, NEVER, *[OK] * 50))[-1]
    assert two.latency_p99_s is not None
    assert two.latency_p99_s >= 0.3


def test_default_routes() -> None:
    assert default_probes(None) == ()
    assert default_probes("vllm") == (("liveness", "/health", 10.0, 1.0), ("readiness", "/health", 10.0, 1.0))
    paths = {kind: path for kind, path, *_ in default_probes("triton")}
    assert paths == {"liveness": "/v2/health/live", "readiness": "/v2/health/ready"}
    live, ready = default_probes("sglang")
    assert live[1] == "/health"
    assert live[2] >= 25
    assert live[3] >= 25
    assert ready == ("readiness", "/ready", 10.0, 1.0)
    assert {path for _, path, *_ in default_probes("trtllm")} == {"/health"}


def test_settings_replace_the_defaults() -> None:
    own = dict(probe_specs("sglang", ProbeSettings()))
    assert own == {
        "liveness": ProbeSpec("/health", period_s=30.0, timeout_s=25.0),
        "readiness": ProbeSpec("/ready"),
    }
    asked = ProbeSettings(readiness=ProbeSpec("/x", period_s=3), startup=ProbeSpec(failure_threshold=60))
    mixed = dict(probe_specs("vllm", asked))
    assert mixed["liveness"].path == "/health"
    assert mixed["readiness"] == ProbeSpec("/x", period_s=3)
    assert mixed["startup"] == ProbeSpec("/health", failure_threshold=60)
