"""One GPU as a row: what each column shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.model.units import DASH, gib, number, percent
from tui.ui.charts import area, meter
from tui.ui.lines import Line, Span, narrow
from tui.ui.table import Column
from tui.ui.view import figure, is_hot
from tui.ui.words import THROTTLES, gpu_kind, gpu_name
from tui.verdict.gpu_signals import free_mib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.readings import GpuReading
    from tui.ui.view import View

_PARTS = {"hw_slowdown": frozenset(("hw_thermal_slowdown", "hw_power_brake"))}
"""Reasons that NVML gives beside each of those that say more (``nvmlClocksEventReasonHwSlowdown``)."""
SPARK_S = 5.0
"""Seconds a dot of the small charts stands for, at least."""


@dataclass(frozen=True, slots=True)
class Row:
    """One device in its picture."""

    gpu: GpuReading
    view: View
    stale: bool
    """The figures are not the present ones."""

    @property
    def works(self) -> bool:
        """It answers: its figures count."""
        return self.gpu.state == "ok"

    @property
    def is_card(self) -> bool:
        """A whole card, no MIG instance of one."""
        return self.gpu.parent_uuid is None

    @property
    def scope(self) -> str:
        """The device's series."""
        return f"gpu:{self.gpu.uuid or self.gpu.index}"


def _figure(item: Row, text: str, value: float | None, *signals: str) -> Span:
    return figure(text, hot=is_hot(item.view, None, signals, value), stale=item.stale)


def _bar(item: Row, ratio: float | None, size: int) -> Line:
    filled, rest = meter(ratio, size)
    return (Span(filled, "stale" if item.stale else "bar"), Span(rest, "trough"))


def _of(item: Row, text: str, size: int) -> Span:
    """What a figure is a part of."""
    return Span(f"/{text}".ljust(size), "stale" if item.stale else "muted")


def _sm_ratio(gpu: GpuReading) -> float | None:
    return None if gpu.sm_pct is None else gpu.sm_pct / 100


def mem_ratio(gpu: GpuReading) -> float | None:
    """Memory in use, 0-1."""
    if gpu.mem_used_mib is None or not gpu.mem_total_mib:
        return None
    return gpu.mem_used_mib / gpu.mem_total_mib


def short_of_memory(item: Row) -> bool:
    """Whether what it has left is what made a verdict."""
    return is_hot(item.view, None, ("gpu_mem_free_mib",), free_mib(item.gpu), low=True)


def _memory(item: Row) -> Line:
    used = gib(item.gpu.mem_used_mib)
    total = number(None if item.gpu.mem_total_mib is None else item.gpu.mem_total_mib / 1024)
    return (
        figure(used, hot=short_of_memory(item), stale=item.stale),
        _of(item, total, 4),
    )


def _power(item: Row) -> Line:
    return (
        _figure(item, number(item.gpu.power_w), item.gpu.power_w, "power_w"),
        _of(item, number(item.gpu.power_limit_w), 5),
    )


def _throttle(item: Row) -> Span:
    """Active clocks event reasons; text, for a power cap alone is no trouble."""
    reasons = item.gpu.throttle
    if reasons is None:
        return Span(DASH, "muted")
    words = _throttle_words(reasons)
    if item.stale:
        return Span(words, "stale")
    return Span(words, "hot" if words and _held_down(item.view, reasons) else "text")


def _throttle_words(reasons: Sequence[str]) -> str:
    told = [name for name in reasons if name not in _PARTS or not _PARTS[name].intersection(reasons)]
    return " ".join(dict.fromkeys(THROTTLES[name] for name in told if name in THROTTLES))


def _held_down(view: View, reasons: Sequence[str]) -> bool:
    """Whether what limits a card is what a verdict is about: another may be at its power cap, and well."""
    named = " ".join(
        str(evidence.value)
        for verdict in view.judgement.verdicts
        if verdict.verdict == "power_thermal"
        for evidence in verdict.evidence
        if evidence.signal == "throttle"
    )
    return any(reason in named for reason in reasons)


def _limits(item: Row) -> Line:
    """What holds it down, behind a mark where something is wrong with a card that works."""
    mark = (Span("! ", "warn"),) if item.works and item.gpu.detail else ()
    return (*mark, _throttle(item))


