"""Observations from a file: checked strictly, judged by the same rules as the live screen."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from tui.model.readings import EngineReading, GpuReading, HostReading, ProbeReading
from tui.model.settings import Slo, Thresholds
from tui.model.text import clean
from tui.verdict.assess import judge
from tui.verdict.picture import Picture, Trends

if TYPE_CHECKING:
    from tui.model.readings import EngineKind, EngineState, ProbeKind
    from tui.model.verdicts import Evidence

KINDS = ("vllm", "sglang", "trtllm", "triton")
PHASES = ("loading", "serving", "draining", "down", "unknown")
PROBE_KINDS = ("liveness", "readiness", "startup", "generate")
PROBE_WORDS = ("timeout", "refused", "reset", "tls", "dns")
PERCENT_LIMIT = 101.0
"""Counters are read a moment apart, so that a full disk or core shows 100.4."""
LARGEST = 1e15
DEFAULT_THRESHOLDS = Thresholds()
DEFAULT_SLO = Slo()

_GPU_FIGURES = (
    "sm_pct", "mem_ctrl_pct", "mem_used_mib", "mem_total_mib", "power_w", "power_limit_w", "temp_c",
    "clock_sm_mhz", "clock_max_mhz",
)  # fmt: skip
_ENGINE_FIGURES = (
    "running", "waiting", "kv_usage", "preemptions_per_s", "prefix_hit_ratio", "evictions_per_s",
    "ttft_p95_s", "itl_p95_s", "e2e_p95_s", "queue_p95_s", "gen_tok_s", "prompt_tok_s", "http_503_ratio",
    "error_ratio", "max_num_seqs",
)  # fmt: skip
_HOST_FIGURES = (
    "cpu_pct_total", "cpu_cores", "busiest_process_cpu_pct", "busiest_thread_cpu_pct", "iowait_pct",
    "disk_util_pct", "disk_read_mb_s", "mem_used_pct", "psi_cpu", "psi_io", "psi_mem", "ctx_switches_s",
    "net_mb_s",
)  # fmt: skip
_RATIOS = frozenset(("kv_usage", "prefix_hit_ratio", "http_503_ratio", "error_ratio"))
_PERCENTAGES = frozenset(
    ("sm_pct", "mem_ctrl_pct", "cpu_pct_total", "busiest_thread_cpu_pct", "iowait_pct", "disk_util_pct",
     "mem_used_pct", "psi_cpu", "psi_io", "psi_mem")
)  # fmt: skip


def picture_from_observation(obj: Mapping[str, Any]) -> Picture:
    """The picture of one labelled case or observation line; labels in it are not looked at.

    Args:
        obj: the line's object, with ``observations``; absent and null fields are unknown, others ignored.

    Raises:
        ValueError: a field has the wrong type or range; names the field and what was expected.
    """
    if not isinstance(obj, Mapping):
        raise ValueError("expected an object")
    seen = _table(obj, "observations", required=True)
    kind = _word(obj.get("engine"), "engine", KINDS)
    duration = _number(seen.get("duration_s"), "duration_s")
    raw_gpus = seen.get("gpus")
    if raw_gpus is not None and not isinstance(raw_gpus, list):
        raise ValueError("gpus: expected a list")
    engine = _figures(_table(seen, "engine"), "engine", _ENGINE_FIGURES)
    host = _figures(_table(seen, "host"), "host", _HOST_FIGURES)
    scope = clean(str(obj.get("id", "")), 100)
    return Picture(
        scope=scope,
        kind=cast("EngineKind | None", kind),
        gpus=None if raw_gpus is None else tuple(_gpu(i, gpu) for i, gpu in enumerate(raw_gpus)),
        engine=EngineReading(scope, engine=cast("EngineKind | None", kind), **engine) if engine else None,
        host=HostReading(**_whole_cores(host)) if host else None,
        probes=_probes(_table(seen, "probes"), scope),
        phase=cast("EngineState | None", _word(seen.get("phase"), "phase", PHASES)),
        held_s=duration,
        trends=Trends(waiting_held_s=duration if engine.get("waiting") else None),
        seats=engine.get("max_num_seqs"),
    )


def classify(obj: Mapping[str, Any], thresholds: Thresholds, slo: Slo) -> dict[str, Any]:
    """The output of ``infertop verdict`` for one observation.

    Raises:
        ValueError: as for ``picture_from_observation``.
    """
    picture = picture_from_observation(obj)
    verdict = judge(picture, thresholds, slo)
    return {
        "id": clean(str(obj["id"]), 100) if obj.get("id") is not None else None,
        "verdict": verdict.verdict,
        "secondary": list(verdict.secondary),
        "confidence": verdict.confidence,
        "evidence": [evidence_json(e) for e in verdict.evidence],
        "missing": list(verdict.missing),
        "advice": list(verdict.advice),
    }


def classify_line(
    line: str, thresholds: Thresholds = DEFAULT_THRESHOLDS, slo: Slo = DEFAULT_SLO
) -> dict[str, Any]:
    """``classify`` for one line of JSON.

    Raises:
        ValueError: the line is no JSON object, or a field of it has the wrong type or range.
    """
    try:
        obj = json.loads(line)
    except json.JSONDecodeError as error:
        # its own words number lines of their own, beside the file's
        raise ValueError(f"{error.msg}: column {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return classify(obj, thresholds, slo)


def evidence_json(evidence: Evidence) -> dict[str, Any]:
    """One piece of evidence by the names of the JSON contract."""
    return {f.name: getattr(evidence, f.name) for f in fields(evidence)}


# ---------------------------------------------------------------------------------------- checks


def _table(parent: Mapping[str, Any], name: str, *, required: bool = False) -> Mapping[str, Any]:
    value = parent.get(name)
    if value is None and not required:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: expected an object")
    return value


def _word(value: Any, name: str, words: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    if value not in words:
        raise ValueError(f"{name}: expected one of {', '.join(words)}")
    return cast("str", value)


def _number(value: Any, name: str, most: float = LARGEST) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: expected a number")
    if not 0 <= value <= most or not math.isfinite(value):
        raise ValueError(f"{name}: expected a number from 0 to {most:g}")
    return float(value)


def _figures(table: Mapping[str, Any], where: str, names: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        ratio, percent = name in _RATIOS, name in _PERCENTAGES
        most = 1.0 if ratio else PERCENT_LIMIT if percent else LARGEST
        value = _number(table.get(name), f"{where}.{name}", most)
        if value is not None:
            found[name] = min(value, 100.0) if percent else value
    return found


def _whole_cores(host: dict[str, Any]) -> dict[str, Any]:
    # a CPU quota may be 3.5 cores
    return {name: max(1, round(v)) if name == "cpu_cores" else v for name, v in host.items()}


def _gpu(index: int, gpu: Any) -> GpuReading:
    where = f"gpus[{index}]"
    if not isinstance(gpu, Mapping):
        raise ValueError(f"{where}: expected an object")
    figures = _figures(gpu, where, _GPU_FIGURES)
    throttle = gpu.get("throttle")
    if throttle is not None:
        if not isinstance(throttle, list) or not all(isinstance(name, str) for name in throttle):
            raise ValueError(f"{where}.throttle: expected a list of strings")
        throttle = tuple(clean(name, 40) for name in throttle)
    if not figures and throttle is None:
        return GpuReading(index, state="error")  # expected, and nothing of it could be read
    return GpuReading(index, throttle=throttle, **figures)


def _probes(table: Mapping[str, Any], url: str) -> dict[ProbeKind, ProbeReading]:
    found: dict[ProbeKind, ProbeReading] = {}
    for name in PROBE_KINDS:
        where = f"probes.{name}"
        probe = table.get(name)
        if probe is None:
            continue
        if not isinstance(probe, Mapping):
            raise ValueError(f"{where}: expected an object")
        status = probe.get("status")
        latency = _number(probe.get("latency_s"), f"{where}.latency_s")
        if status is None:
            continue
        whole = isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599
        if not whole and status not in PROBE_WORDS:
            raise ValueError(f"{where}.status: expected an HTTP status or one of {', '.join(PROBE_WORDS)}")
        kind = cast("ProbeKind", name)
        found[kind] = ProbeReading(url, kind, status=status, latency_s=latency)
    return found
