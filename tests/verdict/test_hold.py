"""What the screen shows over time, on a manual clock."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import made
from tui.model.history import History
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed
from tui.verdict.assess import RANK
from tui.verdict.judge import Judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tui.model.readings import EngineReading
    from tui.model.snapshot import EngineView
    from tui.model.verdicts import Verdict

LIMITS = Thresholds()


class Screen:
    """A judge, fed once a second."""

    def __init__(self) -> None:
        self.judge = Judge(LIMITS, Slo())
        self.history = History()
        self.at = made.NOW

    def show(self, *views: EngineView) -> Verdict:
        """One more second; the first engine's verdict."""
        snapshot = made.snapshot(*views, at=self.at)
        self.at += 1.0
        verdicts = self.judge.update(snapshot, self.history).verdicts
        return next(v for v in verdicts if v.scope == views[0].url)

    def run(self, view: EngineView, seconds: int) -> list[Verdict]:
        return [self.show(view) for _ in range(seconds)]

    def changes(self) -> list[tuple[float, str]]:
        return [(at - made.WALL, name) for at, name in self.judge.timeline(made.URL)]


def healthy() -> EngineView:
    return made.view()


def full() -> EngineView:
    return made.view(made.full_cache())


def down() -> EngineView:
    return made.view(
        engine=Observed(made.reading(), made.failed("refused")), probes=made.probes("refused"), processes=()
    )


def seconds_until(verdicts: Iterable[Verdict], name: str) -> int:
    return next(i for i, v in enumerate(verdicts) if v.verdict == name and v.state == "held")


def test_bottleneck_shows_after_it_has_held_and_says_changing_meanwhile() -> None:
    screen = Screen()
    screen.run(healthy(), 10)
    seen = screen.run(full(), 10)
    assert (seen[0].verdict, seen[0].state, seen[0].changing_to) == ("healthy", "changing", "kv_cache")
    onset = seconds_until(seen, "kv_cache")
    assert LIMITS.hold_s <= onset <= LIMITS.hold_s + 3
    assert seen[-1].since == made.WALL + 10  # when the condition began, not when it was believed
    assert seen[-1].changing_to is None


def test_bottleneck_clears_after_it_has_been_away() -> None:
    screen = Screen()
    screen.run(healthy(), 5)
    screen.run(full(), 30)
    seen = screen.run(healthy(), 20)
    assert seen[0].verdict == "kv_cache"
    assert LIMITS.clear_s <= seconds_until(seen, "healthy") <= LIMITS.clear_s + 3


def test_blip_shorter_than_the_hold_time_changes_nothing() -> None:
    screen = Screen()
    screen.run(healthy(), 10)
    screen.run(full(), 2)
    screen.run(healthy(), 10)
    assert [name for _, name in screen.changes()] == ["healthy"]


def test_availability_shows_on_first_evidence_and_clears_soon() -> None:
    screen = Screen()
    screen.run(healthy(), 5)
    first = screen.show(down())
    assert (first.verdict, first.state) == ("engine_down", "held")
    screen.run(down(), 20)
    assert seconds_until(screen.run(healthy(), 10), "healthy") <= LIMITS.hold_s + 3


def test_first_picture_is_believed_if_calm_and_awaited_if_not() -> None:
    assert Screen().show(healthy()).verdict == "healthy"
    assert Screen().show(down()).verdict == "engine_down"
    screen = Screen()
    first = screen.show(full())
    assert (first.verdict, first.state, first.changing_to) == ("unknown", "changing", "kv_cache")
    assert seconds_until(screen.run(full(), 10), "kv_cache") <= LIMITS.hold_s + 3


def test_an_unknown_on_its_way_out_names_nothing_that_is_known_by_now() -> None:
    screen = Screen()
    silent = made.view(engine=Observed(None, made.failed("timeout")), probes=(), processes=None)
    assert "engine (timeout)" in screen.show(silent).missing
    shown = screen.show(full())
    assert (shown.verdict, shown.state, shown.changing_to) == ("unknown", "changing", "kv_cache")
    assert not any(missing.startswith("engine") for missing in shown.missing)
    assert any(e.text == "waiting 30" for e in shown.evidence)


