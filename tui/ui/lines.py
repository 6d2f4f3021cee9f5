"""Lines of spans: what a pane shows, as data. A character is a cell; a role is a meaning, not a colour."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from tui.model.text import clean
from tui.ui.glyphs import glyphs, to_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Role = Literal[
    "text", "muted", "label", "value", "title", "key",
    "border", "focus", "bar", "trough", "spark",
    "calm", "notice", "badge", "flag", "hot", "warn", "stale",
]  # fmt: skip
"""What a piece of text means; a theme says how each looks.

``badge`` is the one loud place of a sick screen, ``notice`` a verdict that calls for attention only,
``hot`` a figure that made the verdict, ``warn`` something beside it, ``flag`` a mode the operator must
not forget, ``stale`` a figure that has aged.
"""


class Span(NamedTuple):
    """A piece of one line. Every character is one cell, as ``narrow`` makes them."""

    text: str
    role: Role = "text"
    action: str = ""
    """What a click on it does, by the name of the app's action."""


Line = tuple[Span, ...]

ELLIPSIS = "…"
_OF_NUMBERS = "0123456789.,"
_FIGURE = re.compile(r"[0-9.,]+")
_PORT = re.compile(r":[0-9]{1,5}$")
_BEFORE_NUMBERS = (" ", "(", "<", ">", "=", "/")
_BREAKS = re.compile(r"(?<!\d) | (?!(?:%|°C|/s|W|s|ms|min|h|GiB|MiB|MHz|MB/s|tok/s)(?:\W|$))")
"""Spaces at which a line may end: not between a figure and its unit."""


@functools.lru_cache(maxsize=4096)
def narrow(text: str, limit: int = 400) -> str:
    """Text from outside in which a character is a cell, for ``glyphs`` to make a terminal's text of.

    Args:
        text: anything.
        limit: the most cells to return.
    """
    text = clean(text, limit)
    if text.isascii():
        return text
    cells = to_cells(text)
    return "".join([*cells[: limit - 1], ELLIPSIS] if len(cells) > limit else cells)


def plain(line: Line) -> str:
    """The text of a line without its roles, as a terminal shows it."""
    return "".join(glyphs(span.text) for span in line)


def width(line: Iterable[Span]) -> int:
    """Cells of a line."""
    cells = 0
    for span in line:
        cells += len(span[0])
    return cells


def cut(text: str, size: int) -> str:
    """Text in at most ``size`` cells; what is cut off is marked, and never a part of a number."""
    if len(text) <= size:
        return text
    if size <= 0:
        return ""
    kept = text[: size - 1]
    if text[size - 1] in _OF_NUMBERS and kept[-1:] in _OF_NUMBERS:
        before = kept.rstrip(_OF_NUMBERS)
        digits = _FIGURE.match(text, len(before))
        # a name's digits are no figure, and neither is an address
        if before.endswith(_BEFORE_NUMBERS) and digits and digits[0].count(".") < 2:
            kept = before
    return kept.rstrip() + ELLIPSIS


def cut_words(text: str, size: int) -> str:
    """A sentence in at most ``size`` cells, cut behind a word unless that costs more than half of it."""
    if len(text) <= size:
        return text
    whole = wrap(text, max(1, size - len(ELLIPSIS) - 1))[0]
    if len(whole) < size / 2 or whole.endswith(ELLIPSIS):
        return cut(text, size)
    return f"{whole} {ELLIPSIS}"


def cut_name(text: str, size: int) -> str:
    """An engine's name in at most ``size`` cells: its kind and host give way, and its port is whole."""
    port = _PORT.search(text)
    if len(text) <= size or port is None or len(port[0]) > size:
        return cut(text, size)
    return cut(text[: port.start()].rstrip(), size - len(port[0])) + port[0]


def fit_name(line: Line, size: int) -> Line:
    """A line that begins with an engine's name, in exactly ``size`` cells: what follows gives way first."""
    first = line[0]
    return fit(
        (first._replace(text=cut_name(first.text, size)), *line[1:]) if len(first.text) > size else line, size
    )


def left(text: str, size: int) -> str:
    """Text at the left of exactly ``size`` cells."""
    return cut(text, size).ljust(size)


def right(text: str, size: int) -> str:
    """Text at the right of exactly ``size`` cells."""
    return cut(text, size).rjust(size)