def _spark(item: Row, count: int) -> Span:
    step = max(SPARK_S, 2 * item.view.snapshot.interval_s)
    values = item.view.trends.steps(item.scope, "sm_pct", 2 * count, step, item.view.now)
    return Span(area(values, 1, 100.0)[0], "spark")


def _index(item: Row) -> Span:
    """A card's, or which of its MIG instances it is."""
    if item.is_card:
        return Span(str(item.gpu.index), "label")
    return Span("└" if item.gpu.mig_index is None else f"└{item.gpu.mig_index}", "label")


def _name(item: Row, name: str) -> Span:
    """A card's name, or a MIG instance's below it."""
    return Span(name) if item.is_card else Span(narrow(item.gpu.mig_name or "MIG", 20))


def pcie(gpu: GpuReading) -> str:
    """The link's generation and width, and what it could be where that is more."""
    if gpu.pcie_gen is None and gpu.pcie_width is None:
        return DASH
    now = f"{number(gpu.pcie_gen)}x{number(gpu.pcie_width)}"
    most = f"{number(gpu.pcie_gen_max)}x{number(gpu.pcie_width_max)}"
    return now if now == most else f"{now} of {most}"


INDEX: Column[Row] = Column("#", 2, _index)
_NAME: Column[Row] = Column("GPU", 4, lambda r: _name(r, gpu_kind(r.gpu.name)), grow=9, to_left=True, rank=2)
_SM: Column[Row] = Column(
    "SM%", 4, lambda r: _figure(r, percent(r.gpu.sm_pct), r.gpu.sm_pct, "sm_pct", "gpu_sm_pct")
)
_BUS: Column[Row] = Column(
    "bw%", 4, lambda r: _figure(r, percent(r.gpu.mem_ctrl_pct), r.gpu.mem_ctrl_pct, "mem_ctrl_pct"), rank=4
)
_MEMORY: Column[Row] = Column("mem GiB ", 10, _memory)
_POWER: Column[Row] = Column("power W ", 9, _power, rank=3)
_TEMP: Column[Row] = Column(
    "°C", 3, lambda r: _figure(r, number(r.gpu.temp_c), r.gpu.temp_c, "temp_c"), rank=3
)
LIMIT: Column[Row] = Column("limit", 5, _limits, rank=5, grow=9, to_left=True)

COLUMNS: tuple[Column[Row], ...] = (
    INDEX,
    _NAME,
    _SM,
    Column("", 6, lambda r: _bar(r, _sm_ratio(r.gpu), 6), rank=7),
    _BUS,
    _MEMORY,
    Column("", 6, lambda r: _bar(r, mem_ratio(r.gpu), 6), rank=8),
    _POWER,
    _TEMP,
    LIMIT,
    Column("SM, 2 min", 12, lambda r: _spark(r, 12), rank=6, to_left=True),
)

FULL: tuple[Column[Row], ...] = (
    INDEX,
    Column("GPU", 4, lambda r: _name(r, gpu_name(r.gpu.name)), grow=16, to_left=True, rank=2),
    _SM,
    Column("", 8, lambda r: _bar(r, _sm_ratio(r.gpu), 8), rank=7),
    _BUS,
    _MEMORY,
    _POWER,
    _TEMP,
    Column("SM MHz", 6, lambda r: figure(number(r.gpu.clock_sm_mhz), stale=r.stale), rank=9),
    Column("max", 5, lambda r: Span(number(r.gpu.clock_max_mhz), "muted"), rank=9),
    Column("mem MHz", 7, lambda r: figure(number(r.gpu.clock_mem_mhz), stale=r.stale), rank=10),
    Column("PCIe", 4, lambda r: figure(pcie(r.gpu), stale=r.stale), rank=11, grow=11, to_left=True),
    Column("ECC", 4, lambda r: _news(r.gpu.ecc_uncorrected), rank=11),
    Column("Xid", 4, lambda r: _news(r.gpu.xid), rank=11),
    LIMIT,
    Column("SM, 4 min", 24, lambda r: _spark(r, 24), rank=6, to_left=True),
)  # fmt: skip


def _news(value: int | None) -> Span:
    """A count of errors: any is news."""
    return Span(number(value), "warn" if value else "muted")
