from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.probing.simulate import Kubelet, hangs, healthy, refused
from tui.model.settings import ProbeSpec
from tui.probing.machine import NOTHING, ContainerProbes, Forecast
from tui.probing.outcomes import Outcome

if TYPE_CHECKING:
    from tests.probing.simulate import Server
    from tui.probing.loop import Kind

PHASES = [0.0, 0.1, 2.5, 5.0, 7.3, 9.9]


def spec(d: float = 0, p: float = 10, f: int = 3, t: float = 1, s: int = 1) -> ProbeSpec:
    return ProbeSpec(initial_delay_s=d, period_s=p, timeout_s=t, success_threshold=s, failure_threshold=f)


def ready(probes: ContainerProbes) -> bool:
    return probes.ready


def first_restart(probes: ContainerProbes, server: Server) -> float:
    decisions = Kubelet(probes).run(server, 5000.0)
    return next(d.at for d in decisions if d.action == "restart")


@pytest.mark.parametrize(
    ("liveness", "earliest", "latest"),
    [(spec(d=30), 50, 60), (spec(d=120), 140, 150), (spec(d=60, f=3, t=5), 80, 90)],
)
@pytest.mark.parametrize("phase", PHASES)
def test_refused_from_the_start_is_killed_between_the_lower_and_the_upper_sum(
    liveness: ProbeSpec, earliest: float, latest: float, phase: float
) -> None:
    # the loop began before the container did: the phase of its ticks is arbitrary
    probes = ContainerProbes({"liveness": liveness}, 1000.0)
    probes.container_started(1000.0 + phase)
    killed = first_restart(probes, refused) - 1000.0 - phase
    assert earliest <= killed < latest
    if phase == 0.0:
        assert killed == earliest


@pytest.mark.parametrize("phase", PHASES)
def test_ten_minutes_of_startup_probe_end_after_590_to_600_s(phase: float) -> None:
    probes = ContainerProbes({"startup": spec(f=60), "liveness": spec()}, 0.0)
    probes.container_started(phase)
    assert 590 <= first_restart(probes, refused) - phase < 600


@pytest.mark.parametrize(
    ("probe", "earliest", "latest"),
    [(spec(p=5, f=3, t=1), 11, 16), (spec(p=10, f=3, t=20), 60, 70)],
)
@pytest.mark.parametrize("since_tick", [0.1, 1.0, 2.5, 4.9])
def test_a_hang_takes_a_ready_container_out_within_its_span(
    probe: ProbeSpec, earliest: float, latest: float, since_tick: float
) -> None:
    probes = ContainerProbes({"readiness": probe}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)
    kubelet.run(healthy, 100.0 + since_tick)
    assert ready(probes)
    decisions = kubelet.run(hangs(probe.timeout_s), 300.0)
    assert [d.action for d in decisions] == ["unready"]
    assert earliest <= decisions[0].at - 100.0 - since_tick < latest


