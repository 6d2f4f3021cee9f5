"""What a tired stranger must not stumble over, on every scene at every size."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.ui import scenes, verdict_scenes
from tui.ui.draw import as_text, draw
from tui.ui.lines import cut, plain, wrap
from tui.ui.view import PANES, Mode, View

SIZES = [(200, 60), (160, 45), (120, 40), (110, 28), (80, 24), (60, 15), (40, 12)]
UNITS = r"%|°C|W|GiB|MiB|MB/s|ms|s|min|h|/s|MHz"
ALL = [*scenes.SCENES, *verdict_scenes.SNAPSHOTS]


def view(name: str, **mode: Any) -> View:
    made = scenes.SCENES.get(name)
    return made(**mode) if made is not None else verdict_scenes.judged(name, **mode)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", SIZES)
def test_a_unit_stays_with_its_figure_and_a_figure_is_whole(name: str, size: tuple[int, int]) -> None:
    for full in (None, *PANES) if size in ((160, 45), (60, 15)) else (None,):
        _, panes, _ = draw(view(name, full=full), *size)
        for lines in panes.values():
            for line in lines:
                assert not re.match(rf"[\s│▸]*(?:{UNITS})(?:\s|│|$)", plain(line)), plain(line)
                figures = [span.text for span in line if span.role in ("value", "hot", "stale")]
                assert not [text for text in figures if re.fullmatch(r"[\s\d.,-]*\d…", text)], plain(line)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", SIZES)
def test_no_screen_has_two_loud_places(name: str, size: tuple[int, int]) -> None:
    _, panes, _ = draw(view(name), *size)
    loud = [span for lines in panes.values() for line in lines for span in line if span.role == "badge"]
    assert len(loud) <= 1


def test_old_figures_are_dim_with_their_charts_and_say_how_old_they_are() -> None:
    _, panes, _ = draw(scenes.stale_view(), 160, 45)
    figures = [
        span for line in panes["gpus"][1:] for span in line if re.fullmatch(r"\s*\d+(\.\d+)?\s*", span.text)
    ]
    assert {span.role for span in figures} <= {"stale", "label"}
    assert "31s old" in plain(panes["gpus"][0])


def test_charts_of_the_most_urgent_engines_where_there_is_no_room_for_all() -> None:
    text = as_text(scenes.crowded_view(), 200, 60)
    assert re.search(r"vllm :8011  Llama-3.1-70B-Instruct +│\n.*tok/s 610 ", text)
    assert text.count("tok/s ") == 2  # of the heads, and of one engine's charts
    assert "tok/s" not in "".join(
        plain(line) for line in draw(scenes.crowded_view(), 160, 30)[1]["engines"][2:]
    )


def test_an_engine_that_was_never_read_is_not_said_to_serve() -> None:
    row = next(r for r in as_text(scenes.forbidden_view(), 160, 45).splitlines() if "forbids us" in r)
    assert re.search(r"vllm :8000 +– +forbids us", row)


def test_two_letters_of_a_model_are_left_out() -> None:
    assert re.search(r"vllm :8000 +serving", as_text(scenes.calm_view(), 120, 40))
    assert re.search(r"vllm :8000 Llama-3… serving", as_text(scenes.calm_view(), 160, 45))


def test_the_scale_of_a_chart_is_told_as_soon_as_it_fits() -> None:
    assert re.search(r"power W, all 4868  0-5.6k ", as_text(scenes.calm_view(), 120, 40))


@pytest.mark.parametrize(("size", "rows"), [((60, 15), 0), ((80, 24), 8)])
def test_a_table_that_leaves_most_cards_out_gives_way_to_a_summary(size: tuple[int, int], rows: int) -> None:
    text = as_text(scenes.hung_view(), *size)
    assert len(re.findall(r"^ *\d H100 ", text, re.MULTILINE)) == rows
    assert bool(re.search(r"8 GPU sm 100 100", text)) is (rows == 0)


def test_cards_in_trouble_keep_their_rows_on_a_small_screen() -> None:
    assert re.search(
        r"3 H100 +lost, 12s old: Xid 79: GPU fell off the bus ", as_text(scenes.broken_view(), 60, 15)
    )


def test_a_state_that_has_no_room_for_its_age_has_it_below() -> None:
    lines = as_text(scenes.broken_view(), 120, 40).splitlines()
    at = next(i for i, line in enumerate(lines) if " 3 H100" in line)
    assert re.search(r"68 lost +│", lines[at])
    assert "12s old: Xid 79: the GPU has fallen off the bus " in lines[at + 1]


def test_the_smallest_summary_has_every_figure() -> None:
    assert re.search(r"8 GPU sm 54-61 % mem 91 % 71 °C 4868 W", as_text(scenes.sick_view(), 40, 12))
    lost = as_text(scenes.broken_view(), 40, 12)
    assert re.search(r"8 GPU GPU 3 lost, GPU 4 error +$", lost, re.MULTILINE)  # no half range behind


def test_while_a_filter_is_typed_no_key_is_offered_that_would_be_a_letter() -> None:
    last = as_text(scenes.calm_view(filter="80", typing=True), 160, 45).splitlines()[-1]
    assert last.split() == ["/80█", "Enter", "keep", "Esc", "all", "rows"]


def test_failures_in_a_probe_s_past_stand_out_and_the_signs_are_explained() -> None:
    _, panes, _ = draw(scenes.hung_view(full="probes"), 160, 45)
    past = next(line for line in panes["probes"] if plain(line).startswith("│ readiness  ·"))
    assert [span.role for span in past if span.text in ("x", "?")] == ["label", "warn"]
    assert {span.role for span in past if span.text.startswith("·")} == {"muted"}
    assert any("· passed   x failed   ? thrown away" in plain(line) for line in panes["probes"])


def test_probes_are_not_said_to_be_none_before_engines_were_looked_for() -> None:
    assert "no engine to probe" not in as_text(scenes.pending_view(), 120, 40)
    assert "no engine to probe" in as_text(scenes.bare_view(), 120, 40)


def test_no_engines_are_counted_before_they_were_looked_for() -> None:
    assert "GPU –  engines –" in as_text(scenes.pending_view(), 120, 40)
    assert "no GPU  0 engines" in as_text(scenes.bare_view(), 120, 40)


@pytest.mark.parametrize(
    ("await_ms", "shown"),
    [(0.02, "<0.1ms"), (0.21, "0.2ms"), (4.3, "4.3ms"), (31.0, "31ms"), (0.0, "0ms"), (None, "–")],
)
def test_a_disk_that_answers_in_a_fraction_of_a_millisecond_is_not_at_zero(
    await_ms: float | None, shown: str
) -> None:
    found = scenes.snapshot()
    assert found.host.reading is not None and found.host.reading.disks
    disk = replace(found.host.reading.disks[0], await_ms=await_ms)
    host = replace(found.host, reading=replace(found.host.reading, disks=(disk,)))
    text = as_text(
        View(replace(found, host=host), scenes.CALM, scenes.calm_view().trends, {}, Mode()), 160, 45
    )
    assert re.search(rf"nvme0n1 .* {re.escape(shown)} +│", text)


@pytest.mark.parametrize(
    ("text", "size", "shown"),
    [
        ("kv 0.99 (limit 0.90)", 19, "kv 0.99 (limit…"),
        ("kv 0.99 (limit 0.90)", 6, "kv…"),
        ("seats 256 of 512", 10, "seats 256…"),
        ("20260114", 5, "2026…"),
        ("640/700 W", 6, "640/…"),
        ("Llama-3.1-70B", 9, "Llama-3.…"),
    ],
)
def test_no_part_of_a_number_is_left(text: str, size: int, shown: str) -> None:
    assert cut(text, size) == shown


def test_a_line_does_not_end_between_a_figure_and_its_unit() -> None:
    assert wrap("thread 74 % (vllm); read 212 MB/s in 5 parts", 9) == [
        "thread", "74 %", "(vllm);", "read", "212 MB/s", "in 5", "parts",
    ]  # fmt: skip
