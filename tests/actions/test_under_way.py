"""Which engines our own tests are stopping, read from the event files of tests that run, have ended or were killed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.actions.plans import PLAN, URL, child
from tui.actions.ancestry import stat_of
from tui.actions.runs import EventWriter, RunFiles, new_run, runs_dir
from tui.actions.under_way import TestsUnderWay
from tui.model.own_test import OwnTest

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def begun(process: subprocess.Popen[str]) -> tuple[RunFiles, EventWriter]:
    files = new_run("drain")
    files.write_plan(PLAN.document())
    events = EventWriter(files)
    stat = stat_of(process.pid)
    assert stat is not None
    events.write("process", pid=process.pid, start_ticks=stat.start_ticks)
    return files, events


STATES = ("preparing", "filling", "confirming", "stopping", "draining", "closing", "starting")


async def test_what_a_test_does_to_its_engine_until_that_serves_again() -> None:
    source = TestsUnderWay()
    assert await source.read() == {}
    with child() as process:
        _, events = begun(process)
        found = []
        for state in STATES:
            events.write("state", name=state)
            found.append(await source.read())
        assert [one[URL].state for one in found] == list(STATES)
        assert {(one[URL].test, one[URL].gone_at, one[URL].failed) for one in found} == {("drain", None, "")}
        events.write("event", t_s=1.0, event="main_exit", detail="pid 7")
        events.write("event", t_s=1.1, event="port_closed", detail="")
        events.write("state", name="starting", text="the start command ended with 3")
        gone = (await source.read())[URL]
        assert gone.gone_at == pytest.approx(time.time(), abs=5.0)
        assert gone.failed == "the start command ended with 3"
        events.write("state", name="warming")
        assert await source.read() == {}
        events.write("state", name="draining")
        events.write("done", passed=True)
        assert await source.read() == {}
        events.close()
    await source.close()


async def test_one_that_was_killed_stops_nothing_any_more() -> None:
    source = TestsUnderWay()
    with child() as process:
        _, events = begun(process)
        events.write("state", name="draining")
        events.close()
        assert await source.read() == {URL: OwnTest("drain", "draining")}
    assert await source.read() == {}


async def test_folders_that_are_no_tests() -> None:
    files = new_run("drain")
    files.plan.write_text("[1]")
    (files.folder.parent / "x").mkdir()
    (files.folder.parent / "y").write_text("")
    files.events.write_text("{nonsense\n[]\n")
    assert await TestsUnderWay().read() == {}
    home = runs_dir()
    assert home is not None
    assert home.is_dir()
