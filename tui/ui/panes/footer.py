"""The bottom line: the keys of the present screen; each can be clicked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.ui.filtered import MOST
from tui.ui.keys import KEYS
from tui.ui.lines import Line, Span, fit, narrow, width
from tui.ui.sheet import SheetKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.ui.view import View


def lines(view: View, size: int, height: int) -> list[Line]:
    """As many keys as fit, the most needed first, the filter before them; or the answer to the last key."""
    if view.mode.said and not view.mode.typing:
        return [fit((Span(" "), Span(narrow(view.mode.said, 200), "warn")), size)][:height]
    spans: list[Span] = [Span(" "), *_filter(view)]
    for shown, label, action in _keys(view):
        item = (Span(shown, "key", action), Span(f" {label}", "muted", action), Span("  "))
        if width(spans) + width(item) - 2 > size:
            break
        spans += item
    return [fit(tuple(spans[:-1]), size)][:height]  # without the gap behind the last


def _filter(view: View) -> Line:
    """What is typed, and how to be rid of it: without titles nothing else tells of hidden rows."""
    mode = view.mode
    if view.sheet is not None or not (mode.filter or mode.typing):
        return ()
    text = Span(f"/{narrow(mode.filter, MOST)}", "value", "filter")
    if mode.typing:
        return (text, Span("█", "focus"), Span(" Enter", "key"), Span(" keep  "), *_CLEAR)
    return (text, Span("  "), *_CLEAR)


_CLEAR: Line = (Span("Esc", "key", "back"), Span(" all rows", "muted", "back"), Span("   "))


def _keys(view: View) -> Iterator[SheetKey]:
    if view.sheet is not None:
        yield from view.sheet.keys()
        return
    if view.mode.typing:  # any other key is a letter
        return
    for key in KEYS:
        label = key.label
        if view.mode.full is not None and key.action == "zoom":
            label = "back"
        if view.mode.paused and key.action == "pause":
            label = "resume"
        if label:
            yield SheetKey(key.shown, label, key.action)
