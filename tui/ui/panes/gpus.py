"""The GPUs: a row each, and how busy they have been."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.status import SourceState
from tui.model.units import DASH, gib, number, percent
from tui.ui.lines import Line, Span, cut, fit, narrow
from tui.ui.panes.charted import Chart, charts
from tui.ui.panes.gpu_row import COLUMNS, FULL, Row, mem_ratio
from tui.ui.table import Column, choose, head, noted, row
from tui.ui.view import figure
from tui.ui.words import READING, THROTTLES, age, gpu_reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.ui.view import View


def title(view: View) -> Line:
    """The title, with what is wrong with all devices at once."""
    spans = [Span("2 ", "muted"), Span("GPUs", "title")]
    observed = view.snapshot.gpus
    if old := age(observed.status):
        why = gpu_reason(observed.status.reason, observed.status.detail) if observed.status.reason else ""
        spans.append(Span(f"  {old}: {why}" if why else f"  {old}", "warn"))
    elif observed.reading and observed.reading.driver_version:
        spans.append(Span(f"  driver {narrow(observed.reading.driver_version, 20)}", "muted"))
    return tuple(spans)


def body(view: View, size: int, height: int) -> list[Line]:
    """The table, and below it how busy and how hungry all of them have been."""
    rows = _rows(view)
    if not rows:
        return _nothing(view, size)
    full = view.mode.full == "gpus"
    chosen = choose(FULL if full else COLUMNS, size)
    lines = [head(chosen), *_table(chosen, rows, size, len(rows) if full else height - 1)]
    room = height - len(lines) - 1
    if full:
        room = max(room, 8)
    if room >= 3:
        lines += [(), *charts(view, _charts(view, rows), size, min(room, 9))]
    if full:
        lines += [(), *_processes(rows, size)]
    return lines


def flat(view: View, size: int, height: int) -> list[Line]:
    """Rows where there is room for them, else all devices in one or two lines."""
    mark = Span("▸" if view.mode.focused == "gpus" else " ", "focus")
    rows = _rows(view)
    if not rows:
        lines = [(Span("GPU ", "title"), *line) for line in _nothing(view, size - 5)]
    elif height >= min(5, len(rows) + 1):
        chosen = choose(COLUMNS, size - 1)
        lines = [head(chosen), *_table(chosen, rows, size - 1, height - 1)]
    else:
        lines = _summary(rows, size - 1, height)
    return [(mark, *line) for line in lines[:height]]


def _rows(view: View) -> list[Row]:
    observed = view.snapshot.gpus
    stale = not observed.status.ok
    return [Row(gpu, view, stale) for gpu in observed.reading.gpus] if observed.reading else []


def _nothing(view: View, size: int) -> list[Line]:
    status = view.snapshot.gpus.status
    if status.state is SourceState.PENDING:
        return [(Span(READING, "muted"),)]
    if status.reason is None:
        return [(Span("the NVIDIA driver counts no GPU", "text"),)]
    return [
        (Span(cut(gpu_reason(status.reason, status.detail), size), "text"),),
        (Span(cut("engine and host figures are read all the same", size), "muted"),),
    ]


def _table(chosen: Sequence[tuple[Column[Row], int]], rows: list[Row], size: int, room: int) -> list[Line]:
    """A line a device in index order; where they do not all fit, those in trouble first."""
    if len(rows) <= room:
        return [_line(chosen, item, size) for item in rows]
    ordered = sorted(rows, key=_trouble)[: max(0, room - 1)]
    more = Span(f"+{len(rows) - len(ordered)} more", "muted", "fill('gpus')")
    return [*(_line(chosen, item, size) for item in ordered), (more,)]


def _trouble(item: Row) -> tuple[bool, bool, float, int]:
    gpu = item.gpu
    throttled = any(name in THROTTLES for name in gpu.throttle or ())
    return (gpu.state == "ok", not throttled, -(gpu.sm_pct or 0.0), gpu.index)


def _line(chosen: Sequence[tuple[Column[Row], int]], item: Row, size: int) -> Line:
    if item.gpu.state == "ok":
        return row(chosen, item)
    why = gpu_reason(item.gpu.reason, item.gpu.detail)
    xid = f" (Xid {item.gpu.xid})" if item.gpu.xid is not None else ""
    return noted(chosen, item, 2, Span(f"{item.gpu.state}: {why}{xid}", "hot"), size)


def _charts(view: View, rows: list[Row]) -> list[Chart]:
    scopes = [item.scope for item in rows]
    known = [item.gpu.power_w for item in rows if item.gpu.power_w is not None]
    limits = [item.gpu.power_limit_w for item in rows if item.gpu.power_limit_w is not None]
    busy = [item.gpu.sm_pct for item in rows if item.gpu.sm_pct is not None]
    return [
        Chart(
            "SM %, mean",
            percent(sum(busy) / len(busy) if busy else None),
            scopes,
            "sm_pct",
            top=100.0,
            mean=True,
            stale=rows[0].stale,
        ),
        Chart(
            "power W, all",
            number(sum(known) if known else None),
            scopes,
            "power_w",
            top=sum(limits) if len(limits) == len(rows) else None,
            stale=rows[0].stale,
        ),
    ]


def _summary(rows: list[Row], size: int, height: int) -> list[Line]:
    """All devices in one line, or two."""
    label = Span("GPU " if len(rows) == 1 else f"{len(rows)} GPU ", "title")
    sm = [r.gpu.sm_pct for r in rows]
    memory = [mem_ratio(r.gpu) for r in rows]
    temps = [r.gpu.temp_c for r in rows if r.gpu.temp_c is not None]
    power = [r.gpu.power_w for r in rows if r.gpu.power_w is not None]
    lost = [r for r in rows if r.gpu.state != "ok"]
    stale = rows[0].stale
    most = max((m for m in memory if m is not None), default=None)

    def value(text: str) -> Span:
        return figure(text, stale=stale)

    each = (Span("sm ", "label"), value(" ".join(percent(v).rjust(3) for v in sm)), Span(" %", "muted"))
    known = [v for v in sm if v is not None]
    span = f"{percent(min(known))}-{percent(max(known))}" if known else DASH
    spread = (Span("sm ", "label"), value(span.rjust(6)), Span(" %", "muted"))
    rest = (
        Span("mem ", "label"),
        value(percent(None if most is None else most * 100).rjust(3)),
        Span(" %  ", "muted"),
        value(number(max(temps, default=None)).rjust(3)),
        Span(" °C  ", "muted"),
        value(number(sum(power) if power else None).rjust(5)),
        Span(" W", "muted"),
    )
    if lost:
        names = ",".join(str(r.gpu.index) for r in lost)
        return [fit((label, Span(f"GPU {names} {lost[0].gpu.state}  ", "hot"), *spread), size)]
    gap = Span("  ")
    one = (label, *each, gap, *rest)
    if sum(len(s.text) for s in one) <= size:
        return [one]
    if height >= 2:
        indent = Span(" " * len(label.text))
        first = (label, *each)
        if sum(len(s.text) for s in first) > size:
            first = (label, *spread)
        return [fit(first, size), fit((indent, *rest), size)]
    return [fit((label, *spread, gap, *rest), size)]


def _processes(rows: list[Row], size: int) -> list[Line]:
    lines: list[Line] = [
        (
            Span(f"{item.gpu.index:>2} ", "label"),
            Span(f"{process.pid:>8}  ", "muted"),
            Span(f"{gib(process.mem_mib):>6}", "value"),
            Span(" GiB  ", "muted"),
            Span(narrow(process.name or DASH)),
        )
        for item in rows
        for process in item.gpu.processes or ()
    ]
    if not lines:
        lines = [(Span("none that the driver names", "muted"),)]
    return [(Span("processes", "label"),), *(fit(line, size) for line in lines)]
