"""One engine as a row: what each column shows of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tui.model.status import SourceState
from tui.model.units import DASH, bounded, count, ratio_as_percent, seconds
from tui.ui.lines import Line, Span, fit_name
from tui.ui.table import Column, choose, for_names
from tui.ui.view import TRANSIENT, figure, is_hot
from tui.ui.words import age, engine_name, model_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.model.readings import EngineReading
    from tui.model.snapshot import EngineView
    from tui.ui.view import View

    Form = Callable[[float | None], str]


_STATES: dict[str | None, str] = {
    "engine_down": "down",
    "engine_hung": "hung",
    "loading": "loading",
    "draining": "draining",
}
"""Verdicts that say what an engine is doing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One engine in its picture."""

    engine: EngineView
    view: View

    @property
    def reading(self) -> EngineReading | None:
        """What was last read of it."""
        return self.engine.engine.reading

    @property
    def stale(self) -> bool:
        """The reading has aged."""
        return not self.engine.engine.status.ok

    @property
    def shows_figures(self) -> bool:
        """Whether the last reading still says something: not once the engine could no longer be read."""
        status = self.engine.engine.status
        return status.state in (SourceState.FRESH, SourceState.STALE) and self.reading is not None

    @property
    def verdict(self) -> str | None:
        """What was concluded about it."""
        verdicts = self.view.judgement.verdicts
        return next((v.verdict for v in verdicts if v.scope == self.engine.url), None)

    def get(self, field: str) -> float | None:
        """One figure; None where it is not known."""
        return getattr(self.reading, field, None)

    def shown(self, form: Form, field: str) -> str:
        """One figure as text, marked where only a bound of it is known."""
        text = form(self.get(field))
        return text if self.reading is None else bounded(text, self.reading.bounds.get(field, ""))

    def figure(self, text: str, *fields: str) -> Span:
        """One figure in its cell."""
        hot = any(is_hot(self.view, self.engine.url, (name,), self.get(name)) for name in fields)
        return figure(text, hot=hot, stale=self.stale)


def _name_and_model(item: Row) -> Line:
    return (Span(engine_name(item.engine), "text"), Span(f" {model_name(item.engine)}".rstrip(), "muted"))


def _name(item: Row) -> Span:
    return Span(engine_name(item.engine), "text")


def _state(item: Row) -> Span:
    """What the engine is doing, or how old what is shown of it is."""
    status = item.engine.engine.status
    if status.state is SourceState.PENDING:
        return Span("", "muted")
    if item.verdict in _STATES:
        return Span(_STATES[item.verdict], "text" if item.verdict in TRANSIENT else "hot")
    if old := age(status):
        return Span(old.removesuffix(" old") if status.state is SourceState.FAILED else old, "warn")
    if item.reading is None or item.reading.reason is not None:
        return Span(DASH, "muted")
    if item.reading.asleep:
        return Span("asleep", "text")
    if item.reading.paused:
        return Span("paused", "text")
    return Span("serving", "muted")


def _cell(name: str, size: int, form: Form, *fields: str, rank: int) -> Column[Row]:
    """A figure; it is tinted where a verdict rests on any of ``fields``, of which the first is shown."""
    return Column(name, size, lambda r: r.figure(r.shown(form, fields[0]), *fields), rank=rank)


_STATE: Column[Row] = Column("state", 8, _state, rank=1, to_left=True)
_RUN = _cell("run", 5, count, "running", rank=0)
_WAIT = _cell("wait", 5, count, "waiting", rank=0)
_KV = _cell("kv%", 4, ratio_as_percent, "kv_usage", "kv_usage_max", rank=0)
_HIT = _cell("hit%", 4, ratio_as_percent, "prefix_hit_ratio", rank=6)
_TTFT = _cell("ttft", 5, seconds, "ttft_p95_s", rank=3)
_ITL = _cell("itl", 5, seconds, "itl_p95_s", rank=4)
_TOKENS = _cell("tok/s", 5, count, "gen_tok_s", rank=2)
_ERRORS = _cell("err%", 4, ratio_as_percent, "error_ratio", rank=7)
_PREEMPT = _cell("pre/s", 5, count, "preemptions_per_s", rank=5)

COLUMNS: tuple[Column[Row], ...] = (
    Column("engine", 10, _name_and_model, grow=40, to_left=True, shorten=fit_name),
    _STATE,
    _RUN,
    _WAIT,
    _KV,
    _HIT,
    _PREEMPT,
    _TTFT,
    _ITL,
    _TOKENS,
    _ERRORS,
)

FULL: tuple[Column[Row], ...] = (
    Column("engine", 14, _name_and_model, grow=44, to_left=True, shorten=fit_name),
    _STATE,
    _RUN,
    _WAIT,
    _KV,
    _HIT,
    _PREEMPT,
    _cell("ttft50", 6, seconds, "ttft_p50_s", rank=11),
    _cell("ttft95", 6, seconds, "ttft_p95_s", rank=3),
    _cell("ttft99", 6, seconds, "ttft_p99_s", rank=11),
    _cell("itl50", 5, seconds, "itl_p50_s", rank=10),
    _cell("itl95", 5, seconds, "itl_p95_s", rank=4),
    _cell("queue95", 7, seconds, "queue_p95_s", rank=8),
    _cell("e2e95", 5, seconds, "e2e_p95_s", rank=12),
    _TOKENS,
    _cell("prompt/s", 8, count, "prompt_tok_s", rank=9),
    _cell("req/s", 5, count, "req_s", rank=9),
    _ERRORS,
)

LEGIBLE = 8
"""Cells in which something of a model's name can be read."""


def chosen_for(
    columns: Sequence[Column[Row]], rows: Sequence[Row], size: int
) -> list[tuple[Column[Row], int]]:
    """The columns that fit ``size`` cells, the first wide enough for the engines' names."""
    names = [engine_name(item.engine) for item in rows]
    chosen = choose(for_names(columns, names, size), size)
    (first, room), *others = chosen
    if room > max(map(len, names), default=0) + LEGIBLE:
        return chosen
    return [(replace(first, cell=_name), room), *others]


def _named(label: str, size: int, form: Form, field: str, unit: str = "", *, rank: int) -> Column[Row]:
    """A figure with its name in front and its unit behind, for screens without a line of headings."""
    start = f"{label} " if label else ""

    def cell(item: Row) -> Line:
        shown = item.figure(item.shown(form, field), field)
        return (Span(start, "label"), shown._replace(text=shown.text.rjust(size)), Span(unit, "muted"))

    return Column("", len(start) + size + len(unit), cell, rank=rank)


INLINE: tuple[Column[Row], ...] = (
    Column("engine", 10, _name, to_left=True, shorten=fit_name),
    _named("run", 3, count, "running", rank=0),
    _named("wait", 4, count, "waiting", rank=0),
    _named("kv", 3, ratio_as_percent, "kv_usage", "%", rank=0),
    _named("ttft", 5, seconds, "ttft_p95_s", rank=4),
    _named("itl", 5, seconds, "itl_p95_s", rank=5),
    _named("", 5, count, "gen_tok_s", " tok/s", rank=2),
)
