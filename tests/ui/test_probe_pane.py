"""The probes pane: what follows from the results, when, and what no probe can see."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui import scenes
from tests.ui.test_keys import made, press
from tui.model.readings import ProbeReading
from tui.model.settings import ProbeSpec
from tui.model.snapshot import EngineView
from tui.model.status import Observed, SourceState, SourceStatus
from tui.probing.blindness import sees_hang
from tui.ui.draw import as_text
from tui.ui.lines import plain
from tui.ui.panes import probe_notes, probes

if TYPE_CHECKING:
    from tui.model.readings import EngineKind
    from tui.ui.view import View


def shown(view: View, width: int = 160, height: int = 45) -> str:
    return as_text(view, width, height)


def pane(view: View) -> str:
    """Its text without its line breaks."""
    return " ".join(" ".join(plain(line) for line in probes.body(view, 79, 20)).split())


def with_probes(*found: ProbeReading, **changes: Any) -> View:
    view = scenes.calm_view()
    engine = replace(view.snapshot.engines[0], probes=found, **changes)
    return replace(view, snapshot=replace(view.snapshot, engines=(engine,)))


def probe(**changes: Any) -> ProbeReading:
    return replace(ProbeReading(scenes.URLS[0], "liveness", "/health", 200, 0.003, 0.012, 5), **changes)


def test_liveness_that_cannot_see_the_hang_and_what_can() -> None:
    text = pane(scenes.hung_view())
    assert "! liveness on /health would never notice this hang; one that generates would" in text
    assert "would at 12:23:53" in text
    assert "live is blind to this hang" in shown(scenes.hung_view(), 60, 15)
    assert "never notice" not in shown(scenes.calm_view())


def test_the_top_line_calls_no_probe_ok_that_passes_over_a_hang() -> None:
    view = scenes.hung_view()
    (engine,) = view.snapshot.engines
    engine = replace(engine, probes=tuple(p for p in engine.probes if p.kind != "generate"))

    def top(path: str) -> str:
        specs = {**engine.probe_specs, "liveness": replace(engine.probe_specs["liveness"], path=path)}
        snapshot = replace(view.snapshot, engines=(replace(engine, probe_specs=specs),))
        return shown(replace(view, snapshot=snapshot)).splitlines()[0]

    assert "! probes blind" in top("/health")
    assert "probes pass" in top("/own/route")
    assert "probes ok" not in top("/health") + top("/own/route")


def test_once_it_has_noticed_it_says_since_when() -> None:
    view = scenes.hung_view()
    (engine,) = view.snapshot.engines
    *others, generate = engine.probes
    noticed = replace(generate, notice_in_s=0.0, decided_at=scenes.WALL - 5, decisions=1)
    assert probe_notes.blind(view, replace(engine, probes=(*others, noticed))).endswith("did at 12:23:00")
    off = probe_notes.blind(view, replace(engine, probes=tuple(others)))
    assert off == "liveness on /health would never notice this hang"


def test_a_stalled_heartbeat_is_enough_and_a_failing_probe_is_not_blind() -> None:
    view = scenes.hung_view()
    (engine,) = view.snapshot.engines
    unjudged = replace(view, judgement=scenes.CALM)
    assert probe_notes.blind(unjudged, engine)
    failing = tuple(replace(p, status=503, streak=-1) for p in engine.probes)
    assert not probe_notes.blind(view, replace(engine, probes=failing))


@pytest.mark.parametrize(
    ("engine", "spec", "sees"),
    [
        ("vllm", ProbeSpec("/health"), False),
        ("vllm", ProbeSpec("/v1/models"), False),
        ("vllm", ProbeSpec("/my-own"), None),
        ("vllm", ProbeSpec(handler="tcpSocket"), False),
        ("vllm", ProbeSpec(handler="exec"), None),
        ("triton", ProbeSpec("/v2/health/live"), False),
        ("sglang", ProbeSpec("/health?x=1"), True),
        ("sglang", ProbeSpec("/ready"), False),
        ("trtllm", ProbeSpec("/health"), None),
        (None, ProbeSpec("/health"), None),
    ],
)
def test_what_a_route_proves(engine: EngineKind | None, spec: ProbeSpec, sees: bool | None) -> None:
    assert sees_hang(engine, spec) is sees


def test_what_would_have_been_done_and_when() -> None:
    text = shown(with_probes(probe(decided_at=scenes.WALL - 60, decisions=2)))
    assert "! liveness would have killed it at 12:22:05 (2 times)" in text
    unhealthy = probe(decided_at=scenes.WALL - 60, decisions=1, would="unhealthy", would_in_s=0.0)
    text = pane(with_probes(unhealthy, probe_platform="docker"))
    assert "docker would have called it unhealthy, which restarts nothing, at 12:22:05" in text
    assert "unhealthy does not restart" in text


def test_streaks_stand_against_their_threshold() -> None:
    failing = {"status": 503, "would": "restart", "would_in_s": 12.0}
    assert "2/3 bad restart in 12s" in shown(with_probes(probe(**failing, streak=-2, threshold=3)))
    assert " 5 bad " in shown(with_probes(probe(**failing, streak=-5, threshold=3)))
    assert " 5 ok " in shown(with_probes(probe(threshold=1)))
    flat = shown(with_probes(probe(**failing, streak=-2)), 60, 15)
    assert "live 503 x2 restart in 12s" in flat


def test_an_answer_that_is_out_for_long_is_said() -> None:
    generate = probe(kind="generate", path="/v1/completions", waiting_s=14.0)
    assert "waits 14s" in shown(with_probes(generate))
    assert "gen waits 14s" in shown(with_probes(generate), 60, 15)
    assert "waits" not in shown(with_probes(replace(generate, waiting_s=1.1)))


def test_what_is_not_run_is_no_failure() -> None:
    exec_probe = ProbeReading(scenes.URLS[0], "liveness", "exec", note="exec: not run (it would ...)")
    text = shown(with_probes(exec_probe))
    assert "exec: not run" in text
    assert "fails" not in text.splitlines()[0]
    assert "live not run" in shown(with_probes(exec_probe), 60, 15)


def test_whose_settings_what_we_cost_and_what_the_platform_did() -> None:
    text = shown(scenes.hung_view())
    assert "settings: deploy.yaml:31   20 requests/min by us   container restarted 3x" in text


def test_zoomed_there_are_history_settings_and_the_key() -> None:
    view = scenes.hung_view(full="probes", focused="probes")
    text = shown(view)
    assert "?x····" in text
    assert "liveness /health every 10s, timeout 1.0s, 3 failures, from 30s on" in text
    assert "readiness would have taken it out of service at" in text
    assert "g switches it off" in text
    quiet = replace(view, snapshot=replace(view.snapshot, read_only=True, generate=False))
    assert "--read-only sends an engine no request" in shown(quiet)
    assert as_text(view, 80, 24, ascii_only=True).isascii()


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (60, 15), (40, 12)])
def test_an_engine_whose_kind_is_not_known_is_not_said_to_be_probed_soon(size: tuple[int, int]) -> None:
    base = scenes.calm_view()
    away = SourceStatus(SourceState.FAILED, "404", since=scenes.NOW - 60, failures=9)
    unknown = EngineView(url="http://127.0.0.1:43621", engine=Observed(None, away))
    pending = EngineView(url="http://127.0.0.1:43621")

    def of(engine: EngineView) -> View:
        return replace(base, snapshot=replace(base.snapshot, engines=(engine,)))

    text = shown(of(unknown), *size)
    assert "no probe: kind of engine :43621" in text
    assert "not probed yet" not in text
    assert "not probed yet" in shown(of(pending), *size)
    if size == (160, 45):
        assert 'or engine = "vllm" (or another)' in pane(of(unknown))


async def test_the_filter_leaves_the_probes_of_the_engines_that_match() -> None:
    app = made(scenes.crowded_view())
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "5", "z", "slash", *":8003")
        text = await press(pilot, "enter")
        assert re.search(r"5 PROBES  /:8003  11 of 12 hidden", text)
        rows = [line for line in text.splitlines() if re.search("liveness +/health +200", line)]
        assert [":8003" in row for row in rows] == [True]
        assert "no engine matches" in await press(pilot, "slash", "x", "enter")


def test_settings_that_are_alike_are_told_once_and_others_by_name() -> None:
    view = scenes.crowded_view()
    for size in ((160, 45), (120, 40), (200, 60)):
        text = shown(view, *size)
        assert len(re.findall(r"settings: vllm's defaults +\d requests/min by us each", text)) == 1, size
    first, second, *others = view.snapshot.engines
    other = replace(second, probe_origin="deploy.yaml:31")
    view = replace(view, snapshot=replace(view.snapshot, engines=(first, other, *others)))
    lines = [plain(line) for line in probes.body(view, 79, 40)]
    assert any(re.search(r"^11 engines +settings: vllm's defaults", line) for line in lines)
    assert any(
        re.search(r"^vllm :8001 +settings: deploy.yaml:31 +\d requests/min by us *$", line) for line in lines
    )


def test_what_follows_from_the_probes_keeps_a_line_and_what_has_none_is_counted() -> None:
    view = scenes.hung_view()
    whole = [plain(line) for line in probes.body(view, 79, 30)]
    for height in range(probes.LEAST, len(whole)):
        lines = [plain(line).rstrip() for line in probes.body(view, 79, height)]
        assert len(lines) == height
        below = [line for line in lines if line.startswith("! liveness")]
        assert below, lines
        assert lines[-1].endswith("more")
