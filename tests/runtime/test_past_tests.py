"""Reports of earlier drain and restart tests: found, told, and not trusted."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until
from tests.verdict import made
from tui.model.places import ContainerReading
from tui.model.status import Observed
from tui.runtime.clock import SystemClock
from tui.runtime.past_tests import FOLDER, PastTest, PastTests, findings_of_tests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tui.model.snapshot import EngineView

AT = "2027-01-15T08:00:00Z"
AT_S = made.WALL


def report(finished: int = 8, lost: int = 0, **changes: Any) -> dict[str, Any]:
    """A drain with so many requests in flight."""
    outcomes = ["finished"] * finished + ["cut"] * lost
    return {
        "schema": 1,
        "test": "drain",
        "target": {"kind": "process", "name": "vllm:8000", "url": made.URL, "engine": "vllm"},
        "started_at": AT,
        "passed": not lost,
        "events": [{"t_s": 0.0, "event": "signal_sent", "detail": ""}],
        "requests": [
            {"id": n, "kind": "in_flight", "started_s": -1.0, "ended_s": 5.0, "outcome": outcome}
            for n, outcome in enumerate(outcomes)
        ],
        "exit": {"code": 0, "signal": None, "after_s": 6.2},
    } | changes


def put(state: Path, name: str, text: str) -> None:
    """As the tests do: in place as a whole."""
    (state / FOLDER).mkdir(parents=True, exist_ok=True)
    fresh = state / FOLDER / f".{name}"
    fresh.write_text(text)
    fresh.replace(state / FOLDER / name)


@contextlib.asynccontextmanager
async def watching(state: Path, clock: SystemClock | None = None) -> AsyncIterator[PastTests]:
    tests = PastTests(state, clock or SystemClock())
    task = asyncio.ensure_future(tests.watch())
    try:
        await until(lambda: tests.settled, 5.0, "the first look")
        yield tests
    finally:
        task.cancel()


async def found(state: Path, view: EngineView | None = None) -> tuple[PastTest, ...]:
    async with watching(state) as tests:
        return tests.of(view or made.view())


def told(*tests: PastTest, after_s: float = 3 * 3600.0) -> list[tuple[str, str]]:
    findings = findings_of_tests([(made.view(), tests)], AT_S + after_s)
    assert all(finding.id == "drain-test" for finding in findings)
    return [(finding.level, finding.text) for finding in findings]


async def test_a_drain_that_passed_is_told_in_one_line(tmp_path: Path) -> None:
    put(tmp_path, "a.json", json.dumps(report()))
    (test,) = await found(tmp_path)
    assert told(test) == [("info", "drain 8/8 finished in 6.2s, 3.0h ago")]
    assert (test.figures.in_flight, test.figures.exit_s) == (8, 6.2)


async def test_a_drain_that_lost_requests_is_a_warning(tmp_path: Path) -> None:
    put(tmp_path, "a.json", json.dumps(report(5, 3)))
    assert told(*await found(tmp_path)) == [("warning", "drain 5/8 finished in 6.2s, 3.0h ago")]


@pytest.mark.parametrize(
    ("passed", "downtime", "level", "text"),
    [
        (True, 92.0, "info", "restart served again after 92s, 3.0h ago"),
        (False, 92, "warning", "restart served again after 92s, yet failed, 3.0h ago"),
        (False, None, "warning", "restart failed, 3.0h ago"),
        (True, float("inf"), "info", "restart passed, 3.0h ago"),
        (True, "long", "info", "restart passed, 3.0h ago"),
    ],
)
async def test_a_restart_has_a_line_of_its_own(
    tmp_path: Path, passed: bool, downtime: Any, level: str, text: str
) -> None:
    put(tmp_path, "a.json", json.dumps(report(test="restart", passed=passed, downtime_s=downtime)))
    (restart,) = await found(tmp_path)
    (line, never) = findings_of_tests([(made.view(), (restart,))], AT_S + 3 * 3600.0)
    assert (line.id, line.level, line.text) == ("restart-test", level, text)
    assert never.text == "drain never tested"


async def test_the_newest_counts_by_the_time_of_the_test_of_each_sort(tmp_path: Path) -> None:
    put(tmp_path, "b.json", json.dumps(report()))
    put(tmp_path, "a.json", json.dumps(report(1, 7, started_at="2027-01-14T08:00:00Z")))
    put(tmp_path, "c.json", json.dumps(report(test="restart", downtime_s=92.0)))
    drain, restart = sorted(await found(tmp_path), key=lambda test: test.test)
    assert drain.passed
    assert restart.figures.load_s == 92.0


async def test_a_test_belongs_to_its_url_or_to_its_container(tmp_path: Path) -> None:
    target = {"kind": "docker", "name": "llm", "url": "http://10.0.0.1:8000"}
    put(tmp_path, "a.json", json.dumps(report(target=target)))
    assert await found(tmp_path) == ()
    container = Observed(ContainerReading("c" * 64, name="llm"), made.FRESH)
    assert len(await found(tmp_path, dataclasses.replace(made.view(), container=container))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        pytest.param("[" * 100_000, id="deep"),
        '{"test":"drain"}',
        json.dumps({"engines": [], "verdicts": []}),
        json.dumps(report(target=7)),
        json.dumps(report(started_at=7)),
        json.dumps(report(started_at="yesterday")),
        json.dumps(report(target={"url": "\x1b[2J"})),
        pytest.param(" " * (1 << 21), id="huge"),
    ],
)
async def test_a_hostile_report_is_as_if_it_were_not_there(tmp_path: Path, text: str) -> None:
    put(tmp_path, "b.json", text)
    put(tmp_path, "a.json", json.dumps(report()))
    assert len(await found(tmp_path)) == 1


async def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    put(tmp_path, "a.json", json.dumps(report()))
    os.mkfifo(tmp_path / FOLDER / "pipe.json")
    (tmp_path / FOLDER / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / FOLDER / "folder.json").mkdir()
    assert len(await found(tmp_path)) == 1


async def test_odd_values_in_a_report_are_unknown(tmp_path: Path) -> None:
    odd = report(requests=7, events={"a": 1}, exit=[1], passed="yes", target={"url": made.URL, "name": 5})
    put(tmp_path, "a.json", json.dumps(odd))
    assert told(*await found(tmp_path)) == [("warning", "drain failed, 3.0h ago")]


async def test_a_report_that_comes_later_is_read(tmp_path: Path) -> None:
    slept = set()

    class Hurried(SystemClock):
        async def sleep(self, seconds: float) -> None:
            slept.add(seconds)
            await asyncio.sleep(0.01)

    async with watching(tmp_path, Hurried()) as tests:
        assert tests.of(made.view()) == ()
        put(tmp_path, "a.json", json.dumps(report()))
        await until(lambda: tests.of(made.view()), 5.0, "the report")
    os.utime(tmp_path / FOLDER, (1.0, 1.0))  # as if it had come long ago
    async with watching(tmp_path, Hurried()) as tests:
        assert tests.of(made.view())[0].passed
        put(tmp_path, "b.json", json.dumps(report(1, 7, started_at="2027-01-15T09:00:00Z")))
        await until(lambda: not tests.of(made.view())[0].passed, 5.0, "the newer report")
    assert max(slept) <= 1.0  # with the next refresh


async def test_a_home_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hung(type(tmp_path)):  # type: ignore[misc]  # the class of this platform's paths
        def stat(self, **_: Any) -> Any:
            release.wait(30.0)
            raise OSError("gone")

    release = threading.Event()
    monkeypatch.setattr("tui.runtime.past_tests.PATIENCE_S", 0.01)
    async with watching(Hung(tmp_path)) as tests:
        assert tests.of(made.view()) == ()
    release.set()


def test_engines_that_were_never_drained_share_one_line() -> None:
    other = made.view(url="http://127.0.0.1:8001")
    remote = made.view(url="http://10.0.0.1:8000", local=False, processes=None)
    (alone,) = findings_of_tests([(made.view(), ()), (remote, ())], AT_S)
    assert (alone.level, alone.scope, alone.text) == ("info", made.URL, "drain never tested")
    (both,) = findings_of_tests([(made.view(), ()), (other, ())], AT_S)
    assert (both.scope, both.text) == ("host", "drain never tested (2 engines)")
    assert findings_of_tests([(remote, ())], AT_S) == ()
