"""Names and reasons in an operator's words, for one line of a terminal."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from tui.model.status import SourceState
from tui.model.units import seconds
from tui.model.urls import short_name
from tui.ui.glyphs import glyphs
from tui.ui.lines import narrow
from tui.ui.view import severity

if TYPE_CHECKING:
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.model.status import Reason, SourceStatus
    from tui.model.verdicts import Judgement

READING = "reading…"

_PACKAGE = re.compile(r"\d+(\.\d+)?GB$|HBM\d?e?$|SXM\d?$|PCIe$|NVL$", re.IGNORECASE)
_PATH = re.compile(r"/?[\w.\-]+(/[\w.\-]+)*/?")
_PACKAGING_SUFFIX = re.compile(r"-(SXM\d?|PCIE|PG\d+|\d+GB)\b.*$", re.IGNORECASE)

GPU_REASONS: Final[dict[Reason, str]] = {
    "no_driver": "no NVIDIA driver on this host",
    "driver_mismatch": "NVIDIA driver and library versions differ",
    "no_permission": "no permission to ask the NVIDIA driver",
    "old_driver": "NVIDIA driver too old for this",
    "stuck": "a driver call does not return",
    "lost": "GPU fell off the bus",
    "reset": "GPU needs a reset",
    "insufficient_power": "GPU lacks external power",
    "driver_error": "NVIDIA driver reports an error",
    "not_supported": "not supported by this GPU or driver",
    "timeout": "NVIDIA driver answers too late",
}

ENGINE_REASONS: Final[dict[Reason, str]] = {
    "refused": "refused connection",
    "timeout": "no answer in time",
    "dns": "name does not resolve",
    "tls": "TLS handshake failed",
    "401": "wants a token (401)",
    "403": "forbids us (403)",
    "404": "no metrics route (404)",
    "5xx": "answers with a server error (5xx)",
    "not_metrics": "answers, but not metrics",
    "too_large": "metrics too large to read",
    "empty": "metrics are empty",
    "parse": "metrics cannot be read",
    "stats_off": "metrics are switched off",
    "reset": "closes the connection",
    "redirect": "redirects elsewhere; not followed",
    "unsupported_engine": "recognised, its figures cannot be read yet",
    "not_supported": "has no such figures",
}

SHORT_VERDICTS: Final[dict[str, str]] = {
    "gpu_fault": "gpu fault", "engine_down": "down", "engine_hung": "hung", "loading": "loading",
    "draining": "draining", "kv_cache": "kv", "gpu_memory": "gpu mem", "scheduler_limit": "seats",
    "compute": "compute", "power_thermal": "power", "cpu": "cpu", "lock_contention": "locks",
    "io_disk": "disk", "network": "network", "queueing_upstream": "upstream",
    "degraded_cache": "cache", "healthy": "healthy", "idle": "idle", "unknown": "unknown",
}  # fmt: skip

PROBE_KINDS: Final[dict[str, str]] = {
    "liveness": "live",
    "readiness": "ready",
    "startup": "start",
    "generate": "gen",
}

THROTTLES: Final[dict[str, str]] = {
    "sw_power_cap": "cap",
    "hw_slowdown": "slow",
    "hw_thermal_slowdown": "HOT",
    "sw_thermal_slowdown": "hot",
    "hw_power_brake": "brake",
    "sync_boost": "sync",
    "applications_clocks": "app",
    "display_clocks": "disp",
}
"""Short forms; ``idle`` is left out, it is no throttling."""


def gpu_reason(reason: Reason | None, detail: str = "") -> str:
    """Why GPU figures are missing: as the source tells it, with calls and cards; else by the reason."""
    return narrow(detail) or _reason(GPU_REASONS, reason, "")


def engine_reason(reason: Reason | None, url: str) -> str:
    """Why an engine's figures are missing."""
    text = ENGINE_REASONS.get(reason, _spelled(reason)) if reason is not None else "no figures"
    return f"{text} at {narrow(short_name(url))}" if reason == "refused" else text


def host_reason(reason: Reason | None, detail: str = "") -> str:
    """Why the host's figures are missing."""
    return _reason({"stuck": "reading /proc does not return"}, reason, detail)


def _reason(words: dict[Reason, str], reason: Reason | None, detail: str) -> str:
    if reason is None:
        return narrow(detail) or "no figures"
    return words.get(reason) or narrow(detail) or _spelled(reason)


def _spelled(reason: str) -> str:
    return reason.replace("_", " ")


def engine_name(engine: EngineView) -> str:
    """Kind and address, e.g. ``vllm :8000``; ``engine`` while its kind is not known."""
    reading = engine.known or engine.engine.reading
    kind = reading.engine if reading is not None and reading.engine else _kind_by_process(engine)
    return f"{kind or 'engine'} {narrow(short_name(engine.url))}"


def _kind_by_process(engine: EngineView) -> str | None:
    return engine.processes[0].engine if engine.processes else None


def model_name(engine: EngineView) -> str:
    """The served model without its organisation or folder, or nothing."""
    reading = engine.known or engine.engine.reading
    if reading is None or not reading.model:
        return ""
    name = reading.model
    return narrow(name.rstrip("/").rsplit("/", 1)[-1] if _PATH.fullmatch(name) else name)


def scope_name(scope: str, snapshot: HostSnapshot) -> str:
    """What a verdict is about: ``host``, or the engine by kind and address."""
    if scope == "host":
        return "host"
    for engine in snapshot.engines:
        if engine.url == scope:
            return engine_name(engine)
    return narrow(short_name(scope)) if "://" in scope else narrow(scope)


def title(snapshot: HostSnapshot, judgement: Judgement) -> str:
    """A terminal's title: the worst verdict, what it is about, and where."""
    worst = min(judgement.verdicts, key=lambda v: (severity(v.verdict), v.scope == "host"), default=None)
    name = narrow(snapshot.hostname, 40) or "host"
    if worst is None:
        return f"infertop {name}"
    scope = "" if worst.scope == "host" else f" {scope_name(worst.scope, snapshot)}"
    return glyphs(f"{narrow(worst.title, 60)}{scope} on {name}")


def gpu_name(name: str | None) -> str:
    """A device's name without the words that every data-centre card carries, e.g. ``H100 80GB HBM3``."""
    words = narrow(name or "").split()
    return " ".join(w for w in words if w not in ("NVIDIA", "Tesla", "GeForce", "GPU")) or "GPU"


@functools.lru_cache(maxsize=64)
def gpu_kind(name: str | None) -> str:
    """The model alone, e.g. ``H100`` of ``NVIDIA H100 80GB HBM3``, ``A100`` of ``NVIDIA A100-SXM4-80GB``."""
    words = gpu_name(name).split()
    kept = [word for word in words if not _PACKAGE.match(word)] or words
    return " ".join(_PACKAGING_SUFFIX.sub("", word) for word in kept)


def age(status: SourceStatus) -> str:
    """How old a figure that is no longer fresh is, e.g. ``12s old``; nothing while it is fresh."""
    if status.state in (SourceState.FRESH, SourceState.PENDING) or status.age_s is None:
        return ""
    return f"{seconds(status.age_s)} old"


def elapsed(duration_s: float) -> str:
    """How long something has lasted, in whole units: ``85 s``, ``12 min``, ``3.1 h``."""
    if duration_s < 119.5:
        return f"{max(0, duration_s):.0f} s"
    if duration_s < 119.5 * 60:
        return f"{duration_s / 60:.0f} min"
    return f"{duration_s / 3600:.1f} h"
