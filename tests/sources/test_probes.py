from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.captures import FIXTURES
from tests.support.servers import CUT, NEVER, RawRoute, Reply, endless, raw, serve, until
from tui.model.settings import EngineTarget, ProbeSettings, ProbeSpec
from tui.model.status import SourceError
from tui.sources.probes import ProbeSource, default_probes, probe_sources, probe_specs

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


# ---------------------------------------------------------------------------------------- SGLang before 0.5.20


async def sglang_probes(
    server_url: str, settings: ProbeSettings | None = None
) -> tuple[ProbeSource, ProbeSource]:
    pairs = probe_sources(EngineTarget(server_url), "sglang", settings or ProbeSettings())
    liveness, readiness = (source for source, _ in pairs)
    return liveness, readiness


async def test_without_ready_its_health_counts_at_its_own_pace() -> None:
    async with serve({"/health": OK}) as server:
        liveness, readiness = await sglang_probes(server.url)
        first = asyncio.ensure_future(readiness.read())
        await until(lambda: server.count("/ready") == 1)
        assert server.count("/health") == 0  # it waits for what the liveness probe finds
        await liveness.read()
        assert ((await first).path, (await first).status, (await first).streak) == ("/health", 200, 1)
        for _ in range(3):
            assert (await readiness.read()).streak == 1  # the same result, counted once
        server.routes["/health"] = BAD
        await liveness.read()
        unready = await readiness.read()
        assert (unready.status, unready.streak, unready.would, unready.would_in_s) == (
            503,
            -1,
            "unready",
            60.0,
        )
        assert (server.count("/ready"), server.count("/health")) == (1, 2)
        await liveness.close()
        await readiness.close()


async def test_with_ready_it_is_asked_and_a_later_404_is_a_failure() -> None:
    async with serve({"/ready": OK, "/health": OK}) as server:
        liveness, readiness = await sglang_probes(server.url)
        assert (await readiness.read()).path == "/ready"
        server.routes["/ready"] = Reply(404)
        assert (await readiness.read()).status == 404
        assert server.count("/health") == 0
        await liveness.close()
        await readiness.close()


async def test_where_nothing_stands_in_readiness_is_unknown_not_failed() -> None:
    async with serve({"/alive": OK}) as server:
        liveness, readiness = await sglang_probes(server.url, ProbeSettings(liveness=ProbeSpec("/alive")))
        with pytest.raises(SourceError) as caught:
            await readiness.read()
        assert (caught.value.reason, caught.value.unsupported) == ("not_supported", True)
        await liveness.close()
        await readiness.close()


async def test_a_readiness_route_of_the_operators_own_is_taken_at_its_word() -> None:
    async with serve({"/health": OK}) as server:
        asked = ProbeSettings(readiness=ProbeSpec("/ready"))
        _, readiness = await sglang_probes(server.url, asked)
        assert (await readiness.read()).status == 404
        await readiness.close()


# ---------------------------------------------------------------------------------------- the first latency

COLD = """
import asyncio, sys
from tests.support.servers import Reply, serve, vllm
from tests.support.vllm_text import exposition
from tui.model.settings import EngineTarget, ProbeSpec
from tui.sources.engines.source import EngineSource
from tui.sources.probes import ProbeSource

async def main():
    async with serve(vllm(exposition())) as server:
        target = EngineTarget(server.url)
        assert "httpx" not in sys.modules
        probes = [ProbeSource(target, "liveness", ProbeSpec("/health", timeout_s=5.0)) for _ in range(3)]
        source = EngineSource(target)
        cold = await asyncio.gather(source.read(), *(probe.read() for probe in probes))
        warm = await asyncio.gather(source.read(), *(probe.read() for probe in probes))
        for reading in (cold, warm):
            print(reading[0].scrape_s, *(found.latency_s for found in reading[1:]))
        for one in (source, *probes):
            await one.close()

asyncio.run(main())
"""


def test_the_first_latency_has_no_import_in_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLD], capture_output=True, text=True, timeout=50, check=True
    )
    cold, warm = ([float(figure) for figure in line.split()] for line in done.stdout.split("\n")[:2])
    # loading httpx takes 0.3 s and more here; a cold request is a few times a warm one
    assert max(cold) < 0.1 + 5 * max(warm)
