"""Which layers of a model keep all tokens, a window of them, a state, or nothing.

Sources: ``layer_types`` and its elder names in config.json; where a config lists no layers, the rule by which
transformers fills the list in for that model type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from tui.memory.fields import Fields

Kind = Literal["full", "sliding", "chunked", "state", "hybrid", "none"]
"""``chunked``: the window is a fixed chunk of the text; ``hybrid``: attention and a state in one layer."""

T = TypeVar("T")

_BY_NAME: dict[str, Kind] = {
    "full_attention": "full",
    "attention": "full",
    "indexed_attention": "full",
    "deepseek_sparse_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "state",
    "mamba": "state",
    "mamba2": "state",
    "conv": "state",
    "hybrid": "hybrid",
    "moe": "none",
    "mlp": "none",
}
_BY_LETTER: dict[str, Kind] = {"M": "state", "*": "full", "-": "none", "E": "none"}
_STATE_TYPES = frozenset(("mamba", "mamba2", "falcon_mamba"))
_UNLISTED = frozenset(
    (
        "bailing_hybrid", "deepseek_v4", "granitemoehybrid", "kimi_linear", "longcat_flash", "minimax",
        "olmo_hybrid", "recurrent_gemma", "zamba2",
    )
)  # fmt: skip
"""Types with several kinds of layers, whose config.json must list them."""
_DIFFERENT = ("block_configs", "per_layer_config", "compress_ratios", "num_key_value_heads_per_layer")
"""Keys of models whose layers have different widths or compress their tokens."""


def layer_kinds(fields: Fields, count: int, model_type: str) -> list[Kind]:
    """One kind a layer, those that reuse another layer's KV left out.

    Raises:
        ModelError: the config lists kinds that are not known, or too few layers.
    """
    for name in _DIFFERENT:
        if name in fields:
            raise fields.fault(name, "layers that differ in width or compress tokens are not understood")
    kinds = _listed(fields, count) or _by_rule(fields, count, model_type)
    shared = fields.integer("num_kv_shared_layers", low=0, high=count - 1) or 0
    return kinds[: count - shared]


def _listed(fields: Fields, count: int) -> list[Kind] | None:
    for name in ("layer_types", "layers_block_type"):
        if (listed := fields.strings(name)) is not None:
            return [_named(fields, name, kind) for kind in _enough(fields, name, listed, count)]
    if (letters := fields.text("hybrid_override_pattern")) is not None:
        name = "hybrid_override_pattern"
        return [_lettered(fields, name, letter) for letter in _enough(fields, name, list(letters), count)]
    if (swa := fields.integers("hybrid_layer_pattern")) is not None:
        return ["sliding" if on else "full" for on in _enough(fields, "hybrid_layer_pattern", swa, count)]
    if "attention_chunk_size" in fields and (rotary := fields.integers("no_rope_layers")):
        return ["chunked" if on else "full" for on in _enough(fields, "no_rope_layers", rotary, count)]
    for name in ("attn_layer_indices", "full_attn_idxs"):
        if (full := fields.integers(name)) is not None:
            return ["full" if layer in full else "state" for layer in range(count)]
    linear = fields.section("linear_attn_config")
    if linear is not None and (full := linear.integers("full_attn_layers")) is not None:
        return ["full" if layer + 1 in full else "state" for layer in range(count)]  # counted from 1
    return None


def _by_rule(fields: Fields, count: int, model_type: str) -> list[Kind]:
    if model_type in _UNLISTED:
        raise fields.fault("layer_types", f"missing, and the layers of {model_type} are not all alike")
    if (period := fields.integer("attn_layer_period")) is not None:
        offset = fields.integer("attn_layer_offset", low=0) or 0
        return ["full" if layer % period == offset else "state" for layer in range(count)]
    if model_type in _STATE_TYPES:
        return ["state"] * count
    if model_type == "falcon_h1":
        return ["hybrid"] * count
    if model_type in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"):
        return _every(count, fields.integer("full_attention_interval") or 4, "state")
    if model_type == "llama4_text":
        return _every(count, fields.integer("no_rope_layer_interval") or 4, "chunked")
    if "sliding_window" not in fields:
        return ["full"] * count
    return _windowed(fields, count, model_type)


def _windowed(fields: Fields, count: int, model_type: str) -> list[Kind]:
    if "use_sliding_window" in fields:
        first = fields.integer("max_window_layers", low=0)
        if not fields.flag("use_sliding_window"):
            return ["full"] * count
        return ["sliding" if first is None or layer >= first else "full" for layer in range(count)]
    if model_type in ("gemma2", "gpt_oss"):
        return _every(count, 2, "sliding")
    if model_type == "gemma3n_text":
        return _every(count, 5, "sliding")
    if model_type in ("gemma3_text", "cohere2", "exaone4", "gemma4_text"):
        default = 4 if model_type in ("cohere2", "exaone4") else 6
        return _every(count, fields.integer("sliding_window_pattern") or default, "sliding")
    return ["sliding"] * count


def _every(count: int, period: int, others: Kind) -> list[Kind]:
    """Each period's last layer is full."""
    return [others if (layer + 1) % period else "full" for layer in range(count)]


def _named(fields: Fields, name: str, kind: str) -> Kind:
    if (known := _BY_NAME.get(kind)) is None:
        raise fields.fault(name, f"layers of kind {kind!r} are not understood")
    return known


def _lettered(fields: Fields, name: str, letter: str) -> Kind:
    if (known := _BY_LETTER.get(letter)) is None:
        raise fields.fault(name, f"layers of kind {letter!r} are not understood")
    return known


def _enough(fields: Fields, name: str, listed: list[T], count: int) -> list[T]:
    if len(listed) < count:
        raise fields.fault(name, f"lists {len(listed)} layers of {count}")
    return listed[:count]
