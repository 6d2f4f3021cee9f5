"""Every key, and what the abbreviations mean."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from tui.ui.keys import KEYS
from tui.ui.lines import Line, Span, fit, wrap

if TYPE_CHECKING:
    from tui.ui.view import View

BESIDE = 112
"""Cells from which on there are two columns."""
GAP = 3
_WORDS = (
    ("SM%", "share of time in which any kernel ran; not how full the GPU was"),
    ("bw%", "share of time in which the GPU's memory was being read or written"),
    ("limit", "why clocks are held down: cap (power), hot, HOT (hardware), brake, slow"),
    ("! card", "something is wrong with a card that works: 2 z tells what"),
    ("run, wait", "requests being decoded, and in the queue"),
    ("kv%", "KV cache in use by live requests; full with nobody waiting is fine"),
    ("hit%", "prompt tokens found in the prefix cache"),
    ("pre/s", "preemptions: requests thrown out of the KV cache and computed again"),
    ("ttft, itl", "time to first token, time between tokens; 95th percentile of the last window"),
    ("tok/s", "generated tokens a second"),
    ("pressure", "share of the last 10 s in which something waited for it (PSI, some)"),
    ("streak", "probe results alike in a row, and at how many the platform acts: 2/3 bad"),
    ("would", "what a kubelet with these probe settings would do if the results go on like this"),
    ("– dim", "a dash is not known, never zero; a dim figure is old, its age stands beside it"),
)


def title(view: View) -> Line:
    """The title."""
    return (Span("HELP", "title"),)


def body(view: View, size: int, height: int) -> list[Line]:
    """As many lines as it takes: the pane scrolls; keys and words side by side where there is room."""
    if size < BESIDE:
        return [*_keys(size), (), *_words(size)]
    half = (size - GAP) // 2
    return [
        (*fit(left, half), Span(" " * GAP), *right)
        for left, right in zip_longest(_keys(half), _words(size - GAP - half), fillvalue=())
    ]


def _keys(size: int) -> list[Line]:
    return [line for key in KEYS if key.help for line in _entry(key.shown, key.help, "key", size)]


def _words(size: int) -> list[Line]:
    lines: list[Line] = [(Span("what the columns mean", "label"),)]
    for word, meaning in _WORDS:
        lines += _entry(word, meaning, "value", size)
    return lines


def _entry(word: str, text: str, role: str, size: int) -> list[Line]:
    return [
        (Span((word if index == 0 else "").ljust(11), role), Span(line))  # type: ignore[arg-type]
        for index, line in enumerate(wrap(text, max(1, size - 11)))
    ]
