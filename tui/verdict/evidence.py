"""One line of evidence for each signal; None where the figure is unknown, so that it is left out."""

from __future__ import annotations

import operator
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from tui.model.engine_host import ROLE_WORDS
from tui.model.units import count, data_rate, memory, number, seconds
from tui.model.verdicts import Evidence
from tui.verdict.gpu_signals import LOAD_SM_PCT, power_ratio, used_ratio
from tui.verdict.own_signals import wanted_pct
from tui.verdict.signals import BUSY_POLLERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.readings import GpuReading, ProbeKind
    from tui.verdict.gpu_signals import Throttled
    from tui.verdict.picture import HeldProcess
    from tui.verdict.signals import LatencyName, Signals


P = ParamSpec("P")
SIBLINGS_APART = 1.1
"""Clocks of equal cards at work differ by less."""


def line(
    make: Callable[Concatenate[Signals, P], Evidence | None],
) -> Callable[Concatenate[Signals, P], Evidence | None]:
    """Lines are made only for the outcomes that are shown: ranking them all needs none.

    What a line says of figure and threshold is made true here, whatever the rule that asked for it:
    the same figure is evidence for one verdict above its limit and for another below it.
    """

    @wraps(make)
    def made(s: Signals, /, *args: P.args, **kwargs: P.kwargs) -> Evidence | None:
        if not s.explaining:
            return None
        found = make(s, *args, **kwargs)
        return None if found is None else _true(found)

    return made


_HOLDS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_OPPOSITE = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def _true(found: Evidence) -> Evidence:
    value, limit, holds = found.value, found.threshold, _HOLDS.get(found.comparison)
    if holds is None or not isinstance(value, float | int) or not isinstance(limit, float | int):
        return found
    if holds(value, limit):
        return found
    opposite = _OPPOSITE[found.comparison]  # made anew: ``replace`` takes five times as long
    return Evidence(found.signal, value, found.unit, opposite, limit, found.text)


# ---------------------------------------------------------------------------------------- engine


@line
def running(s: Signals) -> Evidence | None:
    """Running requests, against the seats where those are known."""
    if s.running is None:
        return None
    text = f"running {count(s.running)}"
    if s.seats is None:
        return Evidence("running", s.running, text=text)
    return Evidence("running", s.running, "", ">=", s.seats, f"{text} of {count(s.seats)} seats")


@line
def waiting(s: Signals) -> Evidence | None:
    """Waiting requests and where they are heading."""
    if s.waiting is None:
        return None
    change = s.picture.trends.waiting_change
    trend = ""
    if change is not None and abs(change) >= max(2.0, 0.1 * s.waiting):
        trend = " rising" if change > 0 else " falling"
    return Evidence("waiting", s.waiting, "", ">", 0.0, f"waiting {count(s.waiting)}{trend}")


@line
def kv(s: Signals, limit: float, comparison: str = ">=") -> Evidence | None:
    """KV cache usage of the worst rank against a limit."""
    if s.kv is None:
        return None
    return Evidence("kv_usage", s.kv, "", comparison, limit, f"kv {s.kv_most}{s.kv:.2f} (limit {limit:.2f})")


@line
def kv_short(s: Signals) -> Evidence | None:
    """KV cache usage of a pool that is exhausted: below its limit with why that says little."""
    limit = s.thresholds.kv_usage_warn
    if s.kv is None or s.kv >= limit:
        return kv(s, limit)
    trends = s.picture.trends
    if s.preempts:
        several = not s.picture.live and len(s.gpus.loaded) > 1
        why = "full on one rank, or in bursts" if several else "full in bursts"
    elif s.kv < s.thresholds.kv_usage_early:
        why = "admission by worst case"
    elif (trends.running_change or 0.0) < 0:
        why = "fewer run, more wait"
    else:
        why = "too little for the next"
    return Evidence("kv_usage", s.kv, "", ">=", limit, f"kv {s.kv_most}{s.kv:.2f}: {why}")


