"""The cell buffer alone: what it writes leaves a terminal as the whole frames would have."""

from __future__ import annotations

from typing import Any

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.ui.cells import PLAIN, Buffer, Look, Parser, applied, paint

WIDTH, HEIGHT = 12, 4
RED, GROUND = "38;2;255;0;0", "48;2;18;18;18"


class Pair:
    """Two terminals: one gets every frame whole, the other what the buffer makes of it."""

    def __init__(self) -> None:
        self.whole = pyte.Screen(WIDTH, HEIGHT)
        self.less = pyte.Screen(WIDTH, HEIGHT)
        self.parser = Parser()
        self.buffer = Buffer()
        self.whole_bytes = self.less_bytes = 0
        self._streams = pyte.Stream(self.whole), pyte.Stream(self.less)

    def show(self, frame: str, *, piecemeal: bool = False) -> str:
        cells = self.parser.parse(frame)
        assert cells is not None
        if piecemeal:
            for y, pieces in cells.items():
                for x, piece in pieces:
                    self.buffer.put(y, x, piece)
        else:
            self.buffer.update(cells, WIDTH, HEIGHT)
        written = paint(self.buffer.changed(), self.parser.cursor, WIDTH)
        self._streams[0].feed(frame)
        self._streams[1].feed(written)
        self.whole_bytes += len(frame)
        self.less_bytes += len(written)
        return written

    def equal(self) -> bool:
        return cells_of(self.whole) == cells_of(self.less)


def cells_of(screen: pyte.Screen) -> list[list[Any]]:
    return [[screen.buffer[y][x] for x in range(WIDTH)] for y in range(HEIGHT)]


def at(y: int, x: int, text: str, sgr: str = "") -> str:
    styled = f"\x1b[{sgr}m{text}\x1b[0m" if sgr else text
    return f"\x1b[{y + 1};{x + 1}H{styled}"


LOOKS = st.sampled_from(["", "1", RED, GROUND, f"1;{RED};{GROUND}", "31", "3;4;91;44", "7", "38;5;99"])
TEXTS = st.text("ab─█⣿日é", min_size=1, max_size=3)


@st.composite
def frames(draw: st.DrawFn) -> str:
    pieces = draw(
        st.lists(st.tuples(st.integers(0, HEIGHT - 1), st.integers(0, 5), TEXTS, LOOKS), min_size=1)
    )
    return "".join(at(*piece) for piece in pieces) + "\x1b[1;1H"


@settings(max_examples=100)
@given(st.lists(st.tuples(frames(), st.booleans()), min_size=1, max_size=6))
def test_any_sequence_of_frames_leaves_the_same_cells(sequence: list[tuple[str, bool]]) -> None:
    pair = Pair()
    for frame, piecemeal in sequence:
        pair.show(frame, piecemeal=piecemeal)
        # a wide character cut in half is drawn differently by the emulator itself
        if not any("日" in one for one, _ in sequence):
            assert pair.equal()


def test_neighbours_that_are_put_one_by_one_are_all_written() -> None:
    pair = Pair()
    pair.show(at(0, 0, "aaaaaaaa") + "\x1b[1;1H")
    pieces = at(0, 4, "cd", RED) + at(0, 0, "xyz") + at(0, 3, "b") + at(0, 2, "Z") + at(0, 7, "e")
    pair.show(pieces + "\x1b[1;1H", piecemeal=True)
    assert pair.equal()


def test_the_same_frame_again_writes_nothing_but_the_cursor() -> None:
    pair = Pair()
    frame = at(0, 0, "abc", RED) + at(1, 0, "def", GROUND) + "\x1b[1;1H"
    pair.show(frame)
    assert pair.show(frame) == "\x1b[H"


def test_only_what_changed_is_written_each_style_once() -> None:
    pair = Pair()
    pair.show(at(0, 0, "kv  42", RED) + at(1, 0, "run  7", GROUND) + at(2, 0, "kv  13", RED) + "\x1b[1;1H")
    written = pair.show(
        at(0, 0, "kv  43", RED) + at(1, 0, "run  8", GROUND) + at(2, 0, "kv  14", RED) + "\x1b[1;1H"
    )
    assert written.count(RED) == 1
    assert written.count(GROUND) == 1
    assert "kv" not in written
    assert pair.equal()


