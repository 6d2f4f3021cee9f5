"""The probes as the kubelet sees them: last answer, latency, streak, and what would follow."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.model.status import SourceState
from tui.model.units import DASH, seconds
from tui.ui import filtered
from tui.ui.lines import Line, Span, beside, cut, fit_name, flow, narrow, wrap
from tui.ui.panes import probe_notes
from tui.ui.table import Column, choose, for_names, head, noted, row
from tui.ui.words import PROBE_KINDS, READING, engine_name

if TYPE_CHECKING:
    from tui.model.readings import ProbeReading
    from tui.model.snapshot import EngineView
    from tui.ui.lines import Role
    from tui.ui.view import View

LEAST = 4
"""Lines from which on one is kept for what follows from the probes."""
SLOW_S = 2.0
"""An answer that is out for this long is worth saying; SGLang's /health takes 1 s when all is well."""

LEGEND = "the newest results at the right: · passed   x failed   ? thrown away"
_OF_RESULTS: dict[str, Role] = {"x": "warn", "?": "label"}


@dataclass(frozen=True, slots=True)
class Row:
    """One probe of one engine."""

    probe: ProbeReading
    engine: EngineView


def title(view: View) -> Line:
    """The title, with how many engines are filtered out."""
    note = filtered.note(view, len(filtered.engines(view)), len(view.snapshot.engines))
    return (Span("5 ", "muted"), Span("PROBES", "title"), *note)


def body(view: View, size: int, height: int) -> list[Line]:
    """A line a probe, then what follows from them; the failing ones first where they do not all fit."""
    rows = _rows(view)
    unprobed = _muted("; ".join(_unprobed(view)), size) if _unprobed(view) else []
    if not rows:
        return unprobed or _muted(_nothing(view), size)
    full = view.mode.full == "probes"
    names = {engine_name(item.engine) for item in rows}
    chosen = choose(for_names(_ZOOMED if full else _COLUMNS, names, size), size)
    if full:
        lines = [head(chosen), *_fitting(rows, len(rows), chosen, size)]
        return [*lines, *unprobed, *_details(view, size)]
    warnings = [
        (Span(part, "warn"),)
        for engine in filtered.engines(view)
        for text in probe_notes.warnings(view, engine, full=False)
        for part in wrap(f"! {text}", size)
    ]
    below = [*warnings, *unprobed, *_facts(view, size)]
    # rows give way to a line for what follows from them
    least = 1 if below and height >= LEAST else 0
    lines = [head(chosen), *_fitting(rows, height - 1 - least, chosen, size)]
    spare = height - len(lines)
    if len(below) > spare > 0:
        below = [*below[: spare - 1], beside(below[spare - 1], _more(len(below) - spare), size)]
    return [*lines, *below[: max(0, spare)]]


def _muted(text: str, size: int) -> list[Line]:
    return [(Span(part, "muted"),) for part in wrap(text, size)]


def wanted_lines(view: View) -> int:
    """Rows, warnings and a line of settings: those that should not be left out."""
    engines = view.snapshot.engines
    facts = any(probe_notes.facts(engine) for engine in engines)
    return sum(len(e.probes) + len(probe_notes.warnings(view, e, full=False)) for e in engines) + facts


def _fitting(rows: list[Row], room: int, chosen: list[tuple[Column[Row], int]], size: int) -> list[Line]:
    if len(rows) <= room:
        return [_row(chosen, item, size) for item in rows]
    shown = sorted(rows, key=lambda item: item.probe.ok is not False)[: max(0, room - 1)]
    return [*(_row(chosen, item, size) for item in shown), _more(len(rows) - len(shown))][: max(0, room)]


def _more(count: int) -> Line:
    return (Span(f"+{count} more", "muted", "fill('probes')"),)


def _row(chosen: list[tuple[Column[Row], int]], item: Row, size: int) -> Line:
    probe = item.probe
    if probe.status is None and probe.waiting_s is None and probe.note:
        heads = sum(column.head in ("engine", "probe", "path") for column, _ in chosen)
        note = narrow(probe.note)
        return noted(chosen, item, heads, (note, f"{note.partition(' (')[0]} …"), "muted", size)
    return row(chosen, item)


