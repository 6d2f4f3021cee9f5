"""The bottom line: the keys of the present screen; each can be clicked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.ui.keys import KEYS
from tui.ui.lines import Line, Span, fit, width

if TYPE_CHECKING:
    from tui.ui.view import View


def lines(view: View, size: int, height: int) -> list[Line]:
    """As many keys as fit, the most needed first."""
    spans: list[Span] = [Span(" ")]
    for key in KEYS:
        label = key.label
        if view.mode.full is not None and key.action == "zoom":
            label = "back"
        if view.mode.paused and key.action == "pause":
            label = "resume"
        if not label:
            continue
        item = (Span(key.shown, "key", key.action), Span(f" {label}", "muted", key.action), Span("  "))
        if width(spans) + width(item) - 2 > size:
            break
        spans += item
    return [fit(tuple(spans), size)][:height]
