"""The constant state of Mamba, linear-attention and convolution layers, from config.json.

Shapes as vLLM allocates them (``MambaStateShapeCalculator``), without speculative tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.memory.dtypes import weight_dtype
from tui.memory.shape import State

if TYPE_CHECKING:
    from tui.memory.fields import Fields

_MAMBA2_HEADS = ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads")
_STATE_SIZE = ("mamba_d_state", "ssm_state_size", "state_size")
_KERNEL = ("mamba_d_conv", "conv_kernel")


def state_cache(fields: Fields, layers: int, hidden: int, model_type: str) -> State:
    """What ``layers`` state layers keep for one sequence.

    Raises:
        ModelError: the config does not give the dimensions of a known kind.
    """
    linear = fields.section("linear_attn_config")
    bits: int | None = None
    if "linear_num_value_heads" in fields:
        conv, recurrent = _gated_delta(fields)
    elif linear is not None:
        conv, recurrent = _kimi_delta(linear)
        bits = 32
    elif (kernel := fields.integer("conv_L_cache")) is not None:
        return State(layers, (fields.integer("conv_dim") or hidden) * (kernel - 1))
    elif model_type == "mamba2" or any(name in fields for name in _MAMBA2_HEADS):
        conv, recurrent = _mamba2(fields, hidden, model_type)
        bits = 32 if model_type == "nemotron_h" else None
    elif any(name in fields for name in _STATE_SIZE):
        inner = _inner(fields, hidden)
        conv = inner * (fields.need(*_KERNEL) - 1)
        recurrent = inner * fields.need(*_STATE_SIZE)
    else:
        raise fields.fault("layer_types", "state layers whose dimensions the config does not give")
    return State(layers, conv, recurrent, _declared_bits(fields) or bits)


def _gated_delta(fields: Fields) -> tuple[int, int]:
    keys = fields.need("linear_num_key_heads") * fields.need("linear_key_head_dim")
    heads, width = fields.need("linear_num_value_heads"), fields.need("linear_value_head_dim")
    conv = (2 * keys + heads * width) * (fields.need("linear_conv_kernel_dim") - 1)
    return conv, heads * width * fields.need("linear_key_head_dim")


def _kimi_delta(linear: Fields) -> tuple[int, int]:
    heads, width = linear.need("num_heads"), linear.need("head_dim")
    return 3 * heads * width * (linear.need("short_conv_kernel_size") - 1), heads * width * width


def _mamba2(fields: Fields, hidden: int, model_type: str) -> tuple[int, int]:
    pure = model_type == "mamba2"  # only there do the bare names belong to the Mamba heads
    heads = fields.need(*_MAMBA2_HEADS, *(("num_heads",) if pure else ()))
    if "mamba_head_dim" in fields:  # then the inner width follows from the heads, not from an expansion
        inner = heads * fields.need("mamba_head_dim")
    else:
        inner = fields.integer("mamba_d_ssm") or _inner(fields, hidden)
    state = fields.need(*_STATE_SIZE)
    groups = fields.integer("mamba_n_groups", "mamba_ngroups", "n_groups") or 1
    return (inner + 2 * groups * state) * (fields.need(*_KERNEL) - 1), inner * state


def _inner(fields: Fields, hidden: int) -> int:
    return (fields.integer("mamba_expand", "expand") or 2) * hidden


def _declared_bits(fields: Fields) -> int | None:
    name = fields.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype")
    dtype = weight_dtype(name) if name else None
    return dtype.bits if dtype else None