def fit(line: Line, size: int) -> Line:
    """A line in exactly ``size`` cells: padded, or cut with a mark."""
    if size <= 0:
        return ()
    have = width(line)
    if have == size:
        return line
    if have < size:
        return (*line, Span(" " * (size - have)))
    spans: list[Span] = []
    room = size
    for span in line:
        if len(span.text) >= room:
            # what follows is cut off as well, so the mark is due even if this span just fits
            spans.append(span._replace(text=cut(span.text + " ", room)))
            break
        spans.append(span)
        room -= len(span.text)
    return fit(tuple(spans), size)


def beside(first: Line, second: Line, size: int) -> Line:
    """Two lines on one, the second at the right edge; the first gives way, then the second."""
    room = size - width(second)
    return (*fit(first, room), *second) if room > 0 else fit(second, size)


def flow(items: Sequence[Line], size: int, rows: int, gap: int = 3) -> list[Line]:
    """Items one after another on at most ``rows`` lines, each whole; what finds no room is counted."""
    packed: list[list[Line]] = [[]]
    for index, item in enumerate(items):
        if packed[-1] and _packed_width([*packed[-1], item], gap) > size:
            if len(packed) == rows:
                packed[-1] = _with_mark(packed[-1], len(items) - index, size, gap)
                break
            packed.append([])
        packed[-1].append(item)
    between = Span(" " * gap)
    lines = []
    for row in packed:
        spans = [span for item in row for span in (between, *item)]
        if spans:
            lines.append(tuple(spans[1:]))
    return lines


def _packed_width(row: Sequence[Line], gap: int) -> int:
    return sum(width(item) + gap for item in row) - gap


def _with_mark(row: list[Line], left_out: int, size: int, gap: int) -> list[Line]:
    """A full row that ends in how many items found no room, which may cost it another one."""
    while True:
        mark = (Span(f"+{left_out} more", "muted"),)
        if len(row) == 1 or _packed_width([*row, mark], gap) <= size:
            return [*row, mark]
        row, left_out = row[:-1], left_out + 1


def wrap(text: str, size: int, rows: int = 1000) -> list[str]:
    """Words on lines of at most ``size`` cells; the last of ``rows`` lines is cut with a mark."""
    lines = [""]
    for word in _BREAKS.split(text):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if len(joined) <= size or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(word)
    if len(lines) > rows:
        lines = [*lines[: rows - 1], " ".join(lines[rows - 1 :])]
    return [cut(line, size) for line in lines]


def folded(text: str, size: int) -> list[str]:
    """Words on lines of at most ``size`` cells with nothing cut off: a longer word goes on below."""
    size = max(1, size)
    words = [word[at : at + size] for word in text.split(" ") for at in range(0, max(1, len(word)), size)]
    return wrap(" ".join(words), size)


_ASCII = str.maketrans(
    {
        "–": "-", "—": "-", "…": "~", "·": ".", "•": "*", "×": "x", "°": " ", "µ": "u",
        "≥": ">", "≤": "<", "→": ">", "←": "<", "↑": "^", "↓": "v", "▸": ">", "▲": "^", "▼": "v",
        "─": "-", "━": "=", "╸": "=", "│": "|", "╭": "+", "╮": "+", "╰": "+", "╯": "+", "├": "+", "┤": "+",
        "┬": "+", "┴": "+", "┼": "+", "┌": "+", "┐": "+", "└": "+", "┘": "+",
        "▁": "_", "▂": ".", "▃": "-", "▄": "=", "▅": "+", "▆": "*", "▇": "%", "█": "#",
        "▔": "-", "▏": "|", "▎": "|", "▍": "|", "▌": "|", "▋": "|", "▊": "|", "▉": "#", "▐": "|", "▕": "|",
    }
)  # fmt: skip


def to_ascii(line: Line) -> Line:
    """The same line for a terminal or font without Unicode: every character stays one cell."""
    return tuple(span if span.text.isascii() else span._replace(text=in_ascii(span.text)) for span in line)


@functools.lru_cache(maxsize=4096)
def in_ascii(text: str) -> str:
    """The same text, character by character."""
    return "".join(c if c.isascii() else _dots(c) for c in text.translate(_ASCII))


def _dots(character: str) -> str:
    """A braille cell as a character of about its weight; ``?`` for any other."""
    code = ord(character)
    return " .:|#"[(bin(code - 0x2800).count("1") + 1) // 2] if 0x2800 <= code <= 0x28FF else "?"
