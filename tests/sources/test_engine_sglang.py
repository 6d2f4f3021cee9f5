from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.captures import sglang_series, text
from tui.sources.engines.loads import Loads, from_get_load, from_loads, from_server_info
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.sglang import SGLANG

if TYPE_CHECKING:
    from tui.model.readings import EngineReading

LOADS = json.loads(text("sglang-0.5.23/v1-loads-load.json"))


def loads(*ranks: dict[str, object], timestamp: str = "2026-11-30T11:42:26.000000+00:00") -> Loads:
    return from_loads({"timestamp": timestamp, "version": "0.5.23", "loads": list(ranks)})


def rank(number: int = 0, /, **figures: object) -> dict[str, object]:
    known: dict[str, object] = {"dp_rank": number, "num_running_reqs": 0, "num_waiting_reqs": 0}
    return known | figures


def reader() -> EngineReader:
    return EngineReader(SGLANG, "http://127.0.0.1:30000")


def gap(reading: EngineReading, field: str) -> tuple[str, str]:
    (found,) = [gap for gap in reading.missing if gap.field == field]
    return found.why, found.enable


# ---------------------------------------------------------------------------------------- captures


@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        ("idle", {"running": 0, "waiting": 0, "kv_usage": 0.0, "kv_capacity_tokens": 8192, "gen_tok_s": 0.0}),
        (
            "load",
            {"running": 8, "waiting": 16, "kv_usage": 0.08, "gen_tok_s": pytest.approx(153.08, abs=0.01)},
        ),
        (
            "kvfull",
            {"running": 4, "waiting": 1, "kv_usage": 0.82, "kv_capacity_tokens": 1536, "preempted": 1},
        ),
        (
            "after-load",
            {"running": 0, "gen_tok_s": 0.0, "spec_accept_ratio": None, "spec_accept_length": None},
        ),
        ("after-kvfull", {"running": 0, "waiting": 0, "gen_tok_s": 0.0}),
    ],
)
def test_captures(capture: str, expected: dict[str, object]) -> None:
    found = reader().feed(text(f"sglang-0.5.23/metrics-{capture}.txt"), 0.0)
    assert {field: getattr(found, field) for field in expected} == expected
    assert (found.engine, found.model, found.reason) == ("sglang", "tiny-llama", None)


def test_the_recorded_snapshot_is_read_exactly() -> None:
    found = reader().feed(None, 0.0, aside=from_loads(LOADS).samples, off=SGLANG.off)
    assert (found.running, found.waiting, found.kv_usage) == (8, 16, 0.0902)
    assert (found.kv_capacity_tokens, found.max_num_seqs, found.gen_tok_s) == (8192, 8, 153.08)
    assert found.since_last_step_s == pytest.approx(0.493, abs=0.001)
    assert from_loads(LOADS).version == "0.5.23"


# ---------------------------------------------------------------------------------------- its habits


def test_a_second_of_load_is_seen_at_once_though_the_gauges_lag() -> None:
    """Gauges come every 40 steps: at the second scrape they still say that one request runs."""
    engine = reader()
    alone, both = [], []
    for scrape in sglang_series():
        aside = loads(rank(**scrape.loads)).samples
        if scrape.phase == "load":
            alone.append(reader().feed(scrape.body, scrape.t).running)
            both.append(engine.feed(scrape.body, scrape.t, aside=aside).running)
    assert alone == [0, 1, 6, 0, 0]
    assert both == [0, 6, 6, 0, 6]


def test_throughput_is_counted_not_the_gauge_that_stays() -> None:
    engine = reader()
    found = {}
    for scrape in sglang_series():
        found[scrape.phase] = engine.feed(scrape.body, scrape.t)
    assert found["hang"].gen_tok_s == 0.0  # the gauge says 67
    assert found["recovered"].gen_tok_s is not None
    assert found["recovered"].restarts == 1


@pytest.mark.parametrize(
    ("running", "said", "expected"),
    [(0, 79.5, 0.0), (2, 79.5, 79.5), (2, 0.0, 0.0)],
    ids=["idle", "busy", "prefill"],
)
def test_without_a_counter_the_gauge_counts_while_something_runs(
    running: int, said: float, expected: float
) -> None:
    body = f"sglang:num_running_reqs {running}\nsglang:num_queue_reqs 0\nsglang:gen_throughput {said}\n"
    assert reader().feed(body, 0.0).gen_tok_s == expected


