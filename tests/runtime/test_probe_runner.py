"""The runner on a manual clock: when it asks, what it makes of the answers, and what it never does."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clock import ManualClock
from tests.support.probers import MadeProber, status
from tui.model.places import Healthcheck
from tui.model.settings import EngineTarget, ManifestProbes, ProbeSettings, ProbeSpec
from tui.probing.outcomes import Outcome
from tui.runtime.probe_watch import ProbeWatch
from tui.runtime.sources import Sources
from tui.sources.probes import ProbeResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tui.model.readings import EngineKind, ProbeReading

URL = "http://127.0.0.1:8000"
approx: Any = pytest.approx
REFUSED = ProbeResult("refused", Outcome.FAILURE)
STALLED = ProbeResult("timeout", Outcome.DISCARDED)
LATER = 600.0
"""Started long ago: initial delays have passed, and the first probe is due at once."""


class Engine:
    """A watch of one endpoint whose routes answer as told."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.routes: dict[str, MadeProber] = {}
        self.generator = MadeProber(clock)
        self.may_generate = True
        self.tasks: list[asyncio.Task[None]] = []

    def route(self, path: str) -> MadeProber:
        return self.routes.setdefault(path, MadeProber(self.clock))

    def watch(
        self,
        settings: ProbeSettings | None = None,
        kind: EngineKind = "vllm",
        *,
        age_s: float | None = LATER,
    ) -> ProbeWatch:
        never: Callable[..., Any] = lambda *_: None  # noqa: E731
        sources = Sources(
            never,
            never,
            never,
            never,
            lambda _, spec: self.route(spec.path or spec.handler),
            lambda *_: self.generator,
            lambda _: True,
        )
        made = ProbeWatch(
            EngineTarget(URL),
            sources,
            settings or ProbeSettings(),
            30.0,
            self.clock,
            self.spawn,
            lambda: self.may_generate,
        )
        if age_s is not None:
            made.learn_process("pid", 7, self.clock.wall() - age_s)
        made.learn_kind(kind)
        return made

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine(ManualClock())
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


def both(spec: ProbeSpec) -> ProbeSettings:
    return ProbeSettings(liveness=spec, readiness=spec)


def liveness(watch: ProbeWatch, now: float) -> ProbeReading:
    return of(watch, "liveness", now)


def of(watch: ProbeWatch, kind: str, now: float) -> ProbeReading:
    return next(r for r in watch.readings(now) if r.kind == kind)


async def decided(engine: Engine, watch: ProbeWatch, within_s: float, kind: str = "liveness") -> float:
    """Seconds after which the threshold was reached, to the tenth."""
    began = engine.clock.monotonic()
    while engine.clock.monotonic() - began < within_s:
        await engine.clock.advance(0.1)
        with contextlib.suppress(StopIteration):
            if of(watch, kind, engine.clock.monotonic()).decisions:
                return round(engine.clock.monotonic() - began, 1)
    raise AssertionError("nothing was decided")


# ---------------------------------------------------------------------------------------- the vectors


@pytest.mark.parametrize(
    ("spec", "answer", "after_s"),
    [
        (ProbeSpec("/health"), None, 21.0),
        (ProbeSpec("/health"), REFUSED, 20.0),
        (ProbeSpec("/health"), status(500), 20.0),
        (ProbeSpec("/health", period_s=5.0), None, 11.0),
        (ProbeSpec("/health", timeout_s=20.0), None, 60.0),
        (ProbeSpec("/health", failure_threshold=1), REFUSED, 0.0),
    ],
    ids=["hang", "refused", "500", "P=5 hang", "T>P hang", "F=1"],
)
async def test_when_it_would_be_killed(
    engine: Engine, spec: ProbeSpec, answer: ProbeResult | None, after_s: float
) -> None:
    engine.route("/health").result = answer
    watch = engine.watch(both(spec))
    assert await decided(engine, watch, 100) == approx(after_s, abs=0.2)
    found = liveness(watch, engine.clock.monotonic())
    assert (found.would, found.would_in_s) == ("restart", 0.0)
    assert found.decided_at == approx(engine.clock.wall(), abs=0.2)
    assert (found.streak, found.threshold) == (-spec.failure_threshold, spec.failure_threshold)


