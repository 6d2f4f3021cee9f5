from __future__ import annotations

import dataclasses

import pytest

from tests.support.captures import text
from tests.support.vllm_text import Rank, exposition
from tui.model.readings import EngineReading, RankReading
from tui.model.status import SourceError
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.vllm import VLLM


def reader() -> EngineReader:
    return EngineReader(VLLM, "http://127.0.0.1:8000")


def feed(*scrapes: tuple[float, str]) -> EngineReading:
    engine = reader()
    return [engine.feed(body, at) for at, body in scrapes][-1]


def why(reading: EngineReading, field: str) -> str:
    (found,) = [gap for gap in reading.missing if gap.field == field]
    return found.why


# ---------------------------------------------------------------------------------------- one scrape


def test_the_capture_under_load_is_read_exactly() -> None:
    found = feed((0.0, text("vllm-0.32/metrics-load.txt")))
    assert (found.running, found.waiting, found.kv_usage) == (8.0, 16.0, 0.25396825396825395)
    assert found.kv_usage_max == found.kv_usage
    assert found.waiting_by_reason == {"capacity": 16.0, "deferred": 0.0}
    assert found.ranks == (RankReading("0", 8.0, 16.0, 0.25396825396825395, 0.0),)
    assert (found.engine, found.model) == ("vllm", "tiny-llama")
    assert found.kv_capacity_tokens == 8192.0
    assert found.asleep is False
    assert found.started_at == 1.79603815051e09


def test_one_scrape_has_no_rates_no_percentiles_and_no_progress() -> None:
    found = feed((0.0, text("vllm-0.32/metrics-load.txt")))
    for field in (
        "gen_tok_s",
        "req_s",
        "ttft_p95_s",
        "itl_p50_s",
        "error_ratio",
        "window_s",
        "since_last_step_s",
    ):
        assert getattr(found, field) is None
    assert (found.stalled_s, found.stalled_scrapes) == (0.0, 0)
    assert why(found, "ttft_p95_s") == "takes a second scrape"


@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        ("kvfull", {"running": 6.0, "waiting": 7.0, "kv_usage": 1.0, "kv_capacity_tokens": 3072.0}),
        ("asleep", {"running": 0.0, "asleep": True, "kv_usage": 0.0}),
        ("dp2", {"running": 0.0, "kv_capacity_tokens": 16384.0, "started_at": None, "asleep": False}),
        ("after-errors", {"running": 0.0, "waiting": 0.0, "model": "tiny-llama"}),
    ],
)
def test_captures(capture: str, expected: dict[str, object]) -> None:
    found = feed((0.0, text(f"vllm-0.32/metrics-{capture}.txt")))
    assert {field: getattr(found, field) for field in expected} == expected


def test_every_null_figure_says_why() -> None:
    found = feed((0.0, text("vllm-0.32/metrics-dp2.txt")))
    assert why(found, "max_num_seqs") == "not in vLLM's metrics"
    assert why(found, "started_at") == "process_start_time_seconds is not in /metrics"
    assert "5xx" in why(found, "http_503_ratio")
    gaps = {gap.field for gap in found.missing}
    figures = {field.name for field in dataclasses.fields(found)} - {
        "reason",
        "version",
        "latency_window_s",
        "window_s",
    }
    nulls = {name for name in figures if getattr(found, name) is None and not name.endswith("_mean_s")}
    optional = {
        "scrape_s",
        "scrape_every_s",
        "preempted",
        "spec_accept_ratio",
        "spec_accept_length",
        "draining",
    }
    further = {"itl_p99_s", "tpot_p99_s", "e2e_p50_s", "e2e_p99_s", "queue_p50_s", "queue_p99_s"}
    assert nulls - optional - further == gaps