def test_without_metrics_a_hang_stops_the_gauge() -> None:
    engine = reader()
    for at in range(4):
        aside = loads(rank(num_running_reqs=2, gen_throughput=81.5, timestamp=1796038945.6)).samples
        found = engine.feed(None, float(at), aside=aside)
    assert (found.gen_tok_s, found.stalled_s, found.stalled_scrapes) == (0.0, 3.0, 4)


def test_a_hang_is_followed_by_snapshot_and_tokens_and_ends_with_it() -> None:
    engine = reader()
    worst = {"hang": 0.0, "resume": 0.0}
    for scrape in sglang_series():
        written = round(scrape.t - scrape.age_s)  # recorded to the hundredth
        aside = loads(rank(timestamp=written, **scrape.loads)).samples
        found = engine.feed(scrape.body, scrape.t, aside=aside)
        if scrape.phase in worst:
            worst[scrape.phase] = found.stalled_s or 0.0
    assert worst["hang"] == pytest.approx(29.0, abs=0.1)
    assert worst["resume"] == 0.0


def test_a_snapshot_that_is_not_to_be_had_is_no_progress() -> None:
    engine = reader()
    body = 'sglang:num_running_reqs 2\nsglang:num_queue_reqs 0\nsglang:realtime_tokens_total{mode="decode"} 100\n'
    snapshot = loads(rank(num_running_reqs=2, timestamp=1796038945.6)).samples
    for at, aside in enumerate((snapshot, {}, snapshot, {}, snapshot)):
        found = engine.feed(body, float(at), aside=aside)
    assert (found.stalled_s, found.stalled_scrapes) == (4.0, 5)
    assert found.progress == 100  # tokens, never the time of the snapshot


def test_the_age_of_the_snapshot_is_by_the_servers_own_clock() -> None:
    stamp = 1796038940.0  # 11:42:20 there, whatever time it is here
    found = reader().feed(None, 0.0, aside=loads(rank(num_running_reqs=1, timestamp=stamp)).samples)
    assert found.since_last_step_s == pytest.approx(6.0)


def test_a_first_step_that_takes_long_is_work_though_no_gauge_shows_it() -> None:
    engine = reader()
    for at in range(5):
        stamp = f"2026-11-30T11:42:{26 + at}.000000+00:00"
        aside = loads(rank(num_running_reqs=0, timestamp=1796038943.0), timestamp=stamp).samples
        found = engine.feed(None, float(at), aside=aside)
    assert (found.running, found.since_last_step_s) == (0, 7.0)
    assert (found.stalled_s, found.stalled_scrapes) == (4.0, 5)


def test_the_first_retraction_ever_counts_though_its_family_is_new() -> None:
    body = 'sglang:num_running_reqs 2\nsglang:num_queue_reqs 0\nsglang:realtime_tokens_total{mode="decode"} 100\n'
    engine = reader()
    before = [engine.feed(body, 0.0), engine.feed(body, 1.0)][-1]
    after = engine.feed(body + "sglang:num_retracted_requests_total 3\n", 2.0)
    assert (before.preemptions_per_s, after.preemptions_per_s) == (0.0, 1.5)


def test_a_histogram_that_appears_with_its_first_request_is_of_that_request() -> None:
    gauges = "sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\nsglang:prompt_tokens_total 5\n"
    ttft = "".join(
        f'sglang:time_to_first_token_seconds_bucket{{le="{le}"}} {n}\n'
        for le, n in (("0.1", 0), ("0.2", 4), ("+Inf", 4))
    )
    engine = reader()
    for at in (0.0, 1.0):
        engine.feed(gauges, at)
    assert engine.feed(gauges + ttft, 2.0).ttft_p50_s == pytest.approx(0.15)


def test_hits_of_running_requests_stand_in_while_none_ends() -> None:
    def body(computed: int, cached: int) -> str:
        mode = "sglang:realtime_tokens_total{mode="
        return (
            "sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\nsglang:num_grammar_queue_reqs 0\n"
            f'sglang:prompt_tokens_total 50\n{mode}"prefill_compute"}} {computed}\n{mode}"prefill_cache"}} {cached}\n'
        )

    engine = reader()
    engine.feed(body(100, 100), 0.0)
    assert engine.feed(body(130, 190), 1.0).prefix_hit_ratio == 0.75


