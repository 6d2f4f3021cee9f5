"""The lines of one host reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.units import DASH, count, gib, megabytes_per_s, number, percent, seconds
from tui.ui.charts import meter, spark
from tui.ui.lines import Line, Span, cut, flow, narrow, width
from tui.ui.table import Column, choose, head, row
from tui.ui.view import figure, is_hot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.readings import DiskReading, HostReading
    from tui.ui.view import View

LABEL = 9
"""Cells of the labels in front."""
LEAST_SWAP_MIB = 64.0
"""Less than this was put away once and is not missed."""
SPARK_S = 5.0
"""Seconds a cell of the small chart stands for, at least."""


class Sheet:
    """The lines of one host reading."""

    def __init__(self, view: View, reading: HostReading) -> None:
        self._view = view
        self._host = reading
        self._stale = not view.snapshot.host.status.ok

    def _figure(self, text: str, field: str) -> Span:
        hot = is_hot(self._view, None, (field,), getattr(self._host, field))
        return figure(text, hot=hot, stale=self._stale)

    def cpu(self, size: int) -> Line:
        """All cores together, with where it has been if there is room."""
        host = self._host
        filled, rest = meter(None if host.cpu_pct_total is None else host.cpu_pct_total / 100, 12)
        step = max(SPARK_S, 2 * self._view.snapshot.interval_s)
        past = self._view.trends.steps("host", "cpu_pct_total", 12, step, self._view.now)
        start: Line = (
            Span("cpu".ljust(LABEL), "label"),
            self._figure(percent(host.cpu_pct_total).rjust(3), "cpu_pct_total"),
            Span(" %  ", "muted"),
        )
        bar: Line = (Span(filled, "bar"), Span(rest, "trough"), Span("  "))
        history: Line = (Span(spark(past, 100.0), "spark"), Span("  "))
        end: Line = (
            Span("load ", "label"),
            self._figure(number(host.load1, 1).rjust(5), "load1"),
            Span("  iowait ", "label"),
            self._figure(percent(host.iowait_pct).rjust(3), "iowait_pct"),
            Span(" %", "muted"),
        )
        for line in ((*start, *bar, *history, *end), (*start, *bar, *end)):
            if width(line) <= size:
                return line
        return (*start, *end)

    def core_row(self, size: int) -> list[Line]:
        """Every core as one character, as many as fit."""
        cores = self._host.cpu_pct_per_core
        if not cores:
            return []
        room = size - LABEL
        shown = spark(cores, 100.0)
        if len(cores) > room:
            # several cores share a character: the busiest of them, for one full core is what matters
            per = -(-len(cores) // room)
            shown = spark([max(cores[i : i + per]) for i in range(0, len(cores), per)], 100.0)
        return [
            (
                Span(cut(f"{len(cores)} cores", LABEL - 1).ljust(LABEL), "label"),
                Span(cut(shown, room), "spark"),
            )
        ]

    def cores(self, size: int) -> list[Line]:
        """Every core with its figure, in columns."""
        cores = self._host.cpu_pct_per_core or ()
        if not cores:
            return []
        each = 20
        per_row = max(1, (size - LABEL) // each)
        lines: list[Line] = []
        for start in range(0, len(cores), per_row):
            spans = [Span(("cores" if start == 0 else "").ljust(LABEL), "label")]
            for index in range(start, min(len(cores), start + per_row)):
                filled, rest = meter(cores[index] / 100, 9)
                spans += [
                    Span(f"{index:>3} ", "muted"),
                    Span(filled, "bar"),
                    Span(rest, "trough"),
                    figure(f"{cores[index]:>4.0f}", stale=self._stale),
                    Span("  "),
                ]
            lines.append(tuple(spans))
        return lines

    def memory(self, size: int) -> Line:
        """Memory used, as a share and in GiB."""
        host = self._host
        ratio = None if host.mem_used_pct is None else host.mem_used_pct / 100
        filled, rest = meter(ratio, 12)
        line: Line = (
            Span("memory".ljust(LABEL), "label"),
            self._figure(percent(host.mem_used_pct).rjust(3), "mem_used_pct"),
            Span(" %  ", "muted"),
            Span(filled, "bar"),
            Span(rest, "trough"),
            Span("  "),
            self._figure(gib(host.mem_used_mib).rjust(6), "mem_used_mib"),
            Span(f" of {gib(host.mem_total_mib)} GiB", "muted"),
        )
        with_swap = (*line, *self._swap())
        return with_swap if width(with_swap) <= size else line

    def _swap(self) -> Line:
        """Nothing on a host that has none, or has never used it."""
        host = self._host
        if not host.swap_used_mib or host.swap_used_mib < LEAST_SWAP_MIB:
            return ()
        rates = f"{megabytes_per_s(host.swap_in_mb_s)}/{megabytes_per_s(host.swap_out_mb_s)}"
        return (
            Span("  swap ", "label"),
            self._figure(gib(host.swap_used_mib), "swap_used_mib"),
            Span(" GiB, in/out ", "muted"),
            self._figure(rates, "swap_in_mb_s"),
            Span(" MB/s", "muted"),
        )

    def pressure(self, size: int, rows: int) -> list[Line]:
        """Stalls: the kernel's own measure of too little of something."""
        host = self._host
        items: list[Line] = [
            (Span(f"{name} ", "label"), self._figure(number(value, 1).rjust(5), field), Span(" %", "muted"))
            for name, value, field in (
                ("cpu", host.psi_cpu, "psi_cpu"),
                ("io", host.psi_io, "psi_io"),
                ("memory", host.psi_mem, "psi_mem"),
            )
        ]
        items.append(
            (
                Span("switches ", "label"),
                self._figure(count(host.ctx_switches_s).rjust(5), "ctx_switches_s"),
                Span("/s", "muted"),
            )
        )
        return _led("pressure", flow(items, size - LABEL, rows))

    def busiest(self, size: int, rows: int) -> list[Line]:
        """The process and the thread that use most; a thread at 100 % of a core is a limit of its own."""
        host = self._host
        process = _who(host.busiest_process, host.busiest_process_pid)
        thread = _who(host.busiest_thread, host.busiest_thread_pid)
        items: list[Line] = [
            (
                Span(f"{kind} ", "label"),
                *(
                    (self._figure(percent(value).rjust(4), field), Span(" %", "muted"), who)
                    if value is not None
                    else (Span(DASH, "muted"),)
                ),
            )
            for kind, who, value, field in (
                ("process", process, host.busiest_process_cpu_pct, "busiest_process_cpu_pct"),
                ("thread", thread, host.busiest_thread_cpu_pct, "busiest_thread_cpu_pct"),
            )
        ]
        return _led("busiest", flow(items, size - LABEL, rows))

    def network(self, size: int) -> list[Line]:
        """Bytes over the interfaces, loopback left out."""
        items: list[Line] = [
            (
                Span(f"{name} ", "label"),
                self._figure(megabytes_per_s(value).rjust(5), field),
                Span(" MB/s", "muted"),
            )
            for name, value, field in (
                ("in", self._host.net_rx_mb_s, "net_rx_mb_s"),
                ("out", self._host.net_tx_mb_s, "net_tx_mb_s"),
            )
        ]
        items += self._links()
        return _led("network", flow(items, size - LABEL, 1))

    def _links(self) -> list[Line]:
        """The interface nearest to its speed, and what InfiniBand adapters carry past the kernel."""
        host = self._host
        items: list[Line] = []
        if host.net_util_pct is not None and host.net_busiest:
            share = self._figure(percent(host.net_util_pct).rjust(3), "net_util_pct")
            of = f" % of {number((host.net_speed_mb_s or 0.0) / 125.0)} Gb/s"
            items.append((Span(f"{narrow(host.net_busiest, 15)} ", "label"), share, Span(of, "muted")))
        if host.ib_rx_mb_s is not None:
            rates = f"{megabytes_per_s(host.ib_rx_mb_s)}/{megabytes_per_s(host.ib_tx_mb_s)}"
            share = self._figure(percent(host.ib_util_pct).rjust(3), "ib_util_pct")
            items.append(
                (Span("InfiniBand ", "label"), Span(f"{rates} MB/s ", "text"), share, Span(" %", "muted"))
            )
        return items

    def disks(self, disks: Sequence[DiskReading], size: int, room: int) -> list[Line]:
        """Whole disks, the busiest first."""

        def cell(text: str, value: float | None = None, field: str = "") -> Span:
            hot = bool(field) and is_hot(self._view, None, (field,), value)
            return figure(text, hot=hot, stale=self._stale)

        chosen: list[tuple[Column[DiskReading], int]] = choose(
            (
                Column("disk", 8, lambda d: Span(narrow(d.name), "text"), grow=16, to_left=True),
                Column("r/s", 6, lambda d: cell(count(d.r_s)), rank=3),
                Column("w/s", 6, lambda d: cell(count(d.w_s)), rank=3),
                Column("read MB/s", 9, lambda d: cell(megabytes_per_s(d.read_mb_s)), rank=1),
                Column("write MB/s", 10, lambda d: cell(megabytes_per_s(d.write_mb_s)), rank=1),
                Column("busy%", 5, lambda d: cell(percent(d.util_pct), d.util_pct, "disk_util_pct")),
                Column("await", 6, lambda d: cell(_milliseconds(d.await_ms)), rank=2),
            ),
            size,
        )
        lines = [head(chosen), *(row(chosen, disk) for disk in disks[:room])]
        if len(disks) > room:
            lines[-1] = (Span(f"+{len(disks) - room + 1} more", "muted"),) if room > 1 else lines[-1]
        return lines

    def short(self) -> list[Line]:
        """The figures that decide, in the order in which a narrow screen keeps them."""
        host = self._host
        disk = max(host.disks or (), key=lambda d: d.util_pct or 0.0, default=None)

        def item(name: str, text: str, field: str, unit: str = "") -> Line:
            return (Span(f"{name} ", "label"), self._figure(text, field), Span(unit, "muted"))

        items = [
            item("cpu", percent(host.cpu_pct_total).rjust(3), "cpu_pct_total", " %"),
            item("io", percent(host.iowait_pct).rjust(3), "iowait_pct", " %"),
            item("mem", percent(host.mem_used_pct).rjust(3), "mem_used_pct", " %"),
        ]
        if disk is not None:
            items.append(
                item(narrow(disk.name, 12), percent(host.disk_util_pct).rjust(3), "disk_util_pct", " %")
            )
        known = host.busiest_thread_cpu_pct is not None
        thread = f" % {narrow(host.busiest_thread or '', 16)}".rstrip() if known else ""
        psi = "/".join(number(value) for value in (host.psi_cpu, host.psi_io, host.psi_mem))
        items += [
            item("thread", percent(host.busiest_thread_cpu_pct).rjust(3), "busiest_thread_cpu_pct", thread),
            item("net", megabytes_per_s(host.net_mb_s).rjust(5), "net_mb_s", " MB/s"),
            item("load", number(host.load1, 1).rjust(4), "load1"),
            item("psi", psi, "psi_io", " %"),
        ]
        return items


def _who(name: str | None, pid: int | None) -> Span:
    return Span(f" {narrow(name or DASH, 24)}" + (f" ({pid})" if pid is not None else ""))


def _milliseconds(value: float | None) -> str:
    """A disk's latency; most answer in a fraction of one, which is not 0."""
    if value is None or value == 0 or value >= 9.95:
        return seconds(None if value is None else value / 1000)
    return "<0.1ms" if value < 0.05 else f"{number(value, 1)}ms"


def _led(label: str, lines: list[Line]) -> list[Line]:
    return [
        (Span((label if index == 0 else "").ljust(LABEL), "label"), *line) for index, line in enumerate(lines)
    ]
