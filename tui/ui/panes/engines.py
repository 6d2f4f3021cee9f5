"""The engines: a row each, then tokens, queue and KV cache over time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tui.model.status import SourceState
from tui.model.units import DASH, count, ratio_as_percent, seconds
from tui.ui import filtered
from tui.ui.lines import Line, Role, Span, cut_name, fit, flow, narrow, width
from tui.ui.panes.charted import Chart, charts
from tui.ui.panes.engine_plots import plots
from tui.ui.panes.engine_row import COLUMNS, FULL, INLINE, Row, chosen_for
from tui.ui.panes.engine_sheet import about, labelled
from tui.ui.table import Column, head, noted, row, window
from tui.ui.view import TRANSIENT, is_hot
from tui.ui.words import engine_name, engine_reason, model_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.model.readings import EngineReading, Missing, RankReading
    from tui.ui.view import View

LEAST, MOST = 4, 9
"""Lines of one engine's charts: with a blank one above and their names, and without it at most."""


def title(view: View) -> Line:
    """The title with how many there are."""
    n = len(view.snapshot.engines)
    count_text = f"  {n}" if n else ""
    note = filtered.note(view, len(filtered.engines(view)), n)
    return (Span("3 ", "muted"), Span("ENGINES", "title"), Span(count_text, "muted"), *note)


def body(view: View, size: int, height: int) -> list[Line]:
    """The table, then charts of each engine as far as there is room."""
    rows = [Row(engine, view) for engine in filtered.engines(view)]
    if not rows:
        return _nothing(view, size)
    full = view.mode.full == "engines"
    chosen = chosen_for(FULL if full else COLUMNS, rows, size)
    lines = [head(chosen), *_table(chosen, rows, size, len(rows) if full else height - 1, _skipped(view))]
    if full:
        for item in rows:
            lines += [(), *_details(item, size), *plots(view, item.engine.url, size)]
        if hidden := view.snapshot.hidden:
            lines += [(), fit((Span(narrow(hidden), "warn"),), size)]
        return lines
    return [*lines, *_charted(view, rows, size, height - len(lines))]