# ---------------------------------------------------------------------------------------- without metrics


def test_without_metrics_the_rest_names_the_flag() -> None:
    engine = reader()
    found = engine.feed(None, 0.0, aside=from_loads(LOADS).samples, off=SGLANG.off)
    assert found.reason is None
    assert gap(found, "ttft_p95_s") == ("no /metrics", "restart with --enable-metrics")
    assert gap(found, "preemptions_per_s")[1] == "restart with --enable-metrics"
    assert gap(found, "started_at") == ("SGLang does not say when it started", "")


def test_without_metrics_and_snapshot_its_statistics_are_off() -> None:
    found = reader().feed(None, 0.0)
    assert (found.reason, found.running) == ("stats_off", None)
    assert {gap.enable for gap in found.missing if gap.field == "running"} == {
        "restart with --enable-metrics"
    }


def test_the_older_route_tells_requests_only() -> None:
    old = from_get_load([{"dp_rank": 1, "num_reqs": 7, "num_waiting_reqs": 3, "num_tokens": 900}])
    info = from_server_info(
        {"version": "0.5.3", "max_total_num_tokens": 4096, "max_running_requests": None,
         "internal_states": [{"effective_max_running_requests_per_dp": 16}]}
    )  # fmt: skip
    found = reader().feed(None, 0.0, aside={**info.samples, **old.samples})
    assert (found.running, found.waiting, found.kv_usage) == (4, 3, None)
    assert (found.kv_capacity_tokens, found.max_num_seqs) == (4096, 16)
    assert info.version == "0.5.3"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"loads": {}},
        {"loads": [None, 3, []]},
        {"loads": "x", "version": 3},
        {"timestamp": "noon", "loads": []},
    ],
)
def test_an_answer_of_another_form_tells_nothing(answer: object) -> None:
    assert from_loads(answer).samples == {}
    assert from_get_load(answer).samples == {}


def test_odd_figures_are_unknown() -> None:
    odd = rank(
        num_running_reqs=True, num_waiting_reqs=float("nan"), token_usage="0.5", max_total_num_tokens=10**400
    )
    found = reader().feed(
        None, 0.0, aside=loads(odd | {"queues": [], "timestamp": None, "dp_rank": -3}).samples
    )
    assert (found.running, found.waiting, found.kv_usage, found.kv_capacity_tokens) == (
        None,
        None,
        None,
        None,
    )


# ---------------------------------------------------------------------------------------- ranks


def labelled(name: str, value: float, **labels: object) -> str:
    inner = ",".join(f'{key}="{label}"' for key, label in labels.items())
    return f"sglang:{name}{{{inner}}} {value}\n"


def test_of_a_tensor_parallel_group_only_the_lowest_counts() -> None:
    engine = reader()
    for at, tokens in ((0.0, 100), (1.0, 150)):
        body = "".join(
            labelled("num_running_reqs", 5, tp_rank=tp, pp_rank=0, moe_ep_rank=0)
            + labelled("num_queue_reqs", 2, tp_rank=tp, pp_rank=0, moe_ep_rank=0)
            + labelled("token_usage", 0.5, tp_rank=tp, pp_rank=0, moe_ep_rank=0)
            + labelled("max_total_num_tokens", 1000, tp_rank=tp, pp_rank=0, moe_ep_rank=0)
            + labelled("realtime_tokens_total", tokens, tp_rank=tp, pp_rank=0, moe_ep_rank=0, mode="decode")
            for tp in (10, 1, 0, 2)
        )
        found = engine.feed(body, at)
    assert (found.running, found.waiting, found.kv_usage, found.gen_tok_s) == (5, 2, 0.5, 50)
    assert found.kv_capacity_tokens == 1000
    assert len(found.ranks) == 1


