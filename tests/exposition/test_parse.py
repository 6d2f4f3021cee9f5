from __future__ import annotations

import math
import time

import pytest

from tui.exposition import parse
from tui.exposition.parse import Exposition, Parser

WANTED = ("vllm_running", "vllm_tokens_total", "vllm_tokens", "plain", "h_bucket")


def read(text: str, *wanted: str) -> Exposition:
    return Parser(wanted or WANTED).parse(text)


def values(text: str) -> list[tuple[str, dict[str, str], float]]:
    return [(series.name, dict(series.labels), value) for series, value in read(text).values.items()]


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ('vllm:running{engine="0"} 8.0', {"engine": "0"}, 8.0),
        ('vllm_running{engine="0"} 8', {"engine": "0"}, 8.0),
        ("vllm:running 8", {}, 8.0),
        ("vllm:running\t8", {}, 8.0),
        ("  vllm:running   8  ", {}, 8.0),
        ("vllm:running{} 8", {}, 8.0),
        ('vllm:running {engine="0"} 8', {"engine": "0"}, 8.0),
        ('vllm:running{ engine = "0" , } 8', {"engine": "0"}, 8.0),
        ('vllm:running{engine="0",}8', {"engine": "0"}, 8.0),
        ('vllm:running{engine="0"} 8 1395066363000', {"engine": "0"}, 8.0),
        ("vllm:running 8 1395066363000", {}, 8.0),
        ('vllm:running{engine="0"} 8 # {trace_id="a_1"} 0.5 1.7e9', {"engine": "0"}, 8.0),
        ('vllm:running{engine="0"} 8 1.5 # {trace_id="}"} 0.5', {"engine": "0"}, 8.0),
        ('vllm:running 8 # {trace_id="a"} 0.5', {}, 8.0),
        ('vllm:running{m="a}b{c",x="#"} 8', {"m": "a}b{c", "x": "#"}, 8.0),
        (r'vllm:running{m="a\"b\\c\nd\x"} 8', {"m": 'a"b\\c\nd\\x'}, 8.0),
        ('vllm:running{m="a,b=\\"c\\""} 8', {"m": 'a,b="c"'}, 8.0),
        ('vllm:running{m="Ünï\u2028cödé"} 8', {"m": "Ünï\u2028cödé"}, 8.0),
        ("vllm:running 1.79603815051e+09", {}, 1796038150.51),
        ("vllm:running +Inf", {}, math.inf),
        ("vllm:running -Inf", {}, -math.inf),
        ("vllm:running 1e400", {}, math.inf),
        ("vllm:running -0", {}, 0.0),
    ],
)
def test_one_line(line: str, labels: dict[str, str], value: float) -> None:
    for end in ("\n", "\r\n"):
        parser = Parser(WANTED)
        for _ in range(2):  # the second time from memory
            found = parser.parse(line + end)
            assert [(s.name, dict(s.labels), v) for s, v in found.values.items()] == [
                ("vllm_running", labels, value)
            ]
            assert (found.accepted, found.rejected) == (1, 0)


def test_not_a_number_is_a_value() -> None:
    assert math.isnan(values("vllm:running NaN\n")[0][2])


@pytest.mark.parametrize(
    "line",
    [
        "vllm:running",
        "vllm:running{",
        "vllm:running{} ",
        'vllm:running{engine="0"}',
        'vllm:running{engine="0" 8',
        'vllm:running{engine="0} 8',
        "vllm:running{engine=0} 8",
        'vllm:running{engine="0"engine="1"} 8',
        'vllm:running{engine="0",engine="1"} 8',
        'vllm:running{="0"} 8',
        "vllm:running{,} 8",
        "vllm:running eight",
        "vllm:running 1_000",
        "vllm:running \uff18",
        "vllm:running 8 9 10",
        "vllm:running 8 noon",
        "vllm:running 8{",
        "<html><body>",
        '{"requests": 8}',
        "8 vllm:running",
        "vllm:run\u00e4ning 8",
    ],
)
def test_a_bad_line_is_counted_and_harms_no_other(line: str) -> None:
    found = read(f'plain 1\n{line}\nplain{{a="b"}} 2\n')
    assert found.rejected == 1
    assert [value for _, value in found.values.items()] == [1.0, 2.0]


def test_comments_blanks_and_the_end_mark_are_nothing() -> None:
    found = read("# HELP plain x\n# TYPE plain gauge\n\n \r\n  # more\nplain 1\n# EOF\n")
    assert (found.accepted, found.rejected) == (1, 0)
    end = read("plain 1\n# EOF")
    assert (end.accepted, end.rejected) == (1, 0)


