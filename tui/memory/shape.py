"""What of a model decides its memory: which layers keep what, per token or per sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.memory.dtypes import Dtype


@dataclass(frozen=True, slots=True)
class Attention:
    """Layers that keep a key and a value per token and KV head (MHA, GQA and MQA alike)."""

    layers: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    """The most tokens of a sequence that these layers keep; None: all of them."""


@dataclass(frozen=True, slots=True)
class Latent:
    """Layers of multi-head latent attention: one vector per token for all heads, keys and values in one."""

    layers: int
    rank: int
    """``kv_lora_rank``."""
    rope_dim: int
    """``qk_rope_head_dim``."""
    index_dim: int = 0
    """``index_head_dim`` of a sparse-attention indexer: FP8 keys with a 4-byte scale for each 128."""


@dataclass(frozen=True, slots=True)
class State:
    """Layers that keep a state per sequence, however long it is (Mamba, linear attention, convolution)."""

    layers: int
    conv_values: int
    recurrent_values: int = 0
    recurrent_bits: int | None = None
    """Width of the recurrent part; None: the model's own."""


Cache = Attention | Latent | State


@dataclass(frozen=True, slots=True)
class Quantization:
    """What config.json says of quantised weights."""

    method: str
    bits: int | None
    """Bits of a weight; None where the config does not say."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model as far as memory is concerned, without the layers that only speculative decoding loads."""

    model_type: str
    layers: int
    caches: tuple[Cache, ...]
    heads: int | None
    """Attention heads; None where only the hidden size is known (then it is MHA)."""
    context_len: int | None
    """Tokens that the model was made for."""
    stored: Dtype | None
    """The format that the config names for the weights."""
    quantization: Quantization | None = None
    kv_dtype: Dtype | None = None
    """KV format that the checkpoint itself asks for."""
