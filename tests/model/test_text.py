from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.model.text import clean


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("meta-llama/Llama-3-70B", "meta-llama/Llama-3-70B"),
        ("[red]x[/x] [/", "[red]x[/x] [/"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07name", "name"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("a\x1bcb", "acb"),
        ("half\x1b[", "half["),
        ("one\r\ntwo\tthree", "one two three"),
        ("bell\x07null\x00c1\x9b31m", "bellnullc131m"),
        ("right\u202eleft zero\u200bwidth", "rightleft zerowidth"),
        ("\ud800lone", "lone"),
        ("", ""),
        ("模型", "模型"),
    ],
)
def test_what_is_left(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_is_bounded_in_length_and_work() -> None:
    assert clean("x" * 500, 10) == "xxxxxxxxx…"
    assert len(clean("\x1b[31m" * 5_000_000)) <= 200


@given(st.text(), st.integers(1, 60))
def test_never_holds_a_control_character_nor_passes_the_limit(text: str, limit: int) -> None:
    found = clean(text, limit)
    assert len(found) <= limit
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in found)
    assert clean(found, limit) == found
