"""Whether a model with so many sequences of such a length fits into so many GPUs, and what of it would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.memory import kv
from tui.memory.dtypes import FP16, FP32
from tui.memory.shape import Attention

if TYPE_CHECKING:
    from tui.memory.dtypes import Dtype
    from tui.memory.shape import ModelShape
    from tui.memory.weights import Weights

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Setting:
    """What is to be served, on what. Every GPU of a tensor-parallel group is alike."""

    gpu_mem_gib: float
    max_model_len: int
    max_num_seqs: int = 1
    tp: int = 1
    dtype: Dtype | None = None
    """What the weights are served in; None: as stored."""
    kv_dtype: Dtype | None = None
    """None: what the checkpoint asks for, else the format that the model computes in."""
    utilization: float = 0.9
    """Share of a GPU's memory that the engine may take, 0-1."""
    temporaries_gib: float = 3.0
    """Activations, CUDA graphs, workspaces of one GPU: 2-4 in practice."""
    system_gib: float = 1.0
    """CUDA context and communication buffers of one GPU."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The arithmetic for one GPU of the group; bytes unless the name says otherwise."""

    setting: Setting
    kv_dtype: Dtype
    weights: int
    kv_per_token: int
    """While every window still has room."""
    kv_per_sequence: int
    """A sequence of ``max_model_len``, states included."""
    state_per_sequence: int
    kv: int
    """``max_num_seqs`` such sequences."""
    temporaries: int
    system: int
    budget: int
    """GPU memory times utilisation."""

    @property
    def total(self) -> int:
        """Everything together."""
        return self.weights + self.kv + self.temporaries + self.system

    @property
    def fits(self) -> bool:
        """The total is within the budget."""
        return self.total <= self.budget

    @property
    def pool(self) -> int:
        """What is left of the budget for KV; negative where the rest alone is too much."""
        return self.budget - self.weights - self.temporaries - self.system

    @property
    def max_sequences(self) -> int:
        """How many sequences of ``max_model_len`` the pool holds."""
        return max(0, self.pool // self.kv_per_sequence)

    @property
    def max_tokens(self) -> int:
        """Tokens that the pool holds in sequences of ``max_model_len``, the last one in part."""
        return max(0, self.pool * self.setting.max_model_len // self.kv_per_sequence)


def make_plan(shape: ModelShape, weights: Weights, setting: Setting) -> Plan:
    """The arithmetic of one setting.

    Raises:
        ModelError: the weights' size in ``setting.dtype`` is not known.
    """
    dtype = kv_format(shape, setting)
    sequence = kv.bytes_per_sequence(shape, dtype, setting.max_model_len, setting.tp)
    return Plan(
        setting=setting,
        kv_dtype=dtype,
        weights=-(-weights.loaded_bytes(setting.dtype) // setting.tp),
        kv_per_token=kv.bytes_per_token(shape, dtype, setting.tp),
        kv_per_sequence=sequence,
        state_per_sequence=kv.state_bytes(shape, dtype, setting.tp),
        kv=sequence * setting.max_num_seqs,
        temporaries=round(setting.temporaries_gib * GIB),
        system=round(setting.system_gib * GIB),
        budget=round(setting.gpu_mem_gib * setting.utilization * GIB),
    )


def kv_format(shape: ModelShape, setting: Setting) -> Dtype:
    """The format that the KV cache takes: asked for, else the checkpoint's, else that of the computation."""
    if setting.kv_dtype is not None:
        return setting.kv_dtype
    if shape.kv_dtype is not None:
        return shape.kv_dtype
    if setting.dtype is not None and setting.dtype.bits >= 16:
        return setting.dtype
    return FP16 if shape.stored is None or shape.stored == FP32 or shape.stored.bits < 16 else shape.stored


def remarks(shape: ModelShape, weights: Weights, setting: Setting) -> list[str]:
    """What else someone who relies on the figures should know, one line each."""
    notes = list(weights.notes)
    asked, made_for = setting.max_model_len, shape.context_len
    if made_for is not None and asked > made_for:
        notes.append(f"max-model-len {asked} is beyond the {made_for} of the model: engines refuse it")
    wanted = [cache.kv_heads * cache.key_dim for cache in shape.caches if isinstance(cache, Attention)]
    if weights.key_rows and any(rows not in weights.key_rows for rows in wanted):
        found = " and ".join(map(str, sorted(weights.key_rows)[:4]))
        notes.append(
            f"the checkpoint's key projections have {found} rows, KV heads x head width is "
            f"{' and '.join(map(str, wanted))}: config and weights do not belong together"
        )
    return notes
