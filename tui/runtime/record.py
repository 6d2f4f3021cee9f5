"""Which figures of a snapshot are kept as series, and under which name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.status import SourceState

if TYPE_CHECKING:
    from tui.model.history import History
    from tui.model.snapshot import HostSnapshot

ENGINE_SIGNALS = (
    "running", "waiting", "kv_usage", "kv_usage_max", "gen_tok_s", "prompt_tok_s", "ttft_p95_s", "itl_p95_s",
    "queue_p95_s", "preemptions_per_s", "prefix_hit_ratio", "req_s", "error_ratio",
)  # fmt: skip
GPU_SIGNALS = ("sm_pct", "mem_ctrl_pct", "mem_used_mib", "power_w", "temp_c", "clock_sm_mhz")
HOST_SIGNALS = (
    "cpu_pct_total", "iowait_pct", "busiest_thread_cpu_pct", "disk_util_pct", "disk_read_mb_s",
    "disk_write_mb_s", "net_mb_s", "psi_cpu", "psi_io", "psi_mem", "mem_used_pct", "ctx_switches_s",
)  # fmt: skip


KEPT_S = 1800.0
"""A series outlives what it is of by this: a card that was taken out, an engine that has ended."""


def add(history: History, snapshot: HostSnapshot) -> None:
    """Append one point to each series: the figure if its source is fresh, a gap if it is not.

    Series to which nothing has been appended for ``KEPT_S`` are dropped.
    """
    at = snapshot.taken_at
    for view in snapshot.engines:
        reading = view.engine.reading if view.engine.status.state is SourceState.FRESH else None
        for signal in ENGINE_SIGNALS:
            history.add(view.url, signal, at, getattr(reading, signal, None))
    host = snapshot.host.reading if snapshot.host.status.ok else None
    for signal in HOST_SIGNALS:
        history.add("host", signal, at, getattr(host, signal, None))
    for gpu in snapshot.gpus.reading.gpus if snapshot.gpus.reading else ():
        fresh = snapshot.gpus.status.ok and gpu.state == "ok"
        scope = f"gpu:{gpu.uuid or gpu.index}"
        for signal in GPU_SIGNALS:
            history.add(scope, signal, at, getattr(gpu, signal) if fresh else None)
    history.forget_before(at - KEPT_S)
