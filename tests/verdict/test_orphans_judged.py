"""Engine parts that lost their server: they count for the engine that is gone, and for no other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verdict import made
from tui.model.history import History
from tui.model.memory import Orphan
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed
from tui.verdict.judge import judge_all
from tui.verdict.live import pictures

LEFT = (Orphan(101, "VLLM::EngineCore", why="its server is gone"), Orphan(None, gpus=(0,)))
GONE = made.view(
    engine=Observed(None, made.failed("refused")), probes=made.probes("refused"), processes=(), ever_served=True
)  # fmt: skip
OUT_OF_SIGHT = made.view(processes=())
"""It answers, from a process that is none of an engine that is known."""


@pytest.mark.parametrize(("view", "expected"), [(GONE, (101,)), (OUT_OF_SIGHT, ()), (made.view(), ())])
def test_they_are_those_of_an_engine_that_does_not_answer(view: Any, expected: tuple[int, ...]) -> None:
    (picture,) = pictures(made.snapshot(view, orphans=LEFT), History())
    assert picture.processes is not None
    assert picture.processes.orphans == expected


def test_what_they_hold_is_said_beside_the_end_of_their_server() -> None:
    found = judge_all(made.snapshot(GONE, orphans=LEFT), History(), Thresholds(), Slo())
    assert (found.verdicts[1].verdict, found.verdicts[1].secondary) == ("engine_down", ("gpu_memory",))
