"""Quantities that several rules share, derived once for each picture."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal

from tui.verdict.gpu_signals import GpuSignals, gpu_signals
from tui.verdict.own_signals import OwnSignals, wanted_pct

if TYPE_CHECKING:
    from tui.model.readings import EngineReading, ProbeKind, ProbeReading, ProcessRole
    from tui.model.settings import Slo, Thresholds
    from tui.verdict.gpu_signals import Throttled
    from tui.verdict.picture import Picture

Answer = Literal["ok", "5xx", "auth", "4xx", "refused", "reset", "timeout", "unreachable"]
LatencyName = Literal["ttft", "itl", "queue"]
KV_APART = 0.05
"""KV usage that was this much higher within 30 s, or is on another rank, is more than a step of the gauge."""
SEATS_FULL_RATIO = 0.97
"""Gauges are sampled between steps: a full batch is often one or two short of its limit."""
FEW_SEATS = 8.0
"""From here on one seat of a batch may be free for a moment; the ratio allows for that from 34 on."""
IDLE_S = 3.0
"""Nothing running or waiting for this long is no work; short requests show again before."""
MANY_WAITING_RATIO = 0.25
"""Waiting requests that are this many of the running ones are a queue, whatever finished ones report."""
LEAST_SWITCHES_S = 100_000.0
"""A small host without a lock problem switches at a high rate for each of its few cores."""
SWITCHES_UNKNOWN_CORES_S = 300_000.0
PROBE_TOK_S = 3.0
"""What health routes and probes that generate a token make an engine do that has nothing else to do."""
PROBE_PROMPT_TOK_S = 30.0
NORMAL_STALLS = 3.0
"""A hang is this many times longer than the longest step that was seen to end."""
MOST_STALL_S = 30.0
"""So that a hang that ended by itself does not hide the next one for long."""
MODEL_ROLES = ("engine_core", "scheduler", "worker")
BUSY_POLLERS = MODEL_ROLES
"""Threads of these spin at 100 % of a core when all is well."""
AT_REST_SM_PCT = 10.0
UNEVEN_SM_RATIO = 0.4
"""Of the busiest device: ranks that run in step are never this far apart."""
WORKING_POWER_RATIO = 0.6
SWITCHES_PER_BUSY_CORE_S = 5000.0
"""Threads that compute switch some hundred times for each core that they use."""
MANY_THREADS_PCT = 200.0
SLOW_5XX_S = 10.0
"""SGLang's /health waits 20 s for the scheduler before it says 503: that is a hang, not a refusal."""
PREFILL_S = 120.0
"""No prefill, and no compiler, takes longer than this without a step, whatever the device seems to do."""
SPINNING_START_S = 300.0
"""Ranks of a start find each other sooner."""
STEP_SEEN_S = 1.0
"""How late a scrape may see a step."""


_NO_GPUS = GpuSignals()


def answer(probe: ProbeReading | None) -> Answer | None:
    """The class of a probe's last answer; None where it was not made."""
    status = probe.status if probe is not None else None
    if status is None:
        return None
    if isinstance(status, str):
        return "unreachable" if status in ("dns", "tls") else status  # type: ignore[return-value]
    if status < 400:
        return "4xx" if probe is not None and probe.failed else "ok"
    if status >= 500:
        return "5xx"
    return "auth" if status in (401, 403) else "4xx"


def slow_5xx(probe: ProbeReading) -> bool:
    """A status route said 5xx only after it had waited for the engine."""
    slow = (probe.latency_s or 0.0) >= SLOW_5XX_S
    return slow and probe.kind != "generate" and answer(probe) == "5xx"