@pytest.mark.parametrize(("delay_s", "first", "last"), [(30.0, 50.0, 60.0), (120.0, 140.0, 150.0)])
async def test_a_load_that_is_too_long_for_the_initial_delay(
    engine: Engine, delay_s: float, first: float, last: float
) -> None:
    engine.route("/health").result = REFUSED
    watch = engine.watch(both(ProbeSpec("/health", initial_delay_s=delay_s)), age_s=0.0)
    assert first <= await decided(engine, watch, 200) <= last


async def test_a_start_that_is_learnt_later_moves_the_initial_delay(engine: Engine) -> None:
    engine.route("/health").result = REFUSED
    watch = engine.watch(both(ProbeSpec("/health", initial_delay_s=30.0)), age_s=None)
    await engine.clock.advance(2.0)
    watch.learn_process("pid", 7, engine.clock.wall() - 25.0)
    assert 25.0 <= await decided(engine, watch, 100) <= 35.0  # 50 to 60 s after the start


async def test_the_forecast_counts_down_and_a_success_ends_it(engine: Engine) -> None:
    route = engine.route("/health")
    watch = engine.watch(both(ProbeSpec("/health")))
    await engine.clock.advance(1.0)
    route.result = REFUSED
    await engine.clock.advance(10.0)  # the first failure came a second ago
    found = liveness(watch, engine.clock.monotonic())
    assert (found.status, found.streak, found.would) == ("refused", -1, "restart")
    assert found.would_in_s == approx(19.0)
    ready = of(watch, "readiness", engine.clock.monotonic())
    assert (ready.would, ready.would_in_s) == ("unready", approx(19.0))
    await engine.clock.advance(5.0)
    assert liveness(watch, engine.clock.monotonic()).would_in_s == approx(14.0)
    route.result = status(200)
    await engine.clock.advance(5.0)
    found = liveness(watch, engine.clock.monotonic())
    assert (found.streak, found.would, found.decided_at) == (1, "none", None)
    assert found.recent == (True, False, True)


async def test_readiness_alone_counts_successes(engine: Engine) -> None:
    spec = ProbeSpec("/health", success_threshold=3)
    watch = engine.watch(ProbeSettings(readiness=spec))
    await engine.clock.advance(0.1)
    found = of(watch, "readiness", engine.clock.monotonic())
    assert (found.would, found.threshold) == ("ready", 3)
    assert found.would_in_s == approx(19.9)


async def test_a_body_that_stalls_is_tried_thrice_and_thrown_away(engine: Engine) -> None:
    route = engine.route("/health")
    route.result = STALLED
    watch = engine.watch(both(ProbeSpec("/health")))
    await engine.clock.advance(9.0)
    found = liveness(watch, engine.clock.monotonic())
    assert (found.streak, found.results, found.would) == (0, 0, "none")
    assert found.recent == (None, None, None)
    assert found.ok is False
    assert len(route.asked) >= 3


async def test_startup_holds_the_others_back(engine: Engine) -> None:
    route = engine.route("/up")
    route.result = REFUSED
    settings = ProbeSettings(
        startup=ProbeSpec("/up", failure_threshold=60),
        liveness=ProbeSpec("/live"),
        readiness=ProbeSpec("/ready"),
    )
    watch = engine.watch(settings, age_s=0.0)
    await engine.clock.advance(35.0)
    assert [r.kind for r in watch.readings(engine.clock.monotonic())] == ["startup"]
    route.result = status(200)
    await engine.clock.advance(6.0)
    kinds = [r.kind for r in watch.readings(engine.clock.monotonic())]
    assert kinds == ["readiness", "startup"]  # readiness gets a probe at once, liveness waits for its tick
    await engine.clock.advance(10.0)
    asked = len(route.asked)
    await engine.clock.advance(30.0)
    assert len(route.asked) == asked  # until there is a new container
    watch.learn_process("pid", 8, engine.clock.wall())
    await engine.clock.advance(10.0)
    assert len(route.asked) > asked


