"""The expositions: a subset of the captured families, readable, and true to what the scheduler did."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.demo.recording import CAPTURES
from tests.demo.simulate import arrivals, run, small
from tui.demo.metrics_sglang import SglangMetrics
from tui.demo.metrics_vllm import VllmMetrics
from tui.demo.registry import Family, Histogram, number, render

if TYPE_CHECKING:
    from tests.demo.simulate import Run

import random

_FOLDERS = {"vllm": "vllm-0.32", "sglang": "sglang-0.5.23"}


def _played(dialect: Any, **settings: Any) -> tuple[VllmMetrics | SglangMetrics, Run]:
    """Metrics after a busy minute with preemptions and cache hits."""
    spec = small(dialect=dialect, **settings)
    metrics = VllmMetrics(spec) if dialect == "vllm" else SglangMetrics(spec)
    requests = arrivals(random.Random(5), 12.0, 20.0, prompt=80, target=60, prefixes=3)
    done = run(spec, requests)
    for update in done.updates:
        metrics.apply(update, lambda request_id: request_id % 2 == 0)
    return metrics, done


def _samples(text: str) -> dict[str, float]:
    """Sums over labels by sample name."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
def test_families_types_and_labels_are_a_subset_of_the_captures(dialect: str) -> None:
    captured = json.loads((CAPTURES / _FOLDERS[dialect] / "families.json").read_text(encoding="utf-8"))
    metrics, _ = _played(dialect)
    metrics.aborted()
    metrics.rejected("max_num_queued_reqs")
    types: dict[str, str] = {}
    for line in metrics.render().decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            types[name] = kind
            assert captured[name]["type"] == kind
        elif not line.startswith("#"):
            name, _, rest = line.partition(" ")[0].partition("{")
            base = next(b for b in (name, *_bases(name)) if b in types)
            labels = sorted(part.split("=")[0] for part in rest.rstrip("}").split('",') if part)
            labels = [label for label in labels if label != "le"]
            # the cache's settings come with a label each: some of them here
            if base == "vllm:cache_config_info":
                assert set(labels) <= set(captured[base]["labels"][0])
            else:
                assert labels in captured[base]["labels"], line
    assert len(types) >= {"vllm": 70, "sglang": 30}[dialect]


def _bases(name: str) -> list[str]:
    return [name.removesuffix(suffix) for suffix in ("_bucket", "_sum", "_count") if name.endswith(suffix)]


def test_bucket_bounds_are_the_captured_ones() -> None:
    """Read from the capture that the reader's own tests use."""
    captured = (CAPTURES.parent / "vllm-0.32" / "metrics-load.txt").read_text(encoding="utf-8")
    metrics, _ = _played("vllm")
    assert _bounds(captured).items() >= _bounds(metrics.render().decode()).items()


def _bounds(text: str) -> dict[str, tuple[float, ...]]:
    found: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.endswith("_bucket") and sample.name.startswith("vllm:"):
                bounds = found.setdefault(sample.name, [])
                if (bound := float(sample.labels["le"])) not in bounds:
                    bounds.append(bound)
    return {name: tuple(bounds) for name, bounds in found.items()}


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
def test_the_text_parses_and_histograms_are_whole(dialect: str) -> None:
    metrics, _ = _played(dialect)
    for family in text_string_to_metric_families(metrics.render().decode()):
        counts = [s.value for s in family.samples if s.name.endswith("_count")]
        infinite = [s.value for s in family.samples if s.labels.get("le") == "+Inf"]
        if family.type == "histogram":
            assert counts == infinite
        assert all(math.isfinite(sample.value) for sample in family.samples)


def test_vllm_counts_what_finished() -> None:
    metrics, done = _played("vllm")
    samples = _samples(metrics.render().decode())
    finished = len(done.finished)
    for name in (
        "request_queue_time_seconds", "e2e_request_latency_seconds", "request_prefill_time_seconds",
        "request_decode_time_seconds", "request_inference_time_seconds", "request_prompt_tokens",
        "request_generation_tokens", "time_to_first_token_seconds", "request_num_preemptions",
    ):  # fmt: skip
        assert samples[f"vllm:{name}_count"] == finished
    assert samples["vllm:request_success_total"] == finished
    assert samples["vllm:generation_tokens_total"] == sum(row.generated_tokens for row in done.finished)
    assert samples["vllm:num_preemptions_total"] == sum(row.preemptions for row in done.finished) > 0
    assert samples["vllm:prompt_tokens_by_source_total"] == samples["vllm:prompt_tokens_total"]
    assert 0 < samples["vllm:prefix_cache_hits_total"] < samples["vllm:prefix_cache_queries_total"]
    assert samples["vllm:num_requests_running"] == samples["vllm:num_requests_waiting"] == 0


def test_vllm_without_statistics_has_no_family_of_its_own() -> None:
    metrics, _ = _played("vllm", disable_log_stats=True)
    names = {family.name for family in text_string_to_metric_families(metrics.render().decode())}
    assert not any(name.startswith("vllm") for name in names)
    assert {"process_start_time_seconds", "http_request_duration_highr_seconds"} <= names


def test_vllm_start_time_does_not_move() -> None:
    metrics, _ = _played("vllm")
    first, second = (_samples(metrics.render().decode())["process_start_time_seconds"] for _ in range(2))
    assert first == second > 1e9


def test_sglang_moves_request_counters_only_at_the_end_and_gauges_now_and_then() -> None:
    spec = small(dialect="sglang", kv_tokens=8192)
    metrics = SglangMetrics(spec)
    done = run(spec, arrivals(random.Random(1), 50.0, 0.1, prompt=20, target=150))
    published, after = 0, _samples(metrics.render().decode())
    for update in done.updates[-120:]:
        before = after
        metrics.apply(update, lambda _request_id: True)
        after = _samples(metrics.render().decode())
        moved = {name for name, value in after.items() if before.get(name, 0.0) != value}
        assert ("sglang:generation_tokens_total" in moved) == bool(update.finished)
        published += "sglang:realtime_tokens_total" in moved
    assert 1 <= published <= 6
    assert after["sglang:gen_throughput"] > 0 and after["sglang:num_running_reqs"] == 0
    assert "sglang:num_aborted_requests_total" not in after


def test_sglang_snapshot_keeps_its_time_until_the_next_one() -> None:
    metrics, done = _played("sglang")
    assert isinstance(metrics, SglangMetrics)

    def taken() -> float:
        load = metrics.loads(core_only=True)["loads"][0]
        return float(load["timestamp"])

    # asked again and again in a hang it must not move at all: that would be a step
    assert len({taken() for _ in range(200)}) == 1
    before, last = taken(), done.updates[-1]
    metrics.apply(dataclasses.replace(last, at_s=last.at_s + 3.0), lambda _request_id: True)
    assert taken() - before == pytest.approx(3.0, abs=0.5)


def test_numbers_are_written_as_prometheus_client_does() -> None:
    written = [number(value) for value in (0, 1, 0.25, 100000, 1000000, 1100000, 1796038150.51)]
    assert written == ["0.0", "1.0", "0.25", "100000.0", "1e+06", "1.1e+06", "1.79603815051e+09"]


def test_label_values_are_escaped() -> None:
    family = Family("f_total", "counter", "h", created=True)
    family.add(2, (("b", 'a"\\\n'), ("a", "x")))
    histogram = Histogram("h", (1,), "h")
    text = render([family, histogram]).decode()
    assert 'f_total{a="x",b="a\\"\\\\\\n"} 2.0' in text and "f_created" in text
    assert histogram.empty and not family.empty
