"""What a lint may take for measured: percentiles of good answers, the worst of a run, in two digits."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tests.verdict import made
from tui.model.readings import ProbeReading
from tui.model.status import Observed
from tui.runtime.measuring import ENOUGH_RESULTS, ENOUGH_S, Measuring

if TYPE_CHECKING:
    from tui.lint.measured import Figures
    from tui.model.snapshot import EngineView


class Watched:
    def __init__(self) -> None:
        self.measuring = Measuring()
        self.at = made.NOW
        self.view = made.view()

    def result(self, latency_s: float, status: Any = 200, after_s: float = 1.0, **reading: Any) -> None:
        """One result, which two snapshots show."""
        self.at += after_s
        for age in (0.0, 0.4):
            probe = ProbeReading(made.URL, "liveness", "/health", status, latency_s, streak=1, age_s=age)
            self.see(dataclasses.replace(made.view(made.reading(**reading)), probes=(probe,)), age)

    def see(self, view: EngineView, after_s: float = 0.0) -> None:
        self.view = view
        self.measuring.note(view, made.snapshot(view, at=self.at + after_s))

    def figures(self) -> Figures:
        return self.measuring.figures(self.view, None, None)

    def p99(self) -> float | None:
        return self.figures().probes[0].p99_s

    def early(self) -> bool:
        return "liveness" in self.measuring.early(self.view, self.at)


def test_each_result_counts_once_and_the_slowest_of_a_hundred_is_no_p99() -> None:
    watched = Watched()
    for number in range(200):
        watched.result(9.0 if number == 7 else 0.12345)
    assert (watched.p99(), watched.figures().probes[0].latency_s) == (0.12, 9.0)


def test_a_percentile_needs_200_results_or_ten_minutes() -> None:
    watched = Watched()
    for _ in range(ENOUGH_RESULTS - 1):
        watched.result(0.1)
    assert watched.early()
    watched.result(0.1)
    assert not watched.early()
    seldom = Watched()
    seldom.result(0.1)
    assert seldom.early()
    seldom.result(0.1, after_s=ENOUGH_S)
    assert not seldom.early()


def test_a_timeout_counts_only_while_tokens_flow() -> None:
    hung = Watched()
    hung.result(0.1)
    hung.result(1.0, "timeout", stalled_s=30.0)
    hung.result(1.0, "timeout", gen_tok_s=0.0)
    hung.result(0.001, "refused")
    hung.result(0.001, 503)
    assert hung.figures().probes[0].latency_s == 0.1
    busy = Watched()
    busy.result(1.0, "timeout", gen_tok_s=500.0)
    assert busy.p99() == 1.0


def test_the_worst_of_the_run_stays_and_what_is_old_is_not_measured_again() -> None:
    watched = Watched()
    watched.see(made.view(made.reading(e2e_p99_s=61.37, ttft_p99_s=3.0, longest_stall_s=2.0)))
    watched.see(made.view(made.reading(e2e_p99_s=5.0)))
    late = Observed(made.reading(e2e_p99_s=900.0), made.failed("timeout"))
    watched.see(dataclasses.replace(made.view(), engine=late))
    figures = watched.figures()
    assert (figures.request_at_least_s, figures.ttft_s, figures.longest_step_s) == (61.0, 3.0, 2.0)


def test_the_token_rate_is_told_beside_failing_readiness_alone() -> None:
    watched = Watched()
    watched.result(0.1)
    assert watched.figures().tokens_per_s is None
    failing = ProbeReading(made.URL, "readiness", "/health", 503, 0.1, streak=-3, age_s=0.0)
    watched.see(dataclasses.replace(made.view(), probes=(failing,)))
    assert (watched.figures().tokens_per_s, watched.figures().probes[0].streak) == (800.0, -3)
