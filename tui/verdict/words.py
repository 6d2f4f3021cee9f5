"""Signals and inputs in an operator's words: what screen and reports show for the names that the JSON has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tui.model.units import count, data_rate, memory, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NAMES: dict[str, str] = {
    "gpus": "GPUs", "host": "host figures", "engine": "engine figures", "probes": "probes",
    "running": "running", "waiting": "waiting", "max_num_seqs": "seats", "kv_usage": "KV cache",
    "preemptions_per_s": "preemptions", "preempted": "preempted", "deferred": "deferred",
    "prefix_hit_ratio": "prefix hits", "evictions_per_s": "evictions", "ttft_p95_s": "TTFT p95",
    "itl_p95_s": "ITL p95", "queue_p95_s": "queue time p95", "gen_tok_s": "generated tokens",
    "prompt_tok_s": "prompt tokens", "generate_s": "one token", "req_s": "requests ended",
    "stalled_s": "time without a step",
    "error_ratio": "errors", "http_503_ratio": "503 answers", "ranks.running": "least loaded rank",
    "sm_pct": "SM", "mem_ctrl_pct": "memory controller", "power_ratio": "power of limit",
    "power_w": "GPU power", "power_limit_w": "GPU power limit", "clock_ratio": "SM clock of max",
    "clock_sm_mhz": "SM clock", "clock_max_mhz": "highest SM clock", "throttle": "throttle reasons",
    "busiest_thread_pid": "who the busiest thread is", "temp_c": "GPU temperature",
    "gpu_mem_free_mib": "GPU memory free", "mem_used_mib": "GPU memory used", "mem_total_mib": "GPU memory",
    "gpm_sm_active": "SM active", "gpu_state": "GPU state", "xid": "Xid", "remap_pending": "row remap",
    "ecc_uncorrected": "uncorrected ECC", "pcie_link": "PCIe link", "pcie_ratio": "PCIe",
    "nvlink_mb_s": "NVLink", "busiest_thread_cpu_pct": "busiest thread",
    "busiest_process_cpu_pct": "busiest process", "cpu_pct_total": "host CPU", "psi_cpu": "CPU pressure",
    "psi_io": "I/O pressure", "psi_mem": "memory pressure",
    "mem_used_pct": "host memory", "iowait_pct": "iowait", "disk_util_pct": "disk busy",
    "disk_read_mb_s": "disk read", "net_mb_s": "network", "net_util_pct": "interface",
    "ib_mb_s": "InfiniBand", "ib_util_pct": "InfiniBand port", "ctx_switches_s": "context switches",
    "engine_switches_s": "its switches", "engine_read_mb_s": "its reads",
    "throttled_share": "CPU quota used up", "wait_pct": "waits for a core",
    "futex_share": "asleep on a futex", "load_left_s": "load time left", "backlog": "not yet accepted",
    "connections": "connections", "oom_kills": "ended for memory", "orphans": "orphans",
    "held_s": "how long it has been so", "phase": "phase",
}  # fmt: skip
"""By the last part of a signal's or an input's name; the words are those of the panes."""
_RATIOS = frozenset((
    "kv_usage", "prefix_hit_ratio", "error_ratio", "http_503_ratio", "power_ratio", "clock_ratio",
    "pcie_ratio", "throttled_share", "futex_share", "gpm_sm_active",
))  # fmt: skip
_IDENTIFIER = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)?")


def word(signal: str) -> str:
    """What a person calls a signal or an input; one that is a sentence already stays as it is.

    ``gpus.clock_sm_mhz`` is "SM clock", and ``gpus (no_driver)`` is "GPUs (no driver)".
    """
    base, bracket, reason = signal.partition(" (")
    if not _IDENTIFIER.fullmatch(base):
        return signal
    known = NAMES.get(base) or NAMES.get(base.rpartition(".")[2])
    said = known if known is not None else base.rpartition(".")[2].replace("_", " ")
    return f"{said}{bracket}{reason.replace('_', ' ')}"


def named(signals: Iterable[str]) -> tuple[str, ...]:
    """All of them by ``word``, each once."""
    return tuple(dict.fromkeys(map(word, signals)))


def figure(signal: str, value: float) -> str:
    """A value of a signal with its unit, as the panes write it: ``0.21s``, ``96 %``, ``30.3 GiB``."""
    if signal in _RATIOS:
        return f"{100 * value:.3g} %"
    for ending, write in _BY_ENDING.items():
        if signal.endswith(ending):
            return write(value)
    return count(value)


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 100 else f"{value:.3g} %"


_BY_ENDING: dict[str, Callable[[float], str]] = {
    "_pct": _percent,
    "_pct_total": _percent,
    "psi_cpu": _percent,
    "psi_io": _percent,
    "psi_mem": _percent,
    "_tok_s": lambda v: f"{count(v)} tok/s",
    "_mb_s": data_rate,
    "req_s": lambda v: f"{count(v)}/s",
    "_per_s": lambda v: f"{count(v)}/s",
    "switches_s": lambda v: f"{count(v)}/s",
    "_s": seconds,
    "_mib": memory,
    "temp_c": lambda v: f"{v:.0f} °C",
}
"""The first that fits; the longer endings stand before the shorter."""
