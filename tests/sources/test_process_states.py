"""Processes of an engine that cannot run: stopped, held by a debugger, asleep where no signal reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.engine_host import EngineHost

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.readings import EngineProcess

CORE = 102


@pytest.fixture
def host(tmp_path: Path) -> EngineHost:
    made = EngineHost(tmp_path)
    made.vllm()
    return made


def core(host: EngineHost, state: str, ticks: int = 0, after: float = 0.0) -> EngineProcess:
    title = "VLLM::EngineCore"
    host.tree.process(CORE, ppid=100, comm=title, title=title, state=state, ticks=ticks)
    return next(process for process in host.read(after).processes if process.pid == CORE)


@pytest.mark.parametrize(
    ("state", "stopped", "traced"),
    [("S", False, False), ("R", False, False), ("T", True, False), ("t", False, True)],
)
def test_the_kernels_letter_tells_who_holds_it(
    host: EngineHost, state: str, stopped: bool, traced: bool
) -> None:
    found = core(host, state)
    assert (found.stopped, found.traced, found.blocked_s) == (stopped, traced, None)
    again = core(host, "S", after=2.0)
    assert (again.stopped, again.traced) == (False, False)


def test_a_deep_sleep_counts_while_it_lasts_and_uses_no_time(host: EngineHost) -> None:
    assert core(host, "D", ticks=5).blocked_s == 0.0
    assert core(host, "D", ticks=5, after=40.0).blocked_s == 40.0
    assert core(host, "D", ticks=6, after=2.0).blocked_s == 0.0, "it ran in between: its disk is slow"
    assert core(host, "S", ticks=6, after=2.0).blocked_s is None
    assert core(host, "D", ticks=6, after=2.0).blocked_s == 0.0