async def test_who_comes_after_the_start_waits_for_no_tick(engine: Engine) -> None:
    watch = engine.watch(ProbeSettings(startup=ProbeSpec("/up"), liveness=ProbeSpec("/live")))
    await engine.clock.advance(0.1)
    assert {r.kind: r.status for r in watch.readings(engine.clock.monotonic())} == {
        "liveness": 200,
        "readiness": 200,
        "startup": 200,
    }


async def test_an_engine_that_serves_again_is_asked_at_once_if_it_failed(engine: Engine) -> None:
    route = engine.route("/health")
    watch = engine.watch(both(ProbeSpec("/health")))
    await engine.clock.advance(1.0)
    watch.served()
    await engine.clock.advance(1.0)
    assert len(route.asked) == 1
    route.result = REFUSED
    await engine.clock.advance(9.0)
    route.result = status(200)
    watch.served()
    await engine.clock.advance(0.1)
    assert [r.ok for r in watch.readings(engine.clock.monotonic())] == [True, True]
    assert len(route.asked) == 3


async def test_each_container_that_would_be_killed_counts(engine: Engine) -> None:
    engine.route("/health").result = REFUSED
    watch = engine.watch(both(ProbeSpec("/health", period_s=1.0)))
    await engine.clock.advance(10.0)
    watch.learn_process("pid", 8, engine.clock.wall())
    await engine.clock.advance(10.0)
    assert liveness(watch, engine.clock.monotonic()).decisions == 2


# ---------------------------------------------------------------------------------------- gentle


async def test_two_probes_of_one_route_are_one_request(engine: Engine) -> None:
    watch = engine.watch(both(ProbeSpec("/health")))
    await engine.clock.advance(59.0)
    assert len(engine.route("/health").asked) == 6
    assert watch.sent(engine.clock.monotonic()) == 6
    assert {r.results for r in watch.readings(engine.clock.monotonic())} == {6}
    await engine.clock.advance(600.0)
    assert watch.sent(engine.clock.monotonic()) == 6  # a minute's, not all


async def test_never_two_outstanding_whatever_the_settings(engine: Engine) -> None:
    route = engine.route("/health")
    route.result = None
    patient = ProbeSpec("/health", period_s=30.0, timeout_s=25.0)
    watch = engine.watch(ProbeSettings(liveness=patient, readiness=ProbeSpec("/health", period_s=7.0)))
    await engine.clock.advance(24.0)
    assert (len(route.asked), route.most_at_once) == (1, 1)
    now = engine.clock.monotonic()
    assert of(watch, "readiness", now).streak == -4  # each in its own time, though all wait for one answer
    assert of(watch, "readiness", now).latency_s == approx(1.0)
    await engine.clock.advance(300.0)
    assert route.most_at_once == 1
    await watch.close()
    assert route.outstanding == 0


async def test_a_request_ends_with_the_patience_of_the_last_who_waits(engine: Engine) -> None:
    route = engine.route("/health")
    route.result = None
    engine.watch(both(ProbeSpec("/health")))
    await engine.clock.advance(0.5)
    assert route.outstanding == 1
    await engine.clock.advance(1.0)
    assert route.outstanding == 0
    await engine.clock.advance(19.0)
    assert len(route.asked) == 3


async def test_a_fault_of_our_own_is_thrown_away_and_told(engine: Engine) -> None:
    class Broken(MadeProber):
        async def ask(self, limit_s: float) -> ProbeResult:
            raise RuntimeError("a fault")

    engine.routes["/health"] = Broken(engine.clock)
    watch = engine.watch()
    await engine.clock.advance(1.0)
    found = liveness(watch, engine.clock.monotonic())
    assert (found.streak, found.ok) == (0, False)
    assert found.note == "unexpected RuntimeError: a fault"


async def test_a_late_answer_is_in_time_for_the_patient_one_only(engine: Engine) -> None:
    engine.route("/health").takes_s = 3.0
    patient = ProbeSpec("/health", timeout_s=5.0)
    watch = engine.watch(ProbeSettings(liveness=patient, readiness=ProbeSpec("/health")))
    await engine.clock.advance(4.0)
    now = engine.clock.monotonic()
    live, ready = of(watch, "liveness", now), of(watch, "readiness", now)
    assert (live.status, live.latency_s) == (200, approx(3.0))
    assert (ready.status, ready.latency_s) == ("timeout", approx(1.0))


