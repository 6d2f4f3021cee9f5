"""Devices that are lost, hang, are worn or cut up: what the screen says of them, and what it leaves out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui import scenes, verdict_scenes
from tui.model.readings import GpuReading, GpuSet, Missing
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import Judgement
from tui.ui.draw import as_text, draw
from tui.ui.lines import Span, plain
from tui.ui.panes.gpu_sheet import spelled

if TYPE_CHECKING:
    from tui.ui.view import View


def pane(view: View, width: int = 160, height: int = 60) -> list[tuple[Span, ...]]:
    return draw(view, width, height)[1]["gpus"]


def line_with(view: View, pattern: str, width: int = 160, height: int = 60) -> tuple[Span, ...]:
    found = [line for line in pane(view, width, height) if re.search(pattern, plain(line))]
    assert found, "\n".join(plain(line) for line in pane(view, width, height))
    return found[0]


def shown(gpus: tuple[GpuReading, ...], **mode: Any) -> View:
    base = scenes.calm_view(**mode)
    return replace(base, snapshot=replace(base.snapshot, gpus=Observed(GpuSet(gpus), scenes.FRESH)))


def test_a_lost_card_keeps_its_last_figures_dimmed_with_their_age() -> None:
    line = line_with(scenes.broken_view(), r" 3 H100 ")
    assert re.search(r"87 .* 65 .*613/700 +68 lost, 12s old", plain(line))
    roles = {span.role for span in line if span.text.strip() in ("87", "65", "613", "68")}
    assert roles == {"stale"}
    assert line_with(scenes.broken_view(), "on the PCI bus but not counted by the driver; Xid 79: the GPU")


@pytest.mark.parametrize("size", [(160, 45), (110, 28), (80, 24), (60, 15)])
def test_why_is_said_at_every_size(size: tuple[int, int]) -> None:
    text = as_text(scenes.broken_view(), *size)
    assert re.search(r"lost(, 12s old)?: Xid|lost, 12s old|12s old: Xid", text)
    assert re.search(r"Xid 79: (the GPU has +(│.*\n│ +)?fallen|GPU fell) off the bus ", text)
    assert "stuck in nvmlDeviceGetPowerUsage for 31 s " in text


def test_a_card_in_trouble_without_any_figures_has_only_the_reason() -> None:
    gpus = (scenes.gpu(0), GpuReading(1, state="error", reason="no_permission", detail="may not use it"))
    line = line_with(shown(gpus), r" 1 GPU ")
    assert "error: may not use it" in plain(line)
    assert "old" not in plain(line)


def test_a_card_that_works_with_errors_is_marked_and_explained() -> None:
    view = scenes.broken_view()
    assert re.search(r" 5 H100 .* 66 ! ", plain(line_with(view, " 5 H100")))
    assert line_with(view, "2 uncorrected memory errors since the driver was loaded")
    assert re.search(r" 5 H100 .* !", as_text(view, 80, 24))


def test_a_card_that_came_back_says_so_for_a_while() -> None:
    assert line_with(shown((scenes.gpu(0, recovered_s=40.0),)), "answers again since 40 s")
    assert "answers again" not in as_text(shown((scenes.gpu(0, recovered_s=400.0),)), 160, 60)


def test_totals_and_counts_leave_out_what_does_not_answer() -> None:
    view = scenes.broken_view()
    # working cards are 0, 1, 2, 5, 6 and 7; card 6 is cut up and has no utilisation
    assert line_with(view, r"power W, all 3651")
    assert line_with(view, r"SM %, mean 87")
    assert "6x H100 1 error 1 lost" in as_text(view, 160, 45).splitlines()[0]


def test_the_summary_names_each_state() -> None:
    cards = tuple(
        scenes.gpu(i, **({"state": "lost"} if i in (3, 4) else {"state": "error"} if i == 6 else {}))
        for i in range(8)
    )
    text = as_text(shown(cards), 60, 12)
    assert re.search(r"8 GPU GPU 3-4 lost, GPU 6 error +sm +75-96 %", text)


def test_instances_stand_under_their_card() -> None:
    lines = [plain(line) for line in pane(scenes.broken_view())]
    at = next(i for i, line in enumerate(lines) if " 6 H100" in line)
    for line in lines[at + 1 : at + 3]:
        assert re.search(r"│ └[02] 1g\.10gb +– +– +7\.8/10", line)


def test_other_vendors_and_notes_are_said() -> None:
    text = as_text(scenes.broken_view(), 160, 60)
    assert "an AMD GPU is on the PCI bus: not read" in text
    assert "cannot be remembered for the next run: permission denied" in text
    base = scenes.calm_view()
    nothing = Observed(GpuSet((), "550", ("an Intel GPU is on the PCI bus: not read",)), scenes.FRESH)
    text = as_text(replace(base, snapshot=replace(base.snapshot, gpus=nothing)), 160, 45)
    assert "the NVIDIA driver counts no GPU" in text
    assert "an Intel GPU is on the PCI bus" in text


def test_the_zoomed_pane_has_links_errors_counters_and_what_is_missing() -> None:
    view = scenes.broken_view(full="gpus")
    assert line_with(
        view, r" 0 +812 +2\.3k +18/18 +104k +104k +0 +83 +41 +37 +62 +80 +113\.9 +0/0 +12/0 +0/0 cap 40%"
    )
    worn = line_with(view, r" 5 +812 .* 0/2 ")
    assert [span.role for span in worn if span.text == "2"] == ["warn"]
    assert line_with(view, r" 6 +5002 +7\.7 +– +– VLLM::Worker in 1g\.10gb")
    assert line_with(view, r"not known pcie_tx_mb_s: old_driver .driver 450 or newer.; GPU 7")


def test_unusual_settings_are_said_and_usual_ones_are_not() -> None:
    odd = scenes.gpu(0, persistence=False, compute_mode="exclusive_process")
    assert line_with(shown((odd,), full="gpus"), "no persistence, exclusive ")
    assert "persistence" not in as_text(shown((scenes.gpu(0),), full="gpus"), 160, 60)


def test_nothing_known_is_all_dashes() -> None:
    gaps = (Missing("throttle_share", "not enough seen yet"),)
    line = plain(line_with(shown((GpuReading(0, missing=gaps),), full="gpus"), r"│ +0 +– +– +– "))
    assert not re.search(r"\b0/|/0\b| 0 .* 0 ", line)


@pytest.mark.parametrize(
    ("numbers", "text"), [((3,), "3"), ((0, 1, 2, 7), "0-2,7"), ((7, 5, 6), "5-7"), ((), "")]
)
def test_numbers_are_drawn_together(numbers: tuple[int, ...], text: str) -> None:
    assert spelled(numbers) == text


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (60, 15), (40, 12)])
def test_the_age_of_all_of_them_is_said_at_every_size(size: tuple[int, int]) -> None:
    base = scenes.calm_view()
    old = replace(
        base.snapshot,
        gpus=scenes.stale_view().snapshot.gpus,
        host=Observed(scenes.host(), SourceStatus(SourceState.STALE, age_s=14.0)),
    )
    text = as_text(replace(base, snapshot=old), *size)
    assert "31s old" in text
    assert "14s old" in text
    if size != (40, 12):
        assert re.search("stuck in nvmlDevice|a driver call does not return", text)


def test_a_zoomed_pane_without_borders_says_its_age_too() -> None:
    text = as_text(scenes.stale_view(full="gpus"), 50, 14)
    assert re.search(r"GPUs  31s old *\n *stuck in nvmlDevice", text)


def test_of_a_throttled_card_what_holds_it_down_is_loud_not_that_it_is_busy() -> None:
    _, panes, _ = draw(verdict_scenes.judged("power_thermal"), 160, 45)
    loud = [line for line in panes["gpus"] if any(span.role == "hot" for span in line)]
    assert [plain(line).split()[1] for line in loud] == ["2"]
    assert [span.text for span in loud[0] if span.role == "hot"] == ["91", "HOT"]


def test_memory_is_loud_where_a_verdict_names_how_little_is_left() -> None:
    def hot(view: View, size: tuple[int, int]) -> set[str]:
        _, panes, _ = draw(view, *size)
        return {span.text.strip() for line in panes["gpus"] for span in line if span.role == "hot"}

    short = verdict_scenes.judged("gpu_memory")
    assert hot(short, (120, 40)) == {"79.4"}
    assert hot(short, (40, 12)) == {"100"}
    quiet = replace(short, judgement=scenes.CALM)
    assert hot(quiet, (120, 40)) == hot(quiet, (40, 12)) == set()
    (found,) = {v.evidence for v in short.judgement.verdicts if v.scope != "host"}
    room = tuple(replace(e, threshold=100.0) for e in found if e.signal == "gpu_mem_free_mib")
    kept = tuple(replace(v, evidence=room) for v in short.judgement.verdicts)
    assert hot(replace(short, judgement=Judgement(kept)), (120, 40)) == set()