@pytest.mark.parametrize("period", [1, 2, 4, 7, 10, 20, 25])
def test_oscillating_signal_changes_a_bottleneck_verdict_once_a_minute_at_most(period: int) -> None:
    screen = Screen()
    screen.run(healthy(), 5)
    for second in range(600):
        screen.show(full() if second // period % 2 == 0 else healthy())
    times = [at for at, _ in screen.changes()[1:]]
    assert len(times) <= 11
    onset, later = times[:2], times[2:]
    assert all(b - a >= 50 for a, b in itertools.pairwise(later)), (onset, later)


def test_flapping_between_two_bottlenecks_is_held_down_too() -> None:
    limited = made.view(
        made.reading(running=256.0, waiting=90.0, ttft_p95_s=20.0, queue_p95_s=19.0, itl_p95_s=0.05)
    )
    screen = Screen()
    for second in range(600):
        screen.show(full() if second // 10 % 2 == 0 else limited)
    assert len(screen.changes()) <= 13


def test_timeline_holds_changes_in_order_for_engine_and_host() -> None:
    screen = Screen()
    screen.run(healthy(), 10)
    screen.run(full(), 20)
    screen.run(down(), 5)
    assert screen.changes() == [(0.0, "healthy"), (10.0, "kv_cache"), (30.0, "engine_down")]
    host = [name for _, name in screen.judge.timeline("host")]
    assert host == ["healthy", "kv_cache", "engine_down"]
    assert screen.judge.timeline("http://nowhere") == []


def test_host_says_changing_with_its_worst_engine() -> None:
    screen = Screen()
    screen.run(healthy(), 5)
    judgement = screen.judge.update(made.snapshot(full(), at=screen.at), screen.history)
    assert [(v.scope, v.verdict, v.state) for v in judgement.verdicts] == [
        ("host", "healthy", "changing"),
        (made.URL, "healthy", "changing"),
    ]


def test_the_host_follows_its_engines_however_often_they_take_turns() -> None:
    """Each is damped by itself; a host that lagged behind would be called healthy beside a sick engine."""
    screen = Screen()
    urls = [f"http://127.0.0.1:{8000 + n}" for n in range(6)]
    for second in range(240):
        sick = urls[second // 25 % 6] if second % 25 < 12 else ""
        views = [made.view((made.full_cache if url == sick else made.reading)(url), url=url) for url in urls]
        found = screen.judge.update(made.snapshot(*views, at=screen.at), screen.history).verdicts
        screen.at += 1.0
        worst = min((v.verdict for v in found if v.scope != "host"), key=lambda name: RANK[name])
        assert found[0].verdict == worst, second


def test_engine_that_has_gone_is_forgotten() -> None:
    screen = Screen()
    screen.run(healthy(), 5)
    screen.judge.update(made.snapshot(at=screen.at), screen.history)
    assert screen.judge.timeline(made.URL) == []


def test_evidence_stays_fresh_while_the_verdict_holds() -> None:
    screen = Screen()
    screen.run(full(), 10)
    worse: Callable[[], EngineReading] = made.full_cache
    grown = made.view(made.reading(**{**_figures(worse()), "waiting": 77.0}))
    shown = screen.show(grown)
    assert any(e.text == "waiting 77" for e in shown.evidence)


def _figures(reading: EngineReading) -> dict[str, Any]:
    names = ("kv_usage", "kv_usage_max", "preemptions_per_s", "ttft_p95_s", "itl_p95_s", "queue_p95_s")
    return {name: getattr(reading, name) for name in names}


def test_a_hang_that_is_over_is_not_shown_while_what_follows_is_unclear() -> None:
    """Bottlenecks that alternate each second kept a real engine "hung" for 40 s after it went on."""
    screen = Screen()
    screen.run(healthy(), 4)
    still = made.reading(
        stalled_scrapes=9,
        stalled_s=9.0,
        since_last_step_s=9.0,
        gen_tok_s=0.0,
        running=8.0,
        req_s=0.0,
        error_ratio=None,
    )
    quiet = made.view(still)
    shown = screen.run(quiet, 3)[-1]
    assert shown.verdict == "engine_hung"
    wavering = itertools.cycle((full(), healthy()))
    after = [screen.show(next(wavering)).verdict for _ in range(8)]
    assert "engine_hung" not in after[4:]


def test_damping_holds_neither_a_hang_that_is_over_nor_an_unknown() -> None:
    """Seats that come and go each few seconds kept a real engine "hung" for half a minute after it went on."""
    screen = Screen()
    for _ in range(6):
        screen.run(full(), 8)
        screen.run(healthy(), 8)
    still = made.reading(
        stalled_scrapes=9,
        stalled_s=9.0,
        since_last_step_s=9.0,
        gen_tok_s=0.0,
        running=8.0,
        req_s=0.0,
        error_ratio=None,
    )
    assert screen.run(made.view(still), 3)[-1].verdict == "engine_hung"
    assert screen.run(full(), 6)[-1].verdict == "kv_cache"
