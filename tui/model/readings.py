"""What the sources saw: frozen and closed. ``None`` is unknown; it is never 0 and never "healthy".

Units are in the names: ``_s`` seconds, ``_mib`` MiB, ``_mb_s`` 10^6 bytes a second, ``_pct`` 0-100,
``_ratio`` and ``kv_usage`` 0-1, ``_per_s`` and ``_s`` after a count a rate over the reading's window.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.places import Place, PublishedPort
    from tui.model.status import Reason

EngineKind = Literal["vllm", "sglang", "trtllm", "triton"]
EngineState = Literal["loading", "serving", "draining", "down", "unknown"]
GpuState = Literal["ok", "lost", "error"]
ProbeKind = Literal["liveness", "readiness", "startup", "generate"]
ProbeStatus = int | Literal["timeout", "refused", "reset", "tls", "dns"]
ProbeAction = Literal["none", "restart", "unready", "ready", "unhealthy"]
"""``unhealthy`` is Docker's, and only a word: nothing restarts."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A figure that could not be read, why, and what would bring it."""

    field: str
    why: str
    enable: str = ""


# ---------------------------------------------------------------------------------------- GPUs


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """One process that holds memory of a device (NVML reports host pids)."""

    pid: int
    name: str | None = None
    mem_mib: float | None = None
    sm_pct: float | None = None
    """Share of the sample period in which it had a kernel on the device; None where it had no sample."""
    mem_ctrl_pct: float | None = None
    """Share of the sample period in which it kept the memory controller busy."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One device, or one MIG instance of a device.

    Memory used is total - free - reserved: drivers differ on what their ``used`` means. Where ``stale_s``
    is set the figures are the last good ones, not the present.
    """

    index: int
    """NVML's index when the card was first counted in this run: it keeps it when others go. A MIG instance
    has its card's."""
    uuid: str | None = None
    name: str | None = None
    sm_pct: float | None = None
    """Share of the sample period in which any kernel was resident; not occupancy."""
    mem_ctrl_pct: float | None = None
    """Share of the sample period in which the memory controller was busy; not fullness."""
    mem_used_mib: float | None = None
    mem_total_mib: float | None = None
    mem_reserved_mib: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    """The enforced limit: the least of all limiters."""
    temp_c: float | None = None
    throttle: tuple[str, ...] | None = None
    """Active clocks event reasons by the names of the JSON contract; empty means none is active."""
    clock_sm_mhz: float | None = None
    clock_max_mhz: float | None = None
    clock_mem_mhz: float | None = None
    ecc_uncorrected: int | None = None
    """Uncorrected memory errors since the driver was loaded."""
    remap_pending: bool | None = None
    """Memory rows wait for a reset to be remapped."""
    xid: int | None = None
    """The gravest Xid since this program has watched; forgotten once the device has recovered."""
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    mig: bool | None = None
    gpm_sm_active: float | None = None
    """0-1: mean share of the SMs that were busy over the last second or so (Hopper or newer)."""
    gpm_tensor_active: float | None = None
    """0-1: share of time in which the tensor cores were busy."""
    gpm_dram_active: float | None = None
    """0-1: share of the memory bandwidth in use."""
    processes: tuple[GpuProcess, ...] | None = None
    state: GpuState = "ok"
    reason: Reason | None = None
    detail: str = ""
    """For a person: why it is not ok; where it is ok, what is wrong with it all the same."""
    missing: tuple[Missing, ...] = ()
    pci_bus_id: str | None = None
    """As in sysfs, e.g. ``0000:17:00.0``."""
    gpm_sm_occupancy: float | None = None
    """0-1: warps resident over those that would fit."""
    mem_temp_c: float | None = None
    energy_j: float | None = None
    """Since the driver was loaded."""
    persistence: bool | None = None
    compute_mode: str | None = None
    """``default``, ``exclusive_thread``, ``prohibited`` or ``exclusive_process``."""
    ecc_corrected: int | None = None
    """Since the driver was loaded."""
    ecc_aggregate_corrected: int | None = None
    """Over the life of the card."""
    ecc_aggregate_uncorrected: int | None = None
    """Over the life of the card."""
    remap_corrected: int | None = None
    """Memory rows remapped for corrected errors, over the life of the card."""
    remap_uncorrected: int | None = None
    remap_failed: bool | None = None
    """A row could not be remapped: the card is due for replacement."""
    retired_pages: int | None = None
    """Memory pages retired over the life of the card (before Ampere)."""
    retired_pending: bool | None = None
    """Pages wait for a reboot to be retired."""
    pcie_tx_mb_s: float | None = None
    """From the device, a sample of 20 ms every few seconds."""
    pcie_rx_mb_s: float | None = None
    nvlinks: int | None = None
    """Links that the device has."""
    nvlinks_up: int | None = None
    nvlink_errors: int | None = None
    """CRC, replay and recovery errors of all links since the driver was loaded."""
    nvlink_tx_mb_s: float | None = None
    """From the device over all links."""
    nvlink_rx_mb_s: float | None = None
    throttle_share: tuple[tuple[str, float], ...] | None = None
    """Throttle names, each with the share (0-1) of the readings of the last 60 s in which it was active,
    greatest first; those that never were are left out. None until 10 s were seen."""
    parent_uuid: str | None = None
    """Of a MIG instance: its card. The instance's row follows the card's."""
    mig_name: str | None = None
    """Of a MIG instance: its profile, e.g. ``1g.10gb``."""
    mig_index: int | None = None
    """Of a MIG instance: its place among those of its card."""
    xid_text: str = ""
    """What the Xid means."""
    xid_age_s: float | None = None
    """Seconds since that Xid was seen."""
    stale_s: float | None = None
    """Age of the figures where they are not the present ones; else, and where there are none, None."""
    recovered_s: float | None = None
    """Seconds since it answered again after it had been lost or in error; None if it never was."""