@line
def kv_room(s: Signals) -> Evidence | None:
    """KV cache usage where it is not the limit, or not the only one."""
    limit = s.thresholds.kv_usage_early
    if s.kv is None or s.kv < limit:
        return kv(s, limit, "<")
    beside = "" if s.preempts is None else ", nobody is preempted"
    return Evidence("kv_usage", s.kv, "", ">=", limit, f"kv {s.kv_most}{s.kv:.2f}: nearly full too{beside}")


@line
def preempting(s: Signals) -> Evidence | None:
    """Preemptions, retractions or pauses a second."""
    rate = s.preempting
    if rate is None:
        return None
    text = "no preemptions" if rate == 0 else f"preempting {max(rate, 0.1):.1f}/s"
    return Evidence("preemptions_per_s", rate, "1/s", ">", 0.0, text)


@line
def preempted(s: Signals) -> Evidence | None:
    """Requests that are out of their seats now."""
    out = s.engine.preempted if s.engine else None
    return Evidence("preempted", out, "", ">", 0.0, f"{count(out)} preempted") if out else None


@line
def paused(s: Signals) -> Evidence | None:
    """That the engine takes no work on because somebody said so."""
    if not s.paused:
        return None
    word = "paused" if s.engine is not None and s.engine.paused else "asleep"
    return Evidence(word, "true", text=f"{word}: it takes no work on until told to")


@line
def requests(s: Signals) -> Evidence | None:
    """Requests that end, a second, of an engine that counts no tokens."""
    rate = s.engine.req_s if s.engine else None
    if rate is None or not s.counts_requests:
        return None
    return Evidence("req_s", rate, "1/s", text=f"{number(rate)} req/s")


@line
def latency(s: Signals, name: LatencyName) -> Evidence | None:
    """One latency against its target."""
    known = s.latency.get(name)
    if known is None:
        return None
    value, target = known
    comparison = ">" if value > target else "<="
    if name == "ttft" and s.own_ttft is None:  # of one probe, not of the users' requests
        text = f"one token {seconds(value)} (target {seconds(target)})"
        return Evidence("generate_s", value, "s", comparison, target, text)
    text = f"{name} {seconds(value)} (target {seconds(target)})"
    return Evidence(f"{name}_p95_s", value, "s", comparison, target, text)


@line
def worst_latency(s: Signals) -> Evidence | None:
    """The latency that is furthest beyond (or nearest to) its target."""
    if not s.latency:
        return None
    return latency(s, max(s.latency, key=lambda name: s.latency[name][0] / s.latency[name][1]))


def late_tokens(s: Signals) -> Evidence | None:
    """Inter-token latency beyond its target beside a first token or a queue that is worse."""
    known, worst = s.latency.get("itl"), max((v / target for v, target in s.latency.values()), default=0.0)
    if known is None or not 1.0 < known[0] / known[1] < worst:
        return None
    return latency(s, "itl")


@line
def tokens(s: Signals) -> Evidence | None:
    """Generated tokens a second."""
    rate = s.engine.gen_tok_s if s.engine else None
    if rate is None:
        return None
    return Evidence("gen_tok_s", rate, "tok/s", text=f"{count(rate)} tok/s generated")


@line
def prompt_tokens(s: Signals) -> Evidence | None:
    """Prompt tokens a second."""
    rate = s.engine.prompt_tok_s if s.engine else None
    if rate is None:
        return None
    return Evidence("prompt_tok_s", rate, "tok/s", text=f"{count(rate)} tok/s prompt")


def prompts_alone(s: Signals) -> Evidence | None:
    """Prompt tokens a second where none are generated: a long prefill, or embeddings."""
    engine = s.engine
    return prompt_tokens(s) if engine is not None and engine.prompt_tok_s and not engine.gen_tok_s else None


@line
def stalled(s: Signals) -> Evidence | None:
    """For how long no step was made while there was work."""
    if s.stalled_s is None:
        return None
    scrapes = f", {s.stalled_scrapes} scrapes" if s.stalled_scrapes else ""
    text = f"no step for {seconds(s.stalled_s)}{scrapes}"
    return Evidence("stalled_s", s.stalled_s, "s", ">=", s.stall_limit_s, text)


