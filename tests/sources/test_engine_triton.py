from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.captures import text
from tests.support.servers import NEVER, Reply, Server, json_reply, serve
from tui.model.settings import EngineTarget
from tui.model.status import SourceError
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.source import EngineSource
from tui.sources.engines.triton import TRITON

if TYPE_CHECKING:
    from tests.support.servers import Handler
    from tui.model.readings import EngineReading

IDENTITY: dict[str, Handler] = {"/v2": json_reply({"name": "triton", "version": "2.51.0"})}


def backend(
    *,
    waiting: float | None = 3,
    iteration: int = 100,
    fraction: float | None = 0.25,
    success: int = 10,
    failed: int = 0,
    pending: int = 0,
) -> str:
    """What the TensorRT-LLM backend's documentation shows, with an ensemble around it."""
    who = 'model="tensorrt_llm",version="1"'
    requests: dict[str, float] = {"context": 1, "scheduled": 2, "max": 512, "active": 5}
    if waiting is not None:
        requests["waiting"] = waiting
    blocks = {"max": 6239.0, "used": 1561.0, "free": 4678.0, "tokens_per": 64.0}
    if fraction is not None:
        blocks["fraction"] = fraction
    lines = [
        *(f'nv_trt_llm_request_metrics{{{who},request_type="{kind}"}} {n}' for kind, n in requests.items()),
        f'nv_trt_llm_runtime_memory_metrics{{{who},memory_type="gpu"}} 1610236',
        *(
            f'nv_trt_llm_kv_cache_block_metrics{{{who},kv_cache_block_type="{kind}"}} {n}'
            for kind, n in blocks.items()
        ),
        f'nv_trt_llm_general_metrics{{{who},general_type="iteration_counter"}} {iteration}',
        f'nv_trt_llm_general_metrics{{{who},general_type="timestamp"}} 1700074049',
    ]
    for model in ("ensemble", "preprocessing", "tensorrt_llm", "postprocessing"):
        of = f'model="{model}",version="1"'
        lines += [
            f"nv_inference_request_success{{{of}}} {success}",
            f"nv_inference_request_duration_us{{{of}}} {success * 500_000}",
            f"nv_inference_queue_duration_us{{{of}}} {success * 1000}",
            f"nv_inference_pending_request_count{{{of}}} {pending if model == 'preprocessing' else 0}",
        ]
        reason = {"ensemble": "OTHER", "tensorrt_llm": "BACKEND"}.get(model)
        if reason is not None:
            lines.append(f'nv_inference_request_failure{{{of},reason="{reason}"}} {failed}')
    return "\n".join(lines) + "\n"


def feed(*scrapes: str, inner: tuple[str, ...] = ()) -> EngineReading:
    engine = EngineReader(TRITON, "http://127.0.0.1:8000")
    return [engine.feed(body, float(at), inner=inner) for at, body in enumerate(scrapes)][-1]


# ---------------------------------------------------------------------------------------- TensorRT-LLM


def test_the_backend_is_read_exactly() -> None:
    found = feed(backend(pending=2))
    assert (found.running, found.waiting) == (2, 5)
    assert found.waiting_by_reason == {"executor": 3, "triton": 2}
    assert (found.kv_usage, found.kv_usage_max, found.kv_capacity_tokens) == (0.25, 0.25, 6239 * 64)
    assert (found.max_num_seqs, found.model, found.engine) == (512, "tensorrt_llm", "triton")


def test_its_step_counter_is_the_heartbeat() -> None:
    assert feed(*(backend(iteration=100 + at) for at in range(4))).stalled_s == 0.0
    hung = feed(*(backend() for _ in range(6)))
    assert (hung.stalled_s, hung.stalled_scrapes, hung.since_last_step_s) == (5.0, 6, 5.0)