def test_data_parallel_ranks_are_summed_though_each_has_its_own_tensor_rank() -> None:
    """With attention data parallelism rank 1 reports as tensor rank 2."""
    engine = reader()
    for at in (0.0, 1.0):
        body = "".join(
            labelled("num_running_reqs", 3 + dp, dp_rank=dp, tp_rank=2 * dp + tp)
            + labelled("num_queue_reqs", dp, dp_rank=dp, tp_rank=2 * dp + tp)
            + labelled("token_usage", 0.2 + 0.7 * dp, dp_rank=dp, tp_rank=2 * dp + tp)
            + labelled(
                "realtime_tokens_total", 100 * at * (dp + 1), dp_rank=dp, tp_rank=2 * dp + tp, mode="decode"
            )
            for dp in (0, 1)
            for tp in (0, 1)
        )
        found = engine.feed(body, at)
    assert (found.running, found.waiting, found.gen_tok_s) == (7, 1, 300)
    assert found.kv_usage == pytest.approx(0.55)
    assert found.kv_usage_max == pytest.approx(0.9)
    assert [(r.rank, r.running, r.waiting, r.kv_usage) for r in found.ranks] == [
        ("0", 3, 0, 0.2),
        ("1", 4, 1, pytest.approx(0.9)),
    ]


def test_the_worst_rank_of_the_snapshot_is_kept_and_the_stalled_one_named() -> None:
    engine = reader()
    for at in range(6):
        moving = rank(
            0, num_running_reqs=4, token_usage=0.1, timestamp=1796038940.0 + at, max_running_requests=8
        )
        stuck = rank(1, num_running_reqs=2, token_usage=0.98, timestamp=1796038940.0, max_running_requests=8)
        found = engine.feed(None, float(at), aside=loads(moving, stuck).samples)
    assert (found.running, found.kv_usage_max, found.max_num_seqs) == (6, 0.98, 8)
    assert [r.stalled_s for r in found.ranks] == [0.0, 5.0]
    assert found.stalled_s == 5.0


def test_with_priorities_the_total_counts_and_requests_of_each_are_added() -> None:
    engine = reader()
    for at, done in ((0.0, 10), (1.0, 30)):
        body = (
            labelled("num_running_reqs", 5, priority="")
            + labelled("num_running_reqs", 3, priority="0")
            + labelled("num_running_reqs", 2, priority="1")
            + labelled("num_queue_reqs", 4, priority="")
            + labelled("num_queue_reqs", 4, priority="1")
            + labelled("num_requests_total", done, priority="0")
            + labelled("num_requests_total", done, priority="1")
        )
        found = engine.feed(body, at)
    assert (found.running, found.waiting, found.req_s) == (5, 4, 40)


def test_a_gauge_of_dead_processes_is_not_added() -> None:
    body = (
        "sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\n"
        + labelled("num_retracted_reqs", 1, pid="11")
        + labelled("num_retracted_reqs", 2, pid="12")
    )
    assert reader().feed(body, 0.0).preempted == 2


def test_all_queues_wait_and_only_those_that_hold_something_are_told() -> None:
    snapshot = rank(
        num_waiting_reqs=9,
        queues={"waiting": 4, "grammar": 2, "paused": 0, "retracted": 1},
        disaggregation={"mode": "decode", "decode_prealloc_queue_reqs": 3, "decode_transfer_queue_reqs": 0},
    )
    found = reader().feed(None, 0.0, aside=loads(snapshot).samples)
    assert found.waiting == 9
    assert found.waiting_by_reason == {"queue": 4, "grammar": 2, "decode_prealloc": 3}
    assert found.preempted == 1


def test_a_queue_that_is_lost_makes_the_sum_unknown() -> None:
    found = reader().feed("sglang:num_running_reqs 1\nsglang:num_grammar_queue_reqs 0\n", 0.0)
    assert found.waiting is None
    assert gap(found, "waiting")[0] == "sglang:num_queue_reqs is not in /metrics"


def test_codes_are_told_apart() -> None:
    def body(ok: int, full: int, many: int, broken: int) -> str:
        codes = {"200": ok, "503": full, "429": many, "500": broken}
        answers = "".join(
            labelled("http_responses_total", n, endpoint="/v1/completions", method="POST", status_code=code)
            for code, n in codes.items()
        )
        health = labelled("http_responses_total", 500, endpoint="/health", method="GET", status_code="503")
        return f"sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\nsglang:num_requests_total {ok}\n{answers}{health}"

    engine = reader()
    engine.feed(body(0, 0, 0, 0), 0.0)
    found = engine.feed(body(6, 3, 5, 1), 1.0)
    assert (found.error_ratio, found.http_503_ratio) == (0.4, 0.3)
    assert found.http_429_ratio == pytest.approx(5 / 15)
