"""The rows of engines and GPUs that the operator's filter leaves. Verdicts are never filtered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.ui.glyphs import glyphs
from tui.ui.lines import Span, narrow
from tui.ui.view import urgent_first
from tui.ui.words import THROTTLES, engine_name, model_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.model.readings import GpuReading
    from tui.model.snapshot import EngineView
    from tui.ui.view import View

MOST = 40
"""Characters of a filter."""


def engines(view: View) -> list[EngineView]:
    """Those that match by kind, address, model or verdict, the most urgent first."""
    ordered = urgent_first(view)
    if not view.mode.filter:
        return ordered
    titles = {verdict.scope: verdict.title for verdict in view.judgement.verdicts}
    return [
        engine
        for engine in ordered
        if _matches(view, (engine_name(engine), model_name(engine), engine.url, titles.get(engine.url)))
    ]


def gpus(view: View) -> list[GpuReading]:
    """Those that match by index (``gpu 3``), name, uuid, state, limit, or by what runs on them."""
    reading = view.snapshot.gpus.reading
    found = reading.gpus if reading is not None else ()
    return [gpu for gpu in found if not view.mode.filter or _matches(view, _words_of(gpu))]


def _words_of(gpu: GpuReading) -> Iterable[str | None]:
    yield from (f"gpu {gpu.index}", gpu.name, gpu.uuid, gpu.mig_name, gpu.state, gpu.detail)
    yield from (THROTTLES.get(reason) for reason in gpu.throttle or ())
    yield from (process.name for process in gpu.processes or ())


def _matches(view: View, texts: Iterable[str | None]) -> bool:
    wanted = glyphs(narrow(view.mode.filter)).casefold()
    return any(wanted in glyphs(text).casefold() for text in texts if text)


def note(view: View, left: int, total: int) -> tuple[Span, ...]:
    """What the title of a filtered pane says; nothing where there is no filter, or nothing to filter."""
    if not view.mode.filter or not total:
        return ()
    return (Span(f"  /{narrow(view.mode.filter, MOST)}  {total - left} of {total} hidden", "warn"),)


def none_left(view: View, what: str) -> Span:
    """Instead of rows where all are hidden."""
    return Span(f"no {what} matches /{narrow(view.mode.filter, MOST)}; Esc shows all", "text")
