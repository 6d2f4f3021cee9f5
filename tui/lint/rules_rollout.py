"""R rules: does a rollout end, and what does it cost? B rules: restarts under Docker and systemd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.lint.rule import Need, hit, s, shown
from tui.lint.texts import NEED_LOAD
from tui.probing import arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.lint.rule import Case, Outcome
    from tui.probing.arithmetic import Rollout

WARM_UP_FACTOR = 3.0
COLD_FACTOR = 1.5
SHM_MIB = 1024.0


def r01(case: Case) -> Iterator[Outcome]:
    """The new pod waits for GPUs that the old one keeps."""
    found = _rollout(case)
    per_pod = sum(container.gpus for container in case.workload.containers)
    if found is None or found.unavailable or not per_pod:
        return
    peak, line = (
        (found.replicas + found.surge) * per_pod,
        case.workload.at("maxSurge", "strategy", "replicas"),
    )
    sum_text = f"({found.replicas} + {found.surge}) * {per_pod} = {peak} GPUs, none given back before"
    gpus = case.figures.gpus
    # more replicas than this host can hold: the cluster has other hosts, which nobody counted
    if gpus is None or found.replicas * per_pod > gpus:
        yield Need("the number of schedulable GPUs (once --json on a cluster of one host)", line, sum_text)
    elif found.deadlocked(per_pod, gpus):
        yield hit(line, f"{sum_text} > {gpus} of the measured host", peak=peak, gpus=gpus)


def r02(case: Case) -> Iterator[Outcome]:
    """Too few replicas are left during a rollout."""
    found, workload = _rollout(case), case.workload
    if workload.strategy == "Recreate":
        yield hit(workload.at("strategy"), "Recreate: all pods end before the first new one starts", left=0)
    elif found is not None and found.unavailable:
        left = max(0, found.replicas - found.unavailable)
        line = workload.at("maxUnavailable", "strategy", "updateStrategy", "replicas")
        sum_text = f"{found.replicas} - {found.unavailable} = {left}"
        if left == 0:
            yield hit(line, sum_text, left=0)
        else:
            yield Need("the replicas needed at peak", line, sum_text)


def r03(case: Case) -> Iterator[Outcome]:
    """A long load is reported as a failed rollout."""
    deadline, load = case.workload.progress_deadline_s, case.figures.load_s
    if deadline is None:
        return
    line = case.workload.at("progressDeadlineSeconds")
    if load is None:
        yield Need(NEED_LOAD, line, f"progressDeadlineSeconds {s(deadline)}")
        return
    readiness = case.probe("readiness")
    startup = case.probe("startup")
    ready = load
    if readiness is not None:
        ready = arithmetic.start_to_traffic(
            load, readiness.spec, None if startup is None else startup.spec
        ).worst
    if ready > deadline:
        yield hit(
            line,
            f"load {s(load)}, ready by {s(ready)}, image pull not counted > {s(deadline)}",
            better=int(2 * ready),
        )


def r04(case: Case) -> Iterator[Outcome]:
    """The first request pays for the warm-up."""
    first, steady = case.figures.first_request_s, case.figures.steady_request_s
    readiness = case.probe("readiness")
    line = case.container.line if readiness is None else readiness.line
    if first is None or steady is None:
        yield Need("the first request after ready and later ones (restart-test)", line)
    elif first > WARM_UP_FACTOR * steady:
        yield hit(line, f"first {s(first)} > {WARM_UP_FACTOR:g} * later {s(steady)}", first=first)


def r05(case: Case) -> Iterator[Outcome]:
    """The probe budget holds with a warm page cache only."""
    guard = case.probe("startup") or case.probe("liveness")
    if guard is None:
        return
    cold, warm = case.figures.load_s, case.figures.load_least_s
    spare = arithmetic.load_budget(guard.spec)
    if cold is None or warm is None:
        yield Need("a cold and a warm load time (restart-test, twice)", guard.line, f"budget {s(spare)}")
    elif cold > COLD_FACTOR * warm and warm <= spare < cold:
        yield hit(
            guard.at("failureThreshold"), f"warm {s(warm)} <= budget {s(spare)} < cold {s(cold)}", cold=cold
        )


def r06(case: Case) -> Iterator[Outcome]:
    """One replica."""
    if case.workload.replicas == 1:
        load = case.figures.load_s
        yield hit(
            case.workload.at("replicas"),
            "replicas 1" + ("" if load is None else f", load {s(load)}"),
        )


def _rollout(case: Case) -> Rollout | None:
    workload = case.workload
    if workload.replicas is None or workload.strategy != "RollingUpdate":
        return None
    return arithmetic.rollout(workload.replicas, workload.surge, workload.unavailable)


def b01(case: Case) -> Iterator[Outcome]:
    """Docker only reports ``unhealthy``."""
    health = case.container.health
    if health is None or case.workload.actor:
        return
    if health.interval_s is None or health.timeout_s is None or health.retries is None:
        yield hit(health.line)
        return
    hang, refusal = arithmetic.docker_unhealthy(health.interval_s, health.timeout_s, health.retries)
    yield hit(
        health.line, f"unhealthy within {s(hang)} of a hang, {s(refusal)} of a refusal, and then nothing"
    )


def b02(case: Case) -> Iterator[Outcome]:
    """Nothing starts it again."""
    restart = case.workload.restart
    if restart.lower() in ("no", "never", "false"):
        key = {"systemd": "Restart", "compose": "restart", "kubernetes": "restartPolicy"}[
            case.workload.platform
        ]
        written = key in case.workload.lines
        yield hit(case.workload.at(key), f"{key} {restart}{'' if written else ' (the default)'}")


def b03(case: Case) -> Iterator[Outcome]:
    """A clean exit status after a death is no failure."""
    if not case.workload.restart.lower().replace("onfailure", "on-failure").startswith("on-failure"):
        return
    code = case.figures.exit_code
    line = case.workload.at("Restart", "restart", "restartPolicy")
    if case.engine.kind == "vllm":
        yield hit(line, f"restart {case.workload.restart}; exit status 0 after the death of the engine core")
    elif code is None:
        yield Need("the exit status after the death of the engine (restart-test)", line)
    elif code == 0:
        yield hit(line, f"restart {case.workload.restart}; measured exit status 0")


def b04(case: Case) -> Iterator[Outcome]:
    """``unhealthy`` while it loads."""
    health, load = case.container.health, case.figures.load_s
    if health is None:
        return
    line = health.lines.get("start_period", health.line)
    period, retries, interval = health.start_period_s, health.retries, health.interval_s
    if period is None or retries is None or interval is None:
        yield Need("the values of the healthcheck's variables", line)
        return
    spare = period + retries * interval
    sum_text = f"{shown(period)} + {retries} * {shown(interval)} = {s(spare)}"
    if load is None:
        yield Need(NEED_LOAD, line, sum_text)
    elif spare < load:
        yield hit(line, f"{sum_text} < {s(load)}", better=int(1.5 * load) + 1)


def b05(case: Case) -> Iterator[Outcome]:
    """Too little shared memory for several ranks."""
    size, ranks = case.container.shm_mib, case.engine.tensor_parallel
    if size is not None and size < SHM_MIB and ranks is not None and ranks > 1:
        line = case.container.lines.get("shm_size", case.container.line)
        yield hit(line, f"/dev/shm {shown(size)} MiB < {SHM_MIB:g} MiB with {ranks} ranks", size=size)
