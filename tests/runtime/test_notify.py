"""The notify command: what is told and what is not, with real commands that record, fail, hang and are not there."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.runtime.test_monitor import A, Engine, World
from tests.support.clock import ManualClock
from tests.support.waiting import until, wait_for
from tui.model.settings import Config, EngineTarget, NotifySettings
from tui.model.snapshot import HostSnapshot
from tui.model.status import SourceError
from tui.model.verdicts import Evidence, Judgement, Verdict
from tui.runtime import notify
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor
from tui.runtime.notify import Notifier, NotifyError, document, run

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tui.model.verdicts import VerdictName


def script(folder: Path, text: str, name: str = "tell") -> str:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def verdict(name: VerdictName, scope: str = "host", **changes: Any) -> Verdict:
    return replace(Verdict(scope, name, name.upper(), confidence="high", since=1_700_000_000.0), **changes)


class Told:
    """A notifier on a manual clock, whose command appends its stdin to a file."""

    def __init__(self, folder: Path, min_interval_s: float = 60.0) -> None:
        self.file = folder / "told"
        command = script(folder, f"cat >> {self.file}; echo >> {self.file}")
        self.clock = ManualClock()
        self.tasks: list[asyncio.Task[None]] = []
        self.notifier = Notifier(NotifySettings((command,), min_interval_s), self.clock, self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    async def at(self, second: float, *verdicts: Verdict) -> list[tuple[str, str | None, str]]:
        """Judge at a second of the test; scope, from and to of all messages so far."""
        self.clock.now = 1000.0 + second
        self.notifier.note(HostSnapshot(self.clock.now, 1.7e9 + second, "h"), Judgement(verdicts))
        await asyncio.gather(*self.tasks)
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [(m["scope"], m["from"], m["to"]) for m in map(json.loads, filter(None, lines))]


async def test_a_lasting_change_is_told_once(tmp_path: Path) -> None:
    told = Told(tmp_path)
    assert await told.at(0, verdict("healthy")) == []
    assert await told.at(1, verdict("idle")) == []
    down = [("host", "idle", "engine_down")]
    assert await told.at(2, verdict("engine_down")) == down
    assert await told.at(3, verdict("engine_down")) == down
    assert await told.at(100, verdict("engine_down")) == down
    assert await told.at(101, verdict("idle")) == [*down, ("host", "engine_down", "idle")]


async def test_neither_changing_nor_unknown_is_told(tmp_path: Path) -> None:
    told = Told(tmp_path)
    await told.at(0, verdict("healthy"))
    assert await told.at(1, verdict("kv_cache", state="changing")) == []
    assert await told.at(2, verdict("unknown")) == []
    assert await told.at(3, verdict("healthy")) == []
    assert await told.at(4, verdict("kv_cache")) == [("host", "healthy", "kv_cache")]


async def test_trouble_is_told_at_the_start_and_health_is_not(tmp_path: Path) -> None:
    told = Told(tmp_path)
    assert await told.at(0, verdict("unknown"), verdict("healthy", A)) == []
    assert await told.at(1, verdict("loading"), verdict("healthy", A)) == [("host", None, "loading")]


async def test_the_newest_state_is_told_at_the_end_of_the_interval(tmp_path: Path) -> None:
    told = Told(tmp_path)
    await told.at(0, verdict("healthy"), verdict("healthy", A))
    first = await told.at(1, verdict("kv_cache"), verdict("kv_cache", A))
    assert first == [(A, "healthy", "kv_cache")]
    assert await told.at(20, verdict("engine_down"), verdict("kv_cache", A)) == first
    assert await told.at(60, verdict("loading"), verdict("kv_cache", A)) == first
    assert await told.at(61, verdict("loading"), verdict("kv_cache", A)) == [
        *first,
        ("host", "kv_cache", "loading"),
    ]
    # what has come back by then was no lasting change
    assert len(await told.at(90, verdict("healthy"), verdict("kv_cache", A))) == 2
    assert len(await told.at(125, verdict("loading"), verdict("kv_cache", A))) == 2


async def test_the_host_says_only_what_no_engine_says_at_that_moment(tmp_path: Path) -> None:
    told = Told(tmp_path, min_interval_s=0.0)
    await told.at(0, verdict("healthy"), verdict("healthy", A))
    seen = await told.at(1, verdict("engine_down"), verdict("engine_down", A))
    assert seen == [(A, "healthy", "engine_down")]
    seen = await told.at(2, verdict("healthy"), verdict("idle", A))
    assert seen[1:] == [(A, "engine_down", "idle")]
    seen = await told.at(3, verdict("gpu_fault"), verdict("kv_cache", A))
    assert seen[2:] == [(A, "idle", "kv_cache"), ("host", "healthy", "gpu_fault")]
    # the device is back: of an earlier moment is what was said of the engine
    seen = await told.at(4, verdict("kv_cache"), verdict("kv_cache", A))
    assert seen[4:] == [("host", "gpu_fault", "kv_cache")]


async def test_that_an_engine_is_down_waits_for_the_reason(tmp_path: Path) -> None:
    told = Told(tmp_path)
    await told.at(0, verdict("healthy"), verdict("healthy", A))
    seen = HostSnapshot(1001.0, 1.7e9)
    told.notifier.note(seen, Judgement((verdict("engine_down"), verdict("engine_down", A))), {A})
    assert told.tasks == []
    assert len(await told.at(1, verdict("engine_down"), verdict("engine_down", A))) == 1


async def test_an_engine_that_has_gone_is_forgotten(tmp_path: Path) -> None:
    told = Told(tmp_path)
    assert len(await told.at(0, verdict("engine_down", A))) == 1
    await told.at(1)
    assert len(await told.at(2, verdict("engine_down", A))) == 2


def test_the_message_has_what_the_schema_says_and_is_bounded() -> None:
    found = verdict(
        "engine_down", A, evidence=(Evidence("exit", 137.0, text="exited 137\x1b[2J"), Evidence("x", None)),
        missing=("m",), advice=("restart it", *("x" * 900 for _ in range(50))),
    )  # fmt: skip
    message = document(HostSnapshot(1.0, 1_700_000_000.5, "gpu-07", simulated=True), found, None)
    assert message | {"advice": message["advice"][:1]} == {
        "schema": 1, "at": "2023-11-14T22:13:20.500Z", "hostname": "gpu-07", "simulated": True, "scope": A,
        "from": None, "to": "engine_down", "title": "ENGINE_DOWN", "confidence": "high",
        "since": "2023-11-14T22:13:20.000Z", "evidence": ["exited 137"], "missing": ["m"],
        "advice": ["restart it"],
    }  # fmt: skip
    assert len(json.dumps(message)) < 65536


# ------------------------------------------------------------------------------- commands


def failure(*command: str, message: bytes = b"{}", deadline_s: float = 10.0) -> str:
    with pytest.raises(NotifyError) as error:
        run(command, message, threading.Event(), deadline_s)
    return str(error.value)


def test_commands_that_fail(tmp_path: Path) -> None:
    assert failure(script(tmp_path, "exit 3")) == "tell: exit status 3"
    assert failure(script(tmp_path, "kill -9 $$")) == "tell: ended by signal 9"
    assert failure(str(tmp_path / "none")) == "none: No such file or directory"
    assert failure(str(tmp_path)).endswith("Permission denied")
    assert failure("a\0b").startswith("ab: ")


def test_a_command_that_does_not_read_is_no_failure(tmp_path: Path) -> None:
    run((script(tmp_path, "exec true"),), b"x" * 60_000, threading.Event())


def test_words_are_not_seen_by_a_shell(tmp_path: Path) -> None:
    run(
        (script(tmp_path, f'printf "%s|" "$@" > {tmp_path}/words'), "$HOME; exit 1", "*"),
        b"",
        threading.Event(),
    )
    assert (tmp_path / "words").read_text() == "$HOME; exit 1|*|"


@pytest.mark.parametrize("body", ["", 'trap "" TERM; '])
def test_a_command_that_hangs_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setattr(notify, "TERM_S", 0.3)
    program = script(tmp_path, f"{body}sleep 60 & echo $! > {tmp_path}/pid; wait; wait")
    begun = time.monotonic()
    assert failure(program, deadline_s=0.5) == "tell: not done within 0.5 s, ended"
    assert time.monotonic() - begun < 5
    wait_for(lambda: _is_gone((tmp_path / "pid").read_text().strip()), 5, "the end of its child")


@pytest.mark.parametrize("body", ["", 'trap "" TERM; '])
async def test_nothing_of_a_command_outlives_the_program(tmp_path: Path, body: str) -> None:
    told = Told(tmp_path)
    # the last child bears SIGTERM while its parent may not
    text = f"{body}sh -c 'trap \"\" TERM; while :; do sleep 60; done' & echo $! $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pids; wait; wait"
    script(tmp_path, text)
    told.notifier.note(HostSnapshot(1000.0, 1.7e9), Judgement((verdict("engine_down"),)))
    await until((tmp_path / "pids").exists, 10)
    pids = (tmp_path / "pids").read_text().split()
    for task in told.tasks:
        task.cancel()
    begun = time.monotonic()
    await told.notifier.close()
    assert time.monotonic() - begun < 1.0
    assert len(pids) == 2
    await until(lambda: all(map(_is_gone, pids)), 1)
    told.notifier.note(HostSnapshot(1001.0, 1.7e9), Judgement((verdict("loading"),)))
    assert len(told.tasks) == 1


async def test_a_failure_is_a_finding_until_it_works_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="infertop")
    told = Told(tmp_path, min_interval_s=0.0)
    good = (tmp_path / "tell").read_text()
    script(tmp_path, "exit 7")
    await told.at(0, verdict("engine_down"))
    await told.at(1, verdict("loading"))
    (finding,) = told.notifier.findings()
    assert (finding.id, finding.level, finding.scope) == ("notify-failed", "warning", "host")
    assert finding.text == "notify command failed 0ms ago, 2 times in a row: tell: exit status 7"
    (tmp_path / "tell").write_text(good)
    await told.at(2, verdict("healthy"))
    assert told.notifier.findings() == ()
    assert [record.getMessage() for record in caplog.records] == [
        "notify of host: engine_down failed: tell: exit status 7",
        "notify of host: loading failed: tell: exit status 7",
        "notify of host: healthy done",
    ]


async def test_one_at_a_time_and_only_the_newest_waits(tmp_path: Path) -> None:
    told = Told(tmp_path, min_interval_s=0.0)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script(tmp_path, f"read line < {gate}; cat >> {told.file}; echo >> {told.file}")
    names: tuple[VerdictName, ...] = ("engine_down", "loading", "kv_cache")
    for second, name in enumerate(names):
        told.notifier.note(HostSnapshot(1000.0 + second, 1.7e9), Judgement((verdict(name),)))
        await asyncio.sleep(0)
    assert len(told.tasks) == 1
    await asyncio.to_thread(gate.write_text, "go\n")
    await until(lambda: told.file.exists() and told.file.read_text().endswith("\n"), 10)
    await asyncio.to_thread(gate.write_text, "go\n")
    await asyncio.gather(*told.tasks)
    messages = [json.loads(line) for line in told.file.read_text().splitlines() if line]
    assert [(m["from"], m["to"]) for m in messages] == [(None, "engine_down"), ("engine_down", "kv_cache")]


# ------------------------------------------------------------------------------- the monitor


@pytest.mark.parametrize("simulated", [False, True])
async def test_the_live_monitor_tells_with_read_only_too_and_never_of_a_simulated_host(
    tmp_path: Path, simulated: bool
) -> None:
    command = script(tmp_path, f"cat > {tmp_path}/out.$$; mv {tmp_path}/out.$$ {tmp_path}/told.$$")
    world = World(engines={A: Engine(A)})
    config = Config(interval_s=0.2, notify=NotifySettings((command,), 0.0), read_only=True)
    monitor = Monitor(
        config, (EngineTarget(A),), replace(world.sources(), simulated=simulated), SystemClock()
    )
    await monitor.start()
    try:
        await until(lambda: monitor.snapshot().engines[0].ever_served, 10)
        world.engines[A].error = SourceError("refused")
        await until(lambda: monitor.judgement().verdicts[0].verdict == "engine_down", 10)
        if not simulated:
            await until(lambda: _told(tmp_path), 10)
            assert {m["scope"] for m in _told(tmp_path) if m["to"] == "engine_down"} == {A}
    finally:
        await monitor.stop()
    assert bool(_told(tmp_path)) is not simulated


async def test_the_end_of_the_monitor_is_that_of_the_command(tmp_path: Path) -> None:
    command = script(tmp_path, f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 60")
    config = Config(interval_s=0.2, notify=NotifySettings((command,), 0.0))
    world = World(engines={A: Engine(A)})
    monitor = Monitor(config, (EngineTarget(A),), world.sources(), SystemClock())
    await monitor.start()
    try:
        await until(lambda: monitor.snapshot().engines[0].ever_served, 10)
        world.engines[A].error = SourceError("refused")
        await until((tmp_path / "pid").exists, 10)
    finally:
        await monitor.stop()
    await until(lambda: _is_gone((tmp_path / "pid").read_text().strip()), 0.5)


async def test_a_one_shot_run_tells_nobody(tmp_path: Path) -> None:
    command = script(tmp_path, f"cat > {tmp_path}/told.$$")
    config = Config(interval_s=0.2, notify=NotifySettings((command,), 0.0))
    monitor = Monitor(config, (EngineTarget(A),), World().sources(), SystemClock(), backoff=False)
    _, judgement = await monitor.sample(2)
    await monitor.stop()
    assert judgement.verdicts[0].verdict != "healthy"
    assert _told(tmp_path) == []


def _is_gone(pid: str) -> bool:
    try:
        return ") Z " in (Path("/proc") / pid / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def _told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in folder.glob("told.*")]
