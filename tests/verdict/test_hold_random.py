"""What is shown of verdicts that come and go at random, on a manual clock."""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING, NamedTuple, get_args

import pytest

from tui.model.settings import Thresholds
from tui.model.verdicts import AVAILABILITY, CALM, Verdict, VerdictName
from tui.verdict.hold import Hold
from tui.verdict.texts import TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIMITS = Thresholds()
WALL = 1_800_000_000.0
BOTTLENECKS = tuple(n for n in get_args(VerdictName) if n not in (*AVAILABILITY, *CALM, "unknown"))
SEEDS = range(12)


class Shown(NamedTuple):
    at: float
    judged: VerdictName
    shown: VerdictName
    state: str
    to: VerdictName | None


def watch(names: Sequence[VerdictName], interval_s: float = 1.0) -> list[Shown]:
    """One look an interval at a hold that is told these verdicts."""
    hold, seen = Hold(LIMITS), []
    for index, name in enumerate(names):
        at = index * interval_s
        verdict = hold.update(Verdict("x", name, TEXTS[name].title), at, WALL + at)
        seen.append(Shown(at, name, verdict.verdict, verdict.state, verdict.changing_to))
    return seen


def at_random(
    r: Random, names: Sequence[VerdictName], length: int, longest: int
) -> Iterator[tuple[VerdictName, int]]:
    """Runs of different verdicts, 1 to ``longest`` looks each."""
    before = None
    while length > 0:
        name = r.choice([n for n in names if n != before])
        run = min(length, r.randint(1, longest))
        yield name, run
        before, length = name, length - run


def series(r: Random, names: Sequence[VerdictName], length: int, longest: int) -> list[VerdictName]:
    return [name for name, run in at_random(r, names, length, longest) for _ in range(run)]


def changes(seen: Sequence[Shown]) -> list[float]:
    """When the shown verdict became another, a bottleneck being the old or the new one."""
    return [
        b.at
        for a, b in itertools.pairwise(seen)
        if a.shown != b.shown and {a.shown, b.shown} & {*BOTTLENECKS}
    ]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("longest", [2, 8, 20, 45])
def test_one_change_of_a_bottleneck_a_minute_at_most(seed: int, longest: int) -> None:
    """The first are told as they come: an onset and its end, or three that differ; then it oscillates."""
    r = Random(seed)
    names = ("healthy", *r.sample(BOTTLENECKS, r.choice((1, 2, 3))))
    times = changes(watch(series(r, names, 1200, longest)))
    for start in times:
        assert sum(start <= at < start + 60 for at in times) <= 3
        assert sum(start <= at < start + 300 for at in times) <= 2 + 5


@pytest.mark.parametrize("seed", SEEDS)
def test_what_holds_is_shown_in_time(seed: int) -> None:
    """Two minutes of calm, then one bottleneck, then calm again; looked at each half to two seconds."""
    r = Random(seed)
    interval = r.choice((0.5, 1.0, 2.0))
    name, calm = r.choice(BOTTLENECKS), r.choice(("healthy", "idle"))
    sick, looks = r.randint(20, 90), int(150 / interval)
    seen = watch([calm] * looks + [name] * sick + [calm] * looks, interval)
    onset = next(s.at for s in seen if s.shown == name) - looks * interval
    assert LIMITS.hold_s <= onset <= LIMITS.hold_s + 3 * interval
    clear = next(s.at for s in seen[looks + sick :] if s.shown == calm) - (looks + sick) * interval
    assert LIMITS.clear_s <= clear <= LIMITS.clear_s + 3 * interval


@pytest.mark.parametrize("seed", SEEDS)
def test_availability_is_shown_at_once_and_let_go_soon(seed: int) -> None:
    r = Random(seed)
    names = ("healthy", *r.sample(BOTTLENECKS, 2), *r.sample(sorted(AVAILABILITY), 2))
    away = 0.0
    for before, now in itertools.pairwise(watch(series(r, names, 900, 25))):
        if now.judged in AVAILABILITY:
            assert (now.shown, now.state) == (now.judged, "held")
        away = away + now.at - before.at if now.shown in AVAILABILITY and now.judged != now.shown else 0.0
        assert away <= LIMITS.hold_s + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_shown_that_was_not_judged_and_changing_says_to_what(seed: int) -> None:
    r = Random(seed)
    judged: set[VerdictName] = {"unknown"}
    for look in watch(series(r, get_args(VerdictName), 600, 12)):
        judged.add(look.judged)
        assert look.shown in judged
        assert (look.state == "changing") is (look.shown != look.judged)
        assert look.to == (look.judged if look.state == "changing" else None)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_calm_host_with_blips_shorter_than_the_hold_time_stays_calm(seed: int) -> None:
    r = Random(seed)
    names: list[VerdictName] = []
    while len(names) < 900:
        names += ["healthy"] * r.randint(1, 30)
        names += [r.choice(BOTTLENECKS)] * r.randint(1, int(LIMITS.hold_s) - 1)
    assert {look.shown for look in watch(names)} == {"healthy"}


@pytest.mark.parametrize("half", [6, 9, 14, 20, 27])
def test_one_signal_that_oscillates_is_told_and_then_changes_once_a_minute(half: int) -> None:
    calm: list[VerdictName] = ["healthy"] * half
    full: list[VerdictName] = ["cpu"] * half
    times = changes(watch((calm + full) * (900 // half)))
    assert len(times) > 5
    assert all(b - a >= 60 for a, b in itertools.pairwise(times[1:]))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("before", ["healthy", "idle", "unknown"])
def test_bottlenecks_that_take_turns_do_not_leave_a_host_called_calm(before: VerdictName, seed: int) -> None:
    r = Random(seed)
    usual: list[VerdictName] = [before] * 10
    names = r.sample(BOTTLENECKS, r.choice((2, 3)))
    seen = watch([*usual, *series(r, names, 60, 2)])
    onset = next(s.at for s in seen if s.shown in BOTTLENECKS) - len(usual)
    assert LIMITS.hold_s <= onset <= LIMITS.hold_s + 3
    assert {s.shown for s in seen if s.at >= len(usual) + onset} <= set(names)
