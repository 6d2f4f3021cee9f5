"""prometheus_client as the oracle: on what it can read we read the same, and nothing makes us raise."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as classic

from tests.support.captures import EXPOSITIONS, text
from tui.exposition.parse import Exposition, Parser, canonical
from tui.sources.engines.tables import TABLES
from tui.sources.engines.vllm import VLLM

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.sources.engines.table import EngineTable

Key = tuple[str, frozenset[tuple[str, str]]]


def ours(found: Exposition) -> dict[Key, float]:
    return {(series.name, frozenset(series.labels.items())): value for series, value in found.values.items()}


def theirs(body: str, parser: Callable[..., object] = classic) -> dict[Key, float]:
    return {
        (canonical(sample.name), frozenset(sample.labels.items())): float(sample.value)
        for family in parser(body)  # type: ignore[attr-defined]
        for sample in family.samples
    }


def same(one: dict[Key, float], other: dict[Key, float]) -> bool:
    return one.keys() == other.keys() and all(
        value == other[key] or (math.isnan(value) and math.isnan(other[key])) for key, value in one.items()
    )


@pytest.mark.parametrize("name", EXPOSITIONS)
def test_every_capture_whole(name: str) -> None:
    body = text(name)
    expected = theirs(body)
    # the oracle appends the suffix that Triton leaves off
    wanted = {form for name, _ in expected for form in (name, name.removesuffix("_total"))}
    found = Parser(wanted).parse(body)
    triton = "nv_" in body
    assert same({_suffixed(key, expected) if triton else key: v for key, v in ours(found).items()}, expected)
    assert found.rejected == 0


@pytest.mark.parametrize("name", EXPOSITIONS)
def test_the_wanted_families_of_every_capture(name: str) -> None:
    body, wanted = text(name), table_of(name).wanted()
    expected = {key: value for key, value in _unsuffixed(theirs(body)).items() if key[0] in wanted}
    found = Parser(wanted).parse(body)
    assert same(ours(found), expected)
    assert found.rejected == 0
    assert expected


def table_of(name: str) -> EngineTable:
    (table,) = (table for kind, table in TABLES.items() if name.startswith(kind))
    return table


def _unsuffixed(found: dict[Key, float]) -> dict[Key, float]:
    """Triton's counters as it writes them: the oracle appends the suffix that they lack."""
    return {
        ((name.removesuffix("_total") if name.startswith("nv_") else name), labels): value
        for (name, labels), value in found.items()
    }


def _suffixed(key: Key, expected: dict[Key, float]) -> Key:
    return key if key in expected else (f"{key[0]}_total", key[1])


names = st.sampled_from(["vllm:running", "vllm_running", "tokens_total", "x", "h_bucket"])
label_values = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=12)
labels = st.dictionaries(st.sampled_from(["a", "le", "engine", "model_name"]), label_values, max_size=3)
numbers = st.one_of(
    st.floats().map(repr),
    st.integers(-10, 10**20).map(str),
    st.sampled_from(["+Inf", "-Inf", "NaN", "1e400"]),
)


def written(name: str, labels: dict[str, str], number: str) -> str:
    escaped = {k: v.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for k, v in labels.items()}
    inner = ",".join(f'{key}="{value}"' for key, value in escaped.items())
    return f"{name}{{{inner}}} {number}" if inner else f"{name} {number}"


lines = st.builds(written, names, labels, numbers)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(lines, max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_generated_expositions(body: list[str], end: str) -> None:
    joined = "".join(line + end for line in body)
    found = Parser({"vllm_running", "tokens_total", "x", "h_bucket"}).parse(joined)
    expected = theirs("".join(line + "\n" for line in body))
    assert same(ours(found), expected)
    assert (found.accepted, found.rejected) == (len(body), 0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text("abc{}_ ,=", max_size=8), st.integers(0, 9), st.booleans())
def test_open_metrics_with_exemplars_and_time_stamps(trace: str, value: int, stamped: bool) -> None:
    stamp = " 1520879607.789" if stamped else ""
    body = (
        f'# TYPE h histogram\nh_bucket{{le="1"}} {value}{stamp} # {{trace_id="{trace}"}} 0.5\n'
        f'h_bucket{{le="+Inf"}} {value}{stamp} # {{trace_id="{trace}"}} 2 1520879607.1\n'
        f"h_count {value}{stamp}\nh_sum 1{stamp}\n# EOF\n"
    )
    assert same(ours(Parser({"h_bucket", "h_count", "h_sum"}).parse(body)), theirs(body, open_metrics))


junk = st.text(st.characters(codec="utf-8"), max_size=6)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(st.data())
def test_mutated_captures_never_raise_and_lose_only_what_they_count(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(EXPOSITIONS))
    whole = text(name).split("\n")
    start = data.draw(st.integers(0, max(0, len(whole) - 30)))
    body = "\n".join(whole[start : start + 30]) + "\n"
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)))
        length = data.draw(st.integers(0, 5))
        body = body[:at] + data.draw(junk) + body[at + length :]
    wanted = table_of(name).wanted()
    whole_body = Parser(wanted).parse(body)
    assert len(whole_body.values) <= whole_body.accepted
    for line in body.split("\n"):
        alone = Parser(wanted).parse(line + "\n")
        try:
            expected = _unsuffixed(theirs(line + "\n"))
        except (ValueError, KeyError, IndexError):
            continue  # the oracle cannot read it: whatever we did, we did not raise
        expected = {key: value for key, value in expected.items() if key[0] in wanted}
        plain = line.isascii() and line.isprintable() and line.count("#") == 0
        if expected and plain:
            assert same(ours(alone), expected) or alone.rejected == 1, line


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(max_size=300))
def test_any_text_is_read(body: str) -> None:
    found = Parser(["x", "up"]).parse(body)
    assert found.accepted >= len(found.values)


def test_speed_is_a_tenth_of_the_oracle() -> None:
    body = text("vllm-0.32/metrics-after-errors.txt")
    parser = Parser(VLLM.wanted())
    parser.parse(body)

    def best(work: Callable[[], object]) -> float:
        times = []
        for _ in range(15):
            started = time.perf_counter()
            work()
            times.append(time.perf_counter() - started)
        return min(times)

    own, other = best(lambda: parser.parse(body)), best(lambda: list(classic(body)))
    print(f"parser {own * 1000:.2f} ms, prometheus_client {other * 1000:.2f} ms, ratio {other / own:.0f}")
    assert own * 10 <= other
