"""The GPUs: a row each, and how busy they have been."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from tui.model.status import SourceState
from tui.model.units import DASH, number, percent, seconds
from tui.ui import filtered
from tui.ui.lines import Line, Role, Span, beside, cut, fit, narrow, width, wrap
from tui.ui.panes.charted import Chart, charts
from tui.ui.panes.gpu_row import COLUMNS, FULL, LIMIT, Row, mem_ratio, short_of_memory
from tui.ui.panes.gpu_sheet import sheet, spelled
from tui.ui.table import Column, choose, head, noted, row, told, window
from tui.ui.view import figure
from tui.ui.words import READING, THROTTLES, age, elapsed, gpu_reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.ui.view import View

NEWS_S = 120.0
"""For so long it is said of a card that it answers again."""
ASIDES = 3
"""Lines below the table for what is no device of ours."""
LEAST_ROWS, LEAST_OF_ILL = 7, 4
"""Rows of a table that does not show all; those in trouble come first, each with its reason."""
_DETAIL_AT = 5
_SPACES = re.compile(" +")


def title(view: View) -> Line:
    """The title, with how old all devices' figures are."""
    spans = [Span("2 ", "muted"), Span("GPUs", "title")]
    observed = view.snapshot.gpus
    if old := age(observed.status):
        spans.append(Span(f"  {old}", "warn"))
    elif observed.reading and observed.reading.driver_version:
        spans.append(Span(f"  driver {narrow(observed.reading.driver_version, 20)}", "muted"))
    return (*spans, *filtered.note(view, len(filtered.gpus(view)), _count(view)))


def _count(view: View) -> int:
    reading = view.snapshot.gpus.reading
    return len(reading.gpus) if reading is not None else 0


def _old(view: View) -> list[str]:
    """How old all of it is, and why, the fullest first; nothing while it is fresh."""
    status = view.snapshot.gpus.status
    old = age(status)
    if not old or not status.reason:
        return [old] if old else []
    whys = dict.fromkeys((gpu_reason(status.reason, status.detail), gpu_reason(status.reason)))
    return [*(f"{old}: {why}" for why in whys), old]


def body(view: View, size: int, height: int) -> list[Line]:
    """The table, and below it how busy and how hungry all of them have been."""
    rows = _rows(view)
    if not rows:
        return _nothing(view, size, height)
    full = view.mode.full == "gpus"
    chosen = choose(FULL if full else COLUMNS, size)
    status = view.snapshot.gpus.status
    why = gpu_reason(status.reason, status.detail) if age(status) and status.reason else ""
    lines: list[Line] = [(Span(part, "warn"),) for part in wrap(why, size, ASIDES)] if why else []
    room = 2 * len(rows) if full else height - 1 - len(lines)
    lines += [head(chosen), *_table(chosen, rows, size, room, _skipped(view))]
    lines += _asides(view, size, ASIDES if full else min(ASIDES, height - len(lines)))
    room = height - len(lines) - 1
    if full:
        room = max(room, 8)
    if room >= 3:
        lines += [(), *charts(view, _charts(view, rows), size, min(room, 9))]
    if full:
        lines += [(), *sheet(rows, size)]
    return lines


def flat(view: View, size: int, height: int) -> list[Line]:
    """Rows where there is room for them, else all devices in one or two lines."""
    mark = Span("▸" if view.mode.focused == "gpus" else " ", "focus")
    rows = _rows(view)
    if not rows:
        # what the filter leaves says itself what it is about
        label = () if view.mode.filter else (Span("GPU ", "title"),)
        lines = [(*label, *line) for line in _nothing(view, size - 5, height)[:1]]
        lines += [(Span(" " * width(label)), *line) for line in _nothing(view, size - 5, height)[1:]]
    elif as_table(view, height):
        chosen = choose(COLUMNS, size - 1)
        heads = head(chosen)
        if old := _old(view):  # over the last headings: figures stand under the first
            heads = beside(heads, (Span(f" {told(old, size // 2)[0]}", "warn"),), size - 1)
        lines = [heads, *_table(chosen, rows, size - 1, height - 1, _skipped(view))]
    else:
        lines = _summary(rows, size - 1, height, _old(view))
    return [(mark, *line) for line in lines[:height]]


