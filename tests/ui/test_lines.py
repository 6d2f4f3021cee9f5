from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.ui.lines import Line, Span, beside, cut, fit, flow, left, narrow, plain, right, to_ascii, width, wrap


def line(*texts: str) -> Line:
    return tuple(Span(text) for text in texts)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("llama-70b", "llama-70b"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("[red]x[/x]", "[red]x[/x]"),
        ("日本", "??"),
        ("a\u0301b", "áb"),  # composes to one character
        ("x\u0336y", "xy"),  # a mark without a composed form
        ("ok\u2705\ufe0f", "ok?"),
        ("Größe ≥ 3", "Größe ≥ 3"),
        ("\u202eevil", "evil"),
    ],
)
def test_text_from_outside_is_reduced_to_one_cell_characters(text: str, shown: str) -> None:
    assert narrow(text) == shown


@given(st.text())
def test_narrow_text_is_as_wide_as_it_is_long(text: str) -> None:
    shown = narrow(text)
    assert cell_len(shown) == len(shown)
    assert not any(unicodedata.category(c).startswith("C") for c in shown)


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