async def test_sglangs_health_has_its_own_pace_and_the_settings_their_arithmetic(engine: Engine) -> None:
    route = engine.route("/health")
    route.takes_s = 1.05
    watch = engine.watch(ProbeSettings(liveness=ProbeSpec("/health")), "sglang")
    assert await decided(engine, watch, 60) == approx(21.0, abs=0.3)  # 1 s is always too short for it
    assert len(route.asked) == 1
    await engine.clock.advance(300.0)
    assert len(route.asked) == approx(11, abs=1)
    assert route.most_at_once == 1


async def test_a_hung_sglang_is_left_its_time(engine: Engine) -> None:
    route = engine.route("/health")
    route.result = None
    engine.watch(ProbeSettings(liveness=ProbeSpec("/health")), "sglang")
    await engine.clock.advance(100.0)
    assert (len(route.asked), route.outstanding) == (1, 1)  # its own deadline ends it


# ---------------------------------------------------------------------------------------- SGLang before 0.5.20


async def test_without_ready_its_health_counts_at_its_own_pace(engine: Engine) -> None:
    engine.route("/ready").result = status(404)
    watch = engine.watch(kind="sglang")
    await engine.clock.advance(1.0)
    ready = of(watch, "readiness", engine.clock.monotonic())
    assert (ready.path, ready.status, ready.streak) == ("/health", 200, 1)
    assert watch.specs["readiness"].period_s == 30.0
    engine.route("/health").result = status(503)
    await engine.clock.advance(30.0)
    ready = of(watch, "readiness", engine.clock.monotonic())
    assert (ready.status, ready.streak, ready.would) == (503, -1, "unready")
    assert ready.would_in_s == approx(60.0, abs=1.1)
    assert len(engine.route("/ready").asked) == 1


async def test_with_ready_a_later_404_is_a_failure(engine: Engine) -> None:
    watch = engine.watch(kind="sglang")
    await engine.clock.advance(1.0)
    engine.route("/ready").result = status(404)
    await engine.clock.advance(10.0)
    assert of(watch, "readiness", engine.clock.monotonic()).status == 404


async def test_where_nothing_stands_in_readiness_is_unknown_not_failed(engine: Engine) -> None:
    engine.route("/ready").result = status(404)
    watch = engine.watch(ProbeSettings(liveness=ProbeSpec("/alive")), "sglang")
    await engine.clock.advance(30.0)
    ready = of(watch, "readiness", engine.clock.monotonic())
    assert (ready.status, ready.ok, ready.note) == (None, None, "no /ready before SGLang 0.5.20")


async def test_a_readiness_route_of_the_operators_own_is_taken_at_its_word(engine: Engine) -> None:
    engine.route("/ready").result = status(404)
    watch = engine.watch(ProbeSettings(readiness=ProbeSpec("/ready")), "sglang")
    await engine.clock.advance(1.0)
    assert of(watch, "readiness", engine.clock.monotonic()).status == 404


# ---------------------------------------------------------------------------------------- whose settings


async def test_exec_is_not_run_and_what_nobody_set_up_leads_to_nothing(engine: Engine) -> None:
    manifest = ManifestProbes("pod.yaml:3", "vllm", {"liveness": ProbeSpec(handler="exec")})
    watch = engine.watch(ProbeSettings(manifest=(manifest,)))
    engine.route("/health").result = REFUSED
    await engine.clock.advance(60.0)
    now = engine.clock.monotonic()
    live, ready = of(watch, "liveness", now), of(watch, "readiness", now)
    assert "exec" not in engine.routes
    assert (live.path, live.status, live.would) == ("exec", None, "none")
    assert live.note == "exec: not run (it would run in the container)"
    assert (ready.status, ready.would, ready.decisions) == ("refused", "none", 0)
    assert (watch.origin, set(watch.specs)) == ("pod.yaml:3", {"liveness"})


