"""What only the zoomed pane has room for: links, memory errors, counters, processes, what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.model.units import DASH, count, gib, number, percent, ratio_as_percent
from tui.ui.lines import Line, Span, fit, narrow, wrap
from tui.ui.panes.gpu_row import INDEX
from tui.ui.table import Column, choose, head, row
from tui.ui.view import figure
from tui.ui.words import THROTTLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tui.model.readings import GpuProcess, GpuReading
    from tui.ui.panes.gpu_row import Row

_J_PER_KWH = 3.6e6


def sheet(rows: Sequence[Row], size: int) -> list[Line]:
    """A second table, the processes, and what could not be read with what would bring it."""
    chosen = choose(_MORE, size)
    lines = [head(chosen), *(row(chosen, item) for item in rows)]
    return [*lines, (), *_processes(rows, size), *_not_known(rows, size)]


def _figure(name: str, size: int, text: Callable[[GpuReading], str], rank: int) -> Column[Row]:
    return Column(name, size, lambda r: figure(text(r.gpu), stale=r.stale), rank=rank)


def _pair(name: str, first: str, second: str, rank: int, *, size: int = 8) -> Column[Row]:
    """Corrected and uncorrected: the second is news."""

    def cell(item: Row) -> Line:
        harmless, grave = getattr(item.gpu, first), getattr(item.gpu, second)
        if item.stale:
            return (Span(f"{count(harmless)}/{count(grave)}", "stale"),)
        return (Span(f"{count(harmless)}/", "muted"), Span(count(grave), "warn" if grave else "muted"))

    return Column(name, size, cell, rank=rank)


def _links(gpu: GpuReading) -> str:
    if gpu.nvlinks is None and gpu.nvlinks_up is None:
        return DASH
    return f"{number(gpu.nvlinks_up)}/{number(gpu.nvlinks)}"


def _energy(gpu: GpuReading) -> str:
    return number(None if gpu.energy_j is None else gpu.energy_j / _J_PER_KWH, 1)


def _throttled(item: Row) -> Span:
    """In which share of the last minute each reason held it down."""
    shares = item.gpu.throttle_share
    if shares is None:
        return Span(DASH, "muted")
    words = [f"{THROTTLES[name]} {ratio_as_percent(share)}%" for name, share in shares if name in THROTTLES]
    return Span(" ".join(words) or "never", "stale" if item.stale else "text")


def _mode(item: Row) -> Span:
    """Settings that are not the usual ones."""
    gpu = item.gpu
    words = ["MIG"] if gpu.mig else []
    if gpu.persistence is False:
        words.append("no persistence")
    if gpu.compute_mode not in (None, "default"):
        words.append(str(gpu.compute_mode).removesuffix("_process").replace("_", " "))
    return Span(", ".join(words), "stale" if item.stale else "text")


_MORE: tuple[Column[Row], ...] = (
    INDEX,
    _figure("PCIe tx", 7, lambda g: count(g.pcie_tx_mb_s), 4),
    _figure("rx MB/s", 7, lambda g: count(g.pcie_rx_mb_s), 4),
    _figure("NVLink", 6, _links, 3),
    _figure("tx", 5, lambda g: count(g.nvlink_tx_mb_s), 6),
    _figure("rx MB/s", 7, lambda g: count(g.nvlink_rx_mb_s), 6),
    Column("errors", 6, lambda r: _errors(r), rank=3),
    _figure("SM act%", 7, lambda g: ratio_as_percent(g.gpm_sm_active), 5),
    _figure("occ%", 4, lambda g: ratio_as_percent(g.gpm_sm_occupancy), 7),
    _figure("tensor%", 7, lambda g: ratio_as_percent(g.gpm_tensor_active), 5),
    _figure("dram%", 5, lambda g: ratio_as_percent(g.gpm_dram_active), 5),
    _figure("mem °C", 6, lambda g: number(g.mem_temp_c), 8),
    _figure("kWh", 7, _energy, 11),
    _pair("ECC c/u", "ecc_corrected", "ecc_uncorrected", 1),
    _pair("life c/u", "ecc_aggregate_corrected", "ecc_aggregate_uncorrected", 2),
    _pair("rows c/u", "remap_corrected", "remap_uncorrected", 2),
    Column("limited, 60 s", 14, _throttled, rank=9, to_left=True),
    Column("mode", 4, _mode, rank=10, grow=40, to_left=True),
)


def _errors(item: Row) -> Span:
    """NVLink errors: they say something as they grow, and the verdict does not use them."""
    return figure(count(item.gpu.nvlink_errors), stale=item.stale)


# ---------------------------------------------------------------------------------------- processes


@dataclass(frozen=True, slots=True)
class _Held:
    """A process on a device."""

    item: Row
    process: GpuProcess


_PROCESS: tuple[Column[_Held], ...] = (
    Column("#", 2, lambda h: Span(str(h.item.gpu.index), "label")),
    Column("pid", 8, lambda h: Span(str(h.process.pid), "muted")),
    Column("GiB", 6, lambda h: figure(gib(h.process.mem_mib), stale=h.item.stale)),
    Column("SM%", 4, lambda h: figure(percent(h.process.sm_pct), stale=h.item.stale)),
    Column("bw%", 4, lambda h: figure(percent(h.process.mem_ctrl_pct), stale=h.item.stale)),
    Column("process", 10, lambda h: Span(_owner(h)), grow=60, to_left=True),
)


def _owner(held: _Held) -> str:
    name = narrow(held.process.name or DASH, 60)
    return name if held.item.is_card else f"{name} in {narrow(held.item.gpu.mig_name or 'MIG', 20)}"


def _processes(rows: Sequence[Row], size: int) -> list[Line]:
    held = [_Held(item, process) for item in rows for process in item.gpu.processes or ()]
    if not held:
        return [(Span("processes ", "label"), Span("none that the driver names", "muted"))]
    chosen = choose(_PROCESS, size)
    return [head(chosen), *(row(chosen, one) for one in held)]


# ---------------------------------------------------------------------------------------- not known


def _not_known(rows: Sequence[Row], size: int) -> list[Line]:
    """A line a cause: what it costs, on which cards, and what would bring it."""
    causes: dict[tuple[str, str], tuple[dict[str, None], dict[int, None]]] = {}
    for item in rows:
        for gap in item.gpu.missing:
            fields, cards = causes.setdefault((gap.why, gap.enable), ({}, {}))
            fields[gap.field] = None
            cards[item.gpu.index] = None
    if not causes:
        return []
    label = "not known "
    lines: list[Line] = [()]
    for (why, enable), (fields, cards) in causes.items():
        how = f" ({enable})" if enable else ""
        text = narrow(f"{', '.join(fields)}: {why}{how}; GPU {spelled(cards)}")
        for part in wrap(text, size - len(label)):
            lines.append(fit((Span(label, "label"), Span(part, "muted")), size))
            label = " " * len(label)
        label = " " * len(label)
    return lines


def spelled(numbers: Iterable[int]) -> str:
    """Numbers with runs drawn together, e.g. ``0-3,7``."""
    runs: list[list[int]] = []
    for one in sorted(numbers):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
