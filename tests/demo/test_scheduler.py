"""The queueing model: conservation laws, and the habits that the captures show."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.demo.simulate import Run, arrivals, run, small
from tui.demo.scheduler import Request, Scheduler
from tui.demo.updates import Totals, Update

if TYPE_CHECKING:
    from tui.demo.spec import EngineSpec

_SPECS = st.builds(
    small,
    dialect=st.sampled_from(("vllm", "sglang")),
    max_num_seqs=st.integers(1, 12),
    max_num_batched_tokens=st.sampled_from((16, 64, 512)),
    kv_tokens=st.sampled_from((528, 800, 4096)),
    prefix_caching=st.booleans(),
)


def _load(spec: EngineSpec, seed: int, rate: float, seconds: float = 5.0, **lengths: Any) -> list[Request]:
    chosen = {"prompt": 60, "target": 40, "prefixes": 3, "block": spec.block_size, **lengths}
    return arrivals(random.Random(seed), rate, seconds, **chosen)


@settings(max_examples=25, deadline=None)
@given(spec=_SPECS, seed=st.integers(0, 10_000), rate=st.sampled_from((2.0, 10.0, 40.0)))
def test_every_request_runs_to_its_end_and_the_books_balance(
    spec: EngineSpec, seed: int, rate: float
) -> None:
    """Whatever the pressure: KV never above 1, seats never exceeded, counters only grow, all is accounted for."""
    done = run(spec, _load(spec, seed, rate))
    assert {row.id for row in done.finished} == set(done.submitted)
    for _, gauges in done.gauges:
        assert 0.0 <= gauges.kv_usage <= 1.0
        assert 0 <= gauges.running <= spec.max_num_seqs
        assert gauges.used_tokens + gauges.evictable_tokens <= spec.kv_tokens
    for before, after in zip(done.totals, done.totals[1:], strict=False):
        assert all(b <= a for b, a in zip(before, after, strict=True))
    for row in done.finished:
        request = done.submitted[row.id]
        assert row.generated_tokens == request.target_tokens
        assert row.reason == ("length" if request.target_tokens == request.max_tokens else "stop")
        assert min(row.queue_s, row.prefill_s, row.decode_s) >= 0
        assert row.e2e_s == pytest.approx(row.queue_s + row.prefill_s + row.decode_s)
    if done.finished:
        last = done.updates[-1]
        assert last.gauges[:3] == (0, 0, 0.0)
        assert last.totals.generated_tokens == sum(row.generated_tokens for row in done.finished)
        assert last.totals.prompt_tokens == sum(row.prompt_tokens for row in done.finished)
        assert last.totals.preemptions == last.totals.preemptions_counted
        assert last.totals.preemptions == sum(row.preemptions for row in done.finished)
        assert last.totals.hit_tokens == sum(row.cached_tokens for row in done.finished)


@settings(max_examples=25, deadline=None)
@given(spec=_SPECS, seed=st.integers(0, 10_000))
def test_histogram_material_counts_what_happened(spec: EngineSpec, seed: int) -> None:
    """One first token a request, one latency for each later token, one iteration size for each step with output."""
    done = run(spec, _load(spec, seed, 10.0))
    generated = sum(row.generated_tokens for row in done.finished)
    assert len([row for update in done.updates for row in update.first]) == len(done.finished)
    assert sum(times for update in done.updates for _, times in update.itl) == generated - len(done.finished)
    sizes = sum(size for update in done.updates for size in update.iterations)
    assert sizes == generated + sum(row.prompt_tokens for row in done.finished)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_littles_law(seed: int) -> None:
    """The mean number in the system is the arrival rate times the mean time in it."""
    spec = small(kv_tokens=8192, max_num_seqs=16)
    done = run(spec, _load(spec, seed, 25.0, 120.0))
    in_system_s, before_s = 0.0, 0.0
    for at_s, gauges in done.gauges:
        in_system_s += (at_s - before_s) * (gauges.running + gauges.waiting)
        before_s = at_s
    mean = in_system_s / done.ended_s
    rate = len(done.finished) / done.ended_s
    time_s = sum(row.e2e_s for row in done.finished) / len(done.finished)
    assert mean == pytest.approx(rate * time_s, rel=0.05)


def test_a_tight_pool_preempts_and_the_counter_lags() -> None:
    """The capture: running falls and waiting rises while vLLM's counter still says 0."""
    spec = small(kv_tokens=24 * 16 + 16, max_model_len=384)
    requests = [Request(i, 0.001 * i, 11, 300, 300) for i in range(1, 21)]
    done = run(spec, requests)
    preempted = next(i for i, update in enumerate(done.updates) if update.totals.preemptions > 0)
    first, counted = (
        done.updates[preempted],
        next(u for u in done.updates if u.totals.preemptions_counted > 0),
    )
    assert first.totals.preemptions_counted == 0 and counted.at_s > first.at_s
    before = done.updates[preempted - 1].gauges
    assert first.gauges.running < before.running and first.gauges.waiting > before.waiting
    assert before.kv_usage > 0.85


