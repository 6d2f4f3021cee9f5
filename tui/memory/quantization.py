"""What a checkpoint says of its quantised weights, and of the KV format that it was calibrated for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.memory.dtypes import FP8, Dtype
from tui.memory.shape import Quantization

if TYPE_CHECKING:
    from tui.memory.fields import Fields

_BY_METHOD = {"fp8": 8, "fbgemm_fp8": 8, "mxfp4": 4, "nvfp4": 4, "modelopt_fp4": 4, "w4a16": 4, "w8a8": 8}


def quantization(section: Fields) -> Quantization:
    """Method and bits of a ``quantization_config`` (or of ModelOpt's ``quantization``)."""
    method = (section.text("quant_method", "quant_algo", "quant_library") or "").lower()
    bits = section.integer("bits", "w_bit", "num_bits", high=32) or _flagged(section) or _grouped(section)
    nested = section.section("quantization")
    if nested is not None and (inner := quantization(nested)) and (inner.method or inner.bits):
        return Quantization(method or inner.method, bits or inner.bits)
    return Quantization(method, bits or _BY_METHOD.get(method))


def declared_kv_dtype(section: Fields) -> Dtype | None:
    """FP8 where the checkpoint brings scales for an FP8 KV cache, which engines then use by default."""
    scheme = section.section("kv_cache_scheme")
    if scheme is not None and scheme.integer("num_bits", high=32) == 8:
        return FP8
    for holder in (section, section.section("quantization")):
        if holder is not None and (holder.text("kv_cache_quant_algo") or "").lower() == "fp8":
            return FP8
    return None


def _flagged(section: Fields) -> int | None:
    """The spelling of bitsandbytes."""
    return 4 if section.flag("load_in_4bit") else 8 if section.flag("load_in_8bit") else None


def _grouped(section: Fields) -> int | None:
    """The spelling of compressed-tensors: the bits of its narrowest group."""
    groups = section.section("config_groups")
    if groups is None:
        return None
    found = [
        weights.integer("num_bits", high=32)
        for group in groups.sections()
        if (weights := group.section("weights"))
    ]
    return min((bits for bits in found if bits is not None), default=None)
