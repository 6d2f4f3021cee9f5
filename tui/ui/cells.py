"""What a terminal shows, cell by cell: frames in, the changed cells out.

Textual repaints more than has changed, and repeats every style in full. A frame it writes is made of
absolute cursor moves, SGR, OSC 8 links, newlines and text only; it is parsed into cells, compared with
what the terminal is known to show, and only the difference is written, grouped by style.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import get_character_cell_size

from tui.ui.lines import in_ascii

_TEXT = r"[^\x00-\x1f\x7f-\x9f]+"
_TOKEN = re.compile(
    # by far the most: a style, a text, a reset
    rf"\x1b\[(?P<style>[0-9;]+)m(?P<styled>{_TEXT})\x1b\[0m"
    r"|\x1b\[(?P<row>\d+);(?P<column>\d+)H"
    r"|\x1b\[(?P<sgr>[0-9;]*)m"
    r"|\x1b\]8;(?P<link>[^\x07\x1b]*)(?:\x1b\\|\x07)"
    r"|(?P<newline>\r?\n)"
    rf"|(?P<text>{_TEXT})"
)
_BRIDGE = 3
"""Unchanged cells of the same look up to this many are rewritten: cheaper than a cursor move."""
_MOST = 2048
"""Caches are emptied at this size."""


class Look(NamedTuple):
    """How a cell looks: SGR parameters of its colours, attribute numbers, and the link under it."""

    foreground: str = ""
    background: str = ""
    attributes: frozenset[int] = frozenset()
    link: str = ""


PLAIN = Look()
Cell = tuple[str, Look]
"""A character with its combining ones, or nothing: the second half of a wide one."""
Frame = dict[int, list[tuple[int, list[Cell]]]]
"""By row: pieces as (column, cells)."""


class Run(NamedTuple):
    """Changed neighbours of one look."""

    look: Look
    y: int
    x: int
    text: str
    cells: int


class Parser:
    """Turns what Textual writes for one frame into cells.

    Args:
        colourless: drop all colours and keep the attributes.
        ascii_only: one ASCII character in each cell.
    """

    def __init__(self, *, colourless: bool = False, ascii_only: bool = False) -> None:
        self._colourless = colourless
        self._ascii_only = ascii_only
        self._looks: dict[tuple[Look, str], Look | None] = {}
        self._texts: dict[tuple[str, Look], list[Cell]] = {}
        self.cursor = (0, 0)
        """Where the last frame left the cursor, as (row, column)."""

    def cells(self, text: str, look: Look) -> list[Cell]:
        """The cells of a text without control characters; the same list each time, not to be changed."""
        key = (text, look)
        cells = self._texts.get(key)
        if cells is None:
            if len(self._texts) >= _MOST:
                self._texts.clear()
            cells = [(character, look) for character in text] if text.isascii() else _clusters(text, look)
            if self._ascii_only:
                cells = [(in_ascii(character[:1]) or "?", look) for character, look in cells]
            self._texts[key] = cells
        return cells

    def parse(self, data: str) -> Frame | None:
        """The cells of a frame; None where anything in it is not understood."""
        frame: Frame = {}
        look = PLAIN
        y = x = -1
        position = 0
        for token in _TOKEN.finditer(data):
            if token.start() != position:
                return None
            position = token.end()
            kind = token.lastgroup
            if kind in ("styled", "text"):
                looks = look if kind == "text" else self._sgr(look, token["style"])
                if y < 0 or looks is None:
                    return None  # text before any move: nobody knows where it lands
                cells = self.cells(token[kind], looks)
                frame.setdefault(y, []).append((x, cells))
                x += len(cells)
                if kind == "styled":
                    look = self._sgr(look, "0") or PLAIN
            elif kind == "sgr":
                changed = self._sgr(look, token["sgr"])
                if changed is None:
                    return None
                look = changed
            elif kind == "column":
                y, x = int(token["row"]) - 1, int(token["column"]) - 1
            elif kind == "newline":
                y, x = y + 1 if y >= 0 else -1, 0
            else:
                parameters, _, address = token["link"].partition(";")
                look = look._replace(link=token["link"] if address or parameters else "")
        if position != len(data) or not frame:
            return None
        self.cursor = (y, x)
        return frame

    def _sgr(self, look: Look, parameters: str) -> Look | None:
        key = (look, parameters)
        if key not in self._looks:
            if len(self._looks) >= _MOST:
                self._looks.clear()
            self._looks[key] = applied(look, parameters, colourless=self._colourless)
        return self._looks[key]


def _clusters(text: str, look: Look) -> list[Cell]:
    cells: list[Cell] = []
    for character in text:
        size = get_character_cell_size(character)
        if size == 0 and cells:
            owner = -2 if not cells[-1][0] and len(cells) > 1 else -1
            cells[owner] = (cells[owner][0] + character, look)
        else:
            cells.append((character, look))
            if size == 2:
                cells.append(("", look))
    return cells


def applied(look: Look, parameters: str, *, colourless: bool = False) -> Look | None:
    """A look after SGR parameters; None where one is not known."""
    foreground, background, attributes, link = look
    numbers = parameters.split(";") if parameters else ["0"]
    index = 0
    while index < len(numbers):
        number = int(numbers[index] or 0)
        if number == 0:
            foreground, background, attributes = "", "", frozenset()
        elif 1 <= number <= 9 or number in (21, 53):
            attributes = attributes | {number}
        elif number in (38, 48):
            length = {"5": 3, "2": 5}.get(numbers[index + 1] if index + 1 < len(numbers) else "", 0)
            colour = ";".join(numbers[index : index + length])
            if not length or index + length > len(numbers):
                return None
            index += length - 1
            if number == 38:
                foreground = colour
            else:
                background = colour
        elif 30 <= number <= 37 or 90 <= number <= 97:
            foreground = str(number)
        elif 40 <= number <= 47 or 100 <= number <= 107:
            background = str(number)
        elif number == 39:
            foreground = ""
        elif number == 49:
            background = ""
        else:
            return None
        index += 1
    if colourless:
        foreground = background = ""
    return Look(foreground, background, attributes, link)


class Buffer:
    """What is to be shown and what the terminal shows; a row that was never written is not known."""

    def __init__(self) -> None:
        self._wanted: dict[int, list[Cell | None]] = {}
        self._shown: dict[int, list[Cell | None]] = {}
        self._dirty: dict[int, list[tuple[int, int]]] = {}
        """By row: the columns from and to which something was written."""

    def forget(self) -> None:
        """The terminal's content is unknown from now on: send all that comes."""
        self._wanted.clear()
        self._shown.clear()
        self._dirty.clear()

    def update(self, frame: Frame, columns: int, rows: int) -> None:
        """Take over what a frame wants to be shown on a terminal of this size.

        What lies outside is left out: in mid-resize a frame of the old size still comes, and a terminal
        piles up in its last column what is written past it.
        """
        for y, pieces in frame.items():
            if y >= rows:
                continue
            row = self._wanted.setdefault(y, [])
            for x, cells in pieces:
                if len(row) < x:
                    row.extend([None] * (x - len(row)))
                row[x : x + len(cells)] = cells
            del row[columns:]
            self._dirty.setdefault(y, []).append((0, columns))

    def put(self, y: int, x: int, cells: list[Cell]) -> None:
        """Want these cells at a place; within the terminal, as far as the caller knows."""
        row = self._wanted.setdefault(y, [])
        if len(row) < x:
            row.extend([None] * (x - len(row)))
        row[x : x + len(cells)] = cells
        self._dirty.setdefault(y, []).append((x, x + len(cells)))

    def changed(self) -> list[Run]:
        """What differs between wanted and shown, in screen order; it counts as shown from now on."""
        runs: list[Run] = []
        for y in sorted(self._dirty):
            wanted = self._wanted[y]
            shown = self._shown.get(y)
            if shown != wanted:
                runs += _row_runs(y, wanted, shown or [], self._dirty[y])
                self._shown[y] = wanted.copy()
        self._dirty.clear()
        return runs


