"""``infertop plan --json``: schema 1. Memory is of one GPU of the tensor-parallel group."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tui.memory import kv
from tui.memory.plan import GIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.memory.changes import Change
    from tui.memory.plan import Plan
    from tui.memory.shape import ModelShape
    from tui.memory.weights import Weights


def document(
    shape: ModelShape, weights: Weights, plan: Plan, changes: Sequence[Change], notes: Sequence[str]
) -> dict[str, Any]:
    """The contract's fields, and the arithmetic's inputs."""
    setting = plan.setting
    return {
        "schema": 1,
        "weights_gib": _gib(plan.weights),
        "kv_bytes_per_token": plan.kv_per_token,
        "kv_gib": _gib(plan.kv),
        "temporaries_gib": _gib(plan.temporaries),
        "system_gib": _gib(plan.system),
        "total_gib": _gib(plan.total),
        "gpu_mem_gib": setting.gpu_mem_gib,
        "fits": plan.fits,
        "max_sequences": plan.max_sequences,
        "max_tokens": plan.max_tokens,
        "budget_gib": _gib(plan.budget),
        "kv_pool_gib": _gib(plan.pool),
        "kv_bytes_per_sequence": plan.kv_per_sequence,
        "state_bytes_per_sequence": plan.state_per_sequence,
        "kv_bytes_per_token_tp1": kv.bytes_per_token(shape, plan.kv_dtype),
        "tp": setting.tp,
        "max_model_len": setting.max_model_len,
        "max_num_seqs": setting.max_num_seqs,
        "utilization": setting.utilization,
        "dtype": setting.dtype.name if setting.dtype else None,
        "kv_dtype": plan.kv_dtype.name,
        "model_type": shape.model_type or None,
        "layers": shape.layers,
        "parameters": weights.parameters,
        "weights_from": weights.origin or None,
        "changes": [
            {"effect": change.effect, "set": [dataclasses.asdict(step) for step in change.steps]}
            for change in changes
        ],
        "notes": list(notes),
    }


def _gib(size: int) -> float:
    return round(size / GIB, 3)