async def test_a_startup_probe_that_is_not_run_holds_the_others_until_it_serves(engine: Engine) -> None:
    specs = {"startup": ProbeSpec(handler="exec"), "liveness": ProbeSpec("/live")}
    watch = engine.watch(ProbeSettings(manifest=(ManifestProbes("pod.yaml:3", "vllm", specs),)), age_s=0.0)  # type: ignore[arg-type]
    await engine.clock.advance(60.0)
    assert engine.route("/live").asked == []
    watch.served()
    await engine.clock.advance(0.1)
    assert liveness(watch, engine.clock.monotonic()).status == 200


async def test_a_healthcheck_makes_it_unhealthy_and_no_more(engine: Engine) -> None:
    watch = engine.watch()
    await engine.clock.advance(1.0)
    test = ("CMD-SHELL", "curl -fsS http://localhost:8000/alive || exit 1")
    engine.route("/alive").result = None
    watch.learn_healthcheck(Healthcheck(test, interval_s=10.0, timeout_s=5.0))
    await engine.clock.advance(6.0)
    found = liveness(watch, engine.clock.monotonic())
    assert (found.path, found.streak, found.would) == ("/alive", -1, "unhealthy")
    assert found.would_in_s == approx(29.0)  # two more of 5 s, each 10 s after the one before ended
    assert watch.origin == "the container's HEALTHCHECK"
    await engine.clock.advance(29.0)
    assert liveness(watch, engine.clock.monotonic()).would_in_s == 0.0
    assert of(watch, "readiness", engine.clock.monotonic()).note.startswith("not in the settings")


# ---------------------------------------------------------------------------------------- generation


async def test_the_generate_probe_is_off_until_it_is_asked_for(engine: Engine) -> None:
    watch = engine.watch()
    await engine.clock.advance(60.0)
    assert engine.generator.asked == []
    watch.generate(on=True)
    await engine.clock.advance(1.0)
    assert of(watch, "generate", engine.clock.monotonic()).status == 200
    watch.generate(on=False)
    await engine.clock.advance(60.0)
    assert len(engine.generator.asked) == 1
    assert "generate" not in {r.kind for r in watch.readings(engine.clock.monotonic())}


async def test_its_age_grows_one_is_outstanding_and_it_says_when_liveness_would_notice(
    engine: Engine,
) -> None:
    engine.generator.result = None
    watch = engine.watch()
    watch.generate(on=True)
    await engine.clock.advance(4.0)
    assert of(watch, "generate", engine.clock.monotonic()).notice_in_s is None
    await engine.clock.advance(8.0)
    found = of(watch, "generate", engine.clock.monotonic())
    assert (found.status, found.waiting_s) == (None, approx(12.0))
    assert found.notice_in_s == approx(78.0)  # three times 30 s from its start, as said after its timeout
    await engine.clock.advance(19.0)
    found = of(watch, "generate", engine.clock.monotonic())
    assert (found.status, found.latency_s) == ("timeout", approx(30.0))
    assert (found.would, found.notice_in_s) == ("none", approx(59.0))
    await engine.clock.advance(60.0)
    found = of(watch, "generate", engine.clock.monotonic())
    assert (found.decisions, found.notice_in_s) == (1, 0.0)
    assert engine.generator.most_at_once == 1


async def test_none_is_started_while_the_engine_is_not_to_be_asked(engine: Engine) -> None:
    engine.may_generate = False
    watch = engine.watch()
    watch.generate(on=True)
    await engine.clock.advance(90.0)
    assert engine.generator.asked == []
    assert watch.settled
    assert of(watch, "generate", engine.clock.monotonic()).note.startswith("at rest")
    engine.may_generate = True
    await engine.clock.advance(2.0)
    assert len(engine.generator.asked) == 1


async def test_on_triton_it_is_said_what_is_missing(engine: Engine) -> None:
    watch = engine.watch(kind="triton")
    watch.generate(on=True)
    await engine.clock.advance(1.0)
    found = of(watch, "generate", engine.clock.monotonic())
    assert (found.status, engine.generator.asked) == (None, [])
    assert "generate_path" in found.note
