"""All rules, worst first. A rule without texts is an error at import."""

from __future__ import annotations

from tui.verdict import exclusions
from tui.verdict.outcome import Rule
from tui.verdict.rules.calm import healthy, idle
from tui.verdict.rules.devices import compute, network, power_thermal
from tui.verdict.rules.engine_down import engine_down
from tui.verdict.rules.engine_hung import engine_hung
from tui.verdict.rules.gpu_fault import gpu_fault
from tui.verdict.rules.host import cpu, io_disk, lock_contention
from tui.verdict.rules.memory import degraded_cache, gpu_memory, kv_cache
from tui.verdict.rules.scheduling import queueing_upstream, scheduler_limit
from tui.verdict.rules.starting import draining, loading
from tui.verdict.texts import check_complete

PROBES = ("probes.liveness", "probes.readiness", "probes.generate")
LATENCY = ("engine.ttft_p95_s", "engine.itl_p95_s", "engine.queue_p95_s")
LOAD = ("engine.running", "engine.waiting", "engine.gen_tok_s", "engine.stalled_scrapes")

RULES: tuple[Rule, ...] = (
    Rule("gpu_fault", "availability", gpu_fault, (
        "gpus.state", "gpus.xid", "gpus.remap_pending", "gpus.ecc_uncorrected", "engine.error_ratio",
        *LOAD, *PROBES)),
    Rule("engine_down", "availability", engine_down, (
        "processes.core", "processes.http_alive", "phase", "gpus.mem_used_mib", "engine.error_ratio",
        "gpus.mem_total_mib", "gpus_ours", "own.oom_kills", "host.oom_kills", "death", "our_test",
        "engine.gen_tok_s", *PROBES)),
    Rule("engine_hung", "availability", engine_hung, (
        "phase", "engine.stalled_s", *LOAD, *PROBES, "gpus.sm_pct", "gpus.mem_ctrl_pct",
        "gpus.power_w", "held_s", "processes.held"), exclusions.ENGINE_HUNG),
    Rule("loading", "availability", loading, (
        "phase", "our_test", *PROBES, "host.disk_read_mb_s", "host.net_mb_s", "host.busiest_thread_cpu_pct",
        "host.busiest_process_cpu_pct", "host.psi_io", "host.iowait_pct", "gpus.sm_pct", "held_s",
        "gpus.mem_used_mib", "own.read_mb_s", "own.disk_read_mb_s", "own.read_total_mib", "own.weights_mib",
        "own.load_left_s", "own.model_fs"), exclusions.LOADING),
    Rule("draining", "availability", draining, (
        "phase", "stopping", *PROBES, *LOAD, "trends.running_change")),
    Rule("kv_cache", "bottleneck", kv_cache, (
        "engine.kv_usage", "engine.kv_usage_max", "engine.preemptions_per_s", *LOAD, "seats", "gpus.sm_pct",
        "trends.waiting_change", "trends.running_change", "trends.preempting_per_s"), exclusions.KV_CACHE),
    Rule("gpu_memory", "bottleneck", gpu_memory, (
        "gpus.mem_used_mib", "gpus.mem_total_mib", "gpus_ours", "engine.error_ratio", "engine.http_503_ratio",
        "engine.kv_usage", "phase", "processes.orphans", *LOAD, *LATENCY, *PROBES), exclusions.GPU_MEMORY),
    Rule("power_thermal", "bottleneck", power_thermal, (
        "gpus.throttle", "gpus.throttle_share", "gpus.clock_sm_mhz", "gpus.clock_max_mhz", "gpus.temp_c",
        "gpus.sm_pct", "seats", *LOAD, *LATENCY), exclusions.POWER_THERMAL),
    Rule("network", "bottleneck", network, (
        "host.net_mb_s", "host.net_util_pct", "host.ib_rx_mb_s", "host.ib_util_pct", "gpus.sm_pct",
        "gpus.power_w", "gpus.mem_ctrl_pct", "gpus.gpm_sm_active", "gpus.gpm_dram_active",
        "gpus.pcie_rx_mb_s", "gpus.pcie_tx_mb_s", "gpus.pcie_gen", "gpus.pcie_width", "gpus.nvlink_tx_mb_s",
        "gpus.nvlinks_up", "gpus.power_limit_w", "host.busiest_thread_cpu_pct", "host.ctx_switches_s",
        *LOAD, *LATENCY), exclusions.NETWORK),
    Rule("io_disk", "bottleneck", io_disk, (
        "host.psi_io", "host.iowait_pct", "host.disk_util_pct", "host.disk_read_mb_s", "host.psi_mem",
        "phase", "own.read_mb_s", "own.disk_read_mb_s", "own.psi_io", "own.model_fs_remote",
        "own.load_left_s", "host.net_mb_s", "gpus.sm_pct", *LOAD, *LATENCY), exclusions.IO_DISK),
    Rule("degraded_cache", "bottleneck", degraded_cache, (
        "engine.prefix_hit_ratio", "engine.evictions_per_s", "trends.usual_prefix_hit_ratio",
        "engine.preemptions_per_s", "seats", "gpus.sm_pct", "host.busiest_thread_cpu_pct", *LOAD, *LATENCY),
        exclusions.DEGRADED_CACHE),
    Rule("lock_contention", "bottleneck", lock_contention, (
        "host.ctx_switches_s", "host.busiest_thread_cpu_pct", "host.busiest_process_cpu_pct", "gpus.sm_pct",
        "host.cpu_pct_total", "own.threads", "own.switches_s", "own.voluntary_s", "own.futex_share",
        "own.cpu_pct", *LOAD, *LATENCY),
        exclusions.LOCK_CONTENTION),
    Rule("cpu", "bottleneck", cpu, (
        "host.busiest_thread_cpu_pct", "host.busiest_thread_pid", "host.cpu_pct_total", "host.psi_cpu",
        "gpus.sm_pct", "own.threads", "own.wait_pct", "own.throttled_share", "own.quota_cores", "seats",
        *LOAD, *LATENCY), exclusions.CPU),
    Rule("queueing_upstream", "bottleneck", queueing_upstream, (
        "own.backlog", "own.backlog_limit", "own.connections", "own.threads",
        "engine.error_ratio", "engine.http_503_ratio", "probes.generate", "engine.ranks", "engine.kv_usage",
        "gpus.sm_pct", "host.busiest_thread_cpu_pct", "seats", *LOAD, *LATENCY),
        exclusions.QUEUEING_UPSTREAM),
    Rule("scheduler_limit", "bottleneck", scheduler_limit, (
        "seats", "engine.kv_usage", "engine.preemptions_per_s", "gpus.sm_pct", *LOAD, *LATENCY),
        exclusions.SCHEDULER_LIMIT),
    Rule("compute", "bottleneck", compute, (
        "gpus.sm_pct", "gpus.power_w", "gpus.clock_sm_mhz", "gpus.mem_ctrl_pct", "gpus.gpm_sm_active",
        "gpus.gpm_tensor_active", "gpus.gpm_dram_active", "gpus.throttle", "gpus.clock_max_mhz",
        "gpus.power_limit_w", "seats", *LOAD, *LATENCY), exclusions.COMPUTE),
    Rule("healthy", "calm", healthy, (
        "phase", *LOAD, *LATENCY, "engine.error_ratio", "host.busiest_thread_cpu_pct", "gpus.sm_pct",
        *PROBES)),
    Rule("idle", "calm", idle, ("phase", *LOAD, "engine.error_ratio", "gpus.sm_pct", *PROBES)),
)  # fmt: skip

check_complete(rule.id for rule in RULES)
