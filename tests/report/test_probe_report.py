"""Probes in the answer of ``once``, as text and by the JSON contract."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.ui import scenes
from tui.model.settings import ProbeSpec
from tui.report import once_json, once_text

if TYPE_CHECKING:
    from tui.model.readings import ProbeReading
    from tui.model.snapshot import HostSnapshot


def snapshot(**liveness: object) -> HostSnapshot:
    """The host of a hang, whose liveness probe says something else."""
    found = scenes.hung_view().snapshot
    (engine,) = found.engines
    live: ProbeReading = replace(engine.probes[0], **liveness)  # type: ignore[arg-type]
    return replace(found, engines=(replace(engine, probes=(live, *engine.probes[1:])),))


def test_text_has_what_would_follow_why_not_and_whose_settings() -> None:
    found = snapshot(status=503, streak=-2, threshold=3, would="restart", would_in_s=12.0)
    text = once_text.render(found, scenes.CALM)
    row = next(line for line in text.splitlines() if line.startswith("liveness"))
    assert row.split()[-3:] == ["restart", "in", "12s"]
    assert "startup http://127.0.0.1:8000: exec: not run (it would run in the container)" in text
    assert "http://127.0.0.1:8000 probe settings: deploy.yaml:31" in text
    now = once_text.render(snapshot(would="restart", would_in_s=0.0), scenes.CALM)
    assert "restart now" in now


def test_json_keeps_to_its_words_where_docker_has_another() -> None:
    found = once_json.document(snapshot(would="unhealthy", would_in_s=20.0), scenes.CALM)
    live = found["probes"][0]
    assert live["would"] == {"action": "none", "in_s": None}
    assert live["unhealthy_in_s"] == 20.0
    json.dumps(found, allow_nan=False)


def test_json_has_instants_ages_and_figures() -> None:
    live, _, startup, generate = once_json.document(snapshot(), scenes.CALM)["probes"]
    assert live["decided_at"] == once_json.instant(scenes.WALL - 9000)
    assert (live["results"], live["latency_max_s"], live["failed"]) == (200, 0.031, False)
    assert (startup["status"], startup["failed"], startup["latency_s"]) == (None, False, None)
    assert (generate["kind"], generate["waiting_s"], generate["notice_in_s"]) == ("generate", 12.0, 48.0)


def test_header_values_stay_here() -> None:
    found = snapshot()
    (engine,) = found.engines
    spec = ProbeSpec("/health", headers=(("Authorization", "hunter2"),))
    found = replace(found, engines=(replace(engine, probe_specs={"liveness": spec}),))
    assert "hunter2" not in json.dumps(once_json.document(found, scenes.CALM))
    assert "hunter2" not in once_text.render(found, scenes.CALM)