@line
def errors(s: Signals) -> Evidence | None:
    """The share of requests that fail."""
    if s.errors is None:
        return None
    limit = s.thresholds.error_ratio
    comparison = ">=" if s.errors >= limit else "<"
    return Evidence("error_ratio", s.errors, "", comparison, limit, f"errors {100 * s.errors:.0f} %")


@line
def rejected(s: Signals) -> Evidence | None:
    """The share of requests that are turned away with 503."""
    ratio = s.engine.http_503_ratio if s.engine else None
    if ratio is None:
        return None
    limit = s.thresholds.http_503_ratio
    comparison = ">=" if ratio >= limit else "<"
    return Evidence("http_503_ratio", ratio, "", comparison, limit, f"503 for {100 * ratio:.0f} %")


def failures(s: Signals) -> tuple[Evidence | None, ...]:
    """How many requests fail or are turned away: those of the two that are many, else what is known."""
    many = (s.engine.http_503_ratio or 0.0) >= s.thresholds.http_503_ratio if s.engine else False
    fail = (s.errors or 0.0) >= s.thresholds.error_ratio
    return (errors(s) if fail or not many else None, rejected(s) if many else None)


@line
def hits(s: Signals) -> Evidence | None:
    """The prefix cache's hit ratio, against its own usual one where that is known."""
    ratio = s.engine.prefix_hit_ratio if s.engine else None
    if ratio is None:
        return None
    usual = s.picture.trends.usual_prefix_hit_ratio
    limit = usual if usual is not None else s.thresholds.prefix_hit_ratio
    word = "usually" if usual is not None else "limit"
    comparison = "<" if ratio < limit else ">="
    return Evidence(
        "prefix_hit_ratio", ratio, "", comparison, limit, f"hits {ratio:.2f} ({word} {limit:.2f})"
    )


# ---------------------------------------------------------------------------------------- probes


@line
def probe(s: Signals, kind: ProbeKind) -> Evidence | None:
    """What a probe answered, and after how long."""
    found = s.probe(kind)
    if found is None or found.status is None:
        return None
    after = "" if found.latency_s is None else f" after {seconds(found.latency_s)}"
    return Evidence(kind, str(found.status), text=f"{kind} {found.status}{after}")


def probes(s: Signals) -> tuple[Evidence | None, ...]:
    """All probes that were made."""
    return tuple(probe(s, kind) for kind in s.answers)


@line
def held_process(s: Signals, held: HeldProcess) -> Evidence | None:
    """A process of the engine that cannot run."""
    return Evidence("process", held.how, text=held.text)


@line
def phase(s: Signals) -> Evidence | None:
    """What the supervisor believes."""
    known = s.picture.phase
    return Evidence("phase", known, text=f"phase {known}") if known else None


@line
def held(s: Signals) -> Evidence | None:
    """For how long the picture has been like this."""
    if s.picture.held_s is None:
        return None
    return Evidence("held_s", s.picture.held_s, "s", text=f"for {seconds(s.picture.held_s)}")


# ---------------------------------------------------------------------------------------- GPUs


@line
def sm(s: Signals, limit: float, comparison: str = ">=") -> Evidence | None:
    """GPU utilisation of the busiest device."""
    busiest = s.gpus.sm_max
    if busiest is None:
        return None
    return Evidence("sm_pct", busiest, "%", comparison, limit, f"SM {number(busiest)} %")


@line
def sm_joined(s: Signals) -> Evidence | None:
    """GPU utilisation of a hang: ranks that spin wait for the one that does not."""
    gpus, limit = s.gpus, s.thresholds.sm_high_pct
    apart = [g.index for g in gpus.loaded if g.sm_pct is not None and g.sm_pct < LOAD_SM_PCT]
    if not apart or not s.gpu_spinning():
        return sm(s, limit)
    which = f"GPU {apart[0]} does" if len(apart) == 1 else f"GPUs {', '.join(map(str, apart[:4]))} do"
    text = f"SM {number(gpus.sm_min)} to {number(gpus.sm_max)} %: {which} not join"
    return Evidence("sm_pct", gpus.sm_max, "%", ">=", limit, text)