def _facts(view: View, size: int) -> list[Line]:
    """Whose settings they are and what we cost, once for all engines of which the same is true."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for engine in filtered.engines(view):
        if facts := tuple(probe_notes.facts(engine)):
            alike.setdefault(facts, []).append(engine_name(engine))
    lines: list[Line] = []
    for facts, names in alike.items():
        several = len(names) > 1
        who = [f"{len(names)} engines"] if several and len(alike) > 1 else []
        if not several and len(view.snapshot.engines) > 1:
            who = names
        told = [f"{text} each" if several and text.endswith(probe_notes.BY_US) else text for text in facts]
        items = [*who, *told]
        first, *others = flow([(Span(text, "muted"),) for text in items], size - 2, len(items))
        lines += [first, *((Span("  "), *line) for line in others)]
    return lines


def _details(view: View, size: int) -> list[Line]:
    """Of the zoomed pane: the history of each probe, its settings, and everything that follows."""
    lines: list[Line] = []
    for engine in filtered.engines(view):
        if not engine.probes:
            continue
        facts = [(Span(text, "muted"),) for text in probe_notes.facts(engine)]
        lines += [(), *flow([(Span(engine_name(engine), "title"),), *facts], size, len(facts) + 1)]
        for text in probe_notes.warnings(view, engine, full=True):
            lines += [(Span(part, "warn"),) for part in wrap(f"! {text}", size)]
        for probe in engine.probes:
            strip = probe_notes.history(probe, size - 11)
            if strip:
                lines.append((Span(f"{probe.kind:<11}", "label"), *_results(strip)))
            if probe.note:
                label = "" if strip else probe.kind
                lines += [
                    (Span(f"{'' if index else label:<11}", "label"), Span(part, "muted"))
                    for index, part in enumerate(wrap(narrow(probe.note), size - 11))
                ]
        for kind, spec in engine.probe_specs.items():
            lines += [(Span(part, "muted"),) for part in wrap(probe_notes.settings(kind, spec), size)]
    seen = any(probe.recent for engine in view.snapshot.engines for probe in engine.probes)
    below = [*([LEGEND] if seen else []), _generate(view)]
    return [*lines, (), *((Span(part, "muted"),) for text in below for part in wrap(text, size))]


def _results(strip: str) -> Line:
    """Failures stand out from what passed."""
    return tuple(Span("".join(run), _OF_RESULTS.get(mark, "muted")) for mark, run in itertools.groupby(strip))


def _generate(view: View) -> str:
    """How to have, or be rid of, the one probe that asks for a token."""
    if view.snapshot.read_only:
        return "generate: off, for --read-only sends an engine no request"
    if view.snapshot.generate:
        return "generate: on; g switches it off"
    return "generate: off; g asks each engine for one token now and then, which alone proves that it works"


def flat(view: View, size: int, height: int) -> list[Line]:
    """An engine a line, with its probes one after another."""
    mark = Span("▸" if view.mode.focused == "probes" else " ", "focus")
    label = Span("probes ", "title")
    room = size - 1 - len(label.text)
    engines = [engine for engine in filtered.engines(view) if engine.probes]
    if not engines:
        why = _unprobed(view) or [_nothing(view)]
        text = "; ".join(why) if len("; ".join(why)) <= room else why[0]
        return [(mark, label, Span(cut(text, room), "muted"))]
    several = len(engines) > 1
    lines = [
        flow(
            [*_named(engine, several), *_blind(view, engine), *map(_short, _failing_first(engine))],
            room,
            1,
            gap=2,
        )
        for engine in engines
    ]
    shown = [line[0] for line in lines if line]
    if len(shown) > height:
        failing = sum(any(p.ok is False for p in engine.probes) for engine in engines)
        shown = flow(_together(engines, failing), room, height, gap=2)
    return [
        (mark if index == 0 else Span(" "), label if index == 0 else Span(" " * len(label.text)), *line)
        for index, line in enumerate(shown[:height])
    ]


def _failing_first(engine: EngineView) -> list[ProbeReading]:
    return sorted(engine.probes, key=lambda probe: probe.ok is not False)


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
        return "no engine to probe" if view.snapshot.discovery_done else READING
    if view.mode.filter and not filtered.engines(view):
        return filtered.none_left(view, "engine").text
    return "not probed yet"


def _unprobed(view: View) -> list[str]:
    """Which engines have no probe, whatever the wait, and what would bring one; nothing where all have."""
    names = [
        engine_name(engine)
        for engine in filtered.engines(view)
        if not engine.probe_specs
        and not engine.probes
        and engine.engine.status.state is not SourceState.PENDING
    ]
    if not names:
        return []
    return [
        f"no probe: kind of {', '.join(names)} not known",
        'its metrics would tell, or engine = "vllm" (or another) in its [[engines]] of the config',
    ]


def _named(engine: EngineView, several: bool) -> list[Line]:
    return [(Span(engine_name(engine), "text"),)] if several else []


def _blind(view: View, engine: EngineView) -> list[Line]:
    return [(Span("live is blind to this hang", "warn"),)] if probe_notes.blind(view, engine) else []


def _short(probe: ProbeReading) -> Line:
    kind = Span(f"{PROBE_KINDS[probe.kind]} ", "label")
    if (probe.waiting_s or 0.0) >= SLOW_S and probe.ok is not False:
        return (kind, Span(f"waits {seconds(probe.waiting_s)}", "warn"))
    if probe.ok is None:
        return (kind, Span("not run" if probe.note else DASH, "muted"))
    if probe.ok:
        return (kind, Span("ok ", "text"), Span(seconds(probe.latency_s).rjust(5), "muted"))
    would = "" if probe.would in ("none", "ready") else f" {_would_text(probe)}"
    return (kind, Span(f"{probe.status} x{-probe.streak}" if probe.streak < 0 else f"{probe.status}", "warn"),
            Span(would, "warn"))  # fmt: skip


def _rows(view: View) -> list[Row]:
    return [Row(probe, engine) for engine in filtered.engines(view) for probe in engine.probes]


def _status(item: Row) -> Span:
    probe = item.probe
    if probe.status is None:
        return Span(DASH, "muted")
    return Span(f"{probe.status} ok" if probe.ok else str(probe.status), "text" if probe.ok else "warn")


def _streak(item: Row) -> Span:
    probe = item.probe
    if not probe.streak:
        return Span(DASH, "muted")
    count, word = abs(probe.streak), "ok" if probe.streak > 0 else "bad"
    limit = probe.threshold
    text = f"{count}/{limit} {word}" if limit is not None and 1 < limit >= count else f"{count} {word}"
    return Span(text, "muted" if probe.streak > 0 else "warn")


def _would(item: Row) -> Span:
    """What a platform with these settings would do, and when."""
    probe = item.probe
    if (probe.waiting_s or 0.0) >= SLOW_S:
        text = f"waits {seconds(probe.waiting_s)}"
        if probe.would not in ("none", "ready"):
            text = f"{_would_text(probe)}, {text}"
        return Span(text, "warn")
    if probe.would == "none":
        return Span(DASH, "muted")
    return Span(_would_text(probe), "muted" if probe.would == "ready" else "warn")


def _would_text(probe: ProbeReading) -> str:
    when = "now" if not probe.would_in_s else f"in {seconds(probe.would_in_s)}"
    return f"{probe.would} {when}"


_HEADS: tuple[Column[Row], ...] = (
    Column("engine", 8, lambda r: Span(engine_name(r.engine)), to_left=True, rank=1, shorten=fit_name),
    Column("probe", 9, lambda r: Span(r.probe.kind), grow=10, to_left=True),
    Column("path", 8, lambda r: Span(narrow(r.probe.path), "muted"), grow=18, to_left=True, rank=5),
    Column("answer", 8, _status, to_left=True),
    Column("last", 5, lambda r: Span(seconds(r.probe.latency_s), "value"), rank=2),
)
_P99: Column[Row] = Column("p99", 5, lambda r: Span(seconds(r.probe.latency_p99_s), "value"), rank=3)
_TAIL: tuple[Column[Row], ...] = (
    Column("streak", 8, _streak, rank=4),
    Column("kubelet would", 15, _would, grow=26, to_left=True, rank=2),
)
_COLUMNS: tuple[Column[Row], ...] = (*_HEADS, _P99, *_TAIL)
_ZOOMED: tuple[Column[Row], ...] = (
    *_HEADS,
    Column("p50", 5, lambda r: Span(seconds(r.probe.latency_p50_s), "value"), rank=6),
    _P99,
    Column("max", 5, lambda r: Span(seconds(r.probe.latency_max_s), "value"), rank=7),
    Column("of", 4, lambda r: Span(str(r.probe.results) if r.probe.results else DASH, "muted"), rank=8),
    *_TAIL,
)
