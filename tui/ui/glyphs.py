"""Text in which every character is one cell, so that lengths are widths; and back, for the terminal.

A wide character is a private one followed by ``SECOND_HALF``, and one with combining marks is a private one
too: any slice is as wide as it is long, and a figure costs no look into a table of widths.
"""

from __future__ import annotations

import functools
import unicodedata

_ONE_CELL = (
    (0x20, 0x7E), (0xA1, 0xAC), (0xAE, 0x2FF), (0x370, 0x482), (0x48A, 0x52F), (0x1E00, 0x1FFF),
    (0x2010, 0x2027), (0x2030, 0x205E), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x2500, 0x259F),
)  # fmt: skip
"""Ranges in which every terminal agrees on the width."""
_TWO_CELLS = (
    (0x1100, 0x115E), (0x2E80, 0x2FD5), (0x3001, 0x3029), (0x3041, 0x3096), (0x309B, 0x30FF),
    (0x3105, 0x312F), (0x3131, 0x3163), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF), (0xFF01, 0xFF60), (0xFFE0, 0xFFE6), (0x1F300, 0x1F320), (0x1F32D, 0x1F335),
    (0x1F337, 0x1F37C), (0x1F37E, 0x1F393), (0x1F3A0, 0x1F3CA), (0x1F3E0, 0x1F3F0), (0x1F400, 0x1F43E),
    (0x1F442, 0x1F4FC), (0x1F4FF, 0x1F53D), (0x1F550, 0x1F567), (0x1F5FB, 0x1F64F), (0x1F680, 0x1F6C5),
    (0x1F910, 0x1F93A), (0x1F940, 0x1F945), (0x1F947, 0x1F970), (0x20000, 0x2FA1D), (0x30000, 0x3134A),
    (0x2705, 0x2705), (0x2728, 0x2728), (0x274C, 0x274C), (0x26A1, 0x26A1), (0x2B50, 0x2B50),
)  # fmt: skip
"""East Asian letters and old emoji: two cells in every terminal of the last ten years."""
_MARKS = (
    (0x300, 0x34E),
    (0x350, 0x36F),
    (0x483, 0x487),
    (0x1AB0, 0x1ABD),
    (0x1DC0, 0x1DF9),
    (0x20D0, 0x20DC),
)
"""Marks that every terminal draws over the character before."""
_MOST_MARKS = 2
"""On one character; a tower of them reaches into the lines above."""
_COMPOSING = "\ufe0e\ufe0f\u20e3\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
"""What makes one picture of several characters in some terminals and not in others."""

SECOND_HALF = "\ue000"
"""Stands behind a character of two cells, so that a text is as long as it is wide."""
_FIRST_CLUSTER, _LAST_CLUSTER = 0xE001, 0xF8FF
_clusters: dict[str, str] = {}
"""A wide character, or one with its marks, by the private character that stands for it here."""
_names: dict[str, str] = {}
"""The private character by what it stands for."""


def to_cells(text: str) -> list[str]:
    """The characters that stand for a text without control characters, one a cell.

    What terminals draw in different widths becomes one ``?``: pictures composed of several characters,
    and scripts of no fixed width.
    """
    cells: list[str] = []
    marked: str | None = None
    for character in unicodedata.normalize("NFC", text):
        if character in _COMPOSING:
            marked = None
            if cells:
                while cells[-1] == SECOND_HALF:
                    cells.pop()
                cells[-1] = "?"
        elif unicodedata.category(character).startswith("M"):
            if marked is not None and _within(character, _MARKS) and len(marked) <= _MOST_MARKS:
                marked += character
                cells[-2 if cells[-1] == SECOND_HALF else -1] = _cluster(marked)
        elif _within(character, _ONE_CELL):
            cells.append(character)
            marked = character
        elif _within(character, _TWO_CELLS):
            cells += (_cluster(character), SECOND_HALF)
            marked = character
        else:
            cells.append("?")
            marked = None
    return cells


def _within(character: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    code = ord(character)
    return any(low <= code <= high for low, high in ranges)


def _cluster(text: str) -> str:
    """The private character for a wide one, or for one with its marks; ``?`` once there are no more."""
    name = _names.get(text)
    if name is None:
        code = _FIRST_CLUSTER + len(_names)
        if code > _LAST_CLUSTER:
            return "?"
        name = _names[text] = chr(code)
        _clusters[name] = text
    return name


def glyphs(text: str) -> str:
    """What a terminal is to be sent for a text of ``narrow``: exactly as many cells as it is long.

    Half of a wide character, which is what a cut leaves of one, becomes a blank.
    """
    return text if text.isprintable() else _glyphs(text)  # private characters are not; all else here is


@functools.lru_cache(maxsize=4096)
def _glyphs(text: str) -> str:
    out: list[str] = []
    for index, character in enumerate(text):
        shown = _clusters.get(character, character)
        if character == SECOND_HALF:
            if not _is_wide(text[index - 1 : index]):
                out.append(" ")
        elif _is_wide(character) and text[index + 1 : index + 2] != SECOND_HALF:
            out.append(" ")
        else:
            out.append(shown)
    return "".join(out)


def _is_wide(character: str) -> bool:
    shown = _clusters.get(character)
    return shown is not None and _within(shown[0], _TWO_CELLS)
