"""What to change when a plan does not fit: each knob alone, and how far it must go."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tui.memory import kv
from tui.memory.dtypes import FP8, INT4, INT8
from tui.memory.plan import GIB, Plan, make_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.memory.shape import ModelShape
    from tui.memory.weights import Weights

_HIGHEST_UTILIZATION = 0.95
"""Beyond it a fragment or a neighbour's context is an out-of-memory error."""
_MOST_GPUS = 64
_LARGEST_GPU_GIB = 288
"""No GPU on sale has more."""
_BLOCK = 16
"""Tokens of a KV block as a rule; part of one costs a whole one."""


@dataclass(frozen=True, slots=True)
class Step:
    """One option and its new value."""

    option: str
    """As ``infertop plan`` spells it."""
    now: str
    to: str
    engine_option: str
    """As vLLM spells it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One way to make the plan fit: a step, or two that only together are enough."""

    steps: tuple[Step, ...]
    effect: str
    """What it costs, or what else to know."""


def changes(shape: ModelShape, weights: Weights, plan: Plan) -> list[Change]:
    """Every single step that is enough, the cheapest first, then pairs; empty where the plan fits."""
    if plan.fits:
        return []
    single = [
        *_fewer_tokens(shape, plan),
        *_higher_utilization(plan),
        *_narrower(shape, weights, plan),
        *_more_hardware(shape, weights, plan),
    ]
    return [*single, *_pairs(shape, weights, plan, stuck=not single)]


def longest(shape: ModelShape, plan: Plan) -> int:
    """The longest sequences of which ``max_num_seqs`` fit, at most ``max_model_len``; 0 where none do."""
    setting = plan.setting
    each = plan.pool // setting.max_num_seqs
    low, high = 0, setting.max_model_len
    while low < high:
        middle = (low + high + 1) // 2
        if kv.bytes_per_sequence(shape, plan.kv_dtype, middle, setting.tp) <= each:
            low = middle
        else:
            high = middle - 1
    return low - low % _BLOCK if low >= _BLOCK else low


def _fewer_tokens(shape: ModelShape, plan: Plan) -> Iterator[Change]:
    if plan.max_sequences:
        yield Change((_sequences(plan, plan.max_sequences),), "what comes beyond waits in the queue")
    if length := longest(shape, plan):
        name = "--max-model-len"
        step = Step(name, str(plan.setting.max_model_len), str(length), name)
        yield Change((step,), "longer requests are refused")


def _higher_utilization(plan: Plan) -> Iterator[Change]:
    setting = plan.setting
    needed = math.ceil(100 * plan.total / (setting.gpu_mem_gib * GIB)) / 100
    if setting.utilization < needed <= _HIGHEST_UTILIZATION:
        step = Step("--utilization", f"{setting.utilization:g}", f"{needed:g}", "--gpu-memory-utilization")
        yield Change((step,), "leaves less for other processes and peaks")


def _narrower(shape: ModelShape, weights: Weights, plan: Plan) -> Iterator[Change]:
    setting = replace(plan.setting, kv_dtype=plan.kv_dtype)
    if plan.kv_dtype.bits > 8 and make_plan(shape, weights, replace(setting, kv_dtype=FP8)).fits:
        yield Change((_fp8(plan),), "costs some accuracy")
    if weights.parameters is None:
        return
    for dtype in (INT8, INT4):
        smaller = dtype.size(weights.parameters) < weights.loaded_bytes(setting.dtype)
        if smaller and make_plan(shape, weights, replace(setting, dtype=dtype)).fits:
            now = setting.dtype.name if setting.dtype else "as stored"
            step = Step("--dtype", now, dtype.name, "--model")
            yield Change((step,), "a quantised checkpoint; costs some accuracy")
            return


def _more_hardware(shape: ModelShape, weights: Weights, plan: Plan) -> Iterator[Change]:
    for wider in _wider(shape, weights, plan):
        if wider.fits:
            yield Change((_gpus(plan, wider.setting.tp),), "GPUs of the same kind")
            break
    setting = plan.setting
    needed = math.ceil(10 * plan.total / GIB / setting.utilization) / 10
    if needed <= _LARGEST_GPU_GIB:
        name = "--gpu-mem-gib"
        yield Change((Step(name, f"{setting.gpu_mem_gib:g}", f"{needed:g}", name),), "a larger GPU")


def _pairs(shape: ModelShape, weights: Weights, plan: Plan, *, stuck: bool) -> Iterator[Change]:
    narrow = make_plan(shape, weights, replace(plan.setting, kv_dtype=FP8))
    if plan.kv_dtype.bits > 8 and plan.max_sequences < narrow.max_sequences and not narrow.fits:
        yield Change((_fp8(plan), _sequences(plan, narrow.max_sequences)), "costs some accuracy")
    if not stuck:
        return
    for wider in _wider(shape, weights, plan):
        if wider.max_sequences:
            steps = (_gpus(plan, wider.setting.tp), _sequences(plan, wider.max_sequences))
            yield Change(steps, "the fewest GPUs that start at all")
            break


def _wider(shape: ModelShape, weights: Weights, plan: Plan) -> Iterator[Plan]:
    """The same on twice as many GPUs, four times as many, ...: hosts have 1, 2, 4 or 8."""
    tp = plan.setting.tp * 2
    while tp <= _MOST_GPUS:
        if kv.refusal(shape, tp) is None:
            yield make_plan(shape, weights, replace(plan.setting, tp=tp))
        tp *= 2


def _sequences(plan: Plan, to: int) -> Step:
    return Step("--max-num-seqs", str(plan.setting.max_num_seqs), str(to), "--max-num-seqs")


def _fp8(plan: Plan) -> Step:
    return Step("--kv-dtype", plan.kv_dtype.name, "fp8", "--kv-cache-dtype")


def _gpus(plan: Plan, tp: int) -> Step:
    return Step("--tp", str(plan.setting.tp), str(tp), "--tensor-parallel-size")