def as_table(view: View, height: int) -> bool:
    """Whether a pane without borders has room for rows, not only for a summary."""
    return height >= table_lines(view)


def table_lines(view: View) -> int:
    """The fewest lines, with the head's, in which a table tells more than a summary of all devices."""
    found = filtered.gpus(view)
    ill = any(gpu.state != "ok" for gpu in found)
    return min(LEAST_OF_ILL if ill else LEAST_ROWS, len(found)) + 1


def _rows(view: View) -> list[Row]:
    observed = view.snapshot.gpus
    old = not observed.status.ok
    return [
        Row(gpu, view, old or gpu.state != "ok" or gpu.stale_s is not None) for gpu in filtered.gpus(view)
    ]


def _skipped(view: View) -> int:
    return view.mode.skipped if view.mode.focused == "gpus" else 0


def _nothing(view: View, size: int, height: int) -> list[Line]:
    status = view.snapshot.gpus.status
    if view.mode.filter and _count(view):
        return [fit((filtered.none_left(view, "GPU"),), size)]
    if status.state is SourceState.PENDING:
        return [(Span(READING, "muted"),)]
    if status.reason is None:
        return [(Span("the NVIDIA driver counts no GPU", "text"),), *_asides(view, size, ASIDES)]
    rows = max(1, min(ASIDES, height))  # what has no line of its own is cut with a mark
    return [
        *((Span(part, "text"),) for part in wrap(gpu_reason(status.reason, status.detail), size, rows)),
        (Span(cut("engine and host figures are read all the same", size), "muted"),),
    ]


def _asides(view: View, size: int, room: int) -> list[Line]:
    """GPUs of other vendors, and what the source could not do beside reading."""
    reading = view.snapshot.gpus.reading
    texts = (*reading.other_gpus, *reading.notes) if reading else ()
    return [(Span(cut(narrow(text), size), "muted"),) for text in texts[: max(0, room)]]


def _table(
    chosen: Sequence[tuple[Column[Row], int]], rows: list[Row], size: int, room: int, skipped: int
) -> list[Line]:
    """A line a device in index order; where they do not all fit, those in trouble first.

    What is wrong with one stands on a line below it, as far as there is room: those that do not work come
    first, and without room it takes the place of their figures.
    """
    if len(rows) <= room:
        explained = _explained(chosen, rows, size, room - len(rows))
        lines = []
        for item in rows:
            below = explained.get(item.scope, [])
            lines.append(_line(chosen, item, size, explained=bool(below)))
            role: Role = "warn" if item.works else "hot"
            lines += [(Span(" " * _DETAIL_AT), Span(text, role)) for text in below]
        return lines
    shown, rest = window(sorted(rows, key=_trouble), room, skipped)
    return [*(_line(chosen, item, size) for item in shown), (Span(rest, "muted", "fill('gpus')"),)]


def _explained(
    chosen: Sequence[tuple[Column[Row], int]], rows: list[Row], size: int, room: int
) -> dict[str, list[str]]:
    """What is wrong with devices, by scope, on so many lines; none has a second one before all have one."""
    telling = sorted((item for item in rows if _wordings(item)), key=lambda item: item.works)[: max(0, room)]
    found: dict[str, list[str]] = {}
    for index, item in enumerate(telling):
        first = _state(chosen, item, size)[1]
        most = room - (len(telling) - index - 1)
        wordings = _wordings(item)
        aged = [first + text for text in wordings]
        found[item.scope] = told([*aged, *wordings], size - _DETAIL_AT, most)
        room -= len(found[item.scope])
    return found


