"""Loads that are watched from start to ready, and the file that remembers them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import made
from tui.lint.live import Load
from tui.model.places import ContainerReading, Place
from tui.model.readings import ProbeReading
from tui.model.status import Observed, SourceState, SourceStatus
from tui.runtime.load_times import (
    FILE,
    KEPT_LOADS,
    MOST_ENTRIES,
    Key,
    LoadTimes,
    LoadWatch,
    Took,
    load_key,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.snapshot import EngineView

HOST = "gpu-07"
STARTED = made.WALL
KEY = Key("m", "vllm", "gpu-07 process")


class Engine:
    """One engine that is watched second by second, from ``made.NOW`` and ``made.WALL`` on."""

    def __init__(self, **view: Any) -> None:
        self.times = LoadTimes(None)
        self.watch = LoadWatch(self.times, HOST)
        self.view = {"local": True, "ever_served": False, "served_last": None} | view
        self.since: tuple[bool, float] | None = None

    def look(
        self, after_s: float, *, scrape: bool, status: Any, started: float | None = 0.0, age_s: float = 0.0
    ) -> Load | None:
        """After so many seconds a scrape succeeded or was refused, and the readiness probe said this."""
        if self.since is None or self.since[0] != scrape:
            self.since = (scrape, made.NOW + after_s)
        state = SourceState.FRESH if scrape else SourceState.FAILED
        how = SourceStatus(state, None if scrape else "refused", since=self.since[1], age_s=0.0)
        reading = made.reading(running=0.0, gen_tok_s=0.0)
        if not self.view.get("processes", True):
            reading = dataclasses.replace(reading, started_at=None if started is None else STARTED + started)
        found: EngineView = dataclasses.replace(
            made.view(reading),
            engine=Observed(reading if scrape else None, how),
            probes=(ProbeReading(made.URL, "readiness", "/health", status, 0.01, age_s=age_s),),
            processes=made.tree(STARTED + (started or 0.0)),
        )
        found = dataclasses.replace(found, **self.view)
        at = made.NOW + after_s
        self.watch.update(made.snapshot(found, at=at))
        return self.watch.load(made.URL)

    @property
    def seen(self) -> float | None:
        return self.times.span(KEY)[0]


def test_a_load_goes_from_the_start_of_the_process_to_ready() -> None:
    engine = Engine()
    assert engine.look(5, scrape=False, status="refused") == Load(STARTED, 5.0, over=False)
    assert engine.look(30, scrape=False, status="refused") == Load(STARTED, 30.0, over=False)
    assert engine.look(40, scrape=True, status=200) == Load(STARTED, 40.0)
    engine.look(500, scrape=True, status=200)
    assert engine.seen == 40.0


def test_an_engine_that_answers_503_still_loads() -> None:
    engine = Engine()
    engine.look(5, scrape=False, status="refused")
    assert engine.look(20, scrape=True, status=503) == Load(STARTED, 20.0, over=False)
    engine.look(22, scrape=True, status=200)
    assert engine.seen == 22.0


def test_an_engine_that_was_up_already_tells_nothing() -> None:
    engine = Engine()
    assert engine.look(300, scrape=True, status=200) is None
    engine.look(301, scrape=False, status="refused")
    engine.look(302, scrape=True, status=200)
    assert engine.seen is None


def test_what_a_probe_said_of_the_closed_port_does_not_end_a_load() -> None:
    engine = Engine()
    engine.look(5, scrape=False, status="refused")
    assert engine.look(20, scrape=True, status="refused") is not None
    assert engine.seen is None


def test_what_a_probe_said_of_the_process_before_does_not_end_a_load() -> None:
    engine = Engine()
    engine.look(5, scrape=False, status="refused")
    assert engine.look(20, scrape=True, status=200, age_s=16.0) == Load(STARTED, 20.0, over=False)
    engine.look(24, scrape=True, status=200, age_s=2.0)
    assert engine.seen == 22.0


def test_a_new_process_is_a_new_load_and_both_are_known() -> None:
    engine = Engine()
    engine.look(5, scrape=False, status="refused")
    engine.look(40, scrape=True, status=200)
    engine.look(60, scrape=False, status="refused", started=55.0)
    assert engine.look(80, scrape=True, status=200, started=55.0) == Load(STARTED + 55.0, 25.0)
    assert engine.times.span(KEY) == (40.0, 25.0)


@pytest.mark.parametrize(
    ("local", "started", "seen"),
    [
        (False, 12.0, 28.0),  # began while its port was closed under our eyes
        (False, 9.0, 31.0),  # within what two clocks may differ by
        (False, -20.0, None),  # before: by a clock that may be another one
        (True, -20.0, 60.0),
        (False, None, None),
        (False, 99.0, None),  # from the future
    ],
)
def test_without_processes_the_engines_own_start_counts(
    local: bool, started: float | None, seen: float | None
) -> None:
    engine = Engine(local=local, processes=None)
    engine.look(5, scrape=True, status=200, started=-500.0)
    engine.look(10, scrape=False, status="refused", started=-500.0)
    engine.look(40, scrape=True, status=200, started=started)
    key = KEY if local else Key("m", "vllm", made.URL)
    assert engine.times.span(key)[0] == seen


def test_a_key_is_the_same_before_the_engine_can_be_asked_and_after() -> None:
    args = {"model": "llama", "served-model-name": "prod"}
    place = Place(container_id="c" * 64, runtime="docker")
    container = Observed(ContainerReading("c" * 64, name="llm"), made.FRESH)
    up = dataclasses.replace(made.view(), args=args, place=place, container=container)
    loading = dataclasses.replace(up, engine=Observed(None, made.failed("refused")))
    assert load_key(loading, HOST) == load_key(up, HOST) == Key("prod", "vllm", "gpu-07 container llm")
    assert load_key(dataclasses.replace(loading, args={}), HOST) is None


# ---------------------------------------------------------------------------------------- the file


def loads_of(path: Path, key: Key = KEY) -> tuple[float | None, float | None]:
    times = LoadTimes(path)
    asyncio.run(times.sync())
    return times.span(key)


def test_a_load_is_remembered_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / FILE
    times = LoadTimes(path)
    times.add(KEY, Took(made.WALL, 40.0))
    asyncio.run(times.sync())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert loads_of(path) == (40.0, None)


def test_two_runs_keep_each_others_loads(tmp_path: Path) -> None:
    path = tmp_path / FILE
    first, second = LoadTimes(path), LoadTimes(path)
    for times, load_s in ((first, 40.0), (second, 25.0)):
        times.add(KEY, Took(made.WALL + load_s, load_s))
        asyncio.run(times.sync())
    assert loads_of(path) == (40.0, 25.0)


def test_the_file_stays_small(tmp_path: Path) -> None:
    path = tmp_path / FILE
    times = LoadTimes(path)
    for number in range(MOST_ENTRIES + 5):
        times.add(Key(f"m{number}", "vllm", "p"), Took(made.WALL + number, 1.0))
    for number in range(KEPT_LOADS + 5):
        times.add(KEY, Took(made.WALL + 1000 + number, 100.0 - number))
    asyncio.run(times.sync())
    kept = json.loads(path.read_text())["loads"]
    assert len(kept) == MOST_ENTRIES
    assert loads_of(path, Key("m0", "vllm", "p"))[0] is None
    assert loads_of(path) == (95.0, 86.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        pytest.param("[" * 100_000, id="deep"),
        '{"schema":2,"loads":[]}',
        '{"schema":1,"loads":7}',
        '{"schema":1,"loads":[7,{},{"model":1,"engine":"vllm","place":"p","seen":[[1,1]]}]}',
        *(
            f'{{"schema":1,"loads":[{{"model":"m","engine":"vllm","place":"gpu-07 process","seen":[{seen}]}}]}}'
            for seen in (
                "7",
                "[1]",
                "[1,NaN]",
                "[1,-5]",
                "[1,1e400]",
                '["1","2"]',
                f"[1,1{'0' * 400}]",
                "[1,true]",
            )
        ),
        pytest.param(" " * (1 << 21), id="huge"),
    ],
)
def test_a_hostile_file_is_as_if_there_were_none_and_is_written_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE
    path.write_text(text)
    assert loads_of(path) == (None, None)
    times = LoadTimes(path)
    times.add(KEY, Took(made.WALL, 40.0))
    asyncio.run(times.sync())
    assert loads_of(path) == (40.0, None)


def test_where_nothing_can_be_written_loads_are_known_for_this_run(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the place of the directory")
    times = LoadTimes(tmp_path / "state" / FILE)
    times.add(KEY, Took(made.WALL, 40.0))
    asyncio.run(times.sync())
    assert times.span(KEY) == (40.0, None)
