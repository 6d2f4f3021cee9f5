"""Names of number formats and their width, in the spellings of the engines and of config.json."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dtype:
    """How numbers are stored."""

    name: str
    bits: int

    def size(self, values: int) -> int:
        """Bytes that so many values take; a half byte counts as one."""
        return -(-values * self.bits // 8)


FP32 = Dtype("fp32", 32)
FP16 = Dtype("fp16", 16)
BF16 = Dtype("bf16", 16)
FP8 = Dtype("fp8", 8)
INT8 = Dtype("int8", 8)
INT4 = Dtype("int4", 4)
FP8_DS_MLA = Dtype("fp8_ds_mla", 8)
"""Latent attention's own layout: FP8 latent with a 4-byte scale for each 128 values, 16-bit rotary part."""

_WEIGHTS = {
    "fp32": FP32, "float32": FP32, "float": FP32,
    "fp16": FP16, "float16": FP16, "half": FP16,
    "bf16": BF16, "bfloat16": BF16,
    "fp8": FP8, "fp8_e4m3": FP8, "fp8_e5m2": FP8,
    "int8": INT8, "int4": INT4,
}  # fmt: skip
_KV = {name: dtype for name, dtype in _WEIGHTS.items() if dtype is not INT4} | {"fp8_ds_mla": FP8_DS_MLA}

WEIGHT_NAMES = tuple(_WEIGHTS)
KV_NAMES = tuple(_KV)


def weight_dtype(name: str) -> Dtype | None:
    """The format of that name (``torch.`` before it is allowed), None for an unknown one."""
    return _WEIGHTS.get(name.lower().removeprefix("torch."))


def kv_dtype(name: str) -> Dtype | None:
    """The format of the KV cache of that name, None for an unknown one."""
    return _KV.get(name.lower())
