"""Near misses: each condition of a rule by itself keeps it from firing on a picture on which it fires."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import made
from tests.verdict.situations import SITUATIONS, SLOW, Situation, own, thread
from tests.verdict.test_live_removal import picture_of
from tui.model.settings import Slo, Thresholds
from tui.verdict.rules import RULES
from tui.verdict.signals import Signals

if TYPE_CHECKING:
    from tui.verdict.picture import Picture

LIMITS, SLO = Thresholds(), Slo()
RULE = {rule.id: rule for rule in RULES}
GOOD: dict[str, Any] = {"ttft_p95_s": 0.3, "itl_p95_s": 0.02, "queue_p95_s": 0.01, "waiting": 0.0}
UNKNOWN: dict[str, Any] = {"ttft_p95_s": None, "itl_p95_s": None, "queue_p95_s": None}
STANDS: dict[str, Any] = {"gen_tok_s": 0.0, "prompt_tok_s": 0.0, "stalled_scrapes": 9, "stalled_s": 9.0}
FULL: dict[str, Any] = {"running": 256.0, "waiting": 90.0, "queue_p95_s": 9.0}


def answers(picture: Picture, **statuses: Any) -> Picture:
    found: dict[Any, Any] = dict(picture.probes)
    found |= {kind: made.probe(kind, status) for kind, status in statuses.items()}  # type: ignore[arg-type]
    return replace(picture, probes=found)


def engine(picture: Picture, **figures: Any) -> Picture:
    assert picture.engine is not None
    found = replace(picture.engine, **figures)
    return replace(picture, engine=found, seats=found.max_num_seqs)


def gpus(picture: Picture, **figures: Any) -> Picture:
    return replace(picture, gpus=tuple(replace(gpu, **figures) for gpu in picture.gpus or ()))


def host(picture: Picture, **figures: Any) -> Picture:
    assert picture.host is not None
    return replace(picture, host=replace(picture.host, **figures))


def state(rule: str, picture: Picture) -> str:
    return RULE[rule].judge(Signals(picture, LIMITS, SLO)).state  # type: ignore[index]


MISSES: dict[str, dict[str, Any]] = {
    "healthy": {
        "a late token": lambda p: engine(p, itl_p95_s=0.2),
        "a queue, whatever finished requests report": lambda p: engine(p, waiting=6.0),
        "a status route that fails": lambda p: answers(p, readiness=503),
        "a request of ours that fails": lambda p: answers(p, generate=500),
        "a request of ours that is not answered": lambda p: answers(p, generate="timeout"),
        "requests that fail": lambda p: engine(p, error_ratio=0.3),
        "requests that are rejected": lambda p: engine(p, http_503_ratio=0.2),
        "work without a step": lambda p: engine(p, **STANDS),
        "no work": lambda p: engine(p, running=0.0, gen_tok_s=0.0, prompt_tok_s=0.0, since_last_step_s=None),
        "no word of any work": lambda p: engine(p, running=None, waiting=None, gen_tok_s=None, prompt_tok_s=None, req_s=None),
        "no latency and no word of a queue": lambda p: engine(p, **{**UNKNOWN, "waiting": None}),
    },
    "idle": {
        "tokens": lambda p: engine(p, gen_tok_s=90.0, running=1.0),
        "a status route that fails": lambda p: answers(p, liveness=500),
        "a request of ours that fails": lambda p: answers(p, generate=500),
        "requests that fail": lambda p: engine(p, error_ratio=0.3),
        "work that is served late": lambda p: engine(p, running=4.0, ttft_p95_s=9.0, **STANDS),
        "work that nobody serves": lambda p: answers(engine(p, running=4.0, **STANDS), generate="timeout"),
    },
    "kv_cache": {
        "no runner": lambda p: engine(p, running=0.0, gen_tok_s=0.0, prompt_tok_s=0.0, since_last_step_s=None),
        "nobody waits and none is preempted": lambda p: engine(p, preemptions_per_s=0.0, **GOOD),
        "seats that end first": lambda p: engine(p, kv_usage=0.5, kv_usage_max=0.5, preemptions_per_s=0.0, **FULL),
        "gauges that stand still at rest": lambda p: gpus(engine(p, **STANDS), sm_pct=0.0),
        "an engine that is paused": lambda p: engine(p, paused=True, **STANDS),
    },
    "gpu_memory": {
        "room": lambda p: gpus(p, mem_used_mib=60000.0),
        "a full pool": lambda p: engine(p, kv_usage=0.97, kv_usage_max=0.97),
        "no work": lambda p: engine(p, running=0.0, gen_tok_s=0.0, prompt_tok_s=0.0, since_last_step_s=None),
        "no errors and good latency": lambda p: engine(p, error_ratio=0.0, **GOOD),
    },
    "scheduler_limit": {
        "a free seat and a short queue": lambda p: engine(p, running=100.0, waiting=2.0),
        "nobody waits": lambda p: engine(p, waiting=0.0),
        "latency in target": lambda p: engine(p, **{**GOOD, "waiting": 1.0}),
        "a pool that preempts": lambda p: engine(p, kv_usage=0.97, kv_usage_max=0.97, preemptions_per_s=2.0),
        "no step": lambda p: engine(p, **STANDS),
    },
    "compute": {
        "latency in target": lambda p: engine(p, **GOOD),
        "seats that end first": lambda p: engine(p, **FULL),
        "a clock that is held down": lambda p: gpus(p, clock_sm_mhz=900.0, throttle=("hw_thermal_slowdown",)),
        "a device that waits": lambda p: gpus(p, sm_pct=40.0),
        "kernels that are resident and draw nothing": lambda p: gpus(p, power_w=150.0, mem_ctrl_pct=3.0),
        "counters that see no work": lambda p: gpus(
            p, power_w=300.0, mem_ctrl_pct=9.0, gpm_sm_active=0.1, gpm_dram_active=0.01
        ),
        "no step": lambda p: engine(p, **STANDS),
    },
    "power_thermal": {
        "latency well in target": lambda p: engine(p, **GOOD),
        "a card at rest": lambda p: gpus(p, sm_pct=20.0),
        "a clock as it should be": lambda p: gpus(p, clock_sm_mhz=1900.0),
        "a soft cap before seats that end first": lambda p: gpus(
            engine(p, **FULL), throttle=("sw_power_cap",), clock_sm_mhz=1400.0
        ),
        "no step": lambda p: engine(p, **STANDS),
    },
    "network": {
        "latency in target": lambda p: engine(p, **GOOD),
        "devices that draw power and move data": lambda p: gpus(p, power_w=650.0, mem_ctrl_pct=70.0),
        "no step": lambda p: engine(p, **STANDS),
    },
    "io_disk": {
        "latency in target": lambda p: engine(p, **GOOD),
        "one pressure alone": lambda p: host(p, psi_io=1.0, iowait_pct=1.0),
        "devices at work": lambda p: gpus(p, sm_pct=90.0),
    },
    "lock_contention": {
        "latency in target": lambda p: engine(p, **GOOD),
        "devices at work": lambda p: gpus(p, sm_pct=90.0),
        "a full thread": lambda p: replace(
            host(p, busiest_thread_cpu_pct=99.0), own=own(thread("api_server", 99.0), futex_share=0.9).reading
        ),
        "a full quota": lambda p: replace(
            host(p, cpu_pct_total=97.0), own=replace(p.own, futex_share=0.1)
        ),
        "few switches": lambda p: replace(
            host(p, ctx_switches_s=9000.0), own=replace(p.own, switches_s=900.0)
        ),
        "threads that do not sleep on a lock": lambda p: replace(
            host(p, ctx_switches_s=9000.0), own=replace(p.own, futex_share=0.1)
        ),
    },
    "cpu": {
        "latency well in target": lambda p: engine(p, **GOOD),
        "devices at work": lambda p: gpus(p, sm_pct=95.0),
        "a thread of somebody else": lambda p: replace(host(p, busiest_thread_pid=77), own=None),
        "a thread that sleeps": lambda p: replace(
            host(p, busiest_thread_cpu_pct=30.0), own=own(thread("api_server", 30.0)).reading
        ),
        "a core that polls, with nobody late": lambda p: replace(
            host(engine(p, ttft_p95_s=1.5, itl_p95_s=0.06), busiest_thread_pid=101),
            own=own(thread("engine_core", 99.0)).reading,
        ),
    },
    "queueing_upstream": {
        "many that run": lambda p: engine(p, running=200.0),
        "some that wait": lambda p: engine(p, waiting=2.0),
        "devices at work": lambda p: replace(gpus(p, sm_pct=80.0), own=None),
        "a busy thread": lambda p: replace(host(p, busiest_thread_cpu_pct=97.0), own=None),
        "a full pool": lambda p: replace(engine(p, kv_usage_max=0.9), own=None),
        "late tokens": lambda p: replace(engine(p, itl_p95_s=0.3), own=None),
        "a request of ours that fails": lambda p: replace(answers(p, generate=500), own=None),
        "no errors": lambda p: replace(engine(p, error_ratio=0.0), own=None),
    },
    "degraded_cache": {
        "first tokens in time": lambda p: engine(p, ttft_p95_s=1.2),
        "late tokens": lambda p: engine(p, itl_p95_s=0.3),
        "preemptions": lambda p: engine(p, preemptions_per_s=2.0),
        "seats that end first": lambda p: engine(p, **FULL),
        "hits as usual": lambda p: engine(p, prefix_hit_ratio=0.58),
        "a device that hardly computes": lambda p: gpus(p, sm_pct=8.0),
    },
    "draining": {
        "nobody says so": lambda p: replace(p, phase="serving", stopping=""),
    },
    "engine_hung": {
        "a request that is served": lambda p: answers(p, generate=200),
        "steps": lambda p: engine(p, gen_tok_s=80.0, stalled_scrapes=0, stalled_s=0.0, since_last_step_s=0.2),
        "no work": lambda p: engine(p, running=0.0, waiting=0.0, stalled_scrapes=0, stalled_s=0.0),
        "an engine that is paused": lambda p: engine(p, paused=True),
        "a stall that is short": lambda p: engine(p, stalled_s=2.0, stalled_scrapes=2),
        "too few scrapes": lambda p: engine(p, stalled_scrapes=2),
    },
    "engine_down": {
        "tokens": lambda p: replace(p, engine=made.reading()),
        "a request that is served": lambda p: answers(p, generate=200),
        "a drain that still holds its memory": lambda p: replace(gpus(p, mem_used_mib=70000.0), phase="draining"),
    },
    "loading": {
        "a request that is served": lambda p: answers(p, generate=200),
        "a readiness that passes": lambda p: answers(p, readiness=200),
    },
    "gpu_fault": {
        "all of them well": lambda p: replace(p, gpus=(made.gpu(), made.gpu(1))),
        "a fault of our library": lambda p: replace(
            p, gpus=(made.gpu(), made.gpu(1, state="error", reason="driver_mismatch", sm_pct=None))
        ),
    },
}  # fmt: skip


def test_every_rule_has_its_near_misses() -> None:
    assert set(MISSES) == set(RULE) == set(SITUATIONS)


@pytest.mark.parametrize("rule", MISSES)
def test_a_rule_fires_on_its_own_picture(rule: str) -> None:
    assert state(rule, picture_of(rule)) == "fires"


@pytest.mark.parametrize(("rule", "miss"), [(rule, miss) for rule, found in MISSES.items() for miss in found])
def test_one_thing_that_is_otherwise_keeps_it_from_firing(rule: str, miss: str) -> None:
    assert state(rule, MISSES[rule][miss](picture_of(rule))) != "fires"


def links(**changes: Any) -> Picture:
    """Several devices that wait although the host is quiet: only the links between them are left."""
    quiet = {"net_mb_s": 2.0, "net_util_pct": None, **changes}
    return gpus(host(picture_of("network"), **quiet), sm_pct=30.0, power_w=210.0)


HOT: dict[str, Any] = {"clock_sm_mhz": 900.0, "sm_pct": 98.0}
OTHERS: dict[str, tuple[str, bool, Any]] = {
    "heat is no seat's fault": ("power_thermal", True, lambda: engine(picture_of("power_thermal"), **FULL)),
    "a soft cap with seats to spare": (
        "power_thermal", True, lambda: gpus(picture_of("power_thermal"), throttle=("sw_power_cap",), clock_sm_mhz=1400.0)
    ),
    "a low clock that nothing explains and nobody feels": (
        "power_thermal", False,
        lambda: gpus(engine(picture_of("healthy"), ttft_p95_s=1.5), **{**HOT, "throttle": ()}),
    ),
    "a low clock that nothing explains and users feel": (
        "power_thermal", True, lambda: gpus(engine(picture_of("healthy"), **SLOW), **{**HOT, "throttle": ()})
    ),
    "ranks that spin over a full link": ("network", True, lambda: picture_of("network")),
    "ranks whose memory is at work": ("network", False, lambda: gpus(links(), sm_pct=98.0, power_w=190.0, mem_ctrl_pct=70.0)),
    "ranks whose clock is held down": (
        "network", False, lambda: gpus(links(), sm_pct=98.0, clock_sm_mhz=500.0, throttle=("hw_slowdown",))
    ),
    "one device alone on a quiet host": (
        "network", False, lambda: gpus(replace(links(), gpus=links().gpus[:1]), sm_pct=98.0, mem_ctrl_pct=12.0)  # type: ignore[index]
    ),
    "links between devices": ("network", True, links),
    "links, but a busy thread": ("network", False, lambda: replace(links(busiest_thread_cpu_pct=70.0), own=None)),
    "links, but a lock": ("network", False, lambda: links(ctx_switches_s=900_000.0)),
    "links, but a disk": ("network", False, lambda: links(psi_io=15.0)),
    "links, but a busy host": ("network", False, lambda: links(cpu_pct_total=60.0)),
    "links, but tokens in time": ("network", False, lambda: engine(links(), itl_p95_s=0.02)),
    "links, but one device at rest": (
        "network", False, lambda: replace(links(), gpus=(made.gpu(sm_pct=95.0, power_w=650.0, mem_ctrl_pct=60.0), made.gpu(1, sm_pct=3.0)))
    ),
    "a busy link beside a full thread": (
        "network", False, lambda: replace(links(net_mb_s=200.0, busiest_thread_cpu_pct=99.0, busiest_thread_pid=None), own=None)
    ),
    "a full line beside a full thread": (
        "network", True, lambda: replace(links(net_mb_s=1190.0, busiest_thread_cpu_pct=99.0, busiest_thread_pid=None), own=None)
    ),
    "nearly a full device that draws its power": (
        "compute", True, lambda: gpus(picture_of("compute"), sm_pct=80.0, power_w=600.0)
    ),
    "nearly a full device at little power": ("compute", False, lambda: gpus(picture_of("compute"), sm_pct=80.0, power_w=400.0)),
    "seats that are full with nobody waiting": (
        "compute", True, lambda: engine(picture_of("compute"), running=256.0, waiting=0.0)
    ),
    "a busy thread of which no device tells, well in target": (
        "healthy", True, lambda: gpus(host(picture_of("healthy"), busiest_thread_cpu_pct=99.0), sm_pct=None)
    ),
    "a thread that sleeps near the target": (
        "healthy", True, lambda: gpus(engine(picture_of("healthy"), ttft_p95_s=1.5), sm_pct=None)
    ),
    "a cap of unknown effect near the target": (
        "healthy", False,
        lambda: gpus(engine(picture_of("healthy"), ttft_p95_s=1.5), throttle=("sw_power_cap",), clock_sm_mhz=None),
    ),
    "an unknown clock without a cap near the target": (
        "healthy", True, lambda: gpus(engine(picture_of("healthy"), ttft_p95_s=1.5), clock_sm_mhz=None)
    ),
    "a drain that has let its memory go": ("engine_down", True, lambda: replace(picture_of("engine_down"), phase="draining")),
    "a core that died under its server": (
        "engine_down", True, lambda: replace(picture_of("healthy"), processes=replace(picture_of("healthy").processes, core="gone"))  # type: ignore[type-var]
    ),
    "stale gauges beside a request that is served": (
        "idle", True, lambda: gpus(answers(engine(picture_of("idle"), running=4.0, **STANDS), generate=200), sm_pct=0.0)
    ),
    "stale gauges while kernels spin": (
        "idle", True,
        lambda: gpus(answers(engine(picture_of("idle"), running=4.0, **STANDS), generate=200), sm_pct=99.0, mem_ctrl_pct=0.0),
    ),
}  # fmt: skip


def worst_case(**figures: Any) -> Picture:
    """An engine that admits by the longest answer, whose pool has room while many wait before free seats."""
    late = {"preemptions_per_s": 0.0, "kv_usage": 0.4, "kv_usage_max": 0.4, "waiting": 30.0, **figures}
    return replace(engine(picture_of("kv_cache"), **late), kind="sglang")


def upstream(**figures: Any) -> Picture:
    return replace(engine(picture_of("queueing_upstream"), **figures), own=None)


def queue(**figures: Any) -> Picture:
    """Seats to spare or unknown, and a queue."""
    return engine(picture_of("scheduler_limit"), **{"running": 100.0, "waiting": 90.0, **figures})


def slow_canary(picture: Picture) -> Picture:
    served = replace(made.probe("generate", 200), latency_s=5.0)
    return replace(picture, probes={**picture.probes, "generate": served})


WAITS = {"preemptions_per_s": 0.0, "kv_usage": 0.97, "kv_usage_max": 0.97}
ADMISSION: dict[str, tuple[str, bool, Any]] = {
    "a pool that is full with seats to spare": ("kv_cache", True, lambda: engine(picture_of("kv_cache"), **WAITS)),
    "a pool that is full behind seats that are": (
        "kv_cache", False, lambda: engine(picture_of("kv_cache"), **{**WAITS, "running": 256.0})
    ),
    "one that waits before a pool with room": (
        "kv_cache", False, lambda: engine(picture_of("kv_cache"), **{**WAITS, "kv_usage": 0.88, "kv_usage_max": 0.88, "waiting": 1.0})
    ),
    "preemptions in a pool that is nearly empty": (
        "kv_cache", False, lambda: engine(picture_of("kv_cache"), kv_usage=0.1, kv_usage_max=0.1)
    ),
    "a pool that was full and has room again": (
        "kv_cache", False, lambda: engine(picture_of("kv_cache"), kv_usage=0.2, waiting=0.0)
    ),
    "admission by worst case": ("kv_cache", True, worst_case),
    "the same queue of an engine that admits by need": ("kv_cache", False, lambda: replace(worst_case(), kind="vllm")),
    "worst case, but errors": ("kv_cache", False, lambda: worst_case(error_ratio=0.3)),
    "worst case, but a short queue": ("kv_cache", False, lambda: worst_case(waiting=2.0)),
    "worst case, but busy devices": ("kv_cache", False, lambda: gpus(worst_case(), sm_pct=95.0)),
    "worst case, but a busy link": ("kv_cache", False, lambda: host(worst_case(), net_mb_s=300.0)),
    "worst case, but a lock": ("kv_cache", False, lambda: host(worst_case(), ctx_switches_s=900_000.0)),
    "worst case, but heat": ("kv_cache", False, lambda: gpus(worst_case(), clock_sm_mhz=700.0, throttle=("hw_slowdown",))),
    "worst case, but a full quota": ("kv_cache", False, lambda: host(worst_case(), cpu_pct_total=95.0)),
    "worst case, but a full front thread": (
        "kv_cache", False, lambda: replace(host(worst_case(), busiest_thread_cpu_pct=99.0), own=None)
    ),
    "memory that is short where requests are rejected": (
        "gpu_memory", True, lambda: engine(picture_of("gpu_memory"), error_ratio=0.0, http_503_ratio=0.2)
    ),
    "memory that is short where ours fails": (
        "gpu_memory", True, lambda: answers(engine(picture_of("gpu_memory"), error_ratio=0.0, **GOOD), generate=500)
    ),
    "memory that the dead still hold": ("gpu_memory", True, lambda: gpus(picture_of("engine_down"), mem_used_mib=70000.0)),
    "memory that the dead have let go": ("gpu_memory", False, lambda: picture_of("engine_down")),
    "full seats and a full pool that preempts nobody": (
        "scheduler_limit", True, lambda: engine(picture_of("scheduler_limit"), kv_usage=0.9, kv_usage_max=0.9)
    ),
    "full seats and preemptions in a pool with room": (
        "scheduler_limit", True, lambda: engine(picture_of("scheduler_limit"), preemptions_per_s=2.0)
    ),
    "unknown seats before a queue": ("scheduler_limit", True, lambda: queue(max_num_seqs=None)),
    "unknown seats, but a full front thread": (
        "scheduler_limit", False, lambda: replace(host(queue(max_num_seqs=None), busiest_thread_cpu_pct=99.0), own=None)
    ),
    "unknown seats, but devices at work": (
        "scheduler_limit", False, lambda: gpus(queue(max_num_seqs=None), sm_pct=95.0, power_w=600.0)
    ),
    "deferred requests that hold the seats": (
        "scheduler_limit", True, lambda: queue(running=200.0, waiting=3.0, waiting_by_reason={"deferred": 60.0})
    ),
    "deferred requests that leave seats": (
        "scheduler_limit", False, lambda: queue(running=100.0, waiting=3.0, waiting_by_reason={"deferred": 3.0})
    ),
    "uneven devices that users feel": (
        "queueing_upstream", True,
        lambda: replace(upstream(error_ratio=0.0, **SLOW), gpus=(made.gpu(sm_pct=98.0), made.gpu(1, sm_pct=3.0))),
    ),
    "uneven devices that nobody feels": (
        "queueing_upstream", False,
        lambda: replace(upstream(error_ratio=0.0, **GOOD), gpus=(made.gpu(sm_pct=98.0), made.gpu(1, sm_pct=3.0))),
    ),
    "connections that pile up before a full thread": (
        "queueing_upstream", False,
        lambda: replace(upstream(error_ratio=0.0), own=own(thread("api_server", 99.0), backlog=70, backlog_limit=2048).reading),
    ),
    "all fail, and ours is served": ("queueing_upstream", True, lambda: answers(upstream(error_ratio=0.95), generate=200)),
    "all fail, and nobody asked": ("queueing_upstream", False, lambda: upstream(error_ratio=0.95)),
    "late first tokens, and ours is quick": (
        "queueing_upstream", True, lambda: answers(upstream(error_ratio=0.0, ttft_p95_s=9.0), generate=200)
    ),
    "late first tokens, and ours is late": (
        "queueing_upstream", False, lambda: slow_canary(upstream(error_ratio=0.0, ttft_p95_s=9.0))
    ),
}  # fmt: skip
OTHERS |= ADMISSION


@pytest.mark.parametrize("name", OTHERS)
def test_pictures_on_either_side_of_a_condition(name: str) -> None:
    rule, fires, make = OTHERS[name]
    assert (state(rule, make()) == "fires") is fires


@pytest.mark.parametrize(
    ("reading", "fires"),
    [
        ({"gen_tok_s": 0.0, "prompt_tok_s": 9000.0}, True),  # all of it prefill
        ({"gen_tok_s": None, "prompt_tok_s": None, "since_last_step_s": 0.2}, True),  # a heartbeat alone
    ],
)
def test_any_sign_of_flow_is_work(reading: dict[str, Any], fires: bool) -> None:
    situation = Situation(made.view(made.reading(**{**SLOW, "running": 90.0, **reading})))
    picture = gpus(picture_of("compute"), sm_pct=99.0)
    found = replace(picture, engine=situation.view.engine.reading)
    assert (state("compute", found) == "fires") is fires