def _row_runs(
    y: int, wanted: list[Cell | None], shown: list[Cell | None], written: list[tuple[int, int]]
) -> list[Run]:
    padded = shown + [None] * (len(wanted) - len(shown))
    places: list[int] = []
    done = 0
    for start, end in sorted(written):
        for x in range(max(start, done), min(end, len(wanted))):
            new, old = wanted[x], padded[x]
            if new is not old and new != old and new is not None:
                places.append(x)
        done = max(done, end)
    runs: list[Run] = []
    start = end = -1
    for x in places:
        if start >= 0 and _joins(wanted, start, end, x):
            end = x + 1
            continue
        if start >= 0:
            runs.append(_run(y, wanted, start, end))
        # the second half of a wide character cannot be written without the first
        start = x - 1 if _is_second_half(wanted, x) and x else x
        end = x + 1
    if start >= 0:
        runs.append(_run(y, wanted, start, end))
    return runs


def _joins(row: list[Cell | None], start: int, end: int, x: int) -> bool:
    """Whether a changed cell continues the run before it."""
    first, before, cell = row[start], row[end - 1], row[x]
    assert first is not None
    assert before is not None
    assert cell is not None
    if not cell[0]:
        return x == end  # the second half of a wide character
    if len(before[0]) != 1 or _is_second_half(row, end):
        return False  # terminals differ on the width of what is wide or composed: move there absolutely
    if x == end:  # neighbours, as most are
        return cell[1] == first[1]
    return x - end <= _BRIDGE and all(c is not None and c[1] == first[1] for c in row[end : x + 1])


