"""Bytes of KV cache: per token, per sequence, per GPU.

Per token and layer: ``2 x KV heads x head width x bytes`` (MHA, GQA, MQA); latent attention keeps one vector
of ``kv_lora_rank + qk_rope_head_dim`` for keys and values together. Layers with a window keep no more tokens
than that; state layers keep the same however long the sequence is. Engines allocate whole blocks (16 tokens
as a rule), and hold the tokens of the prefill step in flight beside a window: neither is counted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.memory.dtypes import FP8_DS_MLA, Dtype
from tui.memory.shape import Attention, Latent, State

if TYPE_CHECKING:
    from tui.memory.shape import ModelShape

_SCALE_BYTES, _SCALE_SPAN = 4, 128
"""FP8 layouts of latent attention hold a 32-bit scale for every 128 values."""


def bytes_per_token(shape: ModelShape, dtype: Dtype, tp: int = 1) -> int:
    """What one more token takes on one GPU while every window still has room for it."""
    return sum(_layer_token(cache, dtype, tp) * cache.layers for cache in shape.caches)


def bytes_per_sequence(shape: ModelShape, dtype: Dtype, tokens: int, tp: int = 1) -> int:
    """What one sequence of so many tokens takes on one GPU, states included."""
    total = state_bytes(shape, dtype, tp)
    for cache in shape.caches:
        window = cache.window if isinstance(cache, Attention) else None
        kept = tokens if window is None else min(tokens, window)
        total += _layer_token(cache, dtype, tp) * cache.layers * kept
    return total


def state_bytes(shape: ModelShape, dtype: Dtype, tp: int = 1) -> int:
    """What the state layers keep for one sequence on one GPU; a narrow KV format does not narrow it."""
    bits = max(16, dtype.bits)
    total = 0
    for cache in shape.caches:
        if isinstance(cache, State):
            recurrent = cache.recurrent_values * (cache.recurrent_bits or bits)
            total += -(-cache.layers * (cache.conv_values * bits + recurrent) // (8 * tp))
    return total


def kv_heads_per_gpu(kv_heads: int, tp: int) -> int:
    """KV heads of one GPU: tensor parallelism divides them down to one, and replicates from there on."""
    return -(-kv_heads // min(tp, kv_heads))


def refusal(shape: ModelShape, tp: int) -> str | None:
    """Why engines refuse a tensor-parallel size for this model; None where they do not."""
    if shape.heads is not None and shape.heads % tp:
        return f"{shape.heads} attention heads do not divide by {tp}"
    for cache in shape.caches:
        if isinstance(cache, Attention) and cache.kv_heads % tp and tp % cache.kv_heads:
            return f"{cache.kv_heads} KV heads can neither be divided nor replicated over {tp} GPUs"
    return None


def _layer_token(cache: Attention | Latent | State, dtype: Dtype, tp: int) -> int:
    if isinstance(cache, Attention):
        return dtype.size(kv_heads_per_gpu(cache.kv_heads, tp) * (cache.key_dim + cache.value_dim))
    if isinstance(cache, Latent):
        return _latent_token(cache, dtype)  # the same on every GPU
    return 0


def _latent_token(cache: Latent, dtype: Dtype) -> int:
    index = cache.index_dim + cache.index_dim // _SCALE_SPAN * _SCALE_BYTES
    if dtype == FP8_DS_MLA:
        return cache.rank + cache.rank // _SCALE_SPAN * _SCALE_BYTES + 2 * cache.rope_dim + index
    return dtype.size(cache.rank + cache.rope_dim) + index
