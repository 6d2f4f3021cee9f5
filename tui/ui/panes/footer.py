"""The bottom line: the keys of the present screen; each can be clicked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.ui.keys import KEYS
from tui.ui.lines import Line, Span, fit, width
from tui.ui.sheet import SheetKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.ui.view import View


def lines(view: View, size: int, height: int) -> list[Line]:
    """As many keys as fit, the most needed first."""
    spans: list[Span] = [Span(" ")]
    for shown, label, action in _keys(view):
        item = (Span(shown, "key", action), Span(f" {label}", "muted", action), Span("  "))
        if width(spans) + width(item) - 2 > size:
            break
        spans += item
    return [fit(tuple(spans[:-1]), size)][:height]  # without the gap behind the last


def _keys(view: View) -> Iterator[SheetKey]:
    if view.sheet is not None:
        yield from view.sheet.keys()
        return
    for key in KEYS:
        label = key.label
        if view.mode.full is not None and key.action == "zoom":
            label = "back"
        if view.mode.paused and key.action == "pause":
            label = "resume"
        if label:
            yield SheetKey(key.shown, label, key.action)
