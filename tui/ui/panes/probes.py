"""The probes as the kubelet sees them: last answer, latency, streak, and what would follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.model.units import DASH, seconds
from tui.ui.lines import Line, Span, flow, narrow
from tui.ui.table import Column, choose, head, row
from tui.ui.view import urgent_first
from tui.ui.words import PROBE_KINDS, engine_name

if TYPE_CHECKING:
    from tui.model.readings import ProbeReading
    from tui.model.snapshot import EngineView
    from tui.ui.view import View


@dataclass(frozen=True, slots=True)
class Row:
    """One probe of one engine."""

    probe: ProbeReading
    engine: EngineView


def title(view: View) -> Line:
    """The title."""
    return (Span("5 ", "muted"), Span("PROBES", "title"))


def body(view: View, size: int, height: int) -> list[Line]:
    """A line a probe; the failing ones first where they do not all fit."""
    rows = _rows(view)
    if not rows:
        return [(Span(_nothing(view), "muted"),)]
    chosen = choose(_COLUMNS, size)
    room = len(rows) if view.mode.full == "probes" else height - 1
    return [head(chosen), *_fitting(rows, room, chosen)]


def _fitting(rows: list[Row], room: int, chosen: list[tuple[Column[Row], int]]) -> list[Line]:
    if len(rows) <= room:
        return [row(chosen, item) for item in rows]
    shown = sorted(rows, key=lambda item: item.probe.ok is not False)[: max(0, room - 1)]
    more: Line = (Span(f"+{len(rows) - len(shown)} more", "muted", "fill('probes')"),)
    return [*(row(chosen, item) for item in shown), more][: max(0, room)]


def flat(view: View, size: int, height: int) -> list[Line]:
    """An engine a line, with its probes one after another."""
    mark = Span("▸" if view.mode.focused == "probes" else " ", "focus")
    label = Span("probes ", "title")
    room = size - 1 - len(label.text)
    engines = [engine for engine in urgent_first(view) if engine.probes]
    if not engines:
        return [(mark, label, Span(_nothing(view), "muted"))]
    several = len(engines) > 1
    lines = [
        flow([*_named(engine, several), *map(_short, engine.probes)], room, 1, gap=2) for engine in engines
    ]
    shown = [line[0] for line in lines if line]
    if len(shown) > height:
        failing = sum(any(p.ok is False for p in engine.probes) for engine in engines)
        shown = flow(_together(engines, failing), room, height, gap=2)
    return [
        (mark if index == 0 else Span(" "), label if index == 0 else Span(" " * len(label.text)), *line)
        for index, line in enumerate(shown[:height])
    ]


def _together(engines: list[EngineView], failing: int) -> list[Line]:
    """More engines than lines: those that fail by name, the others counted."""
    items: list[Line] = []
    for engine in engines:
        bad = [_short(probe) for probe in engine.probes if probe.ok is False]
        if bad:
            items += [(*_named(engine, True)[0], Span(" "), *item) for item in bad]
    good = len(engines) - failing
    if good:
        items.append((Span(f"{good} engine{'' if good == 1 else 's'} ok", "muted"),))
    return items


def _nothing(view: View) -> str:
    if not view.snapshot.engines:
        return "no engine to probe"
    return "not probed yet"


def _named(engine: EngineView, several: bool) -> list[Line]:
    return [(Span(engine_name(engine), "text"),)] if several else []


def _short(probe: ProbeReading) -> Line:
    kind = Span(f"{PROBE_KINDS[probe.kind]} ", "label")
    if probe.ok is None:
        return (kind, Span(DASH, "muted"))
    if probe.ok:
        return (kind, Span("ok ", "text"), Span(seconds(probe.latency_s).rjust(5), "muted"))
    return (kind, Span(f"{probe.status} x{-probe.streak}", "warn"))


def _rows(view: View) -> list[Row]:
    return [Row(probe, engine) for engine in urgent_first(view) for probe in engine.probes]


def _status(item: Row) -> Span:
    probe = item.probe
    if probe.status is None:
        return Span(DASH, "muted")
    return Span(f"{probe.status} ok" if probe.ok else str(probe.status), "text" if probe.ok else "warn")


def _streak(item: Row) -> Span:
    probe = item.probe
    if not probe.streak:
        return Span(DASH, "muted")
    return Span(f"{abs(probe.streak)} {'ok' if probe.streak > 0 else 'bad'}", "muted" if probe.ok else "warn")


def _would(item: Row) -> Span:
    """What a kubelet with these settings would do, and when."""
    probe = item.probe
    if probe.would == "none":
        return Span(DASH, "muted")
    when = "now" if not probe.would_in_s else f"in {seconds(probe.would_in_s)}"
    return Span(f"{probe.would} {when}", "muted" if probe.would == "ready" else "warn")


_COLUMNS: tuple[Column[Row], ...] = (
    Column("engine", 8, lambda r: Span(engine_name(r.engine)), grow=18, to_left=True, rank=1),
    Column("probe", 9, lambda r: Span(r.probe.kind), grow=10, to_left=True),
    Column("path", 8, lambda r: Span(narrow(r.probe.path), "muted"), grow=18, to_left=True, rank=5),
    Column("answer", 8, _status, to_left=True),
    Column("last", 5, lambda r: Span(seconds(r.probe.latency_s), "value"), rank=2),
    Column("p99", 5, lambda r: Span(seconds(r.probe.latency_p99_s), "value"), rank=3),
    Column("streak", 8, _streak, rank=4),
    Column("kubelet would", 15, _would, grow=18, to_left=True, rank=2),
)
