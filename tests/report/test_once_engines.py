"""What ``once`` says of an engine's latencies: bounds marked, means beside them, the window stated."""

from __future__ import annotations

from typing import Any

from tests.support.vllm_text import Rank, exposition
from tui.model.readings import EngineReading, Missing
from tui.model.snapshot import EngineView, HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import Judgement
from tui.report import once_json, once_text
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.sglang import SGLANG
from tui.sources.engines.vllm import VLLM

URL = "http://127.0.0.1:8000"
FRESH = SourceStatus(SourceState.FRESH, age_s=0.1)


def snapshot(reading: EngineReading) -> HostSnapshot:
    return HostSnapshot(10.0, 1_700_000_000.0, engines=(EngineView(URL, Observed(reading, FRESH)),))


def as_json(reading: EngineReading) -> dict[str, Any]:
    (engine,) = once_json.document(snapshot(reading), Judgement())["engines"]
    assert isinstance(engine, dict)
    return engine


def as_text(reading: EngineReading) -> str:
    return once_text.render(snapshot(reading), Judgement())


def bounded() -> EngineReading:
    """TTFT below the first bound (0.1 s), queue time above the last (0.4 s), ITL inside."""
    reader = EngineReader(VLLM, URL)
    reader.feed(exposition(), 0.0)
    observed = {"ttft": (0.05, 0.07), "queue": (30.0, 40.0), "itl": (0.15, 0.15)}
    return reader.feed(exposition(Rank(running=1, stop=4, observed=observed)), 2.0)


def test_bounds_are_in_the_json_beside_value_and_exact_mean() -> None:
    engine = as_json(bounded())
    assert (engine["ttft_p95_s"], engine["bounds"]["ttft_p95_s"], engine["ttft_mean_s"]) == (0.1, "<", 0.06)
    assert (engine["queue_p95_s"], engine["bounds"]["queue_p95_s"], engine["queue_mean_s"]) == (
        0.4,
        ">",
        35.0,
    )
    assert "itl_p95_s" not in engine["bounds"]
    assert (engine["window_s"], engine["latency_window_s"]) == (2.0, 2.0)
    assert engine["finish_reasons"] == {"stop": 2.0, "error": 0.0}


def test_bounds_are_in_the_text_and_the_means_with_their_window() -> None:
    text = as_text(bounded())
    (row,) = [line for line in text.split("\n") if line.startswith("vllm")]
    assert row.split()[7:9] == ["<.10s", "0.20s"]
    assert f"{URL} percentiles of the last 2.0s, means of the same: ttft 60ms  itl 0.15s  queue 35s" in text


def test_what_would_bring_the_figures_that_verdicts_need_is_one_line() -> None:
    aside_only = EngineReader(SGLANG, URL).feed(None, 0.0)
    text = as_text(aside_only)
    assert text.count("restart with --enable-metrics") == 1
    assert "without running, waiting, kv_usage, since_last_step_s, gen_tok_s, ttft_p95_s, itl_p95_s" in text
    assert as_json(aside_only)["missing"][0]["enable"] == "restart with --enable-metrics"


def test_what_is_not_known_is_null_and_never_left_out() -> None:
    engine = as_json(EngineReading(URL, missing=(Missing("running", "why"),)))
    for key in (
        "running",
        "tpot_p95_s",
        "http_429_ratio",
        "preempted",
        "spec_accept_ratio",
        "paused",
        "scrape_s",
    ):
        assert engine[key] is None
    assert engine["bounds"] == {}  # no percentile is known, so none is a bound
    assert (engine["waiting_by_reason"], engine["finish_reasons"], engine["rejections"]) == (None, None, None)
    assert (engine["ranks"], engine["args"]) == (None, None)
    assert engine["started_at"] is None


def test_an_interval_that_was_widened_is_told() -> None:
    assert as_json(EngineReading(URL, scrape_s=1.2, scrape_every_s=6.0))["scrape_every_s"] == 6.0


def test_a_proxy_on_the_way_is_said() -> None:
    through = EngineView(URL, Observed(bounded(), FRESH), proxy="p.test:3128")
    shot = HostSnapshot(10.0, 1_700_000_000.0, engines=(through,))
    assert f"{URL} read through the proxy p.test:3128; probes go past it" in once_text.render(
        shot, Judgement()
    )
    assert once_json.document(shot, Judgement())["engines"][0]["proxy"] == "p.test:3128"
    assert "proxy" not in as_text(bounded())
    assert as_json(bounded())["proxy"] is None
