"""What else could explain the picture on which a rule fires, and the inputs that would rule it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.verdict.outcome import Exclusion
from tui.verdict.progress import many_cores_busy
from tui.verdict.signals import SPINNING_START_S

if TYPE_CHECKING:
    from tui.verdict.signals import Signals

Names = tuple[str, ...]


def _without(inputs: dict[str, object]) -> Names:
    return tuple(name for name, value in inputs.items() if value is None)


def _of_devices(s: Signals, *fields: str) -> Names:
    """Those of the fields that no device of the engine tells."""
    return tuple(f"gpus.{name}" for name in fields if all(getattr(g, name) is None for g in s.gpus.loaded))


def _seats(s: Signals) -> Names:
    """Seats that are all taken make requests wait as well."""
    if s.waiting is None:
        return ("waiting",)
    return _without({"running": s.running, "max_num_seqs": s.seats}) if s.waiting else ()


def _seats_of_a_pool(s: Signals) -> Names:
    """A pool that throws requests out is exhausted, whatever the seats are."""
    return () if s.preempts else _seats(s)


def _seats_under_a_cap(s: Signals) -> Names:
    """A power cap is met by every busy card; heat and brakes are not."""
    return _seats(s) if s.throttled and not s.throttled[0].hard else ()


def _clock(s: Signals) -> Names:
    """Work at full power may be done at half the clock."""
    return () if s.gpus.clock_ratio_max is not None else _of_devices(s, "clock_sm_mhz", "clock_max_mhz")


def _power(s: Signals) -> Names:
    """Kernels that wait for each other are resident too; they draw little."""
    return () if s.gpus.power_ratio_max is not None else _of_devices(s, "power_w", "power_limit_w")


def _movement(s: Signals) -> Names:
    """Devices that move data do real work; those that wait for transfers do not."""
    known = s.gpus.mem_ctrl_max if s.gpus.mem_ctrl_max is not None else s.gpus.dram_max
    return _without({"gpus.mem_ctrl_pct": known})


def _prefill(s: Signals) -> Names:
    """One long prefill makes no step that is counted either; its devices work."""
    if s.picture.no_devices or s.generate in ("timeout", "5xx"):
        return ()
    sm = s.gpus.sm_max
    if sm is None:
        return ("gpus.sm_pct",)
    return () if sm < s.thresholds.sm_high_pct or s.gpu_spinning() else _power(s)


def _stuck_start(s: Signals) -> Names:
    """Ranks that wait for each other stand still as long as nobody looks at the clock."""
    held = s.picture.held_s
    if held is None:
        return ("held_s",)
    if held < SPINNING_START_S or s.picture.no_devices:
        return ()
    sm = s.gpus.sm_max
    if sm is None:
        return ("gpus.sm_pct",)
    return _movement(s) if sm >= s.thresholds.sm_high_pct else ()


def _latency(s: Signals) -> Names:
    """A cap with latency in target harms nobody."""
    return _without(dict.fromkeys(("ttft_p95_s", "itl_p95_s"), None)) if not (s.latency or s.queueing) else ()


def _thread(s: Signals) -> Names:
    """A full thread keeps devices and links waiting as well."""
    return _without({"busiest_thread_cpu_pct": s.thread})


def _poller(s: Signals) -> Names:
    """A thread that only polls is full when all is well."""
    host = s.host
    if not s.picture.live or s.pressed or s.thread_role is not None or host is None:
        return ()
    return _without({"busiest_thread_pid": host.busiest_thread_pid})


def _kernels_made(s: Signals) -> Names:
    """Many busy cores compile while the devices rest."""
    return _without({"gpus.sm_pct": s.gpus.sm_max}) if many_cores_busy(s) else ()


def _compilers(s: Signals) -> Names:
    """A start that compiles waits for no disk."""
    return () if s.running or s.flow else _thread(s)


def _idle_devices(s: Signals) -> Names:
    """Devices that work are what is waited for."""
    return _without({"gpus.sm_pct": s.gpus.sm_max})


def _preemptions(s: Signals) -> Names:
    """Requests that are thrown out compute their prompts again, cached or not."""
    return _without({"preemptions_per_s": s.preempts})


def _slow_engine(s: Signals) -> Names:
    """An engine with few requests may still be what is slow."""
    if s.uneven() or s.own.piled():
        return ()
    return _without(
        {
            "waiting": s.waiting,
            "kv_usage": s.kv,
            "gpus.sm_pct": s.gpus.sm_max,
            "busiest_thread_cpu_pct": s.thread,
        }
    )


ENGINE_HUNG = (
    Exclusion("gpu_fault"),
    Exclusion("a long prefill", _prefill),
    Exclusion("compilation", _kernels_made),
)
LOADING = (Exclusion("io_disk"), Exclusion("gpu_memory"), Exclusion("engine_hung", _stuck_start))
KV_CACHE = (Exclusion("scheduler_limit", _seats_of_a_pool),)
GPU_MEMORY = (Exclusion("kv_cache"),)
POWER_THERMAL = (Exclusion("scheduler_limit", _seats_under_a_cap), Exclusion("a harmless cap", _latency))
NETWORK = (
    Exclusion("engine_hung"),
    Exclusion("power_thermal"),
    Exclusion("compute", _movement),
    Exclusion("cpu", _thread),
)
IO_DISK = (Exclusion("compilation", _compilers), Exclusion("compute", _idle_devices))
DEGRADED_CACHE = (
    Exclusion("kv_cache", _preemptions),
    Exclusion("scheduler_limit", _seats),
    Exclusion("cpu", _thread),
)
LOCK_CONTENTION = (Exclusion("cpu", _thread), Exclusion("compute", _idle_devices))
CPU = (Exclusion("a thread that only polls", _poller),)
QUEUEING_UPSTREAM = (Exclusion("a slow engine", _slow_engine),)
SCHEDULER_LIMIT = (Exclusion("kv_cache"), Exclusion("cpu", _thread))
COMPUTE = (
    Exclusion("kv_cache"),
    Exclusion("power_thermal", _clock),
    Exclusion("network", _power),
    Exclusion("scheduler_limit", _seats),
)