def test_without_log_stats_everything_is_unknown_and_the_flag_is_named() -> None:
    found = feed((0.0, text("vllm-0.32/metrics-disable-log-stats.txt")))
    assert (found.reason, found.running, found.waiting, found.kv_usage) == ("stats_off", None, None, None)
    assert {gap.enable for gap in found.missing if gap.field == "running"} == {
        "restart without --disable-log-stats"
    }
    assert found.started_at is not None
    assert len(found.missing) >= 20


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "empty"),
        ("\n# HELP x\n", "empty"),
        ("<html>\n<body>login</body>\n", "not_metrics"),
        ('{"detail": "Not Found"}', "not_metrics"),
        ("".join(f'vllm:num_requests_running{{id="{n}"}} 1\n' for n in range(20_000)), "too_large"),
    ],
    ids=["nothing", "comments", "html", "json", "explosion"],
)
def test_what_is_no_scrape(body: str, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        feed((0.0, body))
    assert caught.value.reason == reason


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e400", "-Inf"])
def test_a_gauge_that_is_no_number_is_unknown(value: str) -> None:
    body = exposition(Rank(running=3)).replace(
        '_running{engine="0",model_name="llama"} 3', f"_running {value}"
    )
    found = feed((0.0, body))
    assert found.running is None
    assert why(found, "running") == "vllm:num_requests_running has no usable value"
    assert found.waiting == 0.0


def test_old_names_underscores_and_pid_duplicates() -> None:
    body = (
        'vllm_num_requests_running{gpu="0"} 2\nvllm_num_requests_waiting 1\n'
        'vllm_gpu_cache_usage_perc{pid="1"} 0.0\nvllm_gpu_cache_usage_perc{pid="2"} 0.7\n'
        'vllm:cache_config{num_gpu_blocks="100",block_size="16"} 1\n'
    )
    found = feed((0.0, body))
    assert (found.running, found.waiting, found.kv_usage, found.kv_capacity_tokens) == (2, 1, 0.7, 1600)
    assert found.model is None


def test_both_old_and_new_names_are_not_added() -> None:
    both = exposition(Rank(kv=0.5)) + 'vllm:gpu_cache_usage_perc{engine="0",model_name="llama"} 0.5\n'
    assert feed((0.0, both)).kv_usage == 0.5


def test_a_hostile_model_name_and_rank_are_made_safe() -> None:
    name = "a[red]b[/x]\x1b[31mc\u202e" + "d" * 500
    found = feed((0.0, exposition(Rank(), model=name)))
    assert found.model is not None
    assert found.model.startswith("a[red]b[/x]cd")
    assert len(found.model) == 200


# ---------------------------------------------------------------------------------------- ranks


def test_ranks_are_summed_but_for_the_cache() -> None:
    found = feed((0.0, exposition(Rank(running=8, waiting=2, kv=1.0), Rank(running=2, kv=0.2))))
    assert (found.running, found.waiting) == (10, 2)
    assert found.kv_usage == pytest.approx(0.6)
    assert found.kv_usage_max == 1.0
    assert found.kv_capacity_tokens == 2 * 64 * 16
    assert [(rank.rank, rank.running, rank.kv_usage) for rank in found.ranks] == [
        ("0", 8, 1.0),
        ("1", 2, 0.2),
    ]
    assert found.waiting_by_reason == {"capacity": 2}


def test_ranks_are_in_the_order_of_their_numbers() -> None:
    found = feed((0.0, exposition(*(Rank(running=n) for n in range(12)))))
    assert [rank.rank for rank in found.ranks] == [str(n) for n in range(12)]


def test_the_engine_sleeps_when_every_rank_does() -> None:
    assert feed((0.0, exposition(Rank(awake=0), Rank(awake=1)))).asleep is False
    assert feed((0.0, exposition(Rank(awake=0), Rank(awake=0)))).asleep is True


# ---------------------------------------------------------------------------------------- rates


def test_rates_are_over_the_last_ten_seconds() -> None:
    engine = reader()
    for at in range(31):
        rank = Rank(
            generated=1000 + 50 * at + (1000 if at >= 25 else 0),
            prompt=7 * at,
            preemptions=at // 2,
            stop=3 * at,
        )
        found = engine.feed(exposition(rank), float(at))
    assert found.window_s == 10.0
    assert found.gen_tok_s == pytest.approx((50 * 10 + 1000) / 10)
    assert found.prompt_tok_s == pytest.approx(7)
    assert found.preemptions_per_s == pytest.approx(0.5)
    assert found.req_s == pytest.approx(3)
    assert found.latency_window_s == 30.0


def test_a_slow_cadence_uses_the_scrape_before() -> None:
    found = feed(*((at, exposition(Rank(generated=at * 5))) for at in (0.0, 30.0, 60.0)))
    assert (found.window_s, found.gen_tok_s) == (30.0, 5.0)


def test_rates_of_several_ranks_add_up() -> None:
    found = feed(
        (0.0, exposition(Rank(generated=100), Rank(generated=900))),
        (2.0, exposition(Rank(generated=120), Rank(generated=920))),
    )
    assert found.gen_tok_s == 20.0


def test_a_restart_makes_no_rate_at_all() -> None:
    engine = reader()
    busy = Rank(generated=100_000, stop=500, observed={"ttft": (0.3,) * 500})
    for at in range(5):
        engine.feed(exposition(dataclasses.replace(busy, generated=100_000 + at)), float(at))
    after = engine.feed(exposition(Rank(generated=7, observed={"ttft": (0.15,)}), started=1100.0), 5.0)
    assert (after.restarts, after.gen_tok_s, after.ttft_p95_s, after.window_s) == (1, None, None, None)
    assert after.since_last_step_s is None
    later = engine.feed(exposition(Rank(generated=27, observed={"ttft": (0.15, 0.3)}), started=1100.0), 6.0)
    assert (later.gen_tok_s, later.window_s) == (20.0, 1.0)
    assert later.ttft_p50_s == pytest.approx(0.3)


def test_a_restart_is_seen_by_its_start_time_though_no_counter_fell() -> None:
    found = feed(
        (0.0, exposition(Rank(generated=0), started=1000.0)),
        (60.0, exposition(Rank(generated=900_000), started=1050.0)),
    )
    assert (found.restarts, found.gen_tok_s, found.started_at) == (1, None, 1050.0)


def test_a_restart_is_seen_by_a_counter_that_fell_where_no_start_time_is_told() -> None:
    found = feed(
        (0.0, exposition(Rank(generated=50), started=None)),
        (1.0, exposition(Rank(generated=4), started=None)),
    )
    assert (found.restarts, found.gen_tok_s) == (1, None)


def test_a_lost_series_makes_nothing_fall_and_nothing_jump_when_it_is_back() -> None:
    def two(a: float, b: float | None) -> str:
        ranks = exposition(Rank(generated=a), Rank(generated=b or 0))
        lost = 'vllm:generation_tokens_total{engine="1"'
        return "".join(
            line + "\n" for line in ranks.split("\n")[:-1] if b is not None or not line.startswith(lost)
        )

    engine = reader()
    scrapes = [two(100, 5000), two(110, 5010), two(120, None), two(130, 5030)]
    readings = [engine.feed(body, float(at)) for at, body in enumerate(scrapes)]
    assert [reading.gen_tok_s for reading in readings] == [None, 20.0, 15.0, 20.0]
    assert readings[-1].restarts == 0


def test_a_lost_family_is_unknown_and_its_return_continues() -> None:
    def without(body: str) -> str:
        return "".join(line + "\n" for line in body.split("\n")[:-1] if "generation_tokens" not in line)

    engine = reader()
    engine.feed(exposition(Rank(generated=100)), 0.0)
    lost = engine.feed(without(exposition(Rank())), 1.0)
    assert lost.gen_tok_s is None
    assert why(lost, "gen_tok_s") == "vllm:generation_tokens_total is not in /metrics"
    assert engine.feed(exposition(Rank(generated=300)), 2.0).gen_tok_s == 100.0


def test_a_renamed_family_goes_on_without_a_jump() -> None:
    def body(hits: int, asked: int, old: bool) -> str:
        prefix = "vllm:gpu_prefix_cache" if old else "vllm:prefix_cache"
        return f"vllm:num_requests_running 1\n{prefix}_queries_total {asked}\n{prefix}_hits_total {hits}\n"

    engine = reader()
    for at in range(3):
        engine.feed(body(5000 + 10 * at, 9000 + 100 * at, old=True), float(at))
    after = [engine.feed(body(5000 + 10 * at, 9000 + 100 * at, old=False), float(at)) for at in range(3, 30)]
    assert {reading.prefix_hit_ratio for reading in after} == {0.1}
    assert after[-1].restarts == 0


def test_a_family_that_is_new_began_with_what_it_counts() -> None:
    engine = reader()
    engine.feed("vllm:num_requests_running 1\nvllm:generation_tokens_total 100\n", 0.0)
    found = engine.feed(
        "vllm:num_requests_running 1\nvllm:generation_tokens_total 200\nvllm:num_preemptions_total 3\n", 1.0
    )
    assert (found.gen_tok_s, found.preemptions_per_s) == (100, 3)


def test_a_rank_with_a_url_of_its_own_keeps_its_number() -> None:
    """Data parallel behind an external balancer: each rank has its own port and knows which one it is."""
    body = exposition(Rank(running=4, kv=0.7)).replace('engine="0"', 'engine="3"')
    found = feed((0.0, body), (1.0, body))
    assert found.ranks == (RankReading("3", 4, 0, 0.7, 1.0),)
    assert (found.running, found.kv_usage_max, found.kv_capacity_tokens) == (4, 0.7, 1024)


# ---------------------------------------------------------------------------------------- latencies


def test_percentiles_come_from_the_window_and_ranks_are_merged_first() -> None:
    old = {"ttft": (5.0,) * 1000}
    fast, slow = (*old["ttft"], *(0.05,) * 8), (*old["ttft"], *(0.15,) * 2)
    found = feed(
        (0.0, exposition(Rank(observed=old), Rank(observed=old))),
        (1.0, exposition(Rank(observed={"ttft": fast}), Rank(observed={"ttft": slow}))),
    )
    # 8 in the first bucket of one rank, 2 in the second of the other: p95 is 1.5 of the 2 into it
    assert found.ttft_p50_s == 0.1
    assert found.ttft_p95_s == pytest.approx(0.1 + 0.1 * 1.5 / 2)
    assert found.bounds == {"ttft_p50_s": "<"}
    assert found.ttft_mean_s == pytest.approx((8 * 0.05 + 2 * 0.15) / 10)
    assert found.itl_p95_s is None
    assert why(found, "itl_p95_s") == "nothing to measure in the last 1 s"


def test_a_window_of_less_than_a_second_is_not_called_none() -> None:
    found = feed((0.0, exposition()), (0.38, exposition()))
    assert why(found, "ttft_p95_s") == "nothing to measure in the last 0.4 s"


def test_a_value_past_the_last_bound_is_that_bound_and_marked() -> None:
    found = feed((0.0, exposition()), (1.0, exposition(Rank(observed={"queue": (30.0, 40.0)}))))
    assert (found.queue_p95_s, found.bounds["queue_p95_s"], found.queue_mean_s) == (0.4, ">", 35.0)


def test_latencies_are_forgotten_after_a_minute() -> None:
    engine = reader()
    engine.feed(exposition(), 0.0)
    observed = {"e2e": (0.3,)}
    readings = {at: engine.feed(exposition(Rank(observed=observed)), float(at)) for at in range(1, 70)}
    assert readings[60].e2e_p95_s is not None
    assert readings[62].e2e_p95_s is None
    assert readings[69].latency_window_s == 60.0


def test_ranks_with_other_bounds_share_only_some() -> None:
    def body(count: int) -> str:
        name = "vllm:time_to_first_token_seconds_bucket"
        lines = [f'{name}{{engine="0",le="{bound}"}} {count}' for bound in ("0.1", "0.5", "+Inf")]
        lines += [
            f'{name}{{engine="1",le="{bound}"}} {n}'
            for bound, n in (("0.5", 0), ("1", count), ("+Inf", count))
        ]
        return "\n".join(lines) + "\n"

    found = feed((0.0, body(0)), (1.0, body(10)))
    # exact at 0.5 alone: half are below, half are somewhere above
    assert (found.ttft_p50_s, found.ttft_p95_s) == (0.5, 0.5)
    assert found.bounds == {"ttft_p50_s": "<", "ttft_p95_s": ">", "ttft_p99_s": ">"}


# ---------------------------------------------------------------------------------------- ratios


def test_prefix_hits_are_of_the_window() -> None:
    found = feed(
        (0.0, exposition(Rank(asked=10_000, hit=9_000))), (1.0, exposition(Rank(asked=10_400, hit=9_100)))
    )
    assert found.prefix_hit_ratio == 0.25


def test_a_quiet_window_falls_back_to_the_longer_one() -> None:
    engine = reader()
    engine.feed(exposition(), 0.0)
    for at in range(1, 31):
        found = engine.feed(exposition(Rank(asked=100, hit=40, stop=3, error=1)), float(at))
    assert (found.prefix_hit_ratio, found.error_ratio) == (0.4, 0.25)
    assert found.req_s == 0.0


@pytest.mark.parametrize(
    ("stop", "error", "rejected", "http_5xx", "ratio"),
    [
        (0, 0, 0, 0, None),
        (10, 0, 0, 0, 0.0),
        (8, 2, 0, 0, 0.2),
        (8, 2, 0, 2, 0.2),  # the same two, counted by engine and HTTP
        (8, 0, 2, 0, 0.2),  # rejected inside a stream: an HTTP 200
        (8, 0, 0, 2, 0.2),  # never reached the engine
        (0, 0, 0, 5, 1.0),
    ],
)
def test_error_ratio(stop: int, error: int, rejected: int, http_5xx: int, ratio: float | None) -> None:
    before = exposition(http_5xx=0.1)
    after = exposition(Rank(stop=stop, error=error), rejected=rejected, http_5xx=http_5xx + 0.1)
    assert feed((0.0, before), (1.0, after)).error_ratio == (ratio if ratio is None else pytest.approx(ratio))


def test_the_first_server_error_ever_counts_though_its_series_is_new() -> None:
    family = 'http_requests_total{handler="/v1/models",method="GET",status="2xx"} 5\n'
    before, after = exposition(Rank()) + family, exposition(Rank(stop=3), http_5xx=1) + family
    assert feed((0.0, before), (1.0, after)).error_ratio == 0.25


# ---------------------------------------------------------------------------------------- the cache's maximum


def test_the_cache_maximum_is_the_worst_rank_of_thirty_seconds() -> None:
    engine = reader()
    readings = {}
    for at in range(40):
        worst = 1.0 if at == 5 else 0.3
        readings[at] = engine.feed(exposition(Rank(kv=worst), Rank(kv=0.1)), float(at))
    assert readings[35].kv_usage_max == 1.0
    assert readings[36].kv_usage_max == 0.3
    assert readings[36].kv_usage == pytest.approx(0.2)


@pytest.mark.parametrize("kv", [17.5, -0.5, 1e300])
def test_a_gauge_that_cannot_be_is_not_a_figure(kv: float) -> None:
    reading = EngineReader(VLLM, "http://x").feed(exposition(Rank(running=-3, waiting=2, kv=kv)), 0.0)
    assert reading.running is None
    assert reading.kv_usage is None
    assert reading.kv_usage_max is None
    assert reading.waiting == 2
    assert {"running", "kv_usage"} <= {gap.field for gap in reading.missing}


def test_a_full_cache_may_be_a_hair_above_one() -> None:
    reading = EngineReader(VLLM, "http://x").feed(exposition(Rank(kv=1.0000001)), 0.0)
    assert reading.kv_usage == 1.0