def test_a_request_that_passes_four_models_is_one() -> None:
    found = feed(backend(success=10), backend(success=18, failed=2))
    assert found.req_s == 8
    assert found.error_ratio == pytest.approx(0.2)
    assert found.e2e_mean_s == pytest.approx(0.5)
    assert found.finish_reasons == {"success": 8, "BACKEND": 2}


def test_its_queue_time_is_not_told_since_it_lacks_the_executors() -> None:
    assert feed(backend(), backend(success=20)).queue_mean_s is None


def test_without_the_fraction_blocks_tell_the_usage() -> None:
    assert feed(backend(fraction=None)).kv_usage == pytest.approx(1561 / 6239)


def test_an_older_backend_that_does_not_tell_who_waits_leaves_it_unknown() -> None:
    found = feed(backend(waiting=None))
    assert (found.waiting, found.running) == (None, 2)


# ---------------------------------------------------------------------------------------- any model


@pytest.mark.parametrize("capture", ["idle", "queue", "after-errors", "after-stub-kill"])
def test_captures(capture: str) -> None:
    found = feed(text(f"triton-2.51/metrics-{capture}.txt"))
    assert (found.model, found.waiting, found.running, found.kv_usage) == (
        "slow",
        12 if capture == "queue" else 0,
        None,
        None,
    )
    assert found.since_last_step_s is None
    why = {gap.field: gap for gap in found.missing}
    assert why["ttft_p95_s"].enable == "--metrics-config histogram_latencies=true, decoupled models"
    assert why["gen_tok_s"].why == "Triton does not count tokens"


def test_durations_are_means_of_the_window_in_seconds() -> None:
    found = feed(text("triton-2.51/metrics-idle.txt"), text("triton-2.51/metrics-queue.txt"))
    assert found.req_s == 9
    assert found.e2e_mean_s == pytest.approx(12119381e-6 / 9)
    assert found.queue_mean_s == pytest.approx(4028408e-6 / 9)
    assert found.error_ratio == pytest.approx(0.1)
    assert found.finish_reasons == {"success": 9, "OTHER": 0, "CANCELED": 0, "BACKEND": 1}
    assert found.rejections == {"REJECTED": 0}


def test_milliseconds_and_summaries() -> None:
    def body(first: int) -> str:
        of = 'model="llm",version="1"'
        buckets = "".join(
            f'nv_inference_first_response_histogram_ms_bucket{{{of},le="{le}"}} {first if n else 0}\n'
            for le, n in (("100", 0), ("500", 1), ("+Inf", 1))
        )
        return (
            f"nv_inference_request_success{{{of}}} {first}\n{buckets}"
            f"nv_inference_first_response_histogram_ms_sum{{{of}}} {first * 300}\n"
            f'nv_inference_request_summary_us{{{of},quantile="0.95"}} 1500000\n'
            f'nv_inference_request_summary_us{{{of},quantile="0.99"}} 9000000\n'
            f'nv_inference_queue_summary_us{{{of},quantile="0.95"}} 20000\n'
        )

    found = feed(body(0), body(10))
    assert found.ttft_p50_s == pytest.approx(0.3)
    assert found.ttft_mean_s == pytest.approx(0.3)
    assert (found.e2e_p95_s, found.queue_p95_s) == (1.5, 0.02)


def test_models_are_ranks_and_named_together() -> None:
    body = "".join(
        f'nv_inference_pending_request_count{{model="{name}",version="1"}} {n}\n'
        for n, name in enumerate(("a", "b", "c", "d", "e"))
    )
    found = feed(body)
    assert (found.waiting, found.model) == (10, "a, b, c +2")
    assert [(rank.rank, rank.waiting) for rank in found.ranks][-1] == ("e", 4)


