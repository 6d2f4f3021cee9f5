"""The routes beside the metrics: what they add, and that they are never in the way."""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.captures import text
from tests.support.servers import CUT, NEVER, Reply, json_reply, serve, vllm
from tui.model.settings import EngineTarget
from tui.model.status import SourceError
from tui.sources.engines.source import EngineSource

if TYPE_CHECKING:
    from tests.support.servers import Handler
    from tui.model.readings import EngineReading

METRICS = text("sglang-0.5.23/metrics-load.txt")
LOADS = json.loads(text("sglang-0.5.23/v1-loads-load.json"))


class Clock:
    """Dates scrapes; a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def sglang(**routes: Handler) -> dict[str, Handler]:
    """The routes of an SGLang server; more by path, with ``_`` for ``/``."""
    models = {"data": [{"id": "tiny-llama", "owned_by": "sglang"}]}
    given = {f"/{name.replace('_', '/')}": route for name, route in routes.items()}
    return {"/v1/models": json_reply(models), **given}


async def one(routes: dict[str, Handler], *, deadline_s: float = 4.0) -> EngineReading:
    async with serve(routes) as server:
        source = EngineSource(EngineTarget(server.url), deadline_s=deadline_s)
        try:
            return await source.read()
        finally:
            await source.close()


# ---------------------------------------------------------------------------------------- SGLang


async def test_the_snapshot_adds_version_and_seats_and_is_fresher_than_the_gauges() -> None:
    found = await one(sglang(metrics=Reply(200, METRICS), v1_loads=json_reply(LOADS)))
    assert (found.engine, found.version, found.model, found.max_num_seqs) == (
        "sglang",
        "0.5.23",
        "tiny-llama",
        8,
    )
    assert (found.running, found.waiting, found.kv_usage) == (8, 16, 0.0902)
    assert found.since_last_step_s == pytest.approx(0.493, abs=0.001)
    assert {gap.field for gap in found.missing}.isdisjoint({"version", "max_num_seqs", "waiting"})


async def test_without_metrics_the_snapshot_is_all_and_metrics_are_asked_for_now_and_then() -> None:
    clock = Clock()
    async with serve(sglang(v1_loads=json_reply(LOADS))) as server:
        source = EngineSource(EngineTarget(server.url), monotonic=clock)
        for _ in range(10):
            found = await source.read()
            clock.now += 1
        assert (found.reason, found.running, found.gen_tok_s) == (None, 8, 0.0)  # it stands still by then
        enable = {gap.field: gap.enable for gap in found.missing}
        assert enable["ttft_p95_s"] == enable["itl_p95_s"] == "restart with --enable-metrics"
        assert (server.count("/metrics"), server.count("/v1/loads")) == (1, 10)
        server.routes["/metrics"] = Reply(200, METRICS)
        clock.now += 30
        for _ in range(3):
            found = await source.read()
            clock.now += 1
        assert found.req_s == 0.0
        assert server.count("/metrics") == 3
        await source.close()


async def test_an_older_release_is_asked_once_what_does_not_change() -> None:
    info = {"version": "0.5.3", "max_total_num_tokens": 4096, "max_running_requests": 48}
    async with serve(sglang(metrics=Reply(200, METRICS))) as server:
        server.routes["/get_server_info"] = json_reply(info)
        source = EngineSource(EngineTarget(server.url))
        for _ in range(4):
            found = await source.read()
        assert (found.version, found.max_num_seqs, found.running) == ("0.5.3", 48, 8)
        assert [server.count(path) for path in ("/v1/loads", "/get_server_info", "/get_load")] == [1, 1, 0]
        await source.close()


async def test_the_oldest_way_without_metrics() -> None:
    async with serve(sglang()) as server:
        server.routes["/get_load"] = json_reply([{"dp_rank": 0, "num_reqs": 5, "num_waiting_reqs": 2}])
        source = EngineSource(EngineTarget(server.url))
        for _ in range(3):
            found = await source.read()
        assert (found.reason, found.running, found.waiting, found.kv_usage) == (None, 3, 2, None)
        assert server.count("/get_load") == 3
        await source.close()


async def test_with_nothing_at_all_its_statistics_are_off_and_its_end_is_seen() -> None:
    async with serve(sglang()) as server:
        source = EngineSource(EngineTarget(server.url))
        for _ in range(3):
            found = await source.read()
            assert (found.engine, found.reason, found.running) == ("sglang", "stats_off", None)
        await server.stop()
        with pytest.raises(SourceError) as caught:
            await source.read()
        assert caught.value.reason == "refused"
        await source.close()


@pytest.mark.parametrize("broken", [NEVER, CUT, Reply(500), Reply(200, "[]", "application/json")])
async def test_a_snapshot_that_does_not_come_costs_no_figure_and_is_not_asked_for_again_soon(
    broken: Handler,
) -> None:
    clock = Clock()
    async with serve(sglang(metrics=Reply(200, METRICS), v1_loads=broken)) as server:
        source = EngineSource(EngineTarget(server.url), monotonic=clock, deadline_s=1.2)
        started = time.monotonic()
        for _ in range(4):
            assert (await source.read()).running == 8
            clock.now += 1
        assert time.monotonic() - started < 2.5
        assert server.count("/v1/loads") == (4 if broken == Reply(200, "[]", "application/json") else 1)
        clock.now += 10
        server.routes["/v1/loads"] = json_reply(LOADS)
        assert (await source.read()).max_num_seqs == 8
        await source.close()


async def test_without_metrics_a_dead_server_is_seen_though_the_snapshot_rests() -> None:
    clock = Clock()
    async with serve(sglang(v1_loads=json_reply(LOADS))) as server:
        source = EngineSource(EngineTarget(server.url), monotonic=clock)
        await source.read()
        await server.stop()
        for _ in range(2):
            with pytest.raises(SourceError) as caught:
                await source.read()
            assert caught.value.reason == "refused"
        await source.close()


# ---------------------------------------------------------------------------------------- pause


@pytest.mark.parametrize(
    ("ready", "ping", "paused"),
    [(200, 200, False), (503, 200, True), (503, 503, None), (404, 200, None)],
    ids=["serving", "paused", "draining", "before-0.5.20"],
)
async def test_a_paused_sglang_refuses_ready_and_answers_ping(
    ready: int, ping: int, paused: bool | None
) -> None:
    routes = sglang(metrics=Reply(200, METRICS), ready=Reply(ready), ping=Reply(ping))
    found = await one(routes)
    assert found.paused is paused
    assert ("paused" in {gap.field for gap in found.missing}) is (paused is None)


def loads_of(age_s: float) -> Reply:
    """A snapshot that the scheduler wrote so long ago."""
    at = 1_700_000_000.0
    asked = dt.datetime.fromtimestamp(at, dt.timezone.utc).isoformat()
    return json_reply(
        {**LOADS, "timestamp": asked, "loads": [{**LOADS["loads"][0], "timestamp": at - age_s}]}
    )


@pytest.mark.parametrize(
    ("ping", "age_s", "draining"),
    [(503, 0.4, True), (503, 21.0, False), (200, 0.4, False)],
    ids=["told-to-stop", "unhealthy-by-its-hang", "paused"],
)
async def test_an_sglang_that_turns_unready_drains_only_where_nothing_else_explains_it(
    ping: int, age_s: float, draining: bool
) -> None:
    clock = Clock()
    routes = sglang(metrics=Reply(200, METRICS), v1_loads=loads_of(0.4), ready=Reply(200), ping=Reply(200))
    async with serve(routes) as server:
        source = EngineSource(EngineTarget(server.url), monotonic=clock)
        assert (await source.read()).draining is False
        server.routes |= {"/ready": Reply(503), "/ping": Reply(ping), "/v1/loads": loads_of(age_s)}
        clock.now += 2
        assert (await source.read()).draining is draining
        server.routes["/v1/loads"] = loads_of(0.0)  # its hang is over, and it says no other thing
        clock.now += 2
        assert (await source.read()).draining is draining
        server.routes["/ready"] = Reply(200)
        clock.now += 2
        assert (await source.read()).draining is False
        await source.close()


async def test_an_sglang_that_was_never_seen_ready_may_start_as_well() -> None:
    found = await one(
        sglang(metrics=Reply(200, METRICS), ready=Reply(503), ping=Reply(503), v1_loads=loads_of(0))
    )
    assert found.draining is None


async def test_readiness_is_looked_at_every_other_second_and_counted() -> None:
    clock = Clock()
    async with serve(sglang(metrics=Reply(200, METRICS), ready=Reply(200))) as server:
        source = EngineSource(EngineTarget(server.url), monotonic=clock)
        for _ in range(100):
            found = await source.read()
            clock.now += 1
        assert server.count("/ready") == 50
        assert (found.health_looks, server.count("/ping"), server.count("/health")) == (30, 0, 0)
        await source.close()


async def test_a_paused_vllm_is_seen_in_development_mode_and_asked_no_more_where_it_is_not() -> None:
    clock = Clock()
    body = text("vllm-0.32/metrics-paused.txt")
    async with serve({**vllm(body), "/is_paused": json_reply({"is_paused": True})}) as server:
        source = EngineSource(EngineTarget(server.url), monotonic=clock)
        for _ in range(10):
            found = await source.read()
            clock.now += 1
        assert (found.paused, found.running, found.waiting) == (True, 0, 0)
        assert server.count("/is_paused") == 2
        await source.close()
    async with serve(vllm(body)) as server:
        source = EngineSource(EngineTarget(server.url), monotonic=clock)
        for _ in range(30):
            found = await source.read()
            clock.now += 1
        assert (found.paused, server.count("/is_paused")) == (None, 1)
        await source.close()


async def test_a_scrape_that_took_all_the_time_leaves_none_to_ask_beside_it() -> None:
    async with serve(sglang(metrics=Reply(200, METRICS), v1_loads=json_reply(LOADS))) as server:
        source = EngineSource(EngineTarget(server.url), deadline_s=0.3)
        found = await source.read()
        assert (found.running, found.max_num_seqs, server.count("/v1/loads")) == (8, None, 0)
        await source.close()