@line
def mem_ctrl(s: Signals) -> Evidence | None:
    """Memory controller utilisation of the busiest device."""
    busiest = s.gpus.mem_ctrl_max
    if busiest is None:
        return None
    return Evidence("mem_ctrl_pct", busiest, "%", text=f"memory controller {number(busiest)} %")


@line
def power(s: Signals, gpu: GpuReading | None = None) -> Evidence | None:
    """Power of one device; of the one that is nearest to its limit where none is named."""
    if gpu is None:
        gpu = max(s.gpus.loaded, key=lambda g: power_ratio(g) or 0.0, default=None)
    ratio = None if gpu is None else power_ratio(gpu)
    if gpu is None or ratio is None:
        return None
    text = f"power {number(gpu.power_w)}/{number(gpu.power_limit_w)} W"
    return Evidence("power_ratio", round(ratio, 3), "", "", s.thresholds.power_high_ratio, text)


@line
def clock(s: Signals) -> Evidence | None:
    """SM clock of the slowest device over its maximum."""
    ratio = s.gpus.clock_ratio_min
    if ratio is None:
        return None
    limit = s.thresholds.clock_low_ratio
    return Evidence("clock_ratio", round(ratio, 3), "", "", limit, f"clock {100 * ratio:.0f} % of max")


def throttle(s: Signals, t: Throttled) -> tuple[Evidence | None, ...]:
    """Reasons and effect of one device's throttling, and what it does meanwhile."""
    gpu = t.gpu
    return (_reasons(s, t), _held_clock(s, t), power(s, gpu), _sm_of(s, gpu))


@line
def _reasons(_: Signals, t: Throttled) -> Evidence | None:
    gpu = t.gpu
    if not t.reasons:
        told = "no reason reported" if gpu.throttle is not None else "reasons not readable"
        return Evidence("throttle", told, text=f"GPU {gpu.index} held down: {told}")
    shares = dict(gpu.throttle_share or ())
    lasting = {r: f" ({100 * shares[r]:.0f} % of the last minute)" for r in t.reasons if r in shares}
    names = ", ".join(r + lasting.get(r, "") for r in t.reasons)
    return Evidence("throttle", names, text=f"GPU {gpu.index} throttled: {names}")


@line
def _held_clock(s: Signals, t: Throttled) -> Evidence | None:
    """Beside that of its siblings, where those run faster."""
    if t.clock_ratio is None:
        return None
    gpu = t.gpu
    clocks = [g.clock_sm_mhz for g in s.gpus.loaded if g is not gpu and g.clock_sm_mhz is not None]
    fastest = max(clocks, default=0.0)
    apart = fastest > SIBLINGS_APART * (gpu.clock_sm_mhz or fastest)
    others = f", others up to {number(fastest)}" if apart else ""
    text = f"clock {number(gpu.clock_sm_mhz)}/{number(gpu.clock_max_mhz)} MHz{others}"
    return Evidence("clock_ratio", round(t.clock_ratio, 3), "", "<", s.thresholds.clock_low_ratio, text)


@line
def _sm_of(s: Signals, gpu: GpuReading) -> Evidence | None:
    if gpu.sm_pct is None:
        return None
    return Evidence("sm_pct", gpu.sm_pct, "%", ">=", s.thresholds.sm_high_pct, f"SM {number(gpu.sm_pct)} %")


@line
def temperature(s: Signals) -> Evidence | None:
    """The hottest device, if it is hot."""
    gpu, limit = s.gpus.hottest, s.thresholds.temp_high_c
    if gpu is None or gpu.temp_c is None or gpu.temp_c < limit:
        return None
    return Evidence("temp_c", gpu.temp_c, "C", ">=", limit, f"GPU {gpu.index} {number(gpu.temp_c)} °C")