@dataclass(frozen=True, slots=True)
class GpuSet:
    """All devices that the driver counts or should count, in index order; MIG instances after their card."""

    gpus: tuple[GpuReading, ...] = ()
    driver_version: str | None = None
    other_gpus: tuple[str, ...] = ()
    """GPUs of other vendors on the PCI bus, one line each: present, not read."""
    notes: tuple[str, ...] = ()
    """What this source could not do beside reading, e.g. remember the cards for the next run."""


# ---------------------------------------------------------------------------------------- host


@dataclass(frozen=True, slots=True)
class DiskReading:
    """One whole disk. ``util_pct`` on NVMe is not saturation: read it with ``await_ms``."""

    name: str
    r_s: float | None = None
    w_s: float | None = None
    read_mb_s: float | None = None
    write_mb_s: float | None = None
    util_pct: float | None = None
    await_ms: float | None = None


@dataclass(frozen=True, slots=True)
class HostReading:
    """The machine around the GPUs."""

    cpu_pct_total: float | None = None
    """0-100 of all cores."""
    cpu_cores: int | None = None
    cpu_pct_per_core: tuple[float, ...] | None = None
    load1: float | None = None
    busiest_process_cpu_pct: float | None = None
    """100 is one core: may pass 100."""
    busiest_process: str | None = None
    busiest_process_pid: int | None = None
    busiest_thread_cpu_pct: float | None = None
    """Never above 100."""
    busiest_thread: str | None = None
    busiest_thread_pid: int | None = None
    """The pid of the process that owns the thread."""
    iowait_pct: float | None = None
    disk_util_pct: float | None = None
    """The busiest disk's."""
    disk_read_mb_s: float | None = None
    disk_write_mb_s: float | None = None
    mem_used_pct: float | None = None
    mem_used_mib: float | None = None
    mem_total_mib: float | None = None
    psi_cpu: float | None = None
    """Pressure: the 10 s "some" percentage."""
    psi_io: float | None = None
    psi_mem: float | None = None
    ctx_switches_s: float | None = None
    net_mb_s: float | None = None
    """Received and sent, loopback left out."""
    net_rx_mb_s: float | None = None
    net_tx_mb_s: float | None = None
    disks: tuple[DiskReading, ...] | None = None
    missing: tuple[Missing, ...] = ()
    swap_used_mib: float | None = None
    """0 also where the host has no swap."""
    swap_total_mib: float | None = None
    swap_in_mb_s: float | None = None
    swap_out_mb_s: float | None = None
    oom_kills: int | None = None
    """Processes of the whole host that the kernel ended for memory since this program has watched."""
    oom_age_s: float | None = None
    """Seconds since the last of them was seen; None where there was none."""
    net_busiest: str | None = None
    """The interface whose faster direction is nearest to its speed."""
    net_busiest_mb_s: float | None = None
    net_speed_mb_s: float | None = None
    """That interface's speed in one direction."""
    net_util_pct: float | None = None
    """That direction over that speed; None where no interface tells its speed."""
    ib_rx_mb_s: float | None = None
    """InfiniBand and RoCE adapters: bytes that never pass the kernel; None without such."""
    ib_tx_mb_s: float | None = None
    ib_util_pct: float | None = None
    """Of the port nearest to its rate, its faster direction."""
    ib_port: str | None = None
    """That port, e.g. ``mlx5_0/1``."""


# ---------------------------------------------------------------------------------------- engines


WARM_UP_STEPS = 20.0
"""The first steps of an engine compile kernels: a real vLLM stood still for 25 s at its first request."""


@dataclass(frozen=True, slots=True)
class RankReading:
    """One data-parallel rank (or engine core) behind a URL."""

    rank: str
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    stalled_s: float | None = None


