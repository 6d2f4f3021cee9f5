"""What stands on the screen, as text, for every state and size."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.ui import scenes
from tui.model.history import History
from tui.model.readings import GpuSet, Missing, RankReading
from tui.model.snapshot import EngineView
from tui.model.status import Observed, Reason, SourceState, SourceStatus
from tui.model.urls import short_name
from tui.model.verdicts import Evidence, Finding, Judgement, Verdict
from tui.ui import words
from tui.ui.charts import Trends
from tui.ui.draw import as_text, draw
from tui.ui.glyphs import glyphs
from tui.ui.lines import plain, width
from tui.ui.view import PANES, Mode, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.ui.lines import Span

SIZES = [(200, 60), (160, 45), (120, 40), (80, 24), (60, 15), (40, 12)]


def spans(view: View, size: tuple[int, int]) -> Iterator[Span]:
    _, panes, _ = draw(view, *size)
    for lines in panes.values():
        for line in lines:
            yield from line


def rows(text: str, pattern: str) -> list[str]:
    return [line for line in text.splitlines() if re.search(pattern, line)]


# ---------------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("scene", scenes.SCENES)
@pytest.mark.parametrize("size", [*SIZES, (110, 28), (20, 6), (8, 3), (1, 1)])
@pytest.mark.parametrize("full", [None, *PANES, "help"])
def test_every_line_is_exactly_as_wide_as_its_pane(scene: str, size: tuple[int, int], full: Any) -> None:
    layout, panes, _ = draw(scenes.SCENES[scene](full=full, focused="gpus"), *size)
    assert set(panes) == set(layout.boxes)
    for name, box in layout.boxes.items():
        assert [width(line) for line in panes[name]] == [box.width] * box.height


@pytest.mark.parametrize("scene", scenes.SCENES)
@pytest.mark.parametrize("size", SIZES)
def test_ascii_mode_uses_ascii_alone(scene: str, size: tuple[int, int]) -> None:
    assert as_text(scenes.SCENES[scene](), *size, ascii_only=True).replace("\n", "").isascii()


@pytest.mark.parametrize("size", SIZES)
def test_a_sick_screen_has_exactly_one_loud_place(size: tuple[int, int]) -> None:
    badges = [span.text for span in spans(scenes.sick_view(), size) if span.role == "badge"]
    assert badges == [" KV CACHE FULL "]


@pytest.mark.parametrize("size", SIZES)
def test_a_healthy_screen_is_quiet(size: tuple[int, int]) -> None:
    roles = {span.role for span in spans(scenes.calm_view(), size)}
    assert not roles & {"badge", "hot", "warn", "flag", "notice", "stale"}
    assert "calm" in roles


@pytest.mark.parametrize("size", SIZES)
def test_the_verdict_and_its_scope_are_always_there(size: tuple[int, int]) -> None:
    text = as_text(scenes.sick_view(), *size)
    assert "KV CACHE FULL" in text
    assert ":8000" in text
    assert "kv 0.99" in text
    assert "--max-num-seqs" in text


@pytest.mark.parametrize("size", SIZES)
def test_the_first_frame_says_that_it_is_reading(size: tuple[int, int]) -> None:
    assert "reading…" in as_text(scenes.pending_view(), *size)


# ---------------------------------------------------------------------------------------- verdict


def test_the_sick_verdict_in_full() -> None:
    verdict = replace(scenes.kv_cache(), secondary=("degraded_cache",))
    view = replace(scenes.sick_view(), judgement=Judgement((verdict,), scenes.FINDINGS))
    text = as_text(view, 160, 45)
    assert rows(text, "vllm :8000 Llama-3.1-70B-Instruct +confidence high +since 12:21:40 .85 s.")
    assert rows(text, "because +kv 0.99 .limit 0.90. +waiting 37 rising +preempting 3.1/s")
    assert rows(text, "not known: generate probe")
    assert rows(text, "do +lower --max-num-seqs .now 256.; shorter --max-model-len")
    assert rows(text, "also +! timeout 1 s < 2 . probe p99 0.78 s: .* +secondary cache +· drain never tested")
    assert rows(text, "past 30 min .*healthy.*━kv━.*healthy.*━kv━")


def test_a_changing_verdict_says_what_it_changes_to() -> None:
    verdict = replace(scenes.healthy(), state="changing", changing_to="kv_cache")
    view = replace(scenes.calm_view(), judgement=Judgement((verdict,)))
    assert "changing to kv" in as_text(view, 160, 45)
    assert "changing to kv" in as_text(view, 80, 24)


def test_the_worst_verdict_is_the_headline_and_the_others_are_named() -> None:
    down = replace(scenes.kv_cache(scenes.URLS[1]), verdict="engine_down", title="ENGINE DOWN")
    view = replace(scenes.sick_view(), judgement=Judgement((scenes.HOST_IDLE, scenes.kv_cache(), down)))
    assert [s.text for s in spans(view, (160, 45)) if s.role == "badge"] == [" ENGINE DOWN "]
    assert rows(as_text(view, 160, 45), "also .*! vllm :8000 kv cache full .*host healthy")


@pytest.mark.parametrize("name", ["loading", "draining", "unknown"])
def test_a_passing_state_is_a_notice_not_an_alarm(name: Any) -> None:
    verdict = Verdict(scenes.URLS[0], name, name.upper(), confidence="medium")
    view = replace(scenes.calm_view(), judgement=Judgement((verdict,)))
    roles = {span.text: span.role for span in spans(view, (160, 45))}
    assert roles[name.upper()] == "notice"


def test_the_strip_is_blank_before_we_watched() -> None:
    view = replace(scenes.calm_view(), timelines={scenes.URLS[0]: ((scenes.WALL - 900, "healthy"),)})
    strip = rows(as_text(view, 160, 45), "past 30 min")[0].split("past 30 min")[1].strip("│ ")
    half = (160 - 4 - 13) / 2
    assert abs(len(strip) - half) <= 2


def test_a_short_bout_is_not_lost_in_the_strip() -> None:
    changes = (
        (scenes.WALL - 1700, "healthy"),
        (scenes.WALL - 600, "kv_cache"),
        (scenes.WALL - 598, "healthy"),
    )
    view = replace(scenes.calm_view(), timelines={scenes.URLS[0]: changes})
    assert rows(as_text(view, 60, 15), "past 30 min.*·━·")


# ---------------------------------------------------------------------------------------- GPUs


def test_a_row_for_each_gpu_with_its_figures() -> None:
    text = as_text(scenes.calm_view(), 160, 45)
    for index in range(8):
        assert rows(
            text, rf"│ +{index} H100 +{96 - 3 * index} .* {68 - index} +72\.\d/80 .* {640 - 9 * index}/700"
        )


def test_unknown_figures_are_dashes() -> None:
    base = scenes.calm_view()
    bare = replace(scenes.gpu(0), sm_pct=None, mem_used_mib=None, power_w=None, temp_c=None, throttle=None)
    view = replace(base, snapshot=replace(base.snapshot, gpus=Observed(GpuSet((bare,)), scenes.FRESH)))
    row = rows(as_text(view, 160, 45), r"│ +0 H100")[0]
    assert row.split("││")[0].split() == [
        "│",
        "0",
        "H100",
        "–",
        "68",
        "–/80",
        "–/700",
        "–",
        "–",
        *row.split("││")[0].split()[9:],
    ]
    assert " 0 " not in row.split("││")[0][8:]


def test_a_lost_gpu_says_so_instead_of_figures() -> None:
    base = scenes.calm_view()
    gpus = tuple(
        scenes.gpu(i, state="lost", reason="lost", xid=79) if i == 3 else scenes.gpu(i) for i in range(8)
    )
    view = replace(base, snapshot=replace(base.snapshot, gpus=Observed(GpuSet(gpus), scenes.FRESH)))
    assert rows(as_text(view, 160, 45), r"3 H100 +lost: GPU fell off the bus; Xid 79 ")
    assert rows(as_text(view, 60, 15), r"GPU 3 lost")


def test_gpus_that_do_not_fit_are_counted_and_the_troubled_come_first() -> None:
    base = scenes.crowded_view(gpus=16, engines=2)
    gpus = tuple(scenes.gpu(i, throttle=("hw_slowdown",) if i == 13 else ()) for i in range(16))
    view = replace(base, snapshot=replace(base.snapshot, gpus=Observed(GpuSet(gpus), scenes.FRESH)))
    text = as_text(view, 80, 24)
    assert rows(text, r"^ \+\d+ more")
    first = rows(text, r"^ +\d+ H100 +\d+ ")[0]
    assert first.split()[0] == "13"


def test_stale_gpus_say_since_when_and_why() -> None:
    text = as_text(scenes.stale_view(), 160, 45)
    assert rows(text, "GPUs +31s old ")
    assert rows(text, "│ stuck in nvmlDeviceGetUtilizationRates for 31 s ")
    figures = [s for s in spans(scenes.stale_view(), (160, 45)) if s.text.strip() == "96"]
    assert figures
    assert {span.role for span in figures} == {"stale"}


def test_a_host_without_a_driver_says_so() -> None:
    text = as_text(scenes.bare_view(), 160, 45)
    assert "no NVIDIA driver here: libnvidia-ml.so.1 cannot be loaded" in text
    assert rows(as_text(scenes.bare_view(), 60, 15), "GPU no NVIDIA driver here: libnvidia-ml")
    assert "no GPU" in text.splitlines()[0]


def test_the_zoomed_pane_has_clocks_links_and_processes() -> None:
    text = as_text(scenes.calm_view(full="gpus"), 160, 45)
    assert rows(text, r"0 H100 80GB HBM3 .* 1755 +1980 +2619 5x16 +0 +–")
    assert rows(text, r"0 +4100 +71.4 +94 +61 VLLM::Worker_TP")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA H200 NVL", "H200"),
        (None, "GPU"),
        ("日本", "日本"),
    ],
)
def test_gpu_kinds(name: str | None, kind: str) -> None:
    assert glyphs(words.gpu_kind(name)) == kind


# ---------------------------------------------------------------------------------------- engines


def test_evidence_is_tinted_in_its_column_and_nothing_else_is() -> None:
    hot = [span.text.strip() for span in spans(scenes.sick_view(), (160, 45)) if span.role == "hot"]
    assert hot == ["37", "99", "3.1", "37", "99"]  # the row, and the heads of two charts


@pytest.mark.parametrize(("size", "shown"), [((160, 45), 12), ((80, 24), 9), ((60, 15), 2)])
def test_engines_that_do_not_fit_are_counted_the_urgent_first(size: tuple[int, int], shown: int) -> None:
    text = as_text(scenes.crowded_view(gpus=1), *size)
    listed = rows(text, r"(│| )vllm :80\d\d .*\b41\b")
    assert ":8011" in listed[0]
    assert len(listed) >= min(shown, len(listed))
    if len(listed) < 12:
        assert f"+{12 - len(listed)} more" in text


def test_no_engine_is_a_state_with_a_hint() -> None:
    for size in SIZES:
        text = as_text(scenes.bare_view(), *size)
        assert "no engine found" in text
    assert "infertop http://HOST:PORT" in as_text(scenes.bare_view(), 160, 45)
    assert "looking for engines" in as_text(scenes.pending_view(), 160, 45)


def test_an_engine_that_refuses_says_so_and_where() -> None:
    for size in SIZES[:4]:
        assert rows(as_text(scenes.stale_view(), *size), "down +refused connection.* seen 12s ago ")


def test_an_engine_that_is_late_shows_old_figures_and_their_age() -> None:
    row = rows(as_text(scenes.stale_view(), 160, 45), "││ vllm :8001")[0]
    assert "9.0s old" in row
    assert {s.role for s in spans(scenes.stale_view(), (160, 45)) if s.text.strip() == "0.41s"} == {"stale"}


def test_a_recognised_engine_without_figures() -> None:
    reading = replace(scenes.engine_reading(scenes.URLS[0]), engine="sglang", reason="unsupported_engine")
    view = scenes.calm_view()
    engine = replace(scenes.engine(0), engine=Observed(reading, scenes.FRESH))
    view = replace(view, snapshot=replace(view.snapshot, engines=(engine,)))
    assert rows(as_text(view, 160, 45), "sglang :8000 .* recognised, its figures cannot be read yet")


def test_the_zoomed_pane_has_percentiles_ranks_and_what_is_not_known() -> None:
    view = scenes.calm_view(full="engines", plots=True)
    ranks = (RankReading("0", 20, 0, 0.4), RankReading("1", 21, 9, 0.99))
    engine = scenes.engine(0, ranks=ranks)
    view = replace(view, snapshot=replace(view.snapshot, engines=(engine,)))
    text = as_text(view, 160, 45)
    assert rows(text, r"ttft50 ttft95 ttft99 +itl50 +itl95 +queue95")
    assert rows(text, r"ranks 0: run 20 wait 0 kv 40% +1: run 21 wait 9 kv 99%")
    assert rows(text, r"not known http_503_ratio: the status label is grouped .admission_rejections_total.")
    assert rows(text, r"generated tokens/s +requests waiting +KV cache %")
    assert rows(text, r"-30 min .* now")


def test_a_zoomed_engine_without_a_past_has_a_line_and_no_empty_plots() -> None:
    view = scenes.calm_view(full="engines", plots=True)
    none = as_text(replace(view, trends=Trends(History())), 160, 45)
    assert rows(none, "no history yet *│$")
    assert "┌" not in none
    assert "generated tokens/s" not in none
    assert "no history" not in as_text(view, 160, 45)
    url = scenes.URLS[0]
    some = History()
    for second in range(60):
        some.add(url, "waiting", scenes.NOW - 60 + second, 3.0)
    text = as_text(replace(view, trends=Trends(some)), 160, 45)
    assert rows(text, "no history yet of generated tokens/s, KV cache %")
    assert rows(text, "requests waiting")


def test_the_zoomed_pane_marks_bounds_and_tells_means_reasons_and_a_slower_pace() -> None:
    view = scenes.calm_view(full="engines", plots=True)
    missing = (
        Missing("itl_p95_s", "no /metrics", "--enable-metrics"),
        Missing("ttft_p95_s", "no /metrics", "--enable-metrics"),
    )
    engine = scenes.engine(
        0, bounds={"ttft_p99_s": ">", "itl_p50_s": "<"}, ttft_p99_s=80.0, itl_p50_s=0.01, ttft_mean_s=0.35,
        latency_window_s=60.0, finish_reasons={"stop": 2.0, "abort": 0.5, "error": 0.0},
        rejections={"max_num_queued_reqs": 1.5}, paused=True, scrape_s=1.2, scrape_every_s=6.0, missing=missing,
    )  # fmt: skip
    view = replace(view, snapshot=replace(view.snapshot, engines=(engine,)))
    text = as_text(view, 160, 45)
    assert rows(text, r" paused .* >80s +<10ms ")
    assert rows(text, r"percentiles and means of 60s: .*ttft 0.35s")
    assert rows(text, r"ended/s abort 0.5 +stop 2 ")
    assert rows(text, r"rejected/s max_num_queued_reqs 1.5")
    assert rows(text, r"also +a scrape takes 1.2s +so one every 6.0s +paused")
    assert rows(text, r"not known itl_p95_s, ttft_p95_s: no /metrics .--enable-metrics.")


# ---------------------------------------------------------------------------------------- host, probes


def test_the_host_pane() -> None:
    text = as_text(scenes.calm_view(), 160, 45)
    assert rows(text, r"cpu +22 % .* load +14.2 +iowait +1 %")
    assert rows(text, r"64 cores [▁▂▃▄▅▆▇█]{60,}")
    assert rows(text, r"memory +43 % .* 220.1 of 512.0 GiB")
    assert rows(text, r"pressure cpu +3.1 % +io +0.2 % +memory +0.0 % +switches +121k/s")
    assert rows(text, r"process +312 % vllm .4000.")
    assert rows(text, r"thread +88 % VLLM::EngineCore .4010.")
    assert rows(text, r"nvme0n1 +220 +41 +12.4 +2.9 +8 +0.2ms")


def test_more_cores_than_columns_show_the_busiest_of_each_group() -> None:
    cores = tuple(100.0 if i == 777 else 0.0 for i in range(1024))
    view = scenes.calm_view()
    host = replace(scenes.host(), cpu_pct_per_core=cores, cpu_cores=1024)
    view = replace(view, snapshot=replace(view.snapshot, host=Observed(host, scenes.FRESH)))
    assert rows(as_text(view, 160, 45), r"1024 co. ▁+█▁+")


def test_the_zoomed_host_lists_every_core() -> None:
    text = as_text(scenes.calm_view(full="host"), 160, 45)
    assert rows(text, r" 63 [━╸─]+ +11 ")
    assert rows(text, "cpu % 22 .*disk busy % 8 .*network MB/s 46")


def test_probes_say_what_the_kubelet_would_do() -> None:
    text = as_text(scenes.stale_view(), 160, 45)
    assert rows(text, r"vllm :8000 +liveness +/health +refused +1ms +12ms +2/3 bad restart in 8.0s")
    assert rows(text, r"vllm :8001 +readiness +/health +200 ok +4ms +15ms +412 ok –")
    assert "! live probe fails vllm :8000" in text.splitlines()[0]
    assert "probes ok" in as_text(scenes.calm_view(), 160, 45).splitlines()[0]


# ---------------------------------------------------------------------------------------- header, footer


def test_the_header_names_host_devices_and_modes() -> None:
    view = scenes.calm_view(paused=True, notice="theme bad.toml: roles.text: expected a text")
    view = replace(view, snapshot=replace(view.snapshot, simulated=True))
    first = as_text(view, 160, 45).splitlines()[0]
    assert first.split()[:8] == ["infertop", "gpu-07", "8x", "H100", "2", "engines", "12:23:05", "1"]
    assert "SIMULATED" in first
    assert "PAUSED" in first
    assert "theme bad.toml" in first


@pytest.mark.parametrize("size", SIZES)
def test_modes_are_never_cut_away(size: tuple[int, int]) -> None:
    view = scenes.calm_view(paused=True)
    view = replace(view, snapshot=replace(view.snapshot, simulated=True))
    first = as_text(view, *size).splitlines()[0]
    assert "SIMULATED" in first
    assert "PAUSED" in first


@pytest.mark.parametrize("size", SIZES)
def test_one_simulated_engine_does_not_mark_the_others(size: tuple[int, int]) -> None:
    view = scenes.calm_view(paused=True)
    real, made_up = view.snapshot.engines
    assert made_up.engine.reading is not None
    reading = replace(made_up.engine.reading, simulated=True)
    made_up = replace(made_up, engine=replace(made_up.engine, reading=reading))
    view = replace(view, snapshot=replace(view.snapshot, simulated=True, engines=(real, made_up)))
    first = as_text(view, *size).splitlines()[0]
    assert f"SIMULATED {short_name(made_up.url)}" in first
    assert "PAUSED" in first


def test_the_footer_shows_keys_as_far_as_they_fit() -> None:
    last = as_text(scenes.calm_view(), 160, 45).splitlines()[-1]
    keys = "q quit ? help Tab pane z zoom p pause v why / filter d drain test r restart test y copy s save t theme"
    keys += " ^p palette"
    assert last.split() == keys.split()
    assert as_text(scenes.calm_view(), 40, 12).splitlines()[-1].split() == [
        "q",
        "quit",
        "?",
        "help",
        "Tab",
        "pane",
        "z",
        "zoom",
    ]
    assert "p resume" in as_text(scenes.calm_view(paused=True), 160, 45).splitlines()[-1]
    assert "z back" in as_text(scenes.calm_view(full="host"), 160, 45).splitlines()[-1]


def test_focus_is_marked_by_a_sign_not_by_colour_alone() -> None:
    assert "╭▸ 3 ENGINES" in as_text(scenes.calm_view(focused="engines"), 160, 45)
    assert rows(as_text(scenes.calm_view(focused="host"), 80, 24), "^▸host")


# ---------------------------------------------------------------------------------------- words


def test_every_reason_has_words_where_it_can_occur() -> None:
    for reason in get_args(Reason):
        assert words.engine_reason(reason, scenes.URLS[0])
        assert words.gpu_reason(reason)
        assert words.host_reason(reason)
    assert words.engine_reason("refused", scenes.URLS[0]) == "refused connection at :8000"


# ---------------------------------------------------------------------------------------- hostile text

NASTY = st.text("[]/\\red@click=\x1b\x07\x9b\u202e日\u0301\u2705\ufe0f\u200d ax:", max_size=40)


@settings(max_examples=60, deadline=None)
@given(NASTY, st.sampled_from(SIZES), st.sampled_from([None, *PANES]))
def test_hostile_text_is_shown_as_text(text: str, size: tuple[int, int], full: Any) -> None:
    status = SourceStatus(SourceState.FAILED, None, text, age_s=3.0)
    verdict = Verdict(
        scenes.URLS[0], "kv_cache", text or "X", evidence=(Evidence(text, text, text, ">", text, text),),
        missing=(text,), advice=(text,),
    )  # fmt: skip
    engine = scenes.engine(0, model=text, version=text, waiting_by_reason={text: 1.0})
    base = scenes.snapshot(gpus=1)
    snapshot = replace(
        base,
        hostname=text,
        gpus=Observed(GpuSet((scenes.gpu(0, name=text, state="error", detail=text),), text), status),
        host=Observed(replace(scenes.host(), busiest_process=text, busiest_thread=text), scenes.FRESH),
        engines=(engine, EngineView("http://127.0.0.1:1", Observed(None, status))),
    )
    findings = (Finding("X", "error", text, text, text),)
    view = View(
        snapshot, Judgement((verdict,), findings), Trends(History()), mode=Mode(full=full, notice=text)
    )
    layout, panes, _ = draw(view, *size)
    for name, box in layout.boxes.items():
        for line in panes[name]:
            shown = plain(line)
            assert cell_len(shown) == box.width
            assert shown.isprintable()


# ---------------------------------------------------------------------------------------- room and edges


def test_advice_takes_the_lines_that_nothing_else_needs() -> None:
    long = tuple(f"advice number {n} that says what to do about it in some detail" for n in range(6))
    verdict = replace(scenes.kv_cache(), advice=long)
    view = replace(scenes.sick_view(), judgement=Judgement(verdicts=(verdict,)))
    lines = as_text(view, 160, 45).splitlines()
    first = next(index for index, line in enumerate(lines) if "advice number 0" in line)
    past = next(index for index, line in enumerate(lines) if "past 30 min" in line)
    blank = [line for line in lines[first:past] if not line.strip("│ ")]
    assert not blank  # it is cut, if it must be, only where no line is left
    assert "advice number 3" in "".join(lines[first:past])


def test_no_figure_stands_beside_an_edge_below_it() -> None:
    history = History()
    for second in range(4):
        history.add("a", "gen_tok_s", 1000.0 + second, 1200.0)
    assert Trends(history).latest(("a", "b"), "gen_tok_s") == 1200.0
    reading = scenes.engine_reading(scenes.URLS[0], gen_tok_s=1200.0)
    history = History()
    history.add(scenes.URLS[0], "gen_tok_s", scenes.calm_view().snapshot.taken_at, 1200.0)
    view = scenes.calm_view()
    view = replace(
        view,
        trends=Trends(history),
        snapshot=replace(
            view.snapshot,
            engines=(EngineView(scenes.URLS[0], Observed(reading, SourceStatus(SourceState.FRESH))),),
        ),
    )
    edge = re.search(r"tok/s 1\.2k +0-(\S+?)k?[, ]", as_text(view, 160, 45))
    assert edge
    assert float(edge[1].rstrip("k")) * 1000 >= 1200


@pytest.mark.parametrize("size", [(160, 45), (120, 40), (80, 24)])
def test_a_screen_without_engine_offers_the_demo_whatever_its_size(size: tuple[int, int]) -> None:
    assert "x  a demo" in as_text(scenes.bare_view(), *size)