def test_parts_of_an_ensemble_are_counted_where_the_request_came_in() -> None:
    def body(n: int, failed: int) -> str:
        return "".join(
            f'nv_inference_request_success{{model="{name}"}} {n}\n'
            f'nv_inference_request_failure{{model="{name}",reason="{reason}"}} {failed}\n'
            for name, reason in (("pipeline", "OTHER"), ("resize", "BACKEND"), ("net", "OTHER"))
        )

    assert feed(body(0, 0), body(6, 2), inner=("resize", "net")).req_s == 6
    assert feed(body(0, 0), body(6, 2), inner=("resize", "net")).error_ratio == 0.25


# ---------------------------------------------------------------------------------------- its ports


async def two_ports(server: Server, metrics: Server) -> None:
    """Metrics two ports above HTTP, as Triton's defaults have it."""
    for port in range(20_011, 20_211, 7):
        try:
            await server.start(port)
        except OSError:
            continue
        try:
            await metrics.start(port + 2)
        except OSError:
            await server.stop()
            continue
        return
    raise AssertionError("no two ports were free")


async def test_metrics_are_two_ports_above() -> None:
    server, metrics = (
        Server(IDENTITY),
        Server({"/metrics": Reply(200, text("triton-2.51/metrics-queue.txt"))}),
    )
    await two_ports(server, metrics)
    source = EngineSource(EngineTarget(server.url, token="planted", headers={"X-Key": "planted"}))
    found = await source.read()
    assert "planted" in str(server.requests)
    assert "planted" not in str(metrics.requests)  # nobody named that port: it may be anybody's
    assert (found.engine, found.version, found.model, found.waiting) == ("triton", "2.51.0", "slow", 12)
    assert server.count("/metrics") == 0
    assert {gap.field for gap in found.missing}.isdisjoint({"model", "version", "waiting"})
    await source.close()
    await server.stop()
    await metrics.stop()


async def test_a_closed_metrics_port_is_no_dead_engine() -> None:
    server, metrics = Server(IDENTITY), Server({})
    await two_ports(server, metrics)
    await metrics.stop()
    source = EngineSource(EngineTarget(server.url))
    for _ in range(2):
        found = await source.read()
        assert (found.engine, found.reason, found.waiting) == ("triton", "stats_off", None)
        assert f"nothing listens at http://127.0.0.1:{server.port + 2}" in found.detail
    assert {gap.enable for gap in found.missing if gap.field == "waiting"} == {
        "name the metrics port: --metrics-url or metrics_url"
    }
    await server.stop()
    with pytest.raises(SourceError) as caught:
        await source.read()
    assert caught.value.reason == "refused"
    await source.close()


async def test_ensembles_are_asked_for_once() -> None:
    body = "".join(
        f'nv_inference_request_success{{model="{name}"}} 1\n' for name in ("pipe/line", "net", "other")
    )
    steps = {"platform": "ensemble", "ensemble_scheduling": {"step": [{"model_name": "net"}, 3]}}
    routes = {
        **IDENTITY,
        "/v2/models/pipe%2Fline/config": json_reply(steps),
        "/v2/models/net/config": json_reply({"platform": "onnxruntime"}),
        "/v2/models/other/config": json_reply({"error": "restricted"}, 403),
    }
    async with serve(routes) as server, serve({"/m": Reply(200, body)}) as metrics:
        source = EngineSource(EngineTarget(server.url, metrics_url=f"{metrics.url}/m"))
        for _ in range(4):
            await source.read()
        asked = [request.path for request in server.requests if "config" in request.path]
        assert sorted(asked) == sorted(path for path in routes if path.endswith("/config"))
        assert source._asides is not None
        assert source._asides._parts == {"pipe/line": ("net",), "net": (), "other": ()}
        await source.close()


async def test_metrics_that_never_come_are_a_timeout() -> None:
    async with serve(IDENTITY) as server, serve({"*": NEVER}) as metrics:
        source = EngineSource(EngineTarget(server.url, metrics_url=f"{metrics.url}/m"), deadline_s=0.4)
        with pytest.raises(SourceError) as caught:
            await source.read()
        assert caught.value.reason == "timeout"
        await source.close()