@dataclass(frozen=True, slots=True)
class EngineReading:
    """One engine's figures in canonical names, whatever the engine calls them.

    Rates and percentiles are over ``window_s``; percentiles come from bucket differences of the
    window, never from totals since start. Several ranks are summed, except ``kv_usage`` (mean) and
    ``kv_usage_max`` (the worst rank's maximum of the last 30 s).
    """

    url: str
    engine: EngineKind | None = None
    version: str | None = None
    model: str | None = None
    simulated: bool = False
    reason: Reason | None = None
    """Set where the server answered but its figures cannot be had (``stats_off``, ``too_large``)."""
    detail: str = ""
    window_s: float | None = None
    latency_window_s: float | None = None
    scrape_s: float | None = None
    """How long the last scrape took."""
    scrape_every_s: float | None = None
    """Seconds between scrapes where that is more than was asked for, because a scrape takes long or is in
    vain; None where it is not."""
    running: float | None = None
    waiting: float | None = None
    waiting_by_reason: Mapping[str, float] = field(default_factory=dict)
    kv_usage: float | None = None
    kv_usage_max: float | None = None
    kv_capacity_tokens: float | None = None
    preemptions_per_s: float | None = None
    prefix_hit_ratio: float | None = None
    evictions_per_s: float | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    itl_p50_s: float | None = None
    itl_p95_s: float | None = None
    e2e_p95_s: float | None = None
    queue_p95_s: float | None = None
    ttft_mean_s: float | None = None
    itl_mean_s: float | None = None
    e2e_mean_s: float | None = None
    queue_mean_s: float | None = None
    bounds: Mapping[str, Literal["<", ">"]] = field(default_factory=dict)
    """Percentiles of which only a bound is known: ``>`` in the last, open bucket, ``<`` in the first."""
    gen_tok_s: float | None = None
    prompt_tok_s: float | None = None
    req_s: float | None = None
    http_503_ratio: float | None = None
    error_ratio: float | None = None
    max_num_seqs: float | None = None
    since_last_step_s: float | None = None
    """Seconds since the step heartbeat was seen to move, busy or idle; None before a second scrape. SGLang:
    the age of its load snapshot by its own clock, where it tells."""
    progress: float | None = None
    """Steps since the engine's start (tokens where it counts none) of the rank that stalls, if one does."""
    stalled_s: float | None = None
    """Seconds for which work was present at every scrape and the heartbeat stood still (worst rank). Work
    may be present that no gauge shows yet (SGLang: a snapshot that ages)."""
    stalled_scrapes: int | None = None
    """Scrapes of that span, both ends counted; 0 when the heartbeat moves or there is no work."""
    longest_stall_s: float | None = None
    """The longest such span of the last 5 min that ended with a step (same rank): a step may take this long
    here. Warm-up is left out; 0 where every scrape saw a step; None without a heartbeat."""
    asleep: bool | None = None
    ranks: tuple[RankReading, ...] = ()
    started_at: float | None = None
    """Epoch seconds at which the API server started, where the engine says so."""
    restarts: int = 0
    """Counter resets seen by this program."""
    missing: tuple[Missing, ...] = ()
    itl_p99_s: float | None = None
    tpot_p50_s: float | None = None
    """Time per output token: the mean of each finished request, where ``itl`` is of each token."""
    tpot_p95_s: float | None = None
    tpot_p99_s: float | None = None
    tpot_mean_s: float | None = None
    e2e_p50_s: float | None = None
    e2e_p99_s: float | None = None
    queue_p50_s: float | None = None
    queue_p99_s: float | None = None
    http_429_ratio: float | None = None
    """0-1, as ``http_503_ratio``: turned away for too many requests."""
    finish_reasons: Mapping[str, float] = field(default_factory=dict)
    """Requests that ended, a second, by the engine's own word for why."""
    rejections: Mapping[str, float] = field(default_factory=dict)
    """Requests turned away before they ran, a second, by the engine's own word for why."""
    preempted: float | None = None
    """Requests that lost their seat and wait for another now (TensorRT-LLM: paused; vLLM before V1: swapped),
    or, SGLang, did so in its last report. None where the engine does not tell."""
    spec_accept_ratio: float | None = None
    """0-1: accepted of the drafted tokens. None without speculative decoding."""
    spec_accept_length: float | None = None
    """Tokens that a step with a draft yields, the one that is always right included."""
    paused: bool | None = None
    """Takes no work on until it is told to go on; None where the engine does not tell."""
    draining: bool | None = None
    """It was ready, and takes itself out of service while its scheduler goes on (SGLang's ``/ready`` and
    ``/ping``, by the age of its load snapshot); None where the engine does not tell."""
    health_looks: int = 0
    """Requests of ours to its health routes in the last 60 s that no probe made."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Entries of a table, or ranks, that were too many to keep, by the field; totals count them."""


