"""The figures that rules compare with limits, each with a way to ask "and if it were another?"."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tui.verdict.signals import LEAST_SWITCHES_S, MANY_WAITING_RATIO, SWITCHES_UNKNOWN_CORES_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.readings import GpuReading
    from tui.verdict.picture import Picture
    from tui.verdict.signals import Signals

LASTING_S = 3600.0
"""A queue of which somebody asks "and if there were one?" is one that lasts."""
_FLOWS = ("gen_tok_s", "prompt_tok_s", "req_s", "preemptions_per_s")
LEAST_QUEUE = 3.0
"""A queue that counts has this many, or a share of those that run."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity of a picture, by the name under which evidence calls it.

    ``limits`` are those of any rule; which of them a rule compares with, only the rule knows.
    """

    signal: str
    inputs: frozenset[str]
    """Of ``Rule.inputs``: a rule that has none of them does not look at it."""
    read: Callable[[Signals], float | None]
    write: Callable[[Picture, float], Picture]
    limits: Callable[[Signals], tuple[float | None, ...]]
    unit: str = ""
    least: float = 0.001
    """The least that is more than nothing, where the limit is 0."""
    whole: bool = False
    """It counts things."""

    @property
    def most(self) -> float:
        """The greatest that it can be."""
        if self.unit == "%":
            return 100.0
        return 1.0 if self.signal.endswith(("_ratio", "_usage")) else math.inf


def _of_engine(*fields: str) -> Callable[[Picture, float], Picture]:
    def write(picture: Picture, value: float) -> Picture:
        changes: dict[str, Any] = dict.fromkeys(fields, value)
        return (
            picture if picture.engine is None else replace(picture, engine=replace(picture.engine, **changes))
        )

    return write


def _of_host(*fields: str) -> Callable[[Picture, float], Picture]:
    def write(picture: Picture, value: float) -> Picture:
        changes: dict[str, Any] = dict.fromkeys(fields, value)
        return picture if picture.host is None else replace(picture, host=replace(picture.host, **changes))

    return write


def _of_gpus(change: Callable[[GpuReading, float], GpuReading]) -> Callable[[Picture, float], Picture]:
    """Every device of the engine: what a rule sees is the extreme over them."""

    def write(picture: Picture, value: float) -> Picture:
        return replace(picture, gpus=tuple(change(gpu, value) for gpu in picture.gpus or ()))

    return write


def _running(picture: Picture, value: float) -> Picture:
    """Where nothing runs no token moves."""
    if picture.engine is None:
        return picture
    changes: dict[str, Any] = {"running": value}
    if value == 0.0:
        changes |= {name: 0.0 for name in _FLOWS if getattr(picture.engine, name) is not None}
    return replace(picture, engine=replace(picture.engine, **changes))


def _waiting(picture: Picture, value: float) -> Picture:
    trends = replace(picture.trends, waiting_held_s=LASTING_S if value else None, queue_ended=False)
    return _of_engine("waiting")(replace(picture, trends=trends), value)


def _preempting(picture: Picture, value: float) -> Picture:
    trends = replace(picture.trends, preempting_per_s=value)
    if picture.engine is None:
        return picture
    out = picture.engine.preempted if value else None
    engine = replace(picture.engine, preemptions_per_s=value, preempted=out)
    return replace(picture, engine=engine, trends=trends)


def _errors(picture: Picture, value: float) -> Picture:
    trends = replace(picture.trends, error_ratio=value)
    return _of_engine("error_ratio")(replace(picture, trends=trends), value)


def _stalled(picture: Picture, value: float) -> Picture:
    if picture.engine is None:
        return picture
    engine = replace(picture.engine, stalled_s=value, stalled_scrapes=int(value) if value >= 1 else 0)
    return replace(picture, engine=engine)


def _thread(picture: Picture, value: float) -> Picture:
    if picture.own is not None and picture.own.threads:
        first, *rest = picture.own.threads
        lower = tuple(replace(t, cpu_pct=min(t.cpu_pct, value)) for t in rest)
        picture = replace(picture, own=replace(picture.own, threads=(replace(first, cpu_pct=value), *lower)))
    return _of_host("busiest_thread_cpu_pct")(picture, value)


def _power(gpu: GpuReading, value: float) -> GpuReading:
    return replace(gpu, power_w=None if gpu.power_limit_w is None else value * gpu.power_limit_w)


def _clock(gpu: GpuReading, value: float) -> GpuReading:
    return replace(gpu, clock_sm_mhz=None if gpu.clock_max_mhz is None else value * gpu.clock_max_mhz)


def _free(gpu: GpuReading, value: float) -> GpuReading:
    if gpu.mem_total_mib is None:
        return gpu
    return replace(gpu, mem_used_mib=gpu.mem_total_mib - (gpu.mem_reserved_mib or 0.0) - value)


def _engine_value(field: str) -> Callable[[Signals], float | None]:
    return lambda s: getattr(s.engine, field) if s.engine is not None else None


def _host_value(field: str) -> Callable[[Signals], float | None]:
    return lambda s: getattr(s.host, field) if s.host is not None else None


def _host_figure(field: str, limit: Callable[[Signals], float], unit: str) -> Figure:
    return Figure(
        field, frozenset((f"host.{field}",)), _host_value(field), _of_host(field), lambda s: (limit(s),), unit
    )


def _latency(name: str, target: Callable[[Signals], float]) -> Figure:
    field = f"{name}_p95_s"
    return Figure(
        field,
        frozenset((f"engine.{field}",)),
        _engine_value(field),
        _of_engine(field),
        lambda s: (target(s), s.thresholds.slo_well_inside * target(s)),
        "s",
    )


def _gpu_figure(
    signal: str,
    field: str,
    read: Callable[[Signals], float | None],
    write: Callable[[GpuReading, float], GpuReading],
    limits: Callable[[Signals], tuple[float | None, ...]],
    unit: str = "",
) -> Figure:
    return Figure(signal, frozenset((f"gpus.{field}",)), read, _of_gpus(write), limits, unit)


def _many(s: Signals) -> float:
    return float(math.ceil(max(LEAST_QUEUE, MANY_WAITING_RATIO * (s.running or 0.0))))


def _switches(s: Signals) -> float:
    cores = s.host.cpu_cores if s.host is not None else None
    if not cores:
        return SWITCHES_UNKNOWN_CORES_S
    return max(LEAST_SWITCHES_S, s.thresholds.ctx_switches_per_core_s * cores)


FIGURES: tuple[Figure, ...] = (
    Figure("running", frozenset(("engine.running",)), lambda s: s.running, _running,
           lambda s: (None if s.running and s.waiting else 0.0, s.full_at), least=1.0, whole=True),
    Figure("waiting", frozenset(("engine.waiting",)), lambda s: s.waiting, _waiting,
           lambda s: (0.0, _many(s)), least=1.0, whole=True),
    Figure("kv_usage", frozenset(("engine.kv_usage",)), lambda s: s.kv,
           _of_engine("kv_usage", "kv_usage_max"),
           lambda s: (s.thresholds.kv_usage_early, s.thresholds.kv_usage_warn, s.thresholds.kv_usage_full)),
    Figure("preemptions_per_s", frozenset(("engine.preemptions_per_s",)), lambda s: s.preempting, _preempting,
           lambda s: (0.0,), "1/s", least=0.1),
    Figure("gen_tok_s", frozenset(("engine.gen_tok_s",)), _engine_value("gen_tok_s"), _of_engine("gen_tok_s"),
           lambda s: (None if s.running and s.flow else 0.0,), "tok/s", least=1.0),
    Figure("stalled_s", frozenset(("engine.stalled_s",)), _engine_value("stalled_s"), _stalled,
           lambda s: (s.stall_limit_s,), "s"),
    Figure("error_ratio", frozenset(("engine.error_ratio",)), lambda s: s.errors, _errors,
           lambda s: (s.thresholds.error_ratio,)),
    Figure("http_503_ratio", frozenset(("engine.http_503_ratio",)), _engine_value("http_503_ratio"),
           _of_engine("http_503_ratio"), lambda s: (s.thresholds.http_503_ratio,)),
    Figure("prefix_hit_ratio", frozenset(("engine.prefix_hit_ratio",)), _engine_value("prefix_hit_ratio"),
           _of_engine("prefix_hit_ratio"), lambda s: (s.thresholds.prefix_hit_ratio,)),
    _latency("ttft", lambda s: s.slo.ttft_p95_s),
    _latency("itl", lambda s: s.slo.itl_p95_s),
    _latency("queue", lambda s: s.slo.queue_p95_s),
    _gpu_figure("sm_pct", "sm_pct", lambda s: s.gpus.sm_max, lambda g, v: replace(g, sm_pct=v),
                lambda s: (s.thresholds.sm_high_pct, s.thresholds.sm_low_pct), "%"),
    _gpu_figure("mem_ctrl_pct", "mem_ctrl_pct", lambda s: s.gpus.mem_ctrl_max,
                lambda g, v: replace(g, mem_ctrl_pct=v), lambda s: (s.thresholds.mem_ctrl_low_pct,), "%"),
    _gpu_figure("power_ratio", "power_w", lambda s: s.gpus.power_ratio_max, _power,
                lambda s: (s.thresholds.power_high_ratio, s.thresholds.power_low_ratio)),
    _gpu_figure("clock_ratio", "clock_sm_mhz", lambda s: s.gpus.clock_ratio_min, _clock,
                lambda s: (s.thresholds.clock_low_ratio, s.thresholds.clock_high_ratio)),
    _gpu_figure("gpu_mem_free_mib", "mem_used_mib", lambda s: s.gpus.free_mib_min, _free,
                lambda s: (s.thresholds.gpu_mem_free_mib,), "MiB"),
    Figure("busiest_thread_cpu_pct", frozenset(("host.busiest_thread_cpu_pct", "own.threads")),
           lambda s: s.thread, _thread, lambda s: (s.thresholds.thread_busy_pct,), "%"),
    _host_figure("cpu_pct_total", lambda s: s.thresholds.cpu_total_pct, "%"),
    _host_figure("psi_cpu", lambda s: s.thresholds.psi_cpu, "%"),
    _host_figure("psi_io", lambda s: s.thresholds.psi_io, "%"),
    _host_figure("iowait_pct", lambda s: s.thresholds.iowait_pct, "%"),
    _host_figure("disk_util_pct", lambda s: s.thresholds.disk_util_pct, "%"),
    _host_figure("disk_read_mb_s", lambda s: s.thresholds.disk_read_mb_s, "MB/s"),
    _host_figure("net_mb_s", lambda s: s.thresholds.net_mb_s, "MB/s"),
    _host_figure("net_util_pct", lambda s: s.thresholds.net_util_pct, "%"),
    _host_figure("ctx_switches_s", _switches, "1/s"),
)  # fmt: skip
"""Those with a limit; a state (a probe's answer, a phase, a device that is lost) is no figure."""