def test_sglang_waits_by_reservation_instead() -> None:
    """Waiting with seats free and usage well below 1: admission by what requests may still need."""
    spec = small(dialect="sglang", kv_tokens=2576, max_model_len=1024)
    done = run(spec, [Request(i, 0.001 * i, 12, 900, 900) for i in range(1, 8)])
    early = done.updates[20].gauges
    assert early.running < 7 and early.waiting > 0 and early.kv_usage < 0.3


def test_shared_prefixes_hit_until_the_pool_evicts_them() -> None:
    def hit_ratio(kv_tokens: int) -> float:
        spec = small(kv_tokens=kv_tokens)
        last = run(spec, _load(spec, 7, 5.0, 60.0, prompt=200, target=10, prefixes=5)).totals[-1]
        return last.hit_tokens / last.query_tokens

    assert hit_ratio(16384) > 0.3 > hit_ratio(544)


def test_the_same_prompt_again_leaves_one_token_to_compute() -> None:
    spec = small()
    hashes = tuple(range(4))
    done = run(spec, [Request(1, 0.0, 64, 2, 2, hashes), Request(2, 5.0, 64, 2, 2, hashes)])
    assert [row.cached_tokens for row in done.finished] == [0, 48]


def test_hang_ups_free_everything_and_are_forgotten() -> None:
    """As in vLLM: aborted requests leave no trace in the counts of finished ones."""
    spec = small()
    gone: list[int] = []

    def hang_up(scheduler: Scheduler, now: float) -> None:
        if now > 0.1:
            gone.extend(number for number in range(1, 40, 2) if scheduler.abort(number))

    done = run(spec, [Request(i, 0.0, 30, 60, 60) for i in range(1, 40)], hang_up)
    assert {row.id for row in done.finished} | set(gone) == set(range(1, 40))
    assert not {row.id for row in done.finished} & set(gone)
    assert done.updates[-1].gauges[:3] == (0, 0, 0.0)


def test_an_abort_within_a_step_drops_its_token() -> None:
    scheduler = Scheduler(small())
    scheduler.submit(Request(1, 0.0, 4, 5, 5), 0.0)
    assert scheduler.begin_step(0.0) is not None
    assert scheduler.abort(1) and not scheduler.abort(1)
    update = Update()
    scheduler.end_step(0.1, update)
    assert update.tokens == {} and update.finished == [] and scheduler.begin_step(0.2) is None


def test_seats_and_pool_can_change_under_way() -> None:
    spec = small(kv_tokens=8192)

    def shrink(scheduler: Scheduler, now: float) -> None:
        if now > 0.2:
            scheduler.change(spec.changed({"kv_tokens": 544, "max_num_seqs": 2}))

    done = run(spec, [Request(i, 0.0, 40, 80, 80) for i in range(1, 9)], shrink)
    assert len(done.finished) == 8
    assert max(g.running for at_s, g in done.gauges if at_s < 0.2) == 8
    assert max(g.running for at_s, g in done.gauges if at_s > 0.8 * done.ended_s) <= 2
    assert all(g.kv_usage <= 1.0 for _, g in done.gauges)


def test_a_long_prompt_is_computed_in_chunks_beside_decoding() -> None:
    spec = small(kv_tokens=8192, max_num_batched_tokens=32)
    done = run(spec, [Request(1, 0.0, 4, 60, 60), Request(2, 0.05, 400, 2, 2)])
    first = {row[0]: update.at_s for update in done.updates for row in update.first}
    between = [u for u in done.updates if 0.06 < u.at_s < first[2]]
    assert len(between) >= 12 and all(1 in update.tokens for update in between)


def test_updates_survive_the_wire() -> None:
    done: Run = run(small(), _load(small(), 3, 20.0, 2.0))
    for update in done.updates:
        assert Update.decode(update.encode().rstrip(b"\n")) == update
    with pytest.raises(ValueError, match="not an update"):
        Update.decode(b"3")
    assert Totals() == Update().totals
