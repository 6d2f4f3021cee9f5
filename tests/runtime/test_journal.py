"""Lines of the log: one for each change, none for what stays."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from tui.model.death import DeathReading, ExitReading
from tui.model.readings import EngineReading, GpuReading, GpuSet
from tui.model.snapshot import EngineView, HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import Evidence, Judgement, Verdict
from tui.runtime.journal import Journal

URL = "http://127.0.0.1:8000"
FRESH = SourceStatus(SourceState.FRESH, age_s=0.1)
REFUSED = SourceStatus(SourceState.FAILED, "refused", "connection refused")
CARD = GpuReading(3, uuid="GPU-3")
LOST = replace(CARD, state="lost", reason="lost", detail="Xid 79: \x1b[31mfallen off the bus")


def picture(*gpus: GpuReading, engine: SourceStatus = FRESH) -> HostSnapshot:
    view = EngineView(URL, Observed(EngineReading(URL), engine))
    return HostSnapshot(
        10.0, 1_700_000_000.0, gpus=Observed(GpuSet(gpus), FRESH), host=Observed(None, FRESH), engines=(view,)
    )


def judged(name: str, *evidence: str) -> Judgement:
    shown = tuple(Evidence("signal", None, text=text) for text in evidence)
    return Judgement((Verdict(URL, name, name.upper(), evidence=shown),))  # type: ignore[arg-type]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="infertop")
    return caplog


def test_changes_are_told_once_and_recoveries_too(lines: pytest.LogCaptureFixture) -> None:
    journal = Journal()
    for _ in range(3):
        journal.note(picture(CARD), judged("healthy", "ttft 0.4s"))
    for _ in range(3):
        journal.note(picture(LOST, engine=REFUSED), judged("gpu_fault", "GPU 3 Xid 79"))
    journal.note(picture(CARD), judged("healthy"))
    assert [(record.levelname, record.getMessage()) for record in lines.records] == [
        ("INFO", f"verdict of {URL}: healthy: ttft 0.4s"),
        ("WARNING", "GPU 3 GPU-3: lost lost (was ok): Xid 79: fallen off the bus"),
        ("WARNING", f"engine {URL}: refused (was ok): connection refused"),
        ("WARNING", f"verdict of {URL}: gpu_fault (was healthy): GPU 3 Xid 79"),
        ("INFO", "GPU 3 GPU-3: ok (was lost lost)"),
        ("INFO", f"engine {URL}: ok (was refused)"),
        ("INFO", f"verdict of {URL}: healthy (was gpu_fault)"),
    ]


def test_what_goes_is_told_and_forgotten(lines: pytest.LogCaptureFixture) -> None:
    journal = Journal()
    journal.note(picture(CARD), Judgement())
    journal.note(picture(), Judgement())
    journal.note(picture(CARD), Judgement())
    assert [record.getMessage() for record in lines.records] == ["GPU 3 GPU-3: no longer there"]


def test_nothing_is_told_before_it_was_read(lines: pytest.LogCaptureFixture) -> None:
    Journal().note(HostSnapshot(1.0, 1_700_000_000.0), Judgement())
    assert not lines.records


def test_why_an_engine_went_is_told_once(lines: pytest.LogCaptureFixture) -> None:
    journal = Journal()
    death = DeathReading(ExitReading("docker", "llm", 137, oom_killed=True), log=("KeyError: 1",))
    journal.note(picture(CARD), judged("healthy"))
    before = picture(CARD)
    for _ in range(2):
        journal.note(
            replace(before, engines=(replace(before.engines[0], death=Observed(death, FRESH)),)),
            judged("healthy"),
        )
    assert [record.getMessage() for record in lines.records[1:]] == [
        f"end of {URL}: exited 137, OOMKilled: KeyError: 1"
    ]