def _is_second_half(row: list[Cell | None], x: int) -> bool:
    cell = row[x] if x < len(row) else None
    return cell is not None and not cell[0]


def _run(y: int, row: list[Cell | None], start: int, end: int) -> Run:
    if _is_second_half(row, end):
        end += 1  # it is written with the first, changed or not
    cells = [cell for cell in row[start:end] if cell is not None]
    return Run(cells[0][1], y, start, "".join([cell[0] for cell in cells]), end - start)


def paint(runs: list[Run], cursor: tuple[int, int], width: int) -> str:
    """The bytes that bring runs on screen, one look at a time; begins and ends without any style.

    Args:
        runs: what has changed.
        cursor: (row, column) at which to leave the cursor.
        width: columns of the terminal; the cursor is not known after the last one.
    """
    out: list[str] = []
    look = PLAIN
    at: tuple[int, int] | None = None
    for run in sorted(runs, key=_by_look):
        out.append(_move(at, run.y, run.x))
        out.append(_switch(look, run.look))
        out.append(run.text)
        look = run.look
        after = run.x + run.cells
        # terminals differ on the width of clusters: only simple text leaves the cursor where we think
        at = (run.y, after) if len(run.text) == run.cells and after < width else None
    if look != PLAIN:
        out.append("\x1b]8;;\x1b\\\x1b[0m" if look.link else "\x1b[0m")
    out.append(_move(at, *cursor))
    return "".join(out)


def _by_look(run: Run) -> tuple[str, str, list[int], str, int, int]:
    look = run.look
    return (look.background, look.foreground, sorted(look.attributes), look.link, run.y, run.x)


def _move(at: tuple[int, int] | None, y: int, x: int) -> str:
    if at is not None and at[0] == y and x >= at[1]:
        steps = x - at[1]
        return "" if not steps else "\x1b[C" if steps == 1 else f"\x1b[{steps}C"
    return f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H" if y else "\x1b[H"


def _switch(old: Look, new: Look) -> str:
    """SGR from one look to another: only what differs, unless something must be switched off."""
    if old == new:
        return ""
    link = ""
    if old.link != new.link:
        link = f"\x1b]8;{new.link}\x1b\\" if new.link else "\x1b]8;;\x1b\\"
    parameters: list[str] = []
    if (
        not old.attributes <= new.attributes
        or (old.foreground and not new.foreground)
        or (old.background and not new.background)
    ):
        parameters.append("0")
        old = PLAIN
    parameters += [str(number) for number in sorted(new.attributes - old.attributes)]
    if new.foreground != old.foreground:
        parameters.append(new.foreground)
    if new.background != old.background:
        parameters.append(new.background)
    if not parameters:
        return link
    return f"{link}\x1b[{';'.join(parameters)}m"
