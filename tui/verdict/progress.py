"""What availability rules ask of the host around an engine that does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.verdict import evidence as ev

if TYPE_CHECKING:
    from tui.model.verdicts import Evidence
    from tui.verdict.signals import Signals

BUSY_MB_S = 20.0
"""Less than this moves on any host; weights come faster even from a slow share."""
RESTART_MB_S = 100.0
IDLE_THREAD_PCT = 20.0
BUSY_PCT = 50.0
WAITS_PCT = 5.0
COMPILERS_PCT = 400.0
"""What spins in a hung engine fills a core or two; compilers take all that they get."""
COMPILERS_TOTAL_PCT = 40.0
LEAST_CORES = 8
CONTEXT_MIB = 300.0
"""A CUDA context alone takes about this much of a device."""
HOLDS_MODEL_RATIO = 0.1


def start_signs(s: Signals) -> list[str]:
    """Signs that a start makes progress: bytes from disk or network, compilers, work on the device."""
    host, found = s.host, []
    if max(s.disk_mb_s or 0.0, s.own.reads_mb_s() or 0.0) >= BUSY_MB_S:
        found.append("disk")
    if (s.net_mb_s or 0.0) >= BUSY_MB_S:
        found.append("network")
    if (s.thread or 0.0) >= BUSY_PCT or (
        host is not None and (host.busiest_process_cpu_pct or 0.0) >= BUSY_PCT
    ):
        found.append("cpu")
    if host is not None and ((host.psi_io or 0.0) >= WAITS_PCT or (host.iowait_pct or 0.0) >= WAITS_PCT):
        found.append("io")
    if (s.gpus.sm_max or 0.0) >= WAITS_PCT and not s.gpu_spinning():
        found.append("gpu")
    return found


def start_evidence(s: Signals) -> tuple[Evidence | None, ...]:
    """The figures behind ``start_signs``."""
    signs = start_signs(s)
    io = "io" in signs
    return (
        ev.host(s, "disk_read_mb_s", "MB/s", None, "disk read")
        if (s.disk_mb_s or 0.0) >= BUSY_MB_S
        else None,
        ev.host(s, "net_mb_s", "MB/s", None, "network") if "network" in signs else None,
        ev.thread(s) if "cpu" in signs else None,
        ev.host(s, "iowait_pct", "%", None, "iowait") if io else None,
        ev.host(s, "psi_io", "%", None, "I/O pressure") if io else None,
        ev.sm(s, WAITS_PCT) if "gpu" in signs else None,
    )


def compilers_busy(s: Signals) -> bool:
    """Many cores are at work while the devices rest: kernels are compiled, also by an engine that serves."""
    return s.gpus_at_rest() and many_cores_busy(s)


def many_cores_busy(s: Signals) -> bool:
    """As above, of the host alone; never where the model itself runs on its cores."""
    host = s.host
    if host is None or s.picture.no_devices:
        return False
    many = (host.cpu_cores or 0) >= LEAST_CORES and (host.cpu_pct_total or 0.0) >= COMPILERS_TOTAL_PCT
    return many or (host.busiest_process_cpu_pct or 0.0) >= COMPILERS_PCT


def starting(s: Signals) -> bool:
    """The port is closed because of a start: announced, or seen by what it moves."""
    phase = s.picture.phase
    if phase in ("loading", "draining", "down") or not s.all_refused:
        return phase == "loading"
    if phase != "serving":
        return bool(start_signs(s))
    # somebody believes that it serves: only weights on their way say otherwise
    coming = (s.disk_mb_s or 0.0) >= RESTART_MB_S or (s.net_mb_s or 0.0) >= RESTART_MB_S
    return coming and (s.gpus.sm_max is None or s.gpus.sm_max < s.thresholds.sm_low_pct)


def nothing_runs(s: Signals) -> bool:
    """No process of an engine can be at work: devices empty, CPU, disk and network quiet, all of it known."""
    used = s.gpus.used_mib_max
    return used is not None and used < CONTEXT_MIB and s.thread is not None and host_quiet(s)


def host_quiet(s: Signals) -> bool:
    """No known figure of CPU, disk or network shows work."""
    host = s.host
    return host is not None and not (
        (s.thread or 0.0) >= IDLE_THREAD_PCT
        or (host.busiest_process_cpu_pct or 0.0) >= IDLE_THREAD_PCT
        or (s.disk_mb_s or 0.0) >= BUSY_MB_S / 4
        or (s.net_mb_s or 0.0) >= BUSY_MB_S / 4
        or (host.iowait_pct or 0.0) >= 5.0
        or (host.psi_io or 0.0) >= 5.0
    )


def memory_held(s: Signals) -> bool | None:
    """A device still holds a model; None where no device tells, or it may be another engine's."""
    return None if s.held_ratio is None else s.held_ratio >= HOLDS_MODEL_RATIO


def in_trouble(s: Signals) -> bool:
    """Requests fail or nothing moves; a full queue that answers late is not meant."""
    if s.errors is not None and s.errors >= s.thresholds.error_ratio:
        return True
    if s.flow:
        return False
    if s.generate in ("5xx", "timeout", "refused", "reset") or "5xx" in s.status_answers:
        return True
    if s.all_refused or s.all_timeout:
        return True
    return s.work is True and s.flow is False and s.generate != "ok"


def trouble(s: Signals) -> tuple[Evidence | None, ...]:
    """The figures behind ``in_trouble``."""
    failing = tuple(ev.probe(s, kind) for kind, found in s.answers.items() if found != "ok")
    stalled = (ev.stalled(s),) if s.work and s.flow is False else ()
    high = s.errors is not None and s.errors >= s.thresholds.error_ratio
    return (ev.errors(s) if high else None, *failing, *stalled)
