"""Whether the model fits into the memory that is free now, and into what the engine would take of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.checks.finding import CheckFinding
from tui.checks.preflight.gpus import chosen, free_mib, named
from tui.memory import kv
from tui.memory.breakdown import PIPELINE, whole_option
from tui.memory.dtypes import kv_dtype, weight_dtype
from tui.memory.errors import ModelError
from tui.memory.plan import GIB, Setting, make_plan, remarks
from tui.model.text import clean
from tui.sources.option_defaults import option_defaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tui.checks.finding import CheckLevel
    from tui.checks.preflight.intent import Intent
    from tui.checks.preflight.model_directory import ModelLook
    from tui.memory.dtypes import Dtype
    from tui.memory.plan import Plan
    from tui.memory.shape import ModelShape
    from tui.memory.weights import Weights
    from tui.model.readings import GpuReading, GpuSet

_UTILIZATION: Final = 0.9
"""Where neither the command line nor the engine's defaults tell."""
_WORTH_TRYING: Final = 0.3
_MIB: Final = 1024.0


def fit_findings(
    intent: Intent, model: ModelLook, gpus: GpuSet, version: str | None
) -> Iterator[CheckFinding]:
    """The engine's share of the memory, and the model in it.

    Args:
        intent: what is to be started.
        model: its files.
        gpus: the devices as they are now.
        version: of the engine; its defaults depend on it.
    """
    rows = [row for row in chosen(intent, gpus.gpus)[0] if row.state == "ok" and free_mib(row) is not None]
    rows = rows[: intent.needed_gpus]
    if not rows:
        yield not_judged("no GPU whose memory is known")
        return
    share = _utilization(intent, version, rows)
    if intent.engine == "vllm":
        yield _share(rows, share)
    if model.shape is None or model.weights is None:
        yield not_judged(model.why, "warning" if model.directory is not None else "ok")
    elif (whole_option(intent.options, PIPELINE) or 1) > 1:
        yield not_judged("layers are spread over the stages of a pipeline")
    elif intent.max_model_len is None and model.shape.context_len is None:
        yield not_judged("the model does not say how long its sequences may be: give --max-model-len")
    else:
        yield from _fit(intent, model.shape, model.weights, rows, share)


def _share(rows: Sequence[GpuReading], share: float) -> CheckFinding:
    """What vLLM refuses to start without: it compares its share of the whole with what is free."""
    worst = min(rows, key=lambda row: (free_mib(row) or 0.0) - share * _usable(row))
    free, wanted = (free_mib(worst) or 0.0) / _MIB, share * _usable(worst) / _MIB
    text = f"{named(worst)}: {free:,.1f} GiB free, vLLM takes {share:g} of the memory: {wanted:,.1f} GiB"
    level, figure = ("ok", "") if free >= wanted else ("error", "; it refuses to start with less")
    if level == "error" and (would := int(100 * free * _MIB / _usable(worst)) / 100) >= _WORTH_TRYING:
        figure += f": --gpu-memory-utilization {would:g} would do"
    return CheckFinding(
        "gpu-share", "error" if level == "error" else "ok", text + figure, round(free, 1), round(wanted, 1)
    )


def _fit(
    intent: Intent, shape: ModelShape, weights: Weights, rows: Sequence[GpuReading], share: float
) -> Iterator[CheckFinding]:
    tp = intent.tp or 1
    if reason := kv.refusal(shape, tp):
        yield CheckFinding("model-fits", "error", f"tensor parallel {tp}: engines refuse it: {reason}", tp)
        return
    budget_mib = min(min(free_mib(row) or 0.0, share * _usable(row)) for row in rows)
    length = intent.max_model_len or shape.context_len or 1
    setting = Setting(
        gpu_mem_gib=budget_mib / _MIB,
        max_model_len=length,
        max_num_seqs=intent.max_num_seqs or 1,
        tp=tp,
        dtype=_weights_dtype(intent),
        kv_dtype=None if intent.kv_dtype == "auto" else kv_dtype(intent.kv_dtype),
        utilization=1.0,
    )
    try:
        yield _judged(make_plan(shape, weights, setting), intent)
    except ModelError as error:
        yield not_judged(clean(str(error)))
    for note in remarks(shape, weights, setting):
        if note not in weights.notes:  # those are of files, which are looked at one by one
            yield CheckFinding("model-config", "warning", note)


def _judged(plan: Plan, intent: Intent) -> CheckFinding:
    """An engine starts with room for one sequence; that not all can be long at once is its daily bread."""
    budget, length = round(plan.budget / GIB, 1), plan.setting.max_model_len
    rest = (plan.temporaries + plan.system) / GIB
    parts = f"weights {plan.weights / GIB:,.1f} + {rest:,.1f} GiB for temporaries and system"
    where = (
        f"of {budget:,.1f} GiB on each of {plan.setting.tp} GPUs"
        if plan.setting.tp > 1
        else f"of {budget:,.1f} GiB"
    )
    needed = round((plan.total - plan.kv + plan.kv_per_sequence) / GIB, 1)
    if plan.pool < 0:
        text = f"the model does not fit: {parts} {where}"
        return CheckFinding("model-fits", "error", text, budget, needed)
    if plan.max_sequences < 1:
        text = (
            f"the model does not fit: {parts} {where} leave room for {plan.max_tokens:,} tokens, "
            f"one sequence has {length:,}: lower --max-model-len"
        )
        return CheckFinding("model-fits", "error", text, budget, needed)
    text = f"the model fits: {parts} {where}; room for {plan.max_sequences:,} sequences of {length:,} tokens"
    if intent.max_num_seqs is not None and plan.max_sequences < intent.max_num_seqs:
        text += f", {intent.max_num_seqs:,} wanted: infertop plan says what to change"
        return CheckFinding("model-fits", "warning", text, plan.max_sequences, intent.max_num_seqs)
    if intent.seats is not None and plan.max_sequences < intent.seats:
        text += f" (up to {intent.seats:,} at once, if they are shorter)"
    return CheckFinding("model-fits", "ok", text, budget, needed)


def _utilization(intent: Intent, version: str | None, rows: Sequence[GpuReading]) -> float:
    if intent.utilization is not None:
        return intent.utilization
    unasked = option_defaults(intent.engine, version, intent.options, rows)
    return float(unasked.get("gpu-memory-utilization", _UTILIZATION))


def _weights_dtype(intent: Intent) -> Dtype | None:
    """What the weights are served in; those that the engine quantises while it loads count as such."""
    for name in (intent.options.get("quantization", ""), intent.dtype):
        if (found := weight_dtype(name)) is not None:
            return found
    return None


def _usable(row: GpuReading) -> float:
    """All memory that processes can have, MiB; what CUDA calls the total."""
    return (row.mem_total_mib or 0.0) - (row.mem_reserved_mib or 0.0)


def not_judged(why: str, level: CheckLevel = "ok") -> CheckFinding:
    """The finding where the arithmetic lacks something."""
    return CheckFinding("model-fits", level, f"not checked: whether the model fits: {why}")