def test_a_timeout_longer_than_the_period_stretches_the_spacing() -> None:
    probes = ContainerProbes({"liveness": spec(p=10, t=20, f=4)}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(3.0)
    kubelet.run(hangs(20.0), 200.0)
    assert [at for _, at in kubelet.starts] == [10, 30, 50, 70]


def test_a_late_probe_keeps_the_grid_and_one_missed_tick() -> None:
    probes = ContainerProbes({"readiness": spec(p=10, t=60)}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)

    def once_slow(_: Kind, at: float) -> tuple[float, Outcome]:
        return (24.0 if at == 10.0 else 0.1), Outcome.SUCCESS

    kubelet.run(once_slow, 60.0)
    # the ticks of 20 and 30 passed while it ran: one of them is made up for, then the grid goes on
    assert [at for _, at in kubelet.starts] == [0, 10, 34, 40, 50, 60]


@pytest.mark.parametrize("begin", [0.0, 0.2, 3.3, 5.0, 8.0, 9.5])
def test_a_stall_of_25_s_may_or_may_not_reach_the_threshold(begin: float) -> None:
    stall = (100.0 + begin, 125.0 + begin)

    def server(_: Kind, at: float) -> tuple[float, Outcome]:
        done = at + 0.9
        if at < stall[1] and done > stall[0]:
            done = stall[1] + (0.9 if at >= stall[0] else done - stall[0])
        return min(1.0, done - at), Outcome.SUCCESS if done - at <= 1.0 else Outcome.FAILURE

    probes = ContainerProbes({"liveness": spec(f=99)}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)
    kubelet.run(server, 100.0 + begin)
    worst = 0
    for at in range(101, 200):
        kubelet.run(server, float(at))
        worst = min(worst, probes.loops["liveness"].streak)
    assert worst in (-2, -3)
    assert {0.0: -3, 3.3: -2}.get(begin, worst) == worst


def test_startup_gates_the_others_and_triggers_readiness_at_once() -> None:
    probes = ContainerProbes(
        {"startup": spec(p=5, f=30), "liveness": spec(d=20), "readiness": spec(p=30, s=1)}, 0.0
    )
    kubelet = Kubelet(probes)
    probes.container_started(2.0)

    def loads(_: Kind, at: float) -> tuple[float, Outcome]:
        return 0.01, Outcome.SUCCESS if at >= 43.0 else Outcome.FAILURE

    decisions = kubelet.run(loads, 70.0)
    assert [(d.kind, d.action) for d in decisions] == [("startup", "started"), ("readiness", "ready")]
    assert [at for kind, at in kubelet.starts if kind == "startup"] == [5, 10, 15, 20, 25, 30, 35, 40, 45]
    # readiness beside its ticks; liveness at its own next tick: its delay of 20 s has passed long ago
    assert [at for kind, at in kubelet.starts if kind == "readiness"] == [45.01, 60]
    assert [at for kind, at in kubelet.starts if kind == "liveness"] == [50, 60, 70]


def test_each_status_refresh_brings_an_extra_readiness_probe_until_it_is_ready() -> None:
    probes = ContainerProbes({"readiness": spec(p=10, s=3)}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(1.0)
    for at in (12.0, 13.0, 14.0):
        kubelet.run(healthy, at)
        probes.status_refreshed(at)
    kubelet.run(healthy, 30.0)
    assert [at for _, at in kubelet.starts] == [10, 12, 13, 20, 30]
    assert ready(probes)


def test_a_trigger_within_the_initial_delay_is_lost() -> None:
    probes = ContainerProbes({"readiness": spec(d=15, p=10, s=2)}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)
    probes.status_refreshed(5.0)
    kubelet.run(healthy, 40.0)
    assert [at for _, at in kubelet.starts] == [20, 30, 40]


@pytest.mark.parametrize(("delay", "first"), [(0, 10.0), (7, 10.0), (8, 20.0), (6.5, 10.0), (7.2, 20.0)])
def test_the_initial_delay_is_compared_in_whole_seconds_of_the_containers_age(
    delay: float, first: float
) -> None:
    probes = ContainerProbes({"liveness": spec(d=delay)}, 0.0)
    probes.container_started(3.0)
    assert probes.due() == ("liveness", first)


def test_results_below_the_threshold_leave_the_state_and_one_success_ends_the_run() -> None:
    probes = ContainerProbes({"readiness": spec(p=1, f=3, s=2)}, 0.0)
    probes.container_started(0.0)
    seen = []
    for at, outcome in enumerate("SSFFSFFFS", start=1):
        probes.begin("readiness", at)
        probes.finish("readiness", at + 0.1, Outcome.SUCCESS if outcome == "S" else Outcome.FAILURE)
        seen.append(probes.ready)
    assert seen == [False, True, True, True, True, True, True, False, False]


def test_a_discarded_result_is_tried_three_times_in_its_tick_and_moves_nothing() -> None:
    probes = ContainerProbes({"liveness": spec(p=10, f=2)}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)

    def server(_: Kind, at: float) -> tuple[float, Outcome]:
        if at < 10:
            return 1.0, Outcome.FAILURE
        return (1.0, Outcome.DISCARDED) if at < 30 else (0.0, Outcome.FAILURE)

    decisions = kubelet.run(server, 60.0)
    assert [at for _, at in kubelet.starts] == [0, 10, 11, 12, 20, 21, 22, 30]
    # the failures of 0 and 30 are still a run of two
    assert [(d.at, d.action) for d in decisions] == [(30.0, "restart")]


def test_after_a_restart_decision_the_loop_holds_until_a_new_container() -> None:
    probes = ContainerProbes({"liveness": spec(p=10, f=2)}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)
    kubelet.run(refused, 500.0)
    assert probes.due() is None
    assert probes.forecast("liveness", 500.0) == Forecast("restart", 0.0)
    probes.container_exited()
    probes.container_started(503.0)
    assert probes.due() == ("liveness", 510.0)
    assert probes.forecast("liveness", 503.0) == NOTHING
    assert [d.at for d in kubelet.run(refused, 600.0)] == [520.0]


def test_without_a_hold_the_run_of_failures_goes_on_into_the_next_container() -> None:
    probes = ContainerProbes({"liveness": spec(p=10, f=3)}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)
    kubelet.run(refused, 15.0)  # two failures, then the process crashed
    probes.container_exited()
    probes.container_started(16.0)
    assert [(d.at, d.action) for d in kubelet.run(refused, 100.0)] == [(20.0, "restart")]


def test_a_watcher_goes_on_after_the_kubelet_would_have_restarted() -> None:
    probes = ContainerProbes({"startup": spec(p=10, f=2), "readiness": spec()}, 0.0, holds=False)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)

    def loads(_: Kind, at: float) -> tuple[float, Outcome]:
        return 0.0, Outcome.SUCCESS if at >= 45 else Outcome.FAILURE

    decisions = kubelet.run(loads, 44.0)
    assert [(d.at, d.action) for d in decisions] == [(10.0, "restart")]
    assert probes.loops["startup"].decided_at == 10.0
    assert probes.forecast("startup", 44.0) == Forecast("restart", 0.0)
    assert [d.action for d in kubelet.run(loads, 60.0)] == ["started", "ready"]
    assert probes.loops["startup"].decided_at is None


def test_a_container_that_does_not_run_is_not_ready_and_its_probe_counts_for_nothing() -> None:
    probes = ContainerProbes({"readiness": spec()}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)
    kubelet.run(healthy, 5.0)
    assert ready(probes)
    probes.begin("readiness", 10.0)
    probes.container_exited()
    assert not ready(probes)
    probes.container_started(10.5)
    assert probes.finish("readiness", 11.0, Outcome.SUCCESS) is None
    assert not ready(probes)
    assert probes.due() == ("readiness", 20.0)


def test_deletion_ends_liveness_and_startup_and_leaves_readiness() -> None:
    probes = ContainerProbes({"liveness": spec(), "readiness": spec()}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)
    kubelet.run(healthy, 5.0)
    probes.pod_deleted()
    decisions = kubelet.run(refused, 100.0)
    assert [(d.kind, d.action) for d in decisions] == [("readiness", "unready")]


def test_no_probes_count_as_success() -> None:
    probes = ContainerProbes({}, 0.0)
    assert not ready(probes)
    probes.container_started(0.0)
    assert ready(probes)
    assert probes.due() is None
    assert probes.forecast("liveness", 1.0) == NOTHING


def test_the_forecast_counts_down_to_the_very_instant_of_the_decision() -> None:
    probe = spec(p=10, f=3, t=2)
    probes = ContainerProbes({"liveness": probe, "readiness": probe}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)
    kubelet.run(healthy, 5.0)
    assert probes.forecast("liveness", 5.0) == NOTHING
    kubelet.run(hangs(2.0), 12.0)
    assert probes.forecast("liveness", 13.0) == Forecast("restart", 19.0)
    assert probes.forecast("readiness", 13.0) == Forecast("unready", 19.0)
    probes.begin("liveness", 20.0)
    assert probes.forecast("liveness", 21.0) == Forecast("restart", 11.0)
    probes.finish("liveness", 22.0, Outcome.FAILURE)
    decisions = kubelet.run(hangs(2.0), 60.0)
    assert ("liveness", 32.0) in [(d.kind, d.at) for d in decisions]


def test_the_forecast_with_a_timeout_longer_than_the_period() -> None:
    probes = ContainerProbes({"liveness": spec(p=10, f=3, t=20)}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)
    kubelet.run(hangs(20.0), 20.0)
    assert probes.forecast("liveness", 20.0) == Forecast("restart", 40.0)
    assert kubelet.run(hangs(20.0), 100.0)[0].at == 60.0


def test_the_forecast_of_becoming_ready() -> None:
    probes = ContainerProbes({"readiness": spec(p=10, s=3)}, 0.0)
    kubelet = Kubelet(probes)
    probes.container_started(0.0)
    kubelet.run(lambda *_: (0.5, Outcome.SUCCESS), 1.0)
    assert probes.forecast("readiness", 1.0) == Forecast("ready", 19.5)


def test_probes_of_one_kind_never_overlap() -> None:
    probes = ContainerProbes({"liveness": spec()}, 0.0)
    probes.container_started(0.0)
    probes.begin("liveness", 0.0)
    assert probes.due() is None
    with pytest.raises(ValueError, match="still running"):
        probes.begin("liveness", 0.5)
    probes.finish("liveness", 0.6, Outcome.SUCCESS)
    with pytest.raises(ValueError, match="no liveness"):
        probes.finish("liveness", 0.7, Outcome.SUCCESS)


@pytest.mark.parametrize("phase", [0.1, 1 / 3, 12345.678])
@pytest.mark.parametrize("period", [1.0, 0.7, 10.0])
def test_every_tick_is_probed_once_in_spite_of_floating_point(phase: float, period: float) -> None:
    probes = ContainerProbes({"liveness": spec(p=period)}, phase)
    kubelet = Kubelet(probes)
    probes.container_started(phase)
    kubelet.run(lambda *_: (0.0, Outcome.SUCCESS), phase + 999.5 * period)
    assert len(kubelet.starts) == 1000