@line
def gpu_free(s: Signals) -> Evidence | None:
    """Free memory of the fullest device."""
    free, limit = s.gpus.free_mib_min, s.thresholds.gpu_mem_free_mib
    if free is None:
        return None
    comparison = "<" if free < limit else ">="
    return Evidence("gpu_mem_free_mib", free, "MiB", comparison, limit, f"GPU memory free {memory(free)}")


@line
def gpu_used(s: Signals) -> Evidence | None:
    """Memory in use on the fullest device."""
    used = s.gpus.used_mib_max
    return None if used is None else Evidence("mem_used_mib", used, "MiB", text=f"GPU memory {memory(used)}")


def device(gpu: GpuReading) -> Evidence:
    """One device that is ill, in a few words."""
    if gpu.xid is not None:
        return Evidence("xid", float(gpu.xid), text=f"GPU {gpu.index} Xid {gpu.xid}")
    if gpu.state != "ok":
        why = f": {gpu.reason}" if gpu.reason else ""
        return Evidence("gpu_state", gpu.state, "", "=", gpu.state, f"GPU {gpu.index} unreadable{why}")
    if gpu.remap_pending:
        return Evidence("remap_pending", "true", text=f"GPU {gpu.index} row remap pending")
    value = float(gpu.ecc_uncorrected or 0)
    return Evidence(
        "ecc_uncorrected", value, "", ">", 0.0, f"GPU {gpu.index} {count(value)} uncorrected ECC errors"
    )


@line
def memory_released(s: Signals) -> Evidence | None:
    """Whether the devices still hold a model; nothing where the model may be another engine's."""
    if not s.picture.gpus_ours:
        return None
    ratios = [r for g in s.gpus.loaded if (r := used_ratio(g)) is not None]
    if not ratios:
        return None
    gone = s.all_refused or s.picture.phase == "down" or "5xx" in s.answers.values()
    word = "released" if max(ratios) < 0.1 else "still held" if gone else "in use"
    used = s.gpus.used_mib_max
    return Evidence("mem_used_mib", used, "MiB", text=f"GPU memory {word} ({memory(used)})")


# ---------------------------------------------------------------------------------------- host


@line
def host(s: Signals, signal: str, unit: str, limit: float | None, name: str) -> Evidence | None:
    """One figure of the host reading by its field name."""
    value: float | None = getattr(s.host, signal, None) if s.host else None
    if value is None:
        return None
    comparison = "" if limit is None else ">=" if value >= limit else "<"
    return Evidence(signal, value, unit, comparison, limit, f"{name} {_WRITTEN[unit](value)}")


_WRITTEN: dict[str, Callable[[float], str]] = {
    "%": lambda value: f"{number(value)} %",  # of one core: a process has more than 100, which is never k
    "MB/s": data_rate,
    "1/s": lambda value: f"{count(value)}/s",
}


@line
def thread(s: Signals) -> Evidence | None:
    """The engine's own thread that matters, with what it does; else the host's busiest."""
    limit = s.thresholds.thread_busy_pct
    own = s.own.thread(limit, BUSY_POLLERS)
    if own is not None:
        name = f" {own.name}" if own.name else ""
        waits = f", waits for a core {number(own.wait_pct)} %" if (own.wait_pct or 0.0) >= 5.0 else ""
        text = f"thread {number(own.cpu_pct)} %{waits} ({ROLE_WORDS[own.role]}{name})"
        return Evidence("busiest_thread_cpu_pct", round(wanted_pct(own), 1), "%", ">=", limit, text)
    value = s.host.busiest_thread_cpu_pct if s.host else None
    if value is None or s.host is None:
        return None
    name = f" ({s.host.busiest_thread})" if s.host.busiest_thread else ""
    comparison = ">=" if value >= limit else "<"
    return Evidence(
        "busiest_thread_cpu_pct", value, "%", comparison, limit, f"thread {number(value)} %{name}"
    )