def telling(view: View) -> int:
    """How many lines the pane could use beside its rows: for what is wrong with one of them, or with all."""
    rows = _rows(view)
    of_all = bool(view.snapshot.gpus.status.reason)
    return sum(bool(_wordings(item)) for item in rows) + of_all


def _trouble(item: Row) -> tuple[bool, bool, bool, float, int]:
    gpu = item.gpu
    throttled = any(name in THROTTLES for name in gpu.throttle or ())
    return (item.works, not gpu.detail, not throttled, -(gpu.sm_pct or 0.0), gpu.index)


def _line(
    chosen: Sequence[tuple[Column[Row], int]], item: Row, size: int, *, explained: bool = False
) -> Line:
    """A device's figures; of one that does not work the last ones, dimmed, if why stands elsewhere."""
    if item.works:
        return row(chosen, item)
    heads = _heads(chosen)
    if explained and item.gpu.stale_s is not None and heads < len(chosen):
        return noted(chosen, item, heads, _state(chosen, item, size)[:1], "hot", size)
    wordings = _wordings(item)
    by_age, by_state = ([f"{word}: {text}" for text in wordings] for word in (_aged(item), item.gpu.state))
    notes = [*by_age, *by_state, *wordings]
    # the card's name gives way to the end of the shortest
    rooms = [(heads, size - sum(cells + 1 for _, cells in chosen[:heads])) for heads in (2, 1)]
    heads, _ = next((pair for pair in rooms if any(len(text) <= pair[1] for text in notes)), rooms[0])
    return noted(chosen, item, heads, notes, "hot", size)


def _heads(chosen: Sequence[tuple[Column[Row], int]]) -> int:
    """The columns before the one in which a state may stand."""
    return next((i for i, (column, _) in enumerate(chosen) if column is LIMIT), len(chosen))


def _state(chosen: Sequence[tuple[Column[Row], int]], item: Row, size: int) -> tuple[str, str]:
    """A device's state beside its last figures, and what of its age must stand before the reason below."""
    gpu, aged = item.gpu, _aged(item)
    before = sum(cells + 1 for _, cells in chosen[: _heads(chosen)])
    if item.works or gpu.stale_s is None or before + len(aged) <= size:
        return aged, ""
    return gpu.state, f"{seconds(gpu.stale_s)} old: "


def _aged(item: Row) -> str:
    gpu = item.gpu
    return gpu.state if gpu.stale_s is None else f"{gpu.state}, {seconds(gpu.stale_s)} old"


def _wordings(item: Row) -> list[str]:
    """What is wrong with a device, or what it has come back from, fullest first; none where it is well."""
    gpu = item.gpu
    if item.works:
        back = ""
        if gpu.recovered_s is not None and gpu.recovered_s < NEWS_S:
            back = f"answers again since {elapsed(gpu.recovered_s)}"
        said = _shortened("; ".join(text for text in (narrow(gpu.detail), back) if text))
        errors = gpu.ecc_uncorrected
        return [*said, f"{errors} uncorrected memory errors …"] if said and errors else said
    why = gpu_reason(gpu.reason, gpu.detail)
    if gpu.xid is None:
        return _shortened(why)
    xid = f"Xid {gpu.xid}" + (f": {narrow(gpu.xid_text)}" if gpu.xid_text else "")
    if f"Xid {gpu.xid}" not in why:
        why += f"; {xid}"
    return [*dict.fromkeys((why, xid)), *([f"Xid {gpu.xid}: {gpu_reason(gpu.reason)}"] if gpu.reason else [])]


def _shortened(text: str) -> list[str]:
    """A sentence, and its first part with a mark that it goes on."""
    first, _, more = text.partition("; ")
    return [part for part in (text, f"{first}; …" if more else "") if part]