def _charted(view: View, rows: list[Row], size: int, room: int) -> list[Line]:
    """Charts of all engines with figures, or of the most urgent ones where there is room for no more."""
    titled = len(rows) > 1
    shown = [item for item in rows if item.reading is not None][: room // (LEAST + titled)]
    lines: list[Line] = []
    for item in shown:
        name = (Span(engine_name(item.engine), "text"), Span(f"  {model_name(item.engine)}", "muted"))
        lines += [(), *([fit(name, size)] if titled else [])]
        lines += charts(view, _charts(item), size, min(room // len(shown) - 1 - titled, MOST))
    return lines


def flat(view: View, size: int, height: int) -> list[Line]:
    """A table where there is room for its head, else a line an engine with the names in it."""
    mark = Span("▸" if view.mode.focused == "engines" else " ", "focus")
    rows = [Row(engine, view) for engine in filtered.engines(view)]
    room = size - 1
    if not rows:
        lines = _nothing(view, room)
    elif height >= min(len(rows) + 1, 4):
        chosen = chosen_for(COLUMNS, rows, room)
        lines = [head(chosen), *_table(chosen, rows, room, height - 1, _skipped(view))]
    else:
        chosen = chosen_for(INLINE, rows, room)
        lines = _table(chosen, rows, room, height, _skipped(view))
    return [(mark, *line) for line in lines[:height]]


def _skipped(view: View) -> int:
    return view.mode.skipped if view.mode.focused == "engines" else 0


def _nothing(view: View, size: int) -> list[Line]:
    if view.mode.filter and view.snapshot.engines:
        return [fit((filtered.none_left(view, "engine"),), size)]
    if not view.snapshot.discovery_done:
        return [(Span("looking for engines on this host…", "muted"),)]
    lines: list[Line] = [
        (Span("no engine found", "text"),),
        (Span("name one: infertop http://HOST:PORT", "muted"),),
        (Span("x  a demo", "muted"),),
    ]
    if hidden := view.snapshot.hidden:
        lines.insert(1, (Span(narrow(hidden), "warn"),))
    gap = Span("   ")
    together = lines[0]
    for line in lines[1:]:
        together = (*together, gap, *line)
    if width(together) <= size:
        return [together]
    # the pane may have a single line: the offer must be on it
    first = (*lines[0], gap, *lines[-1])
    return [fit(line, size) for line in (first, *lines[1:-1])]


def _table(
    chosen: Sequence[tuple[Column[Row], int]], rows: list[Row], size: int, room: int, skipped: int
) -> list[Line]:
    """A line an engine, the most urgent first."""
    if len(rows) <= room:
        return [_line(chosen, item, size) for item in rows]
    shown, rest = window(rows, room, skipped)
    lines = [_line(chosen, item, size) for item in shown]
    if room > 1:
        return [*lines, (Span(rest, "muted", "fill('engines')"),)]
    more = Span(f" {rest}", "muted")
    return [(*fit(lines[0], size - len(more.text)), more)]


def _line(chosen: Sequence[tuple[Column[Row], int]], item: Row, size: int) -> Line:
    """The row, or instead of figures that cannot be shown why that is."""
    status = item.engine.engine.status
    reading = item.reading
    notes: list[str]
    role: Role
    if status.state is SourceState.PENDING:
        notes, role = ["reading…"], "muted"
    elif not item.shows_figures or reading is None:
        why = engine_reason(status.reason, item.engine.url)
        short = why.partition(" at ")[0]
        notes, role = (
            [why, short],
            "text" if item.verdict in TRANSIENT else "hot",
        )  # one that loads may well refuse
        if status.age_s is not None:
            age = seconds(status.age_s)
            notes = [f"{why}; last seen {age} ago", f"{short}; seen {age} ago", f"{short}, {age}"]
    elif reading.reason is not None:
        notes, role = [engine_reason(reading.reason, item.engine.url)], "text"
    else:
        return row(chosen, item)
    heads = 2 if len(chosen) > 1 and chosen[1][0].head == "state" else 1
    return noted(chosen, item, heads, notes, role, size)


def _charts(item: Row) -> list[Chart]:
    def chart(name: str, form: Callable[[float | None], str], signal: str, *also: str) -> Chart:
        value = item.get(signal) if item.shows_figures else None
        hot = is_hot(item.view, item.engine.url, (signal, *also), value)
        return Chart(name, form(value), [item.engine.url], signal, hot=hot, stale=item.stale)

    kv = chart("kv %", ratio_as_percent, "kv_usage", "kv_usage_max")
    return [
        chart("tok/s", count, "gen_tok_s"),
        chart("waiting", count, "waiting"),
        replace(kv, top=100.0, scale=100.0),
    ]


def _details(item: Row, size: int) -> list[Line]:
    """What a zoomed engine tells beside its figures."""
    name: list[Line] = [(Span(cut_name(engine_name(item.engine), size)),)]
    name += [(Span(text),) for text in (model_name(item.engine),) if text]
    reading = item.reading
    if reading is None:
        return [*flow(name, size, len(name)), *about(item.engine, size)]
    heartbeat = seconds(reading.since_last_step_s)
    facts = {
        "version": narrow(reading.version or ""),
        "seats": count(reading.max_num_seqs),
        "kv tokens": count(reading.kv_capacity_tokens),
        "heartbeat": DASH if heartbeat == DASH else f"{heartbeat} ago",
        "restarts seen": str(reading.restarts or ""),
        "pid": str(item.engine.processes[0].pid) if item.engine.processes else "",
    }
    told = [(Span(f"{k} ", "label"), Span(v)) for k, v in facts.items() if v and v != DASH]
    lines = flow([*name, *told], size, len(told) + 2)
    if reading.waiting_by_reason:
        reasons = sorted(reading.waiting_by_reason.items())
        lines += labelled("waiting for:", [f"{narrow(why)} {count(n)}" for why, n in reasons], size)
    if len(reading.ranks) > 1:
        lines += labelled("ranks", [_rank(rank) for rank in reading.ranks], size)
    for label, texts in _facts(reading):
        lines += labelled(label, texts, size) if texts else []
    lines += about(item.engine, size)
    for (why, enable), fields in _by_reason((*reading.missing, *item.engine.untold)).items():
        bring = f" ({narrow(enable)})" if enable else ""
        lines += labelled("not known", [f"{', '.join(fields)}: {narrow(why)}{bring}"], size)
    return lines


def _facts(reading: EngineReading) -> list[tuple[str, list[str]]]:
    """What is told about few engines, or only at times."""
    means = {name: getattr(reading, f"{name}_mean_s") for name in ("ttft", "itl", "tpot", "e2e", "queue")}
    exact = [f"{name} {seconds(mean)}" for name, mean in means.items() if mean is not None]
    state = [
        f"{name} {form(value)}{unit}"
        for name, form, value, unit in (
            ("preempted", count, reading.preempted or None, ""),
            ("drafts accepted", ratio_as_percent, reading.spec_accept_ratio, " %"),
            ("503", ratio_as_percent, reading.http_503_ratio, " %"),
            ("429", ratio_as_percent, reading.http_429_ratio, " %"),
            ("a scrape takes", seconds, reading.scrape_s if reading.scrape_every_s else None, ""),
            ("so one every", seconds, reading.scrape_every_s, ""),
        )
        if value is not None
    ]
    return [
        (f"percentiles and means of {seconds(reading.latency_window_s)}:", exact),
        ("ended/s", [f"{narrow(why)} {count(n)}" for why, n in sorted(reading.finish_reasons.items()) if n]),
        ("rejected/s", [f"{narrow(why)} {count(n)}" for why, n in sorted(reading.rejections.items()) if n]),
        ("also", [*state, *(["paused"] if reading.paused else [])]),
    ]


def _by_reason(missing: tuple[Missing, ...]) -> dict[tuple[str, str], list[str]]:
    """Figures that are not known, by why and what would bring them."""
    found: dict[tuple[str, str], list[str]] = {}
    for gap in missing:
        found.setdefault((gap.why, gap.enable), []).append(narrow(gap.field))
    return found


def _rank(rank: RankReading) -> str:
    kv = ratio_as_percent(rank.kv_usage)
    return f"{narrow(rank.rank)}: run {count(rank.running)} wait {count(rank.waiting)} kv {kv}%"
