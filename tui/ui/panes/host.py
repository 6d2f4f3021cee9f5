"""The machine around the GPUs: CPU, memory, pressure, busiest process, network, disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.status import SourceState
from tui.model.units import megabytes_per_s, percent
from tui.ui.lines import Line, Span, flow
from tui.ui.panes.charted import Chart, charts
from tui.ui.panes.host_sheet import Sheet
from tui.ui.words import READING, age, host_reason

if TYPE_CHECKING:
    from tui.model.readings import HostReading
    from tui.ui.view import View


def title(view: View) -> Line:
    """The title, with the age of what is shown once it is old."""
    spans = [Span("4 ", "muted"), Span("HOST", "title")]
    status = view.snapshot.host.status
    if old := age(status):
        why = host_reason(status.reason, status.detail) if status.reason else ""
        spans.append(Span(f"  {old}: {why}" if why else f"  {old}", "warn"))
    return tuple(spans)


def body(view: View, size: int, height: int) -> list[Line]:
    """The figures, then the disks, busiest first."""
    reading = view.snapshot.host.reading
    if reading is None:
        return _nothing(view)
    full = view.mode.full == "host"
    sheet = Sheet(view, reading)
    lines = [
        sheet.cpu(size),
        *(sheet.cores(size) if full else sheet.core_row(size)),
        sheet.memory(size),
        *sheet.pressure(size, 1),
        *sheet.busiest(size, 2),
        *sheet.network(size),
    ]
    disks = sorted(reading.disks or (), key=lambda disk: -(disk.util_pct or 0.0))
    room = len(disks) if full else height - len(lines) - 1
    if disks and room >= 1:
        lines += sheet.disks(disks, size, room)
    if full:
        lines += [(), *charts(view, _charts(reading), size, 8)]
    return lines if full else lines[:height]


def flat(view: View, size: int, height: int) -> list[Line]:
    """One or two lines of the figures that decide."""
    mark = Span("▸" if view.mode.focused == "host" else " ", "focus")
    reading = view.snapshot.host.reading
    label = Span("host ", "title")
    room = size - 1 - len(label.text)
    if reading is None:
        return [(mark, label, *line) for line in _nothing(view)][:height]
    sheet = Sheet(view, reading)
    old = age(view.snapshot.host.status)
    items = [(Span(old, "warn"),), *sheet.short()] if old else sheet.short()
    lines = flow(items, room, height, gap=2)
    return [
        (mark, label if index == 0 else Span(" " * len(label.text)), *line)
        for index, line in enumerate(lines[:height])
    ]


def _nothing(view: View) -> list[Line]:
    status = view.snapshot.host.status
    if status.state is SourceState.PENDING:
        return [(Span(READING, "muted"),)]
    return [(Span(host_reason(status.reason, status.detail), "text"),)]


def _charts(reading: HostReading) -> list[Chart]:
    scope = ["host"]
    return [
        Chart("cpu %", percent(reading.cpu_pct_total), scope, "cpu_pct_total", top=100.0),
        Chart("disk busy %", percent(reading.disk_util_pct), scope, "disk_util_pct", top=100.0),
        Chart("network MB/s", megabytes_per_s(reading.net_mb_s), scope, "net_mb_s"),
    ]
