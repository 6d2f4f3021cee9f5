from __future__ import annotations

from tui.model.settings import ProbeSpec
from tui.probing.docker import DockerHealth
from tui.probing.machine import Decision
from tui.probing.outcomes import Outcome

SPEC = ProbeSpec(period_s=30.0, timeout_s=30.0, failure_threshold=3)


def run(machine: DockerHealth, took_s: float, outcome: Outcome) -> tuple[float, Decision | None]:
    """The next check; when it ended and what came of it."""
    due = machine.due()
    assert due is not None
    machine.begin("liveness", due[1])
    assert machine.due() is None
    return due[1] + took_s, machine.finish("liveness", due[1] + took_s, outcome)


def test_the_next_check_comes_an_interval_after_the_end_of_the_last() -> None:
    machine = DockerHealth(SPEC, 100.0)
    run(machine, 20.0, Outcome.SUCCESS)
    assert machine.due() == ("liveness", 150.0)


def test_a_hang_takes_interval_and_timeout_each_time() -> None:
    machine = DockerHealth(SPEC, 0.0)
    run(machine, 0.0, Outcome.SUCCESS)
    ended, decision = run(machine, 30.0, Outcome.FAILURE)
    assert decision is None
    forecast = machine.forecast("liveness", ended)
    assert (forecast.action, forecast.in_s) == ("unhealthy", 120.0)
    run(machine, 30.0, Outcome.DISCARDED)  # a command that does not end has failed
    ended, decision = run(machine, 30.0, Outcome.FAILURE)
    assert ended == 180.0  # 3 intervals and 3 timeouts after the last success
    assert decision == Decision(180.0, "liveness", "unhealthy")
    assert machine.forecast("liveness", 180.0).in_s == 0.0
    assert run(machine, 30.0, Outcome.FAILURE)[1] is None  # it is already


def test_failures_of_the_start_period_do_not_count_until_the_first_success() -> None:
    spec = ProbeSpec(period_s=5.0, initial_delay_s=60.0, failure_threshold=2)
    machine = DockerHealth(spec, 0.0)
    for _ in range(4):
        run(machine, 0.0, Outcome.FAILURE)
    assert machine.streak("liveness") == 0
    assert machine.forecast("liveness", 20.0).action == "none"
    run(machine, 0.0, Outcome.SUCCESS)
    run(machine, 0.0, Outcome.FAILURE)
    assert machine.streak("liveness") == -1


def test_a_success_makes_it_healthy_again() -> None:
    machine = DockerHealth(ProbeSpec(failure_threshold=1), 0.0)
    run(machine, 0.0, Outcome.FAILURE)
    assert machine.forecast("liveness", 0.0).action == "unhealthy"
    run(machine, 0.0, Outcome.SUCCESS)
    assert machine.forecast("liveness", 0.0).action == "none"
    assert run(machine, 0.0, Outcome.FAILURE)[1] is not None


def test_a_new_container_begins_anew() -> None:
    machine = DockerHealth(ProbeSpec(failure_threshold=1), 0.0)
    run(machine, 0.0, Outcome.FAILURE)
    machine.container_started(7.0)
    assert (machine.streak("liveness"), machine.due()) == (0, ("liveness", 17.0))