@dataclass(frozen=True, slots=True)
class ProbeReading:
    """One probe route: what it answered last, and how it has been doing."""

    url: str
    kind: ProbeKind
    path: str = ""
    status: ProbeStatus | None = None
    latency_s: float | None = None
    latency_p99_s: float | None = None
    streak: int = 0
    """Results alike in a row: positive for successes, negative for failures, 0 before the first."""
    would: ProbeAction = "none"
    """What the platform would do if the results go on like this; ``generate`` never does anything."""
    would_in_s: float | None = None
    age_s: float | None = None
    """Seconds since it was answered, or given up, in a snapshot."""
    latency_p50_s: float | None = None
    latency_max_s: float | None = None
    results: int = 0
    """Of how many results the latencies are (200 at most); a timeout counts as its whole length."""
    span_s: float | None = None
    """Seconds between the first and the last of these results."""
    threshold: int | None = None
    """Results alike in a row at which the platform acts, of the kind that ``streak`` counts."""
    waiting_s: float | None = None
    """Age of the request that nothing has answered yet; None while none is under way."""
    decided_at: float | None = None
    """Epoch seconds at which the failure threshold was last reached: what it would have been restarted,
    taken out of service or called unhealthy at. Of ``generate``: as if it were the liveness probe."""
    decisions: int = 0
    """How often that was."""
    notice_in_s: float | None = None
    """``generate``: in how many seconds it would reach the liveness probe's failure threshold."""
    recent: tuple[bool | None, ...] = ()
    """The last results, oldest first (120 at most); None: thrown away by the kubelet's rules."""
    failed: bool = False
    """It failed although its status passes: a loop of redirects, a stream that ended without a token."""
    note: str = ""
    """For a person: why there is no result, or what is wrong with it."""

    @property
    def ok(self) -> bool | None:
        """The kubelet's view of the last answer: 200-399 passes; None before the first."""
        if self.status is None:
            return None
        return isinstance(self.status, int) and 200 <= self.status < 400 and not self.failed


# ---------------------------------------------------------------------------------------- processes

ProcessRole = Literal[
    "api_server", "launcher", "engine_core", "worker", "scheduler", "detokenizer", "tokenizer",
    "coordinator", "backend", "other",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A process of this host that looks like part of an engine."""

    pid: int
    ppid: int
    comm: str
    role: ProcessRole
    engine: EngineKind
    started_at: float | None = None
    """Epoch seconds."""
    port: int | None = None
    """HTTP port: a listening socket of the HTTP process, else what its command line asks for."""
    host: str | None = None
    listening: bool = False
    zombie: bool = False
    cmdline: tuple[str, ...] = ()
    """As given on the command line, secrets redacted; empty for processes that overwrite theirs."""
    title: str = ""
    """What such a process wrote there, uncut and with its rank, e.g. ``VLLM::Worker_TP0``."""
    other_network: bool = False
    """It is in a network namespace of its own: its port is not one of this host."""
    orphan: bool = False
    """A part of an engine whose server has gone: init or another reaper has taken it over."""
    addresses: tuple[str, ...] = ()
    """Of its own network namespace, where that is another: this host reaches it there, not on loopback."""
    place: Place | None = None
    """Where it runs; None where it was not looked for (only servers are) or cannot be told."""
    closed: bool = False
    """Another user's: which sockets and which network it has cannot be seen without root."""
    start_ticks: int | None = None
    """Clock ticks from boot to its start: with the pid, it is this process and no later one."""
    unix_socket: str = ""
    """A server that takes HTTP at this Unix socket, as its command line names it, and at no port."""
    output: str = ""
    """Of a server: the file of this host that its standard output (or error) was sent to; empty: none, or it
    cannot be seen."""
    user: str = ""
    """Who runs it, of orphans only: a name, or ``uid N``; empty where that cannot be read."""
    stopped: bool | None = None
    """A signal has stopped it (state ``T`` of ``/proc/PID/stat``): it does nothing until SIGCONT."""
    traced: bool | None = None
    """A debugger holds it (state ``t``)."""
    blocked_s: float | None = None
    """Seconds for which every look has found it asleep where no signal reaches it (state ``D``), its CPU
    time unmoved; None while it is not."""


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """The engine processes of this host at one instant."""

    processes: tuple[EngineProcess, ...] = ()
    listeners: tuple[str, ...] = ()
    """URLs at which an engine-like process listens."""
    complete: bool = True
    """False where processes of this host are hidden from us: that one is absent then means nothing."""
    published: tuple[PublishedPort, ...] = ()
    hidden: str = ""
    """For a person: what cannot be seen of the processes, and what would bring it."""
    expected: tuple[str, ...] = ()
    """URLs at which an engine-like process will listen, or did: nobody does now."""