class Signals:
    """One picture with its derived quantities. Attributes that are None could not be known.

    Args:
        picture: what was seen.
        thresholds: the limits in force.
        slo: the latency targets in force.
    """

    def __init__(self, picture: Picture, thresholds: Thresholds, slo: Slo) -> None:
        self.picture = picture
        self.thresholds = thresholds
        self.slo = slo
        self.gpus: GpuSignals = gpu_signals(picture.gpus) if picture.gpus else _NO_GPUS
        self.host = picture.host
        self.engine = picture.engine
        self.own = OwnSignals(picture.own, thresholds)
        self.explaining = False
        """Rules give their evidence; without it they only decide, at a third of the cost."""
        self._probes(picture)
        self._load(picture.engine)
        self._host()
        self._latency(picture.engine)
        self._progress(picture.engine)
        self.suffers = self._suffers(picture.engine)
        """Work flows and may be late: only then is a limit a bottleneck. None: nothing tells."""

    @functools.cached_property
    def throttled(self) -> tuple[Throttled, ...]:
        """Devices that are held down, worst first."""
        return self.gpus.throttled(self.thresholds)

    # -------------------------------------------------------------------------------- probes

    def _probes(self, picture: Picture) -> None:
        kinds: tuple[ProbeKind, ...] = ("liveness", "readiness", "startup", "generate")
        self.answers: dict[ProbeKind, Answer] = {
            kind: found for kind in kinds if (found := answer(picture.probes.get(kind))) is not None
        }
        if picture.engine is not None and picture.engine.paused and self.answers.get("readiness") == "5xx":
            del self.answers["readiness"]  # SGLang's is off while it is paused
        self.generate = self.answers.get("generate")
        self.status_answers = [a for kind, a in self.answers.items() if kind != "generate"]
        made = list(self.answers.values())
        if picture.live and picture.engine_reason in ("refused", "reset", "timeout"):
            made.append(picture.engine_reason)
        self.all_refused = bool(made) and all(a in ("refused", "reset") for a in made)
        """No connection is to be had; a reset is an accepted connection that was closed."""
        self.any_answer = any(a in ("ok", "5xx", "auth", "4xx") for a in made)
        self.all_timeout = bool(made) and all(a == "timeout" for a in made)
        generate = picture.probes.get("generate")
        self.generate_s = generate.latency_s if generate is not None else None

    def probe(self, kind: ProbeKind) -> ProbeReading | None:
        """The probe of a kind, where it was made."""
        return self.picture.probes.get(kind)

    def slow_5xx(self) -> bool:
        """A status route said 5xx only after waiting for the engine."""
        return any(slow_5xx(probe) for probe in self.picture.probes.values())

    def stepped_during(self, probe: ProbeReading) -> bool:
        """A step was made while the probe waited, or after: what kept it waiting was others' work.

        False where there is no heartbeat. A scrape sees a step up to its interval late.
        """
        ago = self.engine.since_last_step_s if self.engine is not None else None
        asked_s = (probe.age_s or 0.0) + (probe.latency_s or 0.0)
        return ago is not None and ago + STEP_SEEN_S < asked_s

    # -------------------------------------------------------------------------------- load

    def _load(self, engine: EngineReading | None) -> None:
        trends = self.picture.trends
        self.running = engine.running if engine else None
        self.waiting = engine.waiting if engine else None
        self.kv: float | None = None
        """The worst rank's greatest usage of the last 30 s, else the gauge."""
        self.preempting: float | None = None
        self.preempts: bool | None = None
        """Requests lose their seat, or have lost it and wait for another."""
        self.paused = engine is not None and bool(engine.paused or engine.asleep)
        """Takes no work on because somebody said so."""
        self.errors: float | None = None
        self.seats = self.picture.seats
        if engine is not None:
            self.kv = engine.kv_usage_max if engine.kv_usage_max is not None else engine.kv_usage
            self.preempting = _greatest(engine.preemptions_per_s, trends.preempting_per_s)
            self.preempts = _preempts(engine, self.preempting)
            self.errors = engine.error_ratio if engine.error_ratio is not None else trends.error_ratio
        self.work: bool | None
        stalled = engine is not None and (engine.stalled_scrapes or 0) >= 2  # work that no gauge may show yet
        if (self.running or 0) > 0 or (self.waiting or 0) > 0 or stalled:
            self.work = True
        else:
            self.work = False if self.running is not None and self.waiting is not None else None
        self.full_at: float | None = None
        """So many running requests are a full batch."""
        self.seats_full: bool | None = None
        if self.seats and engine is not None:
            full = SEATS_FULL_RATIO * self.seats
            if self.seats >= FEW_SEATS and self.kv is not None and self.kv < self.thresholds.kv_usage_early:
                full = min(full, self.seats - 1.0)  # a pool with room is not what keeps the last seat free
            self.full_at = full
            if self.running is not None:
                ranks = engine.ranks if len(engine.ranks) > 1 else ()
                # the limit of the flag is each rank's own
                self.seats_full = any((r.running or 0) >= full for r in ranks or (engine,))

    # -------------------------------------------------------------------------------- host

    def _host(self) -> None:
        host, limits = self.host, self.thresholds
        self.thread = host.busiest_thread_cpu_pct if host else None
        self.thread_full = self.thread is not None and self.thread >= limits.thread_busy_pct
        self.thread_role: ProcessRole | None = None
        self.thread_elsewhere = False
        """The busiest thread belongs to no process of this engine."""
        processes, pid = self.picture.processes, host.busiest_thread_pid if host is not None else None
        if pid is not None and processes and processes.pids:
            self.thread_role = processes.roles.get(pid)
            self.thread_elsewhere = pid not in processes.pids
        elif pid is not None and pid in self.picture.others_pids:
            self.thread_elsewhere = True
        own = self.own.thread(limits.thread_busy_pct, BUSY_POLLERS)
        if own is not None:
            # the host knows one busiest thread only: a spinning core hides a server that is just as full
            self.thread, self.thread_role, self.thread_elsewhere = wanted_pct(own), own.role, False
            self.thread_full = self.thread >= limits.thread_busy_pct
        polls = self.thread_elsewhere or self.thread_role in BUSY_POLLERS
        self.front_full = self.thread_full and not polls
        """A full thread that is a limit by itself, as far as its role is known."""
        self.ctx_switches_s = host.ctx_switches_s if host else None
        self.disk_mb_s = host.disk_read_mb_s if host else None
        self.net_mb_s = host.net_mb_s if host else None

    # -------------------------------------------------------------------------------- latency

    def _latency(self, engine: EngineReading | None) -> None:
        slo = self.slo
        ttft = engine.ttft_p95_s if engine else None
        itl = engine.itl_p95_s if engine else None
        queue = engine.queue_p95_s if engine else None
        if self.picture.trends.queue_ended and (
            (ttft or 0.0) > slo.ttft_p95_s or (queue or 0.0) > slo.queue_p95_s
        ):
            ttft = queue = None
        if self.picture.trends.hang_ended:
            ttft, itl, queue = (
                None if value is not None and value > target else value
                for value, target in (
                    (ttft, slo.ttft_p95_s),
                    (itl, slo.itl_p95_s),
                    (queue, slo.queue_p95_s),
                )
            )
        self.own_ttft = ttft
        """As the engine counts it, of requests of now."""
        if ttft is None and self.generate == "ok" and self.running:
            ttft = self.generate_s  # a one-token request is a first token
        self.latency: dict[LatencyName, tuple[float, float]] = {}
        """Value and target, seconds, of those that are known."""
        names: tuple[LatencyName, ...] = ("ttft", "itl", "queue")
        targets = (slo.ttft_p95_s, slo.itl_p95_s, slo.queue_p95_s)
        for name, value, target in zip(names, (ttft, itl, queue), targets, strict=True):
            if value is not None and target > 0:
                self.latency[name] = (value, target)
        worst = max((value / target for value, target in self.latency.values()), default=None)
        self.over = worst is not None and worst > 1.0
        self.well_inside = worst is not None and worst < self.thresholds.slo_well_inside
        self.decode_in_target = itl is not None and itl <= slo.itl_p95_s
        self.queueing = self._queueing()
        self.pressed = self.over or self.queueing
        """Users feel it: a latency over its target, or a queue that lasts."""
        self.calm = self.well_inside and not self.queueing
        """Whatever is busy here does no harm."""

    def _queueing(self) -> bool:
        self.many_waiting = False
        if not self.waiting:
            return False
        held = self.picture.trends.waiting_held_s if self.picture.live else self.picture.held_s
        self.many_waiting = self.waiting >= max(3.0, MANY_WAITING_RATIO * (self.running or 0.0))
        if self.many_waiting:
            return True  # even with good latencies: those of finished requests describe the past
        if self.own_ttft is not None or "queue" in self.latency:
            return any(v > t for name, (v, t) in self.latency.items() if name != "itl")
        # without any latency, a queue that lasts stands in; one quick request of ours is no user's
        users = "itl" in self.latency
        return not users and held is not None and held >= self.thresholds.waiting_hold_s

    # -------------------------------------------------------------------------------- progress

    def _progress(self, engine: EngineReading | None) -> None:
        self.flow: bool | None = None
        """Tokens are moving: True or False only where a figure says so."""
        self.stalled_s: float | None = None
        """Seconds without a step while work was present."""
        self.stalled_scrapes = 0
        self.stall_limit_s = self.thresholds.stalled_s
        """A stall from here on is longer than any normal step of this engine."""
        self.counts_requests = False
        """There are no token counters: requests that end are all that moves."""
        if engine is None:
            return
        normal = min(MOST_STALL_S, NORMAL_STALLS * (engine.longest_stall_s or 0.0))
        self.stall_limit_s = max(self.thresholds.stalled_s, normal)
        gen, prompt = engine.gen_tok_s, engine.prompt_tok_s
        self.counts_requests = gen is None and prompt is None and engine.req_s is not None
        moving = (gen or 0) > 0 or (prompt or 0) > 0 or (gen is None and (engine.preemptions_per_s or 0) > 0)
        if engine.stalled_scrapes is not None:
            self.stalled_scrapes = engine.stalled_scrapes
            self.stalled_s = engine.stalled_s
            if engine.stalled_scrapes >= 2:
                stalled = engine.stalled_s or 0.0
                earlier = moving and (engine.window_s or 0.0) > stalled  # the rate is of steps before that
                undecided = earlier and stalled < self.stall_limit_s and not self.paused
                self.flow = None if undecided else False
                return
            moving = moving or bool(
                self.work and engine.stalled_scrapes == 0 and engine.since_last_step_s is not None
            )
        if not self.work and ((self.picture.trends.idle_s or 0.0) >= IDLE_S or self._probes_alone(engine)):
            self.flow = False  # the rate is of requests that have ended
        elif moving or (self.counts_requests and (engine.req_s or 0.0) > 0):
            self.flow = True
        elif self.counts_requests:
            self.flow = False if self.waiting == 0 and not self.work else None  # one may run for long
        elif gen == 0 and not (self.work and self.picture.live):
            # a live engine without a heartbeat may count tokens only when requests finish
            self.flow = False
            if self.work:
                self.stalled_s = self.picture.held_s

    def _suffers(self, engine: EngineReading | None) -> bool | None:
        if self.calm or self.flow is False:
            return False
        if self.running or self.flow:
            return True
        return None if engine is not None and self.running is None else False

    def _probes_alone(self, engine: EngineReading) -> bool:
        """Nothing runs or waits, and the few tokens are those of probes: ours, or the kubelet's."""
        generating = self.picture.kind == "sglang" or "generate" in self.picture.probes
        return (
            self.picture.live
            and self.work is False
            and generating
            and (engine.gen_tok_s or 0.0) <= PROBE_TOK_S
            and (engine.prompt_tok_s or 0.0) <= PROBE_PROMPT_TOK_S
        )

    def stalled_for(self) -> float:
        """Seconds for which the picture has stood still, as far as anybody measured."""
        return max(self.stalled_s or 0.0, self.picture.held_s or 0.0)

    @property
    def kv_most(self) -> str:
        """What to call ``kv`` where the engine's row shows a lower figure beside it."""
        now = self.engine.kv_usage if self.engine else None
        apart = self.kv is not None and now is not None and self.kv - now >= KV_APART
        return "max " if apart else ""

    @property
    def held_ratio(self) -> float | None:
        """Of the memory of the fullest device, 0-1, where it is known to be this engine's."""
        return self.gpus.used_ratio_max if self.picture.gpus_ours else None

    def gpus_at_rest(self) -> bool:
        """No device does anything; False where none tells."""
        return self.gpus.sm_max is not None and self.gpus.sm_max < AT_REST_SM_PCT

    def gpus_move(self) -> bool:
        """Some device draws power or moves data as only work makes it; what hangs does neither."""
        moves = (self.gpus.mem_ctrl_max or 0.0) >= 4 * self.thresholds.mem_ctrl_low_pct
        return not self.gpus_at_rest() and (
            moves or (self.gpus.power_ratio_max or 0.0) >= WORKING_POWER_RATIO
        )

    def cores_full(self) -> bool:
        """All cores together, or the quota of its control group, are used up."""
        host, limits = self.host, self.thresholds
        if host is None:
            return self.own.throttled()
        total = (host.cpu_pct_total or 0.0) >= limits.cpu_total_pct
        return total or (host.psi_cpu or 0.0) >= limits.psi_cpu or self.own.throttled()

    def gpu_working(self) -> bool:
        """Device figures that only real work makes: a spin draws little and moves nothing."""
        gpus, limits = self.gpus, self.thresholds
        return (
            (gpus.sm_max or 0.0) >= limits.sm_high_pct
            and (gpus.power_ratio_max or 0.0) >= WORKING_POWER_RATIO
            and (gpus.mem_ctrl_max is None or gpus.mem_ctrl_max >= 4 * limits.mem_ctrl_low_pct)
            and not gpus.resident_only
        )

    def gpu_spinning(self) -> bool:
        """Kernels are resident everywhere and move nothing: they wait for each other."""
        gpus, limits = self.gpus, self.thresholds
        return (
            (gpus.sm_max or 0.0) >= limits.sm_high_pct
            and (gpus.mem_ctrl_max is not None or gpus.resident_only)
            and (gpus.mem_ctrl_max or 0.0) < limits.mem_ctrl_low_pct
        )

    def switches_high(self) -> bool:
        """More context switches than work explains."""
        return self.switches_by_cores() or self.switches_for_its_work()

    def switches_by_cores(self) -> bool:
        """More than that for each core of the host."""
        rate, cores = self.ctx_switches_s, self.host.cpu_cores if self.host else None
        if rate is None:
            return False
        if not cores:
            return rate >= SWITCHES_UNKNOWN_CORES_S
        return rate >= max(LEAST_SWITCHES_S, self.thresholds.ctx_switches_per_core_s * cores)

    def switches_for_its_work(self) -> bool:
        """One process of many threads makes more switches than the cores that it uses explain."""
        rate, used = self.ctx_switches_s, self.host.busiest_process_cpu_pct if self.host else None
        if rate is None or used is None or used < MANY_THREADS_PCT or rate < LEAST_SWITCHES_S:
            return False
        if (self.thread or 0.0) >= self.thresholds.cpu_total_pct:
            return False  # threads that fight for a lock are half busy at most; a step loop is not
        return rate >= SWITCHES_PER_BUSY_CORE_S * used / 100.0

    def uneven(self) -> bool:
        """One loaded device or rank is full while another has nothing to do."""
        gpus = self.gpus
        if len(gpus.loaded) > 1 and gpus.sm_max is not None and gpus.sm_max >= 85.0:
            known = sorted(g.sm_pct for g in gpus.loaded if g.sm_pct is not None)
            if known[0] <= 15.0 or known[(len(known) - 1) // 2] <= UNEVEN_SM_RATIO * gpus.sm_max:
                return True
        ranks = self.engine.ranks if self.engine else ()
        loads = [(r.running or 0.0) + (r.waiting or 0.0) for r in ranks if r.running is not None]
        return len(loads) > 1 and any((r.waiting or 0) > 0 for r in ranks) and min(loads) <= 0.1 * max(loads)


def _preempts(engine: EngineReading, rate: float | None) -> bool | None:
    """Counted, or seen: those that are out of their seats now, where that is not SGLang's last report."""
    out = engine.preempted if rate is None or engine.engine != "sglang" else None
    if rate is None and out is None:
        return None
    return (rate or 0.0) > 0 or (out or 0.0) > 0


def _greatest(*values: float | None) -> float | None:
    return max((v for v in values if v is not None), default=None)
