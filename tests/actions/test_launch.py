"""The process of a test and those who watch it: each may end without the other."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.actions.simulated import simulated
from tests.demo.running import until_ready
from tests.support.program import ROOT
from tests.support.waiting import until
from tui.actions.audit import cut_off
from tui.actions.launch import follow, running, start
from tui.actions.plan import Start, Stop, Traffic
from tui.actions.runs import EventReader, RunFiles, holder
from tui.model.settings import EngineTarget
from tui.sources.kernel.procfs import read_file
from tui.sources.kernel.visibility import is_gone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

LONG = Traffic(2, max_tokens=3000, outlast_s=20, model="demo-8b")
_FOLLOW = (
    "import sys; from pathlib import Path; from tui.actions.launch import follow; from tui.actions.runs import"
    " RunFiles; sys.exit(follow(RunFiles(Path(sys.argv[1])), sys.stderr, sys.stdout))"
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def says(files: RunFiles, **fields: object) -> Callable[[], bool]:
    """Whether the test has written a line with these fields."""

    def seen() -> bool:
        return any(fields.items() <= event.items() for event in EventReader(files.events).read())

    return seen


@contextlib.asynccontextmanager
async def follower(files: RunFiles) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that follows a test, as the command does; it is ended at the end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((os.environ["PYTHONPATH"], str(ROOT)))}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _FOLLOW, str(files.folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def assert_private(home: Path, secret: bytes) -> None:
    """Every file below a folder is its owner's alone, and none holds the secret."""
    written = [path for path in home.rglob("*") if path.is_file()]
    assert written and not any(secret in path.read_bytes() for path in written)
    assert [path for path in written if path.stat().st_mode & 0o077] == []


async def test_a_follower_and_a_hangup_take_nothing_with_them(tmp_path: Path) -> None:
    async with simulated(sigterm="drain-refused", decode_step_s=0.01) as engine:
        plan = engine.plan(grace_s=9.0, traffic=Traffic(4, max_tokens=250, outlast_s=0.2, model="demo-8b"))
        files = start(plan, EngineTarget(engine.url, token="s3cret", headers={"X-Key": "s3cret"}))
        assert files.read_plan() == json.loads(json.dumps(plan.document()))
        await until(lambda: running() == files, 15, "the process of the test")
        async with follower(files) as watching:
            await until(says(files, kind="state", name="filling"), 15)
            watching.send_signal(signal.SIGKILL)
            await watching.wait()
        pid = holder(files)
        assert pid is not None and os.getsid(pid) == pid != os.getsid(0)
        os.kill(pid, signal.SIGHUP)
        assert not any(b"s3cret" in read_file(f"/proc/{pid}/{name}") for name in ("cmdline", "environ"))
        out, err = io.StringIO(), io.StringIO()
        assert await asyncio.to_thread(follow, files, err, out) == 0, err.getvalue()
    report = json.loads(out.getvalue())
    assert report["passed"] is True and len(report["requests"]) >= 4
    lines = err.getvalue().splitlines()
    assert lines[0] == "looking at the engine"
    assert any("signal sent" in line for line in lines)
    assert any(" finished (length) after " in line for line in lines)
    assert lines[-1].startswith("passed; 4/4 requests finished, exit after ")
    await until(lambda: running() is None, 5, "the end of the process")
    assert_private(tmp_path, b"s3cret")


async def test_cancel_and_kill_leave_no_stream() -> None:
    async with simulated(sigterm="ignore", decode_step_s=0.01) as engine:
        plan = engine.plan(grace_s=60.0, traffic=LONG)
        files = start(plan, EngineTarget(engine.url))
        async with follower(files) as watching:
            await until(says(files, kind="state", name="draining"), 15, "the signal")
            watching.send_signal(signal.SIGINT)
            out, err = await watching.communicate()
            assert watching.returncode == 2
        await until(lambda: engine.supervisor.load.running == 0, 2, "the end of our streams")
        report = json.loads(out)
        assert report["passed"] is None
        assert report["reasons"] == [
            "cancelled by the user",
            f"the engine still runs (pid {engine.pids['api']}) and was left as it is",
        ]
        assert "cancelling" in err.decode()
        assert cut_off() == ""

        files = start(plan, EngineTarget(engine.url))
        await until(says(files, kind="state", name="filling"), 15)
        pid = holder(files)
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        early = io.StringIO()
        assert await asyncio.to_thread(follow, files, early, io.StringIO()) == 2
        assert "cancelled by the user before anything was done to the engine" in early.getvalue()
        assert cut_off() == ""

        files = start(plan, EngineTarget(engine.url))
        await until(says(files, kind="state", name="draining"), 15, "the signal")
        pid = holder(files)
        assert pid is not None and running() == files
        assert engine.supervisor.load.running > 0
        os.kill(pid, signal.SIGKILL)
        await until(lambda: engine.supervisor.load.running == 0, 2, "the end of its streams")
        told = io.StringIO()
        assert await asyncio.to_thread(follow, files, told, io.StringIO()) == 2
        assert "ended without a report" in told.getvalue()
        assert running() is None
        assert "SIGTERM" in cut_off() and str(engine.pids["api"]) in cut_off()
        assert engine.supervisor.pid == engine.pids["api"]


async def test_an_engine_that_it_started_outlives_a_killed_test() -> None:
    async with simulated(sigterm="drain-refused") as engine:
        port = engine.url.rpartition(":")[2]
        command = (
            "/usr/bin/env", f"PYTHONPATH={os.environ['PYTHONPATH']}:{ROOT}", sys.executable, "-m", "tui", "demo",
            "--serve", "--port", port, "--load-seconds", "0",
        )  # fmt: skip
        plan = engine.plan(
            "restart", stop=Stop("kill_tree", "SIGKILL to all"), start=Start("command", "", command)
        )
        files = start(plan, EngineTarget(engine.url))
        await until(says(files, kind="event", event="spawned"), 15, "the start command")
        events = EventReader(files.events).read()
        engine_pid = int(next(e for e in events if e.get("event") == "spawned")["detail"].split()[1])
        try:
            runner = holder(files)
            assert runner is not None
            os.kill(runner, signal.SIGKILL)
            await until(lambda: running() is None, 5)
            await until_ready(engine.url)
            assert os.getsid(engine_pid) == engine_pid
            assert f"{engine.url} pid=" in files.engine_log.read_text()
            assert "SIGKILL to all" in cut_off()
        finally:
            os.kill(engine_pid, signal.SIGTERM)
            await until(lambda: is_gone(engine_pid), 10, "the end of the engine")
