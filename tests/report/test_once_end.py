"""What ``once`` says of an engine that has gone or is being stopped; null where nothing is known."""

from __future__ import annotations

import json
from dataclasses import replace

from tui.model.death import DeathReading, ExitReading, KernelLine
from tui.model.readings import EngineReading, Missing
from tui.model.snapshot import EngineView, HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import Judgement
from tui.report import once_json, once_text

URL = "http://127.0.0.1:8000"
WALL = 1_700_000_000.0
REFUSED = SourceStatus(SourceState.FAILED, "refused", "connection refused")
FRESH = SourceStatus(SourceState.FRESH, age_s=0.1)
VIEW = EngineView(URL, Observed(EngineReading(URL), REFUSED))
DEATH = DeathReading(
    ExitReading("docker", "llm", 137, WALL, None, True, "", "always", 2, float("inf"), 1024.0),
    (KernelLine("oom", "Killed process 7", WALL),),
    ("KeyError: 1", "RuntimeError: x"),
    "log of container llm",
    missing=(Missing("kernel", "not ours", "be root"),),
)


def snapshot(view: EngineView) -> HostSnapshot:
    return HostSnapshot(10.0, WALL, engines=(view,))


def test_the_end_of_an_engine_in_the_json() -> None:
    view = replace(
        VIEW, death=Observed(DEATH, FRESH), stopping="log x", untold=(Missing("draining", "w", "e"),)
    )
    (engine,) = once_json.document(snapshot(view), Judgement())["engines"]
    json.dumps(engine, allow_nan=False)
    at = "2023-11-14T22:13:20.000Z"
    assert engine["exit"] == {
        "source": "docker", "name": "llm", "code": 137, "ended_at": at, "result": None, "oom_killed": True,
        "error": None, "policy": "always", "restarts": 2, "grace_s": None, "mem_limit_mib": 1024.0,
        "asked_to_stop": False, "core_crashed": False, "restarted": False,
        "kernel": [{"kind": "oom", "text": "Killed process 7", "at": at}],
        "log": ["KeyError: 1", "RuntimeError: x"], "log_origin": "log of container llm",
        "missing": [{"field": "kernel", "why": "not ours", "enable": "be root"}],
    }  # fmt: skip
    assert engine["stopping"] == "log x"
    assert engine["missing"] == [{"field": "draining", "why": "w", "enable": "e"}]


def test_what_nobody_kept_is_null() -> None:
    (engine,) = once_json.document(snapshot(VIEW), Judgement())["engines"]
    assert (engine["exit"], engine["stopping"]) == (None, None)
    (engine,) = once_json.document(
        snapshot(replace(VIEW, death=Observed(DeathReading(), FRESH))), Judgement()
    )["engines"]
    assert {engine["exit"][key] for key in ("source", "code", "ended_at", "oom_killed", "error")} == {None}


def test_the_end_of_an_engine_in_the_text() -> None:
    text = once_text.render(snapshot(replace(VIEW, death=Observed(DEATH, FRESH))), Judgement())
    assert f"  {URL} kernel: Killed process 7\n" in text
    assert f"  {URL} log of container llm: KeyError: 1\n" in text
    assert f"  {URL} the kernel's log is not known: not ours (be root)\n" in text
