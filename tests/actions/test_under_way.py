"""Which engines our own tests are stopping, read from the event files of tests that run, have ended or were killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.actions.plans import PLAN, URL, child
from tui.actions.ancestry import stat_of
from tui.actions.runs import EventWriter, RunFiles, new_run, runs_dir
from tui.actions.under_way import TestsUnderWay

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


async def test_a_test_stops_its_engine_from_the_signal_to_the_end_of_the_drain() -> None:
    source = TestsUnderWay()
    assert await source.read() == {}
    with child() as process:
        _, events = begun(process)
        found = []
        for state in ("preparing", "filling", "stopping", "draining", "closing", "starting"):
            events.write("state", name=state)
            found.append(await source.read())
        assert found[:2] == [{}, {}]
        assert [one[URL] for one in found[2:5]] == [
            f"our drain test: {s}" for s in ("stopping", "draining", "closing")
        ]
        assert found[5] == {}
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
        assert await source.read() == {URL: "our drain test: draining"}
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
