"""What an engine's version does where its command line says nothing, as far as that is certain.

vLLM: ``engine/arg_utils.py`` and ``config`` of the releases; SGLang: ``server_args.py``; TensorRT-LLM:
``commands/serve.py``. What an engine works out for itself at start is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tui.model.readings import EngineKind, GpuReading

_LARGE_MIB: Final = 70.0 * 1024.0
_SPELLINGS: Final = (
    ("tensor-parallel-size", "tp-size", "tp"),
    ("pipeline-parallel-size", "pp-size", "pp"),
    ("data-parallel-size", "dp-size", "dp"),
    ("kv-cache-free-gpu-memory-fraction", "kv-cache-free-gpu-mem-fraction"),
)
"""Options that are spelled in several ways, with dashes, as ``command_args`` gives them."""


def option_defaults(
    engine: EngineKind | None,
    version: str | None,
    given: Mapping[str, str],
    gpus: Sequence[GpuReading] = (),
) -> dict[str, str]:
    """The values of options that were not given, by long name without dashes.

    Args:
        engine: which engine.
        version: its version; without one only what all versions share is told.
        given: the options of its command line.
        gpus: the devices that it uses; on some of them vLLM takes more sequences at once.
    """
    number = _number(version)
    if engine == "vllm":
        found = dict(_vllm(number, given, gpus))
    elif engine == "sglang":
        found = dict(_sglang())
    elif engine == "trtllm":
        found = dict(_trtllm())
    else:
        found = {}
    return {name: value for name, value in found.items() if not any(n in given for n in _spellings(name))}


def _vllm(
    version: tuple[int, int] | None, given: Mapping[str, str], gpus: Sequence[GpuReading]
) -> Iterator[tuple[str, str]]:
    yield "tensor-parallel-size", "1"
    yield "pipeline-parallel-size", "1"
    yield "data-parallel-size", "1"
    yield "kv-cache-dtype", "auto"
    if version is None:
        return
    if "kv-cache-memory-bytes" not in given:  # it takes the place of the fraction
        yield "gpu-memory-utilization", "0.92" if version >= (0, 20) else "0.9"
    if version >= (0, 18):
        yield "shutdown-timeout", "0"
    if version >= (0, 10) and (seats := _vllm_seats(gpus)):
        yield "max-num-seqs", seats


def _vllm_seats(gpus: Sequence[GpuReading]) -> str:
    """The API server's: by the device's size and name; empty where those are not known or differ."""
    kinds = {
        "1024" if card.mem_total_mib >= _LARGE_MIB and "a100" not in card.name.lower() else "256"
        for card in gpus
        if card.mem_total_mib is not None and card.name
    }
    return kinds.pop() if len(kinds) == 1 else ""


def _sglang() -> Iterator[tuple[str, str]]:
    yield "tensor-parallel-size", "1"
    yield "pipeline-parallel-size", "1"
    yield "data-parallel-size", "1"
    yield "kv-cache-dtype", "auto"
    yield "schedule-conservativeness", "1.0"
    yield "watchdog-timeout", "300"


def _trtllm() -> Iterator[tuple[str, str]]:
    yield "tensor-parallel-size", "1"
    yield "pipeline-parallel-size", "1"
    yield "kv-cache-free-gpu-memory-fraction", "0.9"


def _spellings(name: str) -> tuple[str, ...]:
    return next((names for names in _SPELLINGS if name in names), (name,))


def _number(version: str | None) -> tuple[int, int] | None:
    found = re.match(r"v?(\d+)\.(\d+)", version or "")
    return (int(found[1]), int(found[2])) if found else None