def test_only_the_wanted_are_built_and_names_match_whole() -> None:
    found = read('plain 1\nplainer 2\nplain_total 3\nother{a="b} 4\nvllm_tokens_total 5\nvllm:tokens 6\n')
    assert {series.name: value for series, value in found.values.items()} == {
        "plain": 1.0,
        "vllm_tokens_total": 5.0,
        "vllm_tokens": 6.0,
    }
    assert found.accepted == 6  # what nobody wants is not looked at further than its name


def test_the_last_of_duplicates_counts_however_it_is_written() -> None:
    text = 'vllm:running{a="1",b="2"} 1\nvllm_running{b="2",a="1"} 2\nvllm:running{a="1",b="2",} 3\n'
    assert values(text) == [("vllm_running", {"a": "1", "b": "2"}, 3.0)]


def test_a_family_that_comes_twice_is_read_as_one() -> None:
    text = (
        '# TYPE vllm:running gauge\nvllm:running{a="1"} 1\nplain 5\n'
        '# TYPE vllm:running gauge\nvllm:running{a="2"} 2\nvllm:running{a="1"} 3\n'
    )
    found = read(text)
    assert values(text) == [
        ("vllm_running", {"a": "1"}, 3.0),
        ("plain", {}, 5.0),
        ("vllm_running", {"a": "2"}, 2.0),
    ]
    assert (found.accepted, found.rejected) == (4, 0)


def test_equal_series_stay_the_same_object_from_scrape_to_scrape() -> None:
    parser = Parser(WANTED)
    (first,) = parser.parse('vllm:running{a="1",b="2"} 1\n').values
    (second,) = parser.parse('vllm_running{b="2",a="1"} 2\n').values
    assert first is second


def test_a_later_scrape_is_read_as_if_it_were_the_first() -> None:
    parser = Parser(WANTED)
    for text in (
        'plain 1\nother 2\nvllm:running{a="1"} 3\n! bad\n# note\n',
        'plain 1\nvllm:running{a="1"} 4\n! bad\nvllm:running{a="2"} x\n',
        'vllm:running{a="1"} 4\nvllm:running{a="1"} 3\n! bad\nplain NaN\n',
        'plain NaN\nother 2\nvllm:running{a="1"} 3\n! bad\n# note\n',
    ):
        found, fresh = parser.parse(text), read(text)
        assert (found.accepted, found.rejected) == (fresh.accepted, fresh.rejected)
        assert [(s.name, s.labels, str(v)) for s, v in found.values.items()] == [
            (s.name, s.labels, str(v)) for s, v in fresh.values.items()
        ]


@pytest.mark.parametrize(
    "half", ["vllm:running 1", 'vllm:running{engine="0', 'vllm:running{engine="0"}', "vllm:run"]
)
def test_a_line_without_end_may_be_half_a_line(half: str) -> None:
    found = read(f"plain 1\n{half}")
    assert [series.name for series in found.values] == ["plain"]
    assert found.rejected == 1


def test_nothing_and_garbage() -> None:
    assert read("") == Exposition({}, 0, 0)
    assert read("\n \n") == Exposition({}, 0, 0)
    assert read("\x00\x01\ufffd\n\n\x1b[31m\n").rejected == 2


def test_a_label_explosion_is_given_up() -> None:
    text = "".join(f'plain{{id="{n}"}} 1\n' for n in range(3 * parse.MAX_SERIES))
    found = read(text)
    assert found.too_many
    assert len(found.values) <= parse.MAX_SERIES + 1
    assert read("other 1\n" * (parse.MAX_SERIES + 1)).too_many
    assert not read("other 1\n" * parse.MAX_SERIES).too_many
    assert read("# a comment\n" * (parse.MAX_LINES + 5)).too_many


def test_labels_that_change_for_ever_take_no_memory_and_lose_no_series() -> None:
    parser = Parser(WANTED)
    kept = None
    for batch in range(12):
        text = "plain 1\n" + "".join(f'h_bucket{{id="{batch}-{n}"}} 1\n' for n in range(4000))
        found = parser.parse(text)
        plain = next(series for series in found.values if series.name == "plain")
        kept = kept or plain
        assert plain is kept
    assert len(parser._series) < 30_000
    assert len(parser._interned) < 30_000


def test_a_hostile_line_takes_linear_time() -> None:
    started = time.process_time()
    for line in (
        "plain{" + 'a="b",' * 20_000,
        'plain{a="' + '\\"' * 100_000,
        "plain{" + " " * 200_000,
        "plain " + "1" * 200_000 + "x",
        "plain" + " " * 200_000 + "x",
        "{" * 200_000,
    ):
        assert read(line + "\n").rejected == 1
    assert time.process_time() - started < 1.0
