"""Plans and what would make them fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.model_dirs import config
from tui.memory.changes import Change, changes, longest
from tui.memory.dtypes import BF16, FP8, FP16, FP32, INT8, Dtype, kv_dtype, weight_dtype
from tui.memory.fields import Fields
from tui.memory.kv import bytes_per_sequence
from tui.memory.model_config import shape_of
from tui.memory.plan import GIB, Plan, Setting, kv_format, make_plan, remarks
from tui.memory.weights import Weights, assumed

LLAMA_13B = shape_of(Fields(config("llama-2-13b"), "config.json"))
LLAMA_70B = shape_of(Fields(config("llama-3-70b"), "config.json"))
GEMMA_9B = shape_of(Fields(config("gemma-2-9b"), "config.json"))
DEEPSEEK = shape_of(Fields(config("deepseek-v3"), "config.json"))
WEIGHTS_13B, WEIGHTS_70B = assumed(13_000_000_000), assumed(70_000_000_000)
ARTICLE = Setting(gpu_mem_gib=80, max_model_len=4096, max_num_seqs=32)


def ways(found: list[Change]) -> dict[tuple[str, ...], tuple[str, ...]]:
    return {tuple(step.option for step in way.steps): tuple(step.to for step in way.steps) for way in found}


def test_the_article_s_example() -> None:
    plan = make_plan(LLAMA_13B, WEIGHTS_13B, ARTICLE)
    assert (plan.weights, plan.kv) == (26_000_000_000, 107_374_182_400)
    assert plan.total == plan.weights + plan.kv + 4 * GIB
    assert plan.budget == 72 * GIB
    assert not plan.fits
    pool = 72 * GIB - 4 * GIB - 26_000_000_000
    assert (plan.max_sequences, plan.max_tokens) == (pool // 3_355_443_200, pool // 819_200)


def test_figures_are_of_one_gpu() -> None:
    one = make_plan(LLAMA_70B, WEIGHTS_70B, replace(ARTICLE, max_model_len=8192))
    four = make_plan(LLAMA_70B, WEIGHTS_70B, replace(ARTICLE, max_model_len=8192, tp=4))
    assert (four.weights, four.kv) == (one.weights // 4, one.kv // 4)
    assert four.temporaries == one.temporaries
    assert (one.pool < 0, one.max_sequences, one.max_tokens) == (True, 0, 0)
    assert four.fits


def test_the_total_at_the_budget_still_fits() -> None:
    exact = Setting(gpu_mem_gib=128, max_model_len=4096, max_num_seqs=32, utilization=1.0, system_gib=0)
    weights = assumed((128 - 100 - 3) * GIB // 2)
    assert make_plan(LLAMA_13B, weights, exact).fits
    assert not make_plan(LLAMA_13B, assumed(weights.stored_bytes // 2 + 1), exact).fits


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (ARTICLE, FP16),
        (replace(ARTICLE, kv_dtype=FP8), FP8),
        (replace(ARTICLE, dtype=BF16), BF16),
        (replace(ARTICLE, dtype=FP32), FP32),
        (replace(ARTICLE, dtype=INT8), FP16),  # weights only: the computation stays at 16 bits
    ],
)
def test_the_kv_format_follows_the_computation(setting: Setting, expected: Dtype) -> None:
    assert kv_format(LLAMA_13B, setting) == expected


def test_a_checkpoint_may_ask_for_its_kv_format() -> None:
    assert kv_format(replace(LLAMA_70B, kv_dtype=FP8), ARTICLE) == FP8
    assert kv_format(GEMMA_9B, ARTICLE) == FP16  # stored in 32 bits, served in 16


def test_each_change_alone_is_enough_and_no_less_would_be() -> None:
    setting = replace(ARTICLE, max_model_len=8192, max_num_seqs=4, tp=2)
    plan = make_plan(LLAMA_70B, WEIGHTS_70B, setting)
    found = ways(changes(LLAMA_70B, WEIGHTS_70B, plan))
    assert found == {
        ("--max-num-seqs",): ("2",),
        ("--max-model-len",): (found["--max-model-len",][0],),
        ("--utilization",): ("0.93",),
        ("--kv-dtype",): ("fp8",),
        ("--dtype",): ("int8",),
        ("--tp",): ("4",),
        ("--gpu-mem-gib",): ("82.5",),
    }
    length = int(found["--max-model-len",][0])
    assert length % 16 == 0
    for better in (
        {"max_num_seqs": 2}, {"max_model_len": length}, {"utilization": 0.93}, {"kv_dtype": FP8}, {"dtype": INT8},
        {"tp": 4}, {"gpu_mem_gib": 82.5},
    ):  # fmt: skip
        assert make_plan(LLAMA_70B, WEIGHTS_70B, replace(setting, **better)).fits, better
    for worse in (
        {"max_num_seqs": 3},
        {"max_model_len": length + 16},
        {"utilization": 0.92},
        {"gpu_mem_gib": 82.4},
    ):
        assert not make_plan(LLAMA_70B, WEIGHTS_70B, replace(setting, **worse)).fits, worse


def test_what_starts_nowhere_alone_gets_gpus_and_fewer_sequences() -> None:
    plan = make_plan(LLAMA_70B, WEIGHTS_70B, replace(ARTICLE, max_model_len=32768, max_num_seqs=256))
    assert ways(changes(LLAMA_70B, WEIGHTS_70B, plan)) == {("--tp", "--max-num-seqs"): ("4", "14")}


def test_fp8_kv_with_fewer_sequences_where_fp8_alone_is_not_enough() -> None:
    plan = make_plan(LLAMA_13B, WEIGHTS_13B, replace(ARTICLE, max_num_seqs=64))
    found = ways(changes(LLAMA_13B, WEIGHTS_13B, plan))
    assert found["--max-num-seqs",] == ("14",)
    assert found["--kv-dtype", "--max-num-seqs"] == ("fp8", "28")


def test_no_change_is_advised_where_the_plan_fits() -> None:
    plan = make_plan(LLAMA_13B, WEIGHTS_13B, replace(ARTICLE, max_num_seqs=1))
    assert plan.fits
    assert changes(LLAMA_13B, WEIGHTS_13B, plan) == []


def test_latent_attention_gains_no_kv_room_by_more_gpus() -> None:
    setting = Setting(gpu_mem_gib=141, max_model_len=163_840, max_num_seqs=64, tp=8)
    weights = assumed(671_000_000_000, DEEPSEEK.quantization)
    eight, sixteen = (make_plan(DEEPSEEK, weights, replace(setting, tp=tp)) for tp in (8, 16))
    assert eight.kv == sixteen.kv == 70_272 * 163_840 * 64
    assert eight.weights == 671_000_000_000 // 8


def longest_plan(sequences: int, gib: float) -> Plan:
    return make_plan(GEMMA_9B, assumed(9_240_000_000), Setting(gib, 8192, sequences))


@given(st.integers(1, 500), st.floats(24, 200))
def test_the_longest_sequences_that_fit_are_found_across_a_window(sequences: int, gib: float) -> None:
    plan = longest_plan(sequences, gib)
    found = longest(GEMMA_9B, plan)

    def needed(tokens: int) -> int:
        return bytes_per_sequence(GEMMA_9B, plan.kv_dtype, tokens) * sequences

    assert 0 <= found <= 8192
    assert needed(found) <= max(0, plan.pool)
    assert found == 8192 or needed(found + 16) > plan.pool


def test_remarks_name_what_does_not_belong_together() -> None:
    weights = Weights(1, "safetensors headers", 1, key_rows=frozenset((1024,)))
    assert remarks(LLAMA_70B, weights, replace(ARTICLE, max_model_len=8192)) == []
    (length, rows) = remarks(LLAMA_13B, weights, replace(ARTICLE, max_model_len=8192))
    assert "8192 is beyond the 4096 of the model" in length
    assert "1024 rows" in rows
    assert "5120" in rows


def test_names_of_formats_are_those_of_engines_and_configs() -> None:
    assert weight_dtype("torch.bfloat16") == weight_dtype("BF16") == BF16
    assert weight_dtype("half") == FP16
    assert kv_dtype("fp8_e4m3") == FP8
    assert kv_dtype("int4") is None
    assert weight_dtype("float8") is None


def test_what_a_real_engine_said_of_its_pool() -> None:
    """vLLM 0.32 with a pool of 1 GiB for this model: 43,648 tokens, 21.31 sequences of 2,048."""
    small = {"num_hidden_layers": 8, "hidden_size": 768, "num_attention_heads": 12, "head_dim": 64}
    shape = shape_of(Fields({"model_type": "llama", "dtype": "bfloat16", **small}, "config.json"))
    setting = Setting(1, 2048, utilization=1.0, temporaries_gib=0, system_gib=0)
    plan = make_plan(shape, assumed(0), setting)
    assert plan.max_tokens - plan.max_tokens % 128 == 43_648  # it allocates whole blocks of 128
    assert plan.max_sequences == 21
