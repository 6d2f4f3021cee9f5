"""``infertop plan`` for a person: a table that shows its arithmetic, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.memory import kv
from tui.memory.plan import GIB
from tui.memory.shape import Latent, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.memory.changes import Change
    from tui.memory.plan import Plan
    from tui.memory.shape import Cache, ModelShape
    from tui.memory.weights import Weights


def render(
    shape: ModelShape, weights: Weights, plan: Plan, changes: Sequence[Change], notes: Sequence[str]
) -> str:
    """Several lines, the last one ended."""
    lines = [_headline(shape, plan), "", *_table(shape, weights, plan), "", *_per_token(shape, plan)]
    lines += ["", *_outcome(plan)]
    if changes:
        lines += ["Any one of these makes it fit:", *_change_lines(changes)]
    elif not plan.fits:
        lines.append(
            "No one change is enough: fewer and shorter sequences, more GPUs and narrower formats together."
        )
    lines += [f"note: {note}" for note in notes]
    return "\n".join(lines) + "\n"


def _headline(shape: ModelShape, plan: Plan) -> str:
    setting = plan.setting
    gpus = "1 GPU" if setting.tp == 1 else f"each of {setting.tp} GPUs"
    model = f"{shape.model_type or 'model'}, {shape.layers} layers"
    load = f"{setting.max_num_seqs:,} x {setting.max_model_len:,} tokens"
    return f"{model}: {load} on {gpus} of {setting.gpu_mem_gib:g} GiB"


def _table(shape: ModelShape, weights: Weights, plan: Plan) -> list[str]:
    setting = plan.setting
    rows = [
        ("weights", plan.weights, _weights_how(weights, plan)),
        ("KV cache", plan.kv, _kv_how(plan)),
        ("temporaries", plan.temporaries, "assumed: activations, CUDA graphs"),
        ("system", plan.system, "assumed: CUDA context, communication"),
        ("total", plan.total, ""),
        ("budget", plan.budget, f"{setting.gpu_mem_gib:g} GiB x {setting.utilization:g}"),
    ]
    head = f"{'':<12}{'GiB':>9}{'GB':>9}"
    return [
        head,
        *(f"{name:<12}{size / GIB:>9.1f}{size / 1e9:>9.1f}  {how}".rstrip() for name, size, how in rows),
    ]


def _weights_how(weights: Weights, plan: Plan) -> str:
    dtype, tp = plan.setting.dtype, plan.setting.tp
    parts = [f"{weights.parameters / 1e9:,.4g} billion parameters"] if weights.parameters else []
    if dtype is not None and weights.loaded_bytes(dtype) != weights.stored_bytes:
        parts.append(f"as {dtype.name}")
    else:
        parts.append(weights.origin)
    return ", ".join(parts) + (f" / {tp} GPUs" if tp > 1 else "")


def _kv_how(plan: Plan) -> str:
    setting = plan.setting
    tokens, load = f"{setting.max_model_len:,} tokens", _sequences(setting.max_num_seqs)
    if plan.kv_per_sequence == plan.kv_per_token * setting.max_model_len:
        return f"{plan.kv_per_token:,} bytes x {tokens} x {load}, {plan.kv_dtype.name}"
    return f"{plan.kv_per_sequence:,} bytes for {tokens} x {load}, {plan.kv_dtype.name}"


def _per_token(shape: ModelShape, plan: Plan) -> list[str]:
    """How the bytes of a token come about, one line for each kind of layer."""
    lines = [f"KV bytes a token{' and GPU' if plan.setting.tp > 1 else ''}: {plan.kv_per_token:,}"]
    lines += [f"  {_cache_line(cache, plan)}" for cache in shape.caches]
    if plan.state_per_sequence:
        lines.append(f"State bytes a sequence: {plan.state_per_sequence:,}")
    return lines


def _cache_line(cache: Cache, plan: Plan) -> str:
    tp, size = plan.setting.tp, f"{plan.kv_dtype.bits / 8:g}"
    if isinstance(cache, State):
        values = cache.conv_values + cache.recurrent_values
        shared = f" / {tp} GPUs" if tp > 1 else ""
        return f"{cache.layers} layers x a state of {values:,} values a sequence{shared}"
    if isinstance(cache, Latent):
        index = f" + an index of {cache.index_dim} FP8 values" if cache.index_dim else ""
        copies = "; the same on every GPU" if tp > 1 else ""
        vector = f"({cache.rank} latent + {cache.rope_dim} rotary)"
        return f"{cache.layers} layers x {vector} x {size} bytes{index}{copies}"
    heads = kv.kv_heads_per_gpu(cache.kv_heads, tp)
    if cache.key_dim != cache.value_dim:
        widths = f"{heads} KV heads x ({cache.key_dim} + {cache.value_dim})"
    else:
        widths = f"{heads} KV heads x {cache.key_dim} x 2" if cache.key_dim > 1 else f"{heads:,} x 2"
    window = f", no more than {cache.window:,} tokens of a sequence" if cache.window else ""
    copies = f"; {cache.kv_heads} KV heads replicated over {tp} GPUs" if tp > cache.kv_heads else ""
    return f"{cache.layers} layers x {widths} x {size} bytes{window}{copies}"


def _outcome(plan: Plan) -> list[str]:
    setting = plan.setting
    pool = (
        f"The KV pool of {plan.pool / GIB:.1f} GiB holds {_sequences(plan.max_sequences)} of"
        f" {setting.max_model_len:,} tokens, {plan.max_tokens:,} tokens in all."
    )
    if plan.fits:
        return [f"fits: {(plan.budget - plan.total) / GIB:.1f} GiB to spare.", pool]
    short = f"does not fit: {(plan.total - plan.budget) / GIB:.1f} GiB too much."
    if plan.pool <= 0:
        return [short, "Even without KV cache the engine would not start."]
    if not plan.max_sequences:
        return [short, pool, "The engine would refuse to start: not one such sequence has room."]
    return [short, pool, "The engine would start, and queue or preempt whatever comes beyond."]


def _change_lines(changes: Sequence[Change]) -> list[str]:
    made = [" ".join(f"{step.option} {step.to}" for step in change.steps) for change in changes]
    width = max(map(len, made))
    lines = []
    for change, text in zip(changes, made, strict=True):
        now = " and ".join(step.now for step in change.steps)
        engine = " ".join(step.engine_option for step in change.steps if step.engine_option != step.option)
        lines.append(f"  {text:<{width}}  now {now}; {change.effect}{f'; vLLM: {engine}' if engine else ''}")
    return lines


def _sequences(count: int) -> str:
    return f"{count:,} sequence{'' if count == 1 else 's'}"
