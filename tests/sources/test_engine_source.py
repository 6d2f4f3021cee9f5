from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.captures import text
from tests.support.servers import (
    CUT,
    NEVER,
    Reply,
    Server,
    drip,
    endless,
    gzip_bomb,
    json_reply,
    serve,
    until,
    vllm,
)
from tests.support.vllm_text import Rank, exposition
from tui.model.settings import EngineTarget
from tui.model.status import SourceError
from tui.sources.engines.source import EngineSource

if TYPE_CHECKING:
    from tests.support.servers import Handler
    from tui.model.readings import EngineReading

LOAD = text("vllm-0.32/metrics-load.txt")


class Ticks:
    """A clock that goes on by a second each time a scrape is dated."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


async def one(routes: dict[str, Handler], deadline_s: float = 4.0) -> EngineReading:
    async with serve(routes) as server:
        source = EngineSource(EngineTarget(server.url), deadline_s=deadline_s)
        try:
            return await source.read()
        finally:
            await source.close()


async def failure(routes: dict[str, Handler], deadline_s: float = 4.0) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await one(routes, deadline_s)
    return caught.value


async def test_a_server_with_the_capture_is_read_exactly_and_cheaply() -> None:
    async with serve(vllm(LOAD)) as server:
        source = EngineSource(EngineTarget(server.url), monotonic=Ticks())
        readings = [await source.read() for _ in range(3)]
        assert source.name == f"engine {server.url}"
        for found in readings:
            assert (found.url, found.engine, found.version, found.model) == (
                server.url,
                "vllm",
                "0.32.0",
                "tiny-llama",
            )
            assert (found.running, found.waiting, found.kv_usage) == (8.0, 16.0, 0.25396825396825395)
            assert (found.reason, found.simulated) == (None, False)
            assert found.scrape_s is not None
            assert 0 < found.scrape_s < 1
        assert readings[1].gen_tok_s == 0.0
        assert (readings[1].stalled_s, readings[1].stalled_scrapes) == (1.0, 2)
        asked = [request.path for request in server.requests]
        assert asked == ["/version", "/v1/models", "/metrics", "/is_paused", "/metrics", "/metrics"]
        assert server.connections == 1
        await source.close()


async def test_moving_counters_give_rates_and_percentiles() -> None:
    scrapes = iter(
        exposition(Rank(running=2, generated=100 * n, steps=n, stop=n, observed={"ttft": (0.15,) * n}))
        for n in range(5)
    )
    async with serve(vllm(lambda: Reply(200, next(scrapes)))) as server:
        source = EngineSource(EngineTarget(server.url), monotonic=Ticks())
        readings = [await source.read() for _ in range(5)]
        assert (readings[-1].gen_tok_s, readings[-1].req_s, readings[-1].window_s) == (100.0, 1.0, 4.0)
        assert readings[-1].ttft_p50_s == pytest.approx(0.15)
        assert (readings[-1].stalled_s, readings[-1].since_last_step_s) == (0.0, 0.0)
        await source.close()


async def test_a_restart_gives_no_odd_rate_and_its_new_version_is_read() -> None:
    async with serve(vllm(exposition(Rank(generated=90_000)), version="0.31.0", model="old")) as server:
        source = EngineSource(EngineTarget(server.url), monotonic=Ticks())
        await source.read()
        server.routes.update(
            vllm(exposition(Rank(generated=5), started=2000.0), version="0.32.0", model="new")
        )
        after = await source.read()
        assert (after.gen_tok_s, after.restarts) == (None, 1)
        server.routes["/metrics"] = Reply(200, exposition(Rank(generated=25), started=2000.0))
        later = await source.read()
        assert (later.gen_tok_s, later.version, later.model, later.restarts) == (20.0, "0.32.0", "new", 1)
        await source.close()


async def test_killed_and_started_again_on_the_same_port() -> None:
    server = Server(vllm(exposition(Rank(generated=9_000)), version="0.31.0"))
    await server.start()
    source = EngineSource(EngineTarget(server.url), monotonic=Ticks())
    assert (await source.read()).version == "0.31.0"
    await server.stop()
    for _ in range(2):
        with pytest.raises(SourceError) as caught:
            await source.read()
        assert caught.value.reason == "refused"
    server.routes.update(vllm(exposition(Rank(generated=10), started=2000.0), version="0.32.0"))
    await server.start(server.port)
    found = await source.read()
    assert (found.version, found.restarts, found.gen_tok_s) == ("0.32.0", 1, None)
    await source.close()
    await server.stop()


async def test_another_engine_takes_the_port() -> None:
    server = Server(vllm(LOAD))
    await server.start()
    source = EngineSource(EngineTarget(server.url))
    assert (await source.read()).engine == "vllm"
    await server.stop()
    with pytest.raises(SourceError):
        await source.read()
    server.routes = {"/v2": json_reply({"name": "triton", "version": "2.51.0"})}
    await server.start(server.port)
    found = await source.read()
    assert (found.engine, found.version, found.running) == ("triton", "2.51.0", None)
    await source.close()
    await server.stop()


async def test_a_key_hides_the_model_which_the_metrics_name() -> None:
    routes = {**vllm(LOAD), "/v1/models": json_reply({"error": "Unauthorized"}, 401)}
    found = await one(routes)
    assert (found.engine, found.version, found.model, found.running) == ("vllm", "0.32.0", "tiny-llama", 8.0)
    assert "model" not in {gap.field for gap in found.missing}


async def test_statistics_that_are_off_are_named_with_the_flag() -> None:
    found = await one(vllm(text("vllm-0.32/metrics-disable-log-stats.txt")))
    assert (found.reason, found.version, found.model, found.running) == (
        "stats_off",
        "0.32.0",
        "tiny-llama",
        None,
    )
    assert any("--disable-log-stats" in gap.enable for gap in found.missing)


@pytest.mark.parametrize(
    ("metrics", "reason", "words"),
    [
        (Reply(401), "401", "/metrics: HTTP 401"),
        (Reply(403), "403", "HTTP 403"),
        (Reply(404), "404", "HTTP 404"),
        (Reply(302, headers={"Location": "/login"}), "redirect", "/login"),
        (Reply(200, ""), "empty", ""),
        (
            Reply(200, "<html><title>Grafana</title></html>", "text/html"),
            "not_metrics",
            'an HTML page "Grafana"',
        ),
        (Reply(200, '{"status": "ok"}', "application/json"), "not_metrics", "JSON instead of metrics"),
        (endless(200_000_000), "too_large", "more than 20000000 bytes"),
        (gzip_bomb(30_000_000), "too_large", "more than 20000000 bytes"),
        (
            Reply(200, "".join(f'vllm:num_requests_running{{i="{n}"}} 1\n' for n in range(11_000))),
            "too_large",
            "series",
        ),
    ],
    ids=["401", "403", "404", "302", "empty", "html", "json", "huge", "bomb", "explosion"],
)
async def test_an_engine_that_answers_without_figures_is_still_that_engine(
    metrics: Handler, reason: str, words: str
) -> None:
    found = await one(vllm(metrics))
    assert (found.engine, found.version, found.model, found.reason) == (
        "vllm",
        "0.32.0",
        "tiny-llama",
        reason,
    )
    assert words in found.detail
    assert found.running is None
    assert {gap.field for gap in found.missing} >= {"running", "kv_usage", "ttft_p95_s"}


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [(NEVER, "timeout"), (drip(per_s=5), "timeout"), (CUT, "reset"), (Reply(503), "5xx")],
    ids=["never", "drip", "cut", "503"],
)
async def test_silence_and_breakage_are_errors(metrics: Handler, reason: str) -> None:
    started = time.monotonic()
    assert (await failure(vllm(metrics), deadline_s=0.4)).reason == reason
    assert time.monotonic() - started < 4 * 1.0


async def test_a_server_that_never_answers_ends_at_the_deadline() -> None:
    started = time.monotonic()
    assert (await failure({"*": NEVER}, deadline_s=0.3)).reason == "timeout"
    assert time.monotonic() - started < 4 * 1.0


async def test_all_questions_together_keep_the_deadline() -> None:
    routes = {**vllm(LOAD), "/v1/models": NEVER}
    started = time.monotonic()
    assert (await failure(routes, deadline_s=0.3)).reason == "timeout"
    assert time.monotonic() - started < 4 * 1.0


async def test_a_timeout_does_not_make_it_forget_what_it_is() -> None:
    async with serve(vllm(NEVER)) as server:
        source = EngineSource(EngineTarget(server.url), deadline_s=0.2)
        for _ in range(2):
            with pytest.raises(SourceError):
                await source.read()
        assert server.count("/version") == 1
        await source.close()


async def test_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        source = EngineSource(EngineTarget(f"http://127.0.0.1:{taken.getsockname()[1]}"))
        with pytest.raises(SourceError) as caught:
            await source.read()
        assert caught.value.reason == "refused"
        await source.close()


async def test_the_metrics_of_trtllm_serve_are_never_taken() -> None:
    routes: dict[str, Handler] = {
        "/version": json_reply({"version": "1.2.1"}),
        "/v1/models": json_reply({"data": [{"id": "llama", "owned_by": "tensorrt_llm"}]}),
        "/metrics": json_reply([{"iter": 1}]),
        "/perf_metrics": json_reply([]),
        "/prometheus/metrics": Reply(200, "trtllm_num_requests_running 1\n"),
    }
    async with serve(routes) as server:
        for hint in ("auto", "vllm", "trtllm"):
            source = EngineSource(EngineTarget(server.url, engine=hint))
            for _ in range(3):
                assert (await source.read()).engine == "trtllm"
            await source.close()
        assert server.count("/metrics") + server.count("/perf_metrics") == 0


@pytest.mark.parametrize(("host", "key"), [("127.0.0.1", "Bearer k"), ("localhost", None)])
async def test_metrics_on_another_port_get_the_key_on_the_same_host_only(host: str, key: str | None) -> None:
    async with serve(vllm(Reply(404))) as server, serve({"/m": Reply(200, LOAD)}) as metrics:
        url = f"http://{host}:{metrics.port}/m"
        headers = {"X-Key": "Bearer k"}
        source = EngineSource(EngineTarget(server.url, token="k", headers=headers, metrics_url=url))
        assert (await source.read()).running == 8.0
        assert metrics.requests[-1].headers.get("authorization") == key
        assert metrics.requests[-1].headers.get("x-key") == key
        assert server.requests[-1].headers["authorization"] == "Bearer k"
        await source.close()


async def test_a_simulated_engine_is_marked() -> None:
    marked = Reply(200, LOAD, headers={"X-Infertop-Simulated": "1"})
    assert (await one(vllm(marked))).simulated


async def test_reads_may_be_cancelled_anywhere() -> None:
    async with serve(vllm(LOAD)) as server:
        source = EngineSource(EngineTarget(server.url))
        for delay in (0.0, 0.001, 0.002, 0.004, 0.008):
            task = asyncio.ensure_future(source.read())
            await asyncio.wait([task], timeout=delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert (await source.read()).running == 8.0
        await source.close()


async def test_closing_is_quick_while_a_read_hangs() -> None:
    async with serve({"*": NEVER}) as server:
        source = EngineSource(EngineTarget(server.url))
        task = asyncio.ensure_future(source.read())
        await until(lambda: len(server.requests) > 0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        started = time.monotonic()
        await source.close()
        assert time.monotonic() - started < 4 * 1.0
