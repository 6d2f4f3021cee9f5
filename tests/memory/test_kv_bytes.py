"""Bytes of KV cache of public models, against published figures and figures worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.model_dirs import config
from tui.memory.dtypes import BF16, FP8, FP8_DS_MLA, FP16, FP32, Dtype
from tui.memory.fields import Fields
from tui.memory.kv import bytes_per_sequence, bytes_per_token, refusal, state_bytes
from tui.memory.model_config import shape_of
from tui.memory.shape import Attention, ModelShape


def shape(values: dict[str, Any]) -> ModelShape:
    return shape_of(Fields(values, "config.json"))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("llama-2-13b", 2 * 40 * 5120 * 2),  # MHA: the article's 819,200
        ("llama-3-70b", 327_680),  # published for every 80-layer model with 8 KV heads of 128
        ("qwen2.5-7b", 2 * 28 * 4 * 128 * 2),  # 56 KiB; its sliding_window is switched off
        ("deepseek-v3", 70_272),  # published: 61 layers x (512 + 64) x 2
        ("gemma-2-9b", 2 * 42 * 8 * 256 * 2),  # head_dim is not hidden / heads
        ("mistral-7b", 131_072),  # 128 KiB
    ],
)
def test_16_bit_bytes_per_token(model: str, expected: int) -> None:
    assert bytes_per_token(shape(config(model)), BF16) == expected


def test_the_article_s_example_is_107_gb() -> None:
    total = bytes_per_sequence(shape(config("llama-2-13b")), FP16, 4096) * 32
    assert total == 107_374_182_400


@pytest.mark.parametrize(
    ("model", "dtype", "expected"),
    [
        ("llama-3-70b", FP8, 163_840),
        ("llama-3-70b", FP32, 655_360),
        ("deepseek-v3", FP8, 61 * 576),
        ("deepseek-v3", FP8_DS_MLA, 61 * 656),  # 512 FP8, 4 scales of 4 bytes, 64 of 16 bits
    ],
)
def test_other_formats(model: str, dtype: Dtype, expected: int) -> None:
    assert bytes_per_token(shape(config(model)), dtype) == expected


@pytest.mark.parametrize(
    ("model", "tp", "expected"),
    [
        ("llama-3-70b", 4, 81_920),
        ("llama-3-70b", 8, 40_960),
        ("llama-3-70b", 16, 40_960),  # one KV head is the least a GPU can hold
        ("qwen2.5-7b", 2, 28_672),
        ("deepseek-v3", 8, 70_272),  # the latent vector is on every GPU
    ],
)
def test_tensor_parallelism_divides_heads_and_then_replicates(model: str, tp: int, expected: int) -> None:
    assert refusal(shape(config(model)), tp) is None
    assert bytes_per_token(shape(config(model)), BF16, tp) == expected


def test_a_tensor_parallel_size_that_engines_refuse_is_named() -> None:
    assert refusal(shape(config("qwen2.5-7b")), 8) == "28 attention heads do not divide by 8"
    odd = {"num_hidden_layers": 2, "num_attention_heads": 12, "num_key_value_heads": 6, "head_dim": 64}
    assert "6 KV heads" in (refusal(shape(odd), 4) or "")


def test_windows_cap_the_tokens_of_their_layers_only() -> None:
    gemma = shape(config("gemma-2-9b"))
    layer = 2 * 8 * 256 * 2
    assert [(c.layers, c.window) for c in gemma.caches if isinstance(c, Attention)] == [
        (21, None),
        (21, 4096),
    ]
    assert bytes_per_sequence(gemma, BF16, 4096) == 42 * layer * 4096
    assert bytes_per_sequence(gemma, BF16, 8192) == 21 * layer * (8192 + 4096)
    mistral = shape(config("mistral-7b"))
    assert bytes_per_sequence(mistral, BF16, 32768) == 131_072 * 4096


QWEN3_NEXT = {
    "model_type": "qwen3_next", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4, "torch_dtype": "bfloat16",
}  # fmt: skip
JAMBA = {
    "model_type": "jamba", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16,
    "mamba_d_conv": 4, "mamba_expand": 2,
}  # fmt: skip
NEMOTRON_H = {
    "model_type": "nemotron_h", "num_hidden_layers": 6, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "hybrid_override_pattern": "M-M*-E", "mamba_num_heads": 128,
    "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4,
}  # fmt: skip
KIMI_LINEAR = {
    "model_type": "kimi_linear", "num_hidden_layers": 4, "hidden_size": 2304, "num_attention_heads": 32,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "linear_attn_config": {
        "full_attn_layers": [4], "kda_layers": [1, 2, 3], "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4,
    },
}  # fmt: skip
LFM2 = {
    "model_type": "lfm2", "num_hidden_layers": 3, "hidden_size": 2048, "num_attention_heads": 32,
    "num_key_value_heads": 8, "full_attn_idxs": [1], "conv_L_cache": 3,
}  # fmt: skip
FALCON_H1 = {
    "model_type": "falcon_h1", "num_hidden_layers": 2, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "mamba_d_ssm": 1024, "mamba_n_heads": 128, "mamba_n_groups": 1, "mamba_d_state": 256,
    "mamba_d_conv": 4,
}  # fmt: skip
MAMBA2 = {
    "model_type": "mamba2", "num_hidden_layers": 64, "hidden_size": 4096, "num_heads": 128, "head_dim": 64,
    "state_size": 128, "n_groups": 8, "expand": 2, "conv_kernel": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("values", "token", "state"),
    [
        # gated delta net: conv (2 x 16 x 128 + 32 x 128) x 3, state 32 x 128 x 128
        (QWEN3_NEXT, 12 * 2 * 2 * 256 * 2, 36 * (24_576 + 524_288) * 2),
        # Mamba 1: conv 8192 x 3, state 8192 x 16
        (JAMBA, 4 * 2 * 8 * 128 * 2, 28 * (24_576 + 131_072) * 2),
        # Mamba 2, state in 32 bits: conv (8192 + 2 x 8 x 128) x 3, state 128 x 64 x 128
        (NEMOTRON_H, 1 * 2 * 8 * 128 * 2, 2 * (30_720 * 2 + 1_048_576 * 4)),
        (KIMI_LINEAR, 1 * 576 * 2, 3 * (3 * 4096 * 3 * 2 + 32 * 128 * 128 * 4)),
        (LFM2, 1 * 2 * 8 * 64 * 2, 2 * 2048 * 2 * 2),
        # attention and Mamba 2 in every layer: conv (1024 + 2 x 256) x 3, state 1024 x 256
        (FALCON_H1, 2 * 2 * 8 * 128 * 2, 2 * (4608 + 262_144) * 2),
        (MAMBA2, 0, 64 * (30_720 + 1_048_576) * 2),
    ],
    ids=["qwen3-next", "jamba", "nemotron-h", "kimi-linear", "lfm2", "falcon-h1", "mamba2"],
)
def test_state_layers_cost_a_sequence_the_same_however_long_it_is(
    values: dict[str, Any], token: int, state: int
) -> None:
    model = shape(values)
    assert bytes_per_token(model, BF16) == token
    assert state_bytes(model, BF16) == state
    assert bytes_per_sequence(model, BF16, 1000) == state + 1000 * token
    assert state_bytes(model, BF16, tp=2) == state // 2
    assert state_bytes(model, FP8) == state
