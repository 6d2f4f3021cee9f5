"""A live snapshot for each verdict: what the sources would have read of an engine in that state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.verdict import made
from tui.model.engine_host import EngineHostReading, ThreadUse
from tui.model.readings import GpuReading, GpuSet, HostReading
from tui.model.status import Observed

if TYPE_CHECKING:
    from tui.model.readings import ProcessRole
    from tui.model.snapshot import EngineView, HostSnapshot

USUAL_HITS = 0.6
LATE: dict[str, Any] = {"ttft_p95_s": 9.0, "itl_p95_s": 0.3, "queue_p95_s": 4.0, "waiting": 6.0}
SLOW: dict[str, Any] = {"ttft_p95_s": 3.0, "itl_p95_s": 0.2, "queue_p95_s": 0.2}
WAITS = made.gpu(sm_pct=30.0, mem_ctrl_pct=20.0, power_w=200.0)


@dataclass(frozen=True)
class Situation:
    """One engine, its devices and its host."""

    view: EngineView = field(default_factory=made.view)
    gpus: tuple[GpuReading, ...] = (made.gpu(),)
    host: HostReading = field(default_factory=made.host)

    def at(self, at: float, **changes: Any) -> HostSnapshot:
        """The snapshot at an instant."""
        return made.snapshot(
            self.view,
            at=at,
            gpus=Observed(GpuSet(self.gpus), made.FRESH),
            host=Observed(self.host, made.FRESH),
            **changes,
        )


def thread(role: ProcessRole, cpu_pct: float, tid: int = 100) -> ThreadUse:
    return ThreadUse(100, tid, role, role, cpu_pct, wait_pct=0.5, switches_s=800.0)


def own(*threads: ThreadUse, **changes: Any) -> Observed[EngineHostReading]:
    good = EngineHostReading(
        window_s=2.0, threads=threads, thread_count=40, busy_threads=len(threads), wait_pct=1.0, switches_s=400.0,
        cpu_pct=sum(t.cpu_pct for t in threads),
    )  # fmt: skip
    return Observed(replace(good, **changes), made.FRESH)


def serving(
    *gpus: GpuReading, host: HostReading | None = None, own_: Any = None, **figures: Any
) -> Situation:
    view = made.view(made.reading(**figures), own=own_ or own(thread("api_server", 30.0)))
    return Situation(view, gpus or (made.gpu(),), host or made.host())


def _refused(**changes: Any) -> EngineView:
    return made.view(
        engine=Observed(made.reading(), made.failed("refused")), probes=made.probes("refused"), **changes
    )


_STILL: dict[str, Any] = {
    "stalled_scrapes": 9, "stalled_s": 9.0, "since_last_step_s": 9.0, "gen_tok_s": 0.0, "prompt_tok_s": 0.0,
    "req_s": 0.0, "error_ratio": None, "ttft_p95_s": None, "itl_p95_s": None, "queue_p95_s": None,
}  # fmt: skip
_STARTED = made.WALL - 40.0

HEALTHY = serving()
BOTTLENECKS: dict[str, Situation] = {
    "kv_cache": serving(kv_usage=0.99, kv_usage_max=1.0, preemptions_per_s=2.0, **{**LATE, "waiting": 30.0}),
    "gpu_memory": serving(made.gpu(mem_used_mib=81200.0), error_ratio=0.3, itl_p95_s=0.07),
    "scheduler_limit": serving(running=256.0, waiting=90.0, ttft_p95_s=20.0, queue_p95_s=19.0, itl_p95_s=0.05),
    "compute": serving(
        made.gpu(sm_pct=99.0, mem_ctrl_pct=80.0, power_w=690.0), running=90.0, prompt_tok_s=9000.0, **SLOW
    ),
    "power_thermal": serving(
        made.gpu(
            sm_pct=98.0, clock_sm_mhz=900.0, temp_c=91.0, throttle=("hw_thermal_slowdown", "hw_slowdown")
        ),
        **SLOW,
    ),
    "cpu": serving(
        WAITS, host=made.host(busiest_thread_cpu_pct=99.0, busiest_thread_pid=100),
        own_=own(thread("api_server", 99.0)), **SLOW,
    ),
    "lock_contention": serving(
        WAITS, host=made.host(cpu_pct_total=55.0, ctx_switches_s=900_000.0, busiest_process_cpu_pct=2800.0),
        own_=own(
            *(thread("worker", 40.0, 200 + n) for n in range(12)), futex_share=0.9, switches_s=60_000.0,
            voluntary_s=50_000.0,
        ), **SLOW,
    ),
    "io_disk": serving(
        WAITS, host=made.host(psi_io=80.0, iowait_pct=45.0, disk_util_pct=99.0, disk_read_mb_s=180.0), **SLOW
    ),
    "network": serving(
        *(made.gpu(i, sm_pct=98.0, mem_ctrl_pct=12.0, power_w=190.0) for i in range(2)),
        host=made.host(net_mb_s=1180.0, net_busiest="eth0", net_busiest_mb_s=1180.0, net_speed_mb_s=1250.0,
                       net_util_pct=94.0), **SLOW,
    ),
    "queueing_upstream": serving(
        made.gpu(sm_pct=8.0, mem_ctrl_pct=3.0, power_w=120.0), running=2.0, gen_tok_s=90.0, error_ratio=0.3,
        own_=own(thread("api_server", 6.0), backlog=70, backlog_limit=2048, connections=400),
    ),
    "degraded_cache": serving(prefix_hit_ratio=0.05, evictions_per_s=40.0, ttft_p95_s=5.0),
}  # fmt: skip
AVAILABILITY: dict[str, Situation] = {
    "gpu_fault": Situation(
        made.view(made.reading(**_STILL)), (made.gpu(), made.gpu(1, state="lost", reason="lost", sm_pct=None))
    ),
    "engine_down": Situation(_refused(processes=()), (made.gpu(mem_used_mib=20.0, sm_pct=0.0),)),
    "engine_hung": Situation(
        made.view(made.reading(**_STILL)), (made.gpu(sm_pct=100.0, mem_ctrl_pct=0.0, power_w=180.0),)
    ),
    "loading": Situation(
        _refused(processes=made.tree(started_at=_STARTED), ever_served=False, served_last=None),
        (made.gpu(sm_pct=0.0, mem_used_mib=9000.0),), made.host(disk_read_mb_s=2500.0),
    ),
    "draining": Situation(made.view(made.reading(running=3.0), stopping="its log")),
}  # fmt: skip
CALM: dict[str, Situation] = {
    "healthy": HEALTHY,
    "idle": Situation(
        made.view(
            made.nothing_to_do(), probes=(*made.probes(), made.probe("generate", 200)), own=own(thread("api_server", 1.0))
        ),
        (made.gpu(sm_pct=0.0),),
    ),
}  # fmt: skip
SITUATIONS = {**AVAILABILITY, **BOTTLENECKS, **CALM}
