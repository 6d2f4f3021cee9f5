"""Where an engine's GPU memory went: what the driver says of it beside what the model's shape says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tui.memory import kv
from tui.memory.dtypes import kv_dtype, weight_dtype
from tui.memory.errors import ModelError
from tui.memory.plan import Setting, kv_format, make_plan
from tui.model.memory import EngineMemory, GpuShare

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tui.memory.shape import ModelShape
    from tui.memory.weights import Weights
    from tui.model.readings import EngineReading, GpuReading

_MIB: Final = 1 << 20
TENSOR = ("tensor-parallel-size", "tp-size", "tp")
PIPELINE = ("pipeline-parallel-size", "pp-size", "pp")
DATA = ("data-parallel-size", "dp-size", "dp")
LENGTH = ("max-model-len", "context-length", "max-seq-len")
FRACTION = ("gpu-memory-utilization", "mem-fraction-static")
"""Options of the engines that mean the same, as ``command_args`` spells them."""


def breakdown(
    reading: EngineReading | None,
    options: Mapping[str, str],
    pids: Collection[int],
    gpus: Iterable[GpuReading],
    shape: ModelShape | None,
    weights: Weights | None,
) -> EngineMemory:
    """The memory of one engine; what cannot be told is None.

    Args:
        reading: its figures; they tell how many tokens the pool holds.
        options: its options, defaults included.
        pids: its processes.
        gpus: the devices of its host.
        shape: of its model.
        weights: of its model.
    """
    shares = tuple(_shares(pids, gpus))
    if shape is None:
        return EngineMemory(shares)
    total_mib = min((share.total_mib for share in shares if share.total_mib is not None), default=None)
    try:
        found = _arithmetic(reading, options, shape, weights, total_mib)
    except (ModelError, ValueError) as error:
        return EngineMemory(shares, why=str(error))
    known = None if found.weights_mib is None or found.kv_mib is None else found.weights_mib + found.kv_mib
    return replace(
        found,
        gpus=tuple(
            replace(s, rest_mib=None if known is None or s.engine_mib is None else s.engine_mib - known)
            for s in shares
        ),
    )


def _shares(pids: Collection[int], gpus: Iterable[GpuReading]) -> Iterator[GpuShare]:
    for card in gpus:
        mine = [p.mem_mib for p in card.processes or () if p.pid in pids]
        if not mine or card.state != "ok":
            continue
        held = [mib for mib in mine if mib is not None]
        total, used = card.mem_total_mib, card.mem_used_mib
        yield GpuShare(
            card.index,
            engine_mib=sum(held) if len(held) == len(mine) else None,
            free_mib=None if total is None or used is None else total - used - (card.mem_reserved_mib or 0.0),
            total_mib=total,
        )


def _arithmetic(
    reading: EngineReading | None,
    options: Mapping[str, str],
    shape: ModelShape,
    weights: Weights | None,
    total_mib: float | None,
) -> EngineMemory:
    tp, pp, dp = (whole_option(options, names) or 1 for names in (TENSOR, PIPELINE, DATA))
    length = whole_option(options, LENGTH) or shape.context_len
    served = options.get("dtype", "auto")
    cached = options.get("kv-cache-dtype", "auto")
    setting = Setting(
        gpu_mem_gib=(total_mib or 0.0) / 1024.0,
        max_model_len=length or 1,
        tp=tp,
        dtype=None if served == "auto" else weight_dtype(served),
        kv_dtype=None if cached == "auto" else kv_dtype(cached),
        utilization=fraction_option(options) or 0.0,
    )
    dtype = kv_format(shape, setting)
    token = kv.bytes_per_token(shape, dtype, tp) / pp
    tokens = reading.kv_capacity_tokens if reading is not None else None
    loaded = None if weights is None else weights.loaded_bytes(setting.dtype) / tp / pp
    predicted = None
    if weights is not None and total_mib and setting.utilization and pp == 1:
        predicted = max(0, make_plan(shape, weights, setting).pool) / _MIB
    sequences = None
    if tokens is not None and length:
        sequence = kv.bytes_per_sequence(shape, dtype, length, tp) / pp
        sequences = int(tokens * token / sequence) if sequence else None
    return EngineMemory(
        weights_mib=None if loaded is None else loaded / _MIB,
        kv_token_bytes=token,
        # the engine's figure is of all its replicas together
        kv_mib=None if tokens is None else tokens * token / dp / _MIB,
        kv_predicted_mib=predicted,
        sequences=sequences,
        sequence_tokens=length if sequences is not None else None,
        origin=weights.origin if weights is not None else "",
    )


def whole_option(options: Mapping[str, str], names: Iterable[str]) -> int | None:
    """A count among the options, by the first name that is there; None where it is none, or no count."""
    text = next((options[name] for name in names if name in options), "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 30 else None


def fraction_option(options: Mapping[str, str]) -> float | None:
    """The share of a GPU's memory that the options give the engine, 0-1; None where they do not say."""
    for name in FRACTION:
        try:
            value = float(options.get(name, ""))
        except ValueError:
            continue
        if 0.0 < value <= 1.0:
            return value
    return None
