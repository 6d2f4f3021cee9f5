"""config.json of a Hugging Face model directory to the shape that memory depends on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tui.memory.dtypes import Dtype, weight_dtype
from tui.memory.files import CONFIG_LIMIT, absent, read_object
from tui.memory.layers import Kind, layer_kinds
from tui.memory.quantization import declared_kv_dtype, quantization
from tui.memory.shape import Attention, Cache, Latent, ModelShape
from tui.memory.state import state_cache

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tui.memory.fields import Fields

_TEXT_SECTIONS = (
    "text_config", "llm_config", "language_config", "thinker_config", "language_model_config", "decoder",
)  # fmt: skip
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "multi_query_group_num",
    "num_attention_groups",
)
_HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "hidden_size_per_head")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length")
_WINDOWED: tuple[Kind, ...] = ("sliding", "chunked")
_MOST_LAYERS = 10_000


def read_shape(directory: Path, over: Mapping[str, int] | None = None) -> ModelShape:
    """The shape of the model in a directory.

    Args:
        directory: what ``--model`` of an engine names.
        over: values by their names in config.json that count in place of its own.

    Raises:
        ModelError: config.json is absent, unreadable, malformed, or describes what is not understood.
    """
    config = read_object(directory / "config.json", CONFIG_LIMIT)
    elsewhere = directory / "hf_quant_config.json"  # ModelOpt keeps its settings beside config.json
    beside = None
    if "quantization_config" not in config and not absent(elsewhere):
        beside = read_object(elsewhere, CONFIG_LIMIT)
    return shape_of(config, over, beside)


def shape_of(
    config: Fields, over: Mapping[str, int] | None = None, quantized: Fields | None = None
) -> ModelShape:
    """The shape that a parsed config.json describes; an empty one with enough put over it will do.

    Raises:
        ModelError: something is missing, malformed, contradictory or not understood.
    """
    text = _text_part(config).merged(over or {})
    model_type = text.text("model_type") or config.text("model_type") or ""
    if config.flag("is_encoder_decoder"):
        raise config.fault("is_encoder_decoder", "models with an encoder are not understood")
    layers = text.need(*_LAYERS, high=_MOST_LAYERS)
    heads = text.integer(*_HEADS, high=1 << 16)
    kinds = Counter(layer_kinds(text, layers, model_type))
    for part in (config, text):
        for name in ("quantization_config", "compression_config"):
            quantized = quantized or part.section(name)
    return ModelShape(
        model_type=model_type,
        layers=layers,
        caches=_caches(text, kinds, heads, model_type),
        heads=heads,
        context_len=text.integer(*_CONTEXT),
        stored=_stored(text) or _stored(config),
        quantization=None if quantized is None else quantization(quantized),
        kv_dtype=None if quantized is None else declared_kv_dtype(quantized),
    )


def _text_part(config: Fields) -> Fields:
    """The language model's part: multimodal models nest it, up to twice."""
    for _ in range(3):
        inner = next((part for name in _TEXT_SECTIONS if (part := config.section(name)) is not None), None)
        if inner is None or (_has_layers(config) and not _has_layers(inner)):
            return config
        config = inner
    return config


def _has_layers(fields: Fields) -> bool:
    return any(name in fields for name in _LAYERS)


def _stored(fields: Fields) -> Dtype | None:
    name = fields.text("dtype", "torch_dtype")
    return weight_dtype(name) if name else None


def _caches(fields: Fields, kinds: Counter[Kind], heads: int | None, model_type: str) -> tuple[Cache, ...]:
    caches: list[Cache] = []
    full = kinds["full"] + kinds["hybrid"]
    windowed: list[Kind] = [kind for kind in _WINDOWED if kinds[kind]]
    if (rank := fields.integer("kv_lora_rank")) is not None:
        if windowed:
            raise fields.fault("kv_lora_rank", "latent attention with a window is not understood")
        index = fields.integer("index_head_dim") or 0
        latent = Latent(full, rank, fields.need("qk_rope_head_dim"), index)
        caches += [latent] if full else []
    elif full:
        caches.append(_attention(fields, "full", full, heads))
    caches += [_attention(fields, kind, kinds[kind], heads) for kind in windowed]
    if state := kinds["state"] + kinds["hybrid"]:
        caches.append(state_cache(fields, state, fields.need(*_HIDDEN), model_type))
    if not caches:
        raise fields.fault("layer_types", "no layer keeps anything for a token or a sequence")
    return tuple(caches)


def _attention(fields: Fields, kind: Kind, layers: int, heads: int | None) -> Attention:
    kv_heads, key_dim = _heads(fields, heads)
    value_dim = fields.integer("v_head_dim") or key_dim
    window = None
    if kind == "sliding":
        window = fields.need("sliding_window", "sliding_window_size")
        kv_heads = fields.integer("swa_num_key_value_heads") or kv_heads
        key_dim = fields.integer("swa_head_dim") or key_dim
        value_dim = fields.integer("swa_v_head_dim") or value_dim
    elif kind == "chunked":
        window = fields.need("attention_chunk_size")
    elif (wide := fields.integer("global_head_dim")) is not None:
        key_dim = value_dim = wide
        if fields.flag("attention_k_eq_v"):
            kv_heads = fields.integer("num_global_key_value_heads") or kv_heads
    return Attention(layers, kv_heads, key_dim, value_dim, window)


def _heads(fields: Fields, heads: int | None) -> tuple[int, int]:
    """KV heads and the width of one. Without a number of its own it is MHA."""
    hidden = fields.integer(*_HIDDEN)
    width = fields.integer(*_HEAD_DIM)
    kv_heads = _kv_heads(fields)
    if heads is None and kv_heads is None and hidden is not None:
        # MHA of unknown division: the width is what counts, and any tensor parallelism divides it
        width = width or 1
        if hidden % width:
            raise fields.fault("hidden_size", f"{hidden} is no multiple of head_dim {width}")
        return hidden // width, width
    if width is None:
        hidden, heads = fields.need(*_HIDDEN), fields.need(*_HEADS)
        if hidden % heads:
            raise fields.fault(
                "hidden_size", f"{hidden} is no multiple of {heads} heads, and there is no head_dim"
            )
        width = hidden // heads
    kv_heads = kv_heads or heads or fields.need(*_KV_HEADS)
    if heads is not None and (kv_heads > heads or heads % kv_heads):
        raise fields.fault("num_key_value_heads", f"{heads} attention heads cannot share {kv_heads} KV heads")
    return kv_heads, width


def _kv_heads(fields: Fields) -> int | None:
    if (found := fields.integer("num_key_value_heads")) is not None:
        return found
    # Falcon 40B: with the new architecture multi_query is set and means nothing
    if fields.flag("multi_query") and not fields.flag("new_decoder_architecture"):
        return 1
    nested = fields.section("attn_config")
    return fields.integer(*_KV_HEADS) or (nested.integer("kv_n_heads") if nested else None)
