from __future__ import annotations

import unicodedata

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.ui.glyphs import glyphs
from tui.ui.lines import (
    Line,
    Span,
    beside,
    cut,
    fit,
    flow,
    left,
    narrow,
    plain,
    right,
    to_ascii,
    width,
    wrap,
)


def line(*texts: str) -> Line:
    return tuple(Span(text) for text in texts)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("llama-70b", "llama-70b"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("[red]x[/x]", "[red]x[/x]"),
        ("日本語 モデル", "日本語 モデル"),
        ("한국어", "한국어"),
        ("a\u0301b", "áb"),  # composes to one character
        ("x\u0336y", "x\u0336y"),  # a mark without a composed form stays on its letter
        ("日\u0336!", "日\u0336!"),
        ("x" + 9 * "\u0336" + "y", "x\u0336\u0336y"),
        ("\u0301x", "x"),
        ("ok \u2705", "ok \u2705"),
        ("\U0001f680 fast", "\U0001f680 fast"),
        ("ok\u2705\ufe0f", "ok?"),  # terminals differ on what is composed
        ("\U0001f44d\U0001f3fd", "?"),
        ("1\ufe0f\u20e3", "?"),
        ("\U0001f1e9\U0001f1ea", "??"),
        ("\u0928\u092e", "??"),
        ("Größe ≥ 3", "Größe ≥ 3"),
        ("\u202eevil", "evil"),
        ("\ue000\ue001", ""),
    ],
)
def test_text_from_outside_is_shown_where_every_terminal_agrees_on_its_width(text: str, shown: str) -> None:
    assert glyphs(narrow(text)) == shown


def columns(text: str) -> int:
    """Where a terminal's cursor stands behind a text."""
    screen = pyte.Screen(2000, 1)
    pyte.Stream(screen).feed(text)
    return int(screen.cursor.x)


WORLD = st.text(
    st.one_of(
        st.characters(), st.sampled_from("日本한カ\u2705\U0001f680\ufe0f\u200d\U0001f3fdx\u0336\u0301 …")
    )
)


@given(WORLD, st.integers(0, 12), st.integers(0, 12))
def test_a_text_is_as_wide_as_it_is_long_however_it_is_cut(text: str, start: int, end: int) -> None:
    whole = narrow(text)
    for part in (whole, whole[start:], whole[:end], cut(whole, end), whole[:end] + "…" + whole[start:]):
        shown = glyphs(part)
        assert cell_len(shown) == len(part)
        assert columns(shown) == len(part)
        assert not any(unicodedata.category(c).startswith("C") for c in shown)


def test_half_a_wide_character_is_a_blank() -> None:
    name = narrow("日本")
    assert glyphs(name[:3]) == "日 "
    assert glyphs(name[1:]) == " 本"
    assert glyphs(cut(name, 2)) == " …"
    assert plain(to_ascii(line(name))) == "????"


@given(st.lists(st.text("abc ", max_size=9), max_size=6), st.integers(0, 40))
def test_fit_is_exact(texts: list[str], size: int) -> None:
    assert width(fit(line(*texts), size)) == size


def test_what_is_cut_is_marked() -> None:
    assert plain(fit(line("abc", "def"), 5)) == "abcd…"
    assert plain(fit(line("abc", "def"), 3)) == "ab…"
    assert plain(fit(line("abc", "def"), 6)) == "abcdef"
    assert cut("abc", 0) == ""
    assert left("ab", 4) == "ab  "
    assert right("ab", 4) == "  ab"
    assert right("abcdef", 4) == "abc…"
    assert cut("used 3,072 MiB", 8) == "used…"  # part of a figure is another figure
    assert cut("engine 10.255.255.1:8000", 16) == "engine 10.255.2…"  # an address is none


def test_two_lines_beside_each_other() -> None:
    assert plain(beside(line("left"), line("right"), 12)) == "left   right"
    assert plain(beside(line("left side"), line("right"), 10)) == "left…right"
    assert plain(beside(line("left"), line("right"), 3)) == "ri…"


def test_items_flow_and_what_finds_no_room_is_counted() -> None:
    items = [line(word) for word in ("one", "two", "three", "four")]
    assert [plain(row) for row in flow(items, 30, 2)] == ["one   two   three   four"]
    assert [plain(row) for row in flow(items, 12, 2)] == ["one   two", "three   four"]
    assert [plain(row) for row in flow(items, 16, 1)] == ["one   +3 more"]
    assert [plain(row) for row in flow(items, 20, 1)] == ["one   two   +2 more"]
    assert flow([], 20, 1) == []


@given(
    st.lists(st.text("abcdef", min_size=1, max_size=12), max_size=12), st.integers(20, 60), st.integers(1, 3)
)
def test_flow_loses_nothing_silently(words: list[str], size: int, rows: int) -> None:
    lines = [plain(row) for row in flow([line(word) for word in words], size, rows)]
    assert len(lines) <= rows
    shown = " ".join(lines).split()
    hidden = int(shown[-2][1:]) if "more" in shown else 0
    assert len([word for word in shown if word != "more" and not word.startswith("+")]) + hidden == len(words)


def test_wrapping() -> None:
    assert wrap("a bb ccc dddd", 6) == ["a bb", "ccc", "dddd"]
    assert wrap("a bb ccc dddd", 6, rows=2) == ["a bb", "ccc d…"]
    assert wrap("", 6) == [""]


@given(st.text("─━╸│╭╮╰╯▁▂▃▄▅▆▇█–…·°≥≤↑⣿⣀ab日", max_size=30))
def test_ascii_keeps_every_cell(text: str) -> None:
    changed = plain(to_ascii(line(text)))
    assert changed.isascii()
    assert len(changed) == len(text)


def test_ascii_reads_well() -> None:
    assert (
        plain(to_ascii(line("╭─ GPUs ─╮", "━━╸──", "▁▄█", "kv – 71 °C", "⣿⡀")))
        == "+- GPUs -+===--_=#kv - 71  C#."
    )