def test_small_gaps_are_bridged_wide_ones_are_jumped() -> None:
    pair = Pair()
    pair.show(at(0, 0, "abcdefghijk") + "\x1b[1;1H")
    assert pair.show(at(0, 0, "XbcdXfghijX") + "\x1b[1;1H") == "\x1b[HXbcdX\x1b[5CX\x1b[H"


def test_after_forgetting_everything_is_written() -> None:
    pair = Pair()
    frame = at(0, 0, "abc", RED) + "\x1b[1;1H"
    pair.show(frame)
    pair.buffer.forget()
    assert "abc" in pair.show(frame)


def test_a_frame_of_a_larger_terminal_leaves_nothing_in_the_last_column_or_row() -> None:
    """In mid-resize one more frame of the old size comes; a terminal clamps what is outside to its edge."""
    pair = Pair()
    pair.show(at(0, 0, "0123456789ABCDEF") + at(HEIGHT + 2, 0, "below") + "\x1b[1;1H")
    assert "CDEF" not in "".join(pair.less.display)
    assert "below" not in "".join(pair.less.display)
    pair.show(at(0, 0, "0123456789A ") + "\x1b[1;1H")
    assert pair.less.display[0] == "0123456789A "


def test_wide_characters_are_whole_and_followed_by_an_absolute_move() -> None:
    pair = Pair()
    pair.show(at(0, 0, "ab日cd") + "\x1b[1;1H")
    assert pair.equal()
    written = pair.show(at(0, 0, "ab本cX") + "\x1b[1;1H")
    assert written == "\x1b[1;3H本\x1b[1;6HX\x1b[H"
    assert pair.equal()


def test_combining_marks_stay_with_their_letter() -> None:
    cells = Parser().parse(at(0, 0, "e\u0301x"))
    assert cells is not None
    assert [cell[0] for cell in cells[0][0][1]] == ["e\u0301", "x"]


def test_links_are_part_of_the_look() -> None:
    pair = Pair()
    link = "\x1b]8;id=1;http://x\x1b\\"
    written = pair.show(f"\x1b[1;1H{link}ab\x1b]8;;\x1b\\cd\x1b[1;1H")
    assert written.count(link) == 1
    assert written.index("\x1b]8;;\x1b\\") > written.index("ab")


@pytest.mark.parametrize(
    "data",
    [
        "text before any move",
        "\x1b[2J",
        at(0, 0, "a") + "\x1b[K",
        at(0, 0, "a\tb"),
        at(0, 0, "a", "999"),
        "\x1b[?25l",
        "\x1b[?1049h",
        "\x1b]52;c;aGVsbG8=\x07",
        "\x07",
        "",
    ],
)
def test_what_is_not_understood_is_left_alone(data: str) -> None:
    assert Parser().parse(data) is None


@pytest.mark.parametrize(
    ("parameters", "look"),
    [
        ("1;38;2;1;2;3;48;5;7", Look("38;2;1;2;3", "48;5;7", frozenset({1}))),
        ("0", PLAIN),
        ("", PLAIN),
        ("31;42", Look("31", "42")),
        ("97;107;9", Look("97", "107", frozenset({9}))),
        ("31;39", PLAIN),
        ("38;2;1;2", None),
        ("38;9", None),
        ("200", None),
    ],
)
def test_styles(parameters: str, look: Look | None) -> None:
    assert applied(PLAIN, parameters) == look


def test_without_colour_attributes_remain() -> None:
    assert applied(PLAIN, f"1;{RED};{GROUND}", colourless=True) == Look(attributes=frozenset({1}))


def test_the_last_frame_ends_plain() -> None:
    pair = Pair()
    written = pair.show(at(0, 0, "abc", f"1;{RED}") + "\x1b[1;1H")
    assert written.endswith("\x1b[0m\x1b[H")
