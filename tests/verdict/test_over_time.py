"""Every verdict over time, on a manual clock and through the store: when it shows, and when it is over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.verdict import made
from tests.verdict.situations import AVAILABILITY, BOTTLENECKS, HEALTHY, USUAL_HITS, Situation
from tui.model.history import History
from tui.model.settings import Slo, Thresholds
from tui.runtime.record import add
from tui.verdict.judge import Judge

if TYPE_CHECKING:
    from tui.model.readings import GpuReading

LIMITS = Thresholds()
USUAL_S, SICK_S = 400, 40
"""Long enough for the usual to be known."""


class Screen:
    """What the screen shows of one engine, looked at every interval."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._judge, self._history = Judge(LIMITS, Slo()), History()
        self._at = made.NOW

    def run(self, situation: Situation, seconds: float) -> list[tuple[float, str, str]]:
        """Seconds from the first look, what was shown, and whether it is held."""
        seen: list[tuple[float, str, str]] = []
        began = self._at
        while self._at < began + seconds:
            snapshot = situation.at(self._at)
            add(self._history, snapshot)
            shown = self._judge.update(snapshot, self._history).verdicts[1]
            seen.append((self._at - began, shown.verdict, shown.state))
            self._at += self._interval_s
        return seen

    def usually(self, signal: str, value: float, seconds: float) -> None:
        """Minutes that nobody has to sit through."""
        for second in range(int(seconds)):
            self._history.add(made.URL, signal, self._at + second, value)
        self._at += seconds

    def names(self) -> list[str]:
        return [name for _, name in self._judge.timeline(made.URL)]


@pytest.mark.parametrize("interval_s", [1.0, 2.0])
@pytest.mark.parametrize("name", BOTTLENECKS)
def test_a_bottleneck_shows_and_clears_in_time_and_does_not_flap(name: str, interval_s: float) -> None:
    screen = Screen(interval_s)
    screen.usually("prefix_hit_ratio", USUAL_HITS, USUAL_S)
    screen.run(HEALTHY, 20)
    sick = screen.run(BOTTLENECKS[name], SICK_S)
    onset = next(at for at, shown, state in sick if (shown, state) == (name, "held"))
    assert LIMITS.hold_s <= onset <= LIMITS.hold_s + 3 * interval_s
    assert {shown for at, shown, _ in sick if at >= onset} == {name}
    after = screen.run(HEALTHY, 40)
    cleared = next(at for at, shown, state in after if (shown, state) == ("healthy", "held"))
    assert LIMITS.clear_s <= cleared <= LIMITS.clear_s + 3 * interval_s
    assert screen.names() == ["healthy", name, "healthy"]


@pytest.mark.parametrize("name", AVAILABILITY)
def test_availability_shows_at_once_and_is_over_soon(name: str) -> None:
    screen = Screen(1.0)
    screen.run(HEALTHY, 20)
    assert set(screen.run(AVAILABILITY[name], 20)) == {(float(at), name, "held") for at in range(20)}
    after = screen.run(HEALTHY, 20)
    assert next(at for at, shown, _ in after if shown == "healthy") <= LIMITS.hold_s + 3
    assert screen.names() == ["healthy", name, "healthy"]


LATE = replace(
    BOTTLENECKS["compute"],
    view=made.view(made.reading(waiting=0.0, ttft_p95_s=6.3, itl_p95_s=2.0, latency_window_s=60.0)),
)
"""Tokens of requests that stood still are late, and none waits."""


def still(seconds: float, gpu: GpuReading) -> Situation:
    found = made.reading(gen_tok_s=0.0, prompt_tok_s=0.0, stalled_s=seconds, stalled_scrapes=int(seconds))
    return Situation(made.view(found), (gpu,))


def test_late_tokens_of_requests_that_hung_are_no_bottleneck() -> None:
    screen = Screen(1.0)
    screen.run(HEALTHY, 20)
    spins = made.gpu(sm_pct=96.0, mem_ctrl_pct=0.0, power_w=180.0)
    for seconds in range(1, 9):
        shown = screen.run(still(float(seconds), spins), 1)
    assert shown[0][1] == "engine_hung"
    seen = screen.run(LATE, 58)
    assert "compute" not in {shown for _, shown, _ in seen}
    assert seen[-1][1:] == ("healthy", "held")
    # none of those is within the window any more: what is late now is late by itself
    assert screen.run(LATE, 30)[-1][1:] == ("compute", "held")


def test_late_tokens_after_a_long_prefill_count() -> None:
    screen = Screen(1.0)
    screen.run(HEALTHY, 20)
    works = made.gpu(sm_pct=96.0, mem_ctrl_pct=45.0, power_w=650.0)
    for seconds in range(1, 16):
        shown = screen.run(still(float(seconds), works), 1)
    assert shown[0][1] != "engine_hung"
    assert screen.run(LATE, 20)[-1][1:] == ("compute", "held")