def _charts(view: View, rows: list[Row]) -> list[Chart]:
    cards = [item for item in rows if item.is_card]
    scopes = [item.scope for item in cards]  # a lost one's past belongs to theirs
    limits = [item.gpu.power_limit_w for item in cards if item.gpu.power_limit_w is not None]
    working = [item.gpu for item in cards if item.works]
    known = [gpu.power_w for gpu in working if gpu.power_w is not None]
    busy = [gpu.sm_pct for gpu in working if gpu.sm_pct is not None]
    stale = all(item.stale for item in cards)
    return [
        Chart(
            "SM %, mean",
            percent(sum(busy) / len(busy) if busy else None),
            scopes,
            "sm_pct",
            top=100.0,
            mean=True,
            stale=stale,
        ),
        Chart(
            "power W, all",
            number(sum(known) if known else None),
            scopes,
            "power_w",
            top=sum(limits) if len(limits) == len(cards) else None,
            stale=stale,
        ),
    ]


def _summary(rows: list[Row], size: int, height: int, old: Sequence[str]) -> list[Line]:
    """All devices in one line, or two; ``old``: wordings of their age and why, if they are not fresh."""
    cards = [r for r in rows if r.is_card]
    when, _, reason = (old[0] if old else "").partition(": ")
    working, ill = [r for r in cards if r.works], [r for r in cards if not r.works]
    label = Span("GPU " if len(cards) == 1 else f"{len(cards)} GPU ", "title")
    sm = [r.gpu.sm_pct for r in working]
    memory = [mem_ratio(r.gpu) for r in working]
    temps = [r.gpu.temp_c for r in working if r.gpu.temp_c is not None]
    power = [r.gpu.power_w for r in working if r.gpu.power_w is not None]
    stale = all(r.stale for r in cards)
    most = max((m for m in memory if m is not None), default=None)

    def value(text: str, *, hot: bool = False) -> Span:
        return figure(text, hot=hot, stale=stale)

    each = (Span("sm ", "label"), value(" ".join(percent(v).rjust(3) for v in sm)), Span(" %", "muted"))
    known = [v for v in sm if v is not None]
    span = f"{percent(min(known))}-{percent(max(known))}" if known else DASH
    spread = (Span("sm ", "label"), value(span.rjust(6)), Span(" %", "muted"))
    rest = (
        Span("mem ", "label"),
        value(percent(None if most is None else most * 100).rjust(3), hot=any(map(short_of_memory, working))),
        Span(" %  ", "muted"),
        value(number(max(temps, default=None)).rjust(3)),
        Span(" °C  ", "muted"),
        value(number(sum(power) if power else None).rjust(5)),
        Span(" W", "muted"),
    )
    if ill:
        states = Counter(r.gpu.state for r in ill)
        names = {s: spelled(r.gpu.index for r in ill if r.gpu.state == s) for s in states}
        said = ", ".join(f"GPU {names[state]} {state}" for state in states)
        first = _whole((label, Span(said, "hot")), spread, size)
        which = f"GPU {ill[0].gpu.index}: " if len(ill) > 1 else ""
        wordings = _wordings(ill[0])
        (why,) = told([*(which + text for text in wordings), *wordings], size - len(label.text))
        return [first, (Span(" " * len(label.text)), Span(why, "hot"))][:height]
    if old:
        second = (Span(" " * len(label.text)), Span(cut(reason, size - len(label.text)), "warn"))
        first = _whole(_whole((label, Span(when, "warn")), spread, size), rest, size)
        return [first, *([second] if reason else [])][:height]
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
    line = (label, *spread, gap, *rest)
    return [fit(line if width(line) <= size else _tight(line), size)]


def _whole(line: Line, more: Line, size: int) -> Line:
    """With more behind it if that is not cut: half a figure is a wrong one."""
    longer = (*line, Span("  "), *more)
    return longer if width(longer) <= size else fit(line, size)


def _tight(line: Line) -> Line:
    """Without the room that longer figures would need, and single gaps: to leave out none of them."""
    return tuple(span._replace(text=_SPACES.sub(" ", span.text)) for span in _closed(line))


def _closed(line: Line) -> Line:
    return tuple(s._replace(text=s.text.lstrip()) if s.role in ("value", "stale") else s for s in line)
