"""Observations made from the verdict cards: every field varies within what its card allows.

Each builder returns an observation for one verdict, with the fields that the card requires; the rest is
noise within harmless ranges. It knows the cards, not the rules.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

Observation = dict[str, Any]

CARDS = (
    # total MiB, power limit W, clock maximum MHz
    (81559, 700, 1980), (81920, 400, 1410), (46068, 350, 2520), (24564, 450, 2520), (23034, 72, 2040),
    (143771, 700, 1980), (49140, 300, 2505), (23028, 150, 1695),
)  # fmt: skip
ENGINES = ("vllm", "sglang", "trtllm", "triton")


@dataclass
class Case:
    """One made observation and what it must be called."""

    verdict: str
    line: Observation
    required: tuple[str, ...]
    """Fields without which the verdict may be unknown or less sure."""
    removed: bool = False
    """One of the required fields was taken away."""


class Maker:
    """Random figures within ranges."""

    def __init__(self, seed: int) -> None:
        self.r = Random(seed)
        self.card = self.r.choice(CARDS)
        self.count = self.r.choice((1, 1, 2, 4, 8))
        self.cores = self.r.choice((8, 16, 32, 64, 96, 128, 192))
        self.engine = self.r.choice(ENGINES)

    def u(self, low: float, high: float, digits: int = 3) -> float:
        return round(self.r.uniform(low, high), digits)

    def i(self, low: int, high: int) -> int:
        return self.r.randint(low, high)

    def gpu(
        self,
        sm: tuple[float, float],
        mem_ctrl: tuple[float, float],
        power: tuple[float, float],
        clock: tuple[float, float] = (0.92, 1.0),
        used: tuple[float, float] = (0.5, 0.93),
        temp: tuple[float, float] = (30, 79),
        throttle: tuple[str, ...] = (),
    ) -> Observation:
        total, limit, top = self.card
        return {
            "sm_pct": self.i(int(sm[0]), int(sm[1])),
            "mem_ctrl_pct": self.i(int(mem_ctrl[0]), int(mem_ctrl[1])),
            "mem_used_mib": int(total * self.u(*used)),
            "mem_total_mib": total,
            "power_w": round(limit * self.u(*power), 1),
            "power_limit_w": limit,
            "temp_c": self.i(int(temp[0]), int(temp[1])),
            "throttle": list(throttle),
            "clock_sm_mhz": int(top * self.u(*clock)),
            "clock_max_mhz": top,
        }

    def gpus(self, *args: Any, count: int | None = None, **kwargs: Any) -> list[Observation]:
        first = self.gpu(*args, **kwargs)
        found = [first]
        for _ in range((count or self.count) - 1):
            other = dict(first)
            for name in ("power_w", "clock_sm_mhz", "mem_used_mib"):
                other[name] = round(first[name] * self.u(0.99, 1.0), 1)
            found.append(other)
        return found

    def idle_gpus(
        self, used: tuple[float, float] = (0.5, 0.93), count: int | None = None
    ) -> list[Observation]:
        return self.gpus((0, 1), (0, 1), (0.08, 0.16), (0.15, 0.3), used, (25, 45), count=count)

    def busy_gpus(self) -> list[Observation]:
        return self.gpus((30, 85), (20, 70), (0.3, 0.85))

    def host(self, **given: float) -> Observation:
        found = {
            "cpu_pct_total": self.u(1, 15, 1),
            "cpu_cores": self.cores,
            "busiest_thread_cpu_pct": self.u(10, 75, 1),
            "iowait_pct": self.u(0, 2, 1),
            "disk_util_pct": self.u(0, 15, 1),
            "disk_read_mb_s": self.u(0, 4, 1),
            "mem_used_pct": self.u(10, 80, 1),
            "psi_cpu": self.u(0, 5, 1),
            "psi_io": self.u(0, 3, 1),
            "psi_mem": 0.0,
            "ctx_switches_s": self.i(4000, 900 * self.cores + 5000),
            "net_mb_s": self.u(0, 12, 1),
        }
        found.update(given)
        return found

    def still_host(self) -> Observation:
        return self.host(
            cpu_pct_total=self.u(0, 2, 1), busiest_thread_cpu_pct=self.u(0, 8, 1), disk_read_mb_s=self.u(0, 0.5),
            net_mb_s=self.u(0, 0.5), iowait_pct=0, psi_io=0,
        )  # fmt: skip

    def probes(self, generate: Any = None, latency: tuple[float, float] = (0.1, 1.0)) -> Observation:
        slow = self.engine == "sglang"
        found: Observation = {
            "liveness": {"status": 200, "latency_s": 1.0 if slow else self.u(0.001, 0.02)},
            "readiness": {"status": 200, "latency_s": self.u(0.001, 0.02)},
        }
        if generate is not None:
            found["generate"] = {"status": generate, "latency_s": self.u(*latency)}
        return found

    def refused(self) -> Observation:
        kinds = ["liveness", "readiness"] + (["generate"] if self.r.random() < 0.4 else [])
        return {kind: {"status": "refused", "latency_s": 0.001} for kind in kinds}

    def figures(self, **given: Any) -> Observation:
        found: Observation = {"preemptions_per_s": 0, "error_ratio": self.u(0, 0.01), "http_503_ratio": 0.0}
        found.update(given)
        return found

    def seats(self, running: int) -> int:
        return int(running * self.u(1.3, 6)) + 8

    def line(
        self, phase: str | None = "serving", held: tuple[int, int] = (60, 3600), **parts: Any
    ) -> Observation:
        observation = dict(parts)
        if phase:
            observation["phase"] = phase
        observation["duration_s"] = self.i(*held)
        return {"engine": self.engine, "observations": observation}


Builder = Callable[[Maker], tuple[Observation, tuple[str, ...]]]
SLOW_LATENCY = {"ttft_p95_s": (2.3, 40.0), "itl_p95_s": (0.03, 0.09), "queue_p95_s": (1.5, 39.0)}


def _slow(m: Maker) -> Observation:
    return {name: m.u(*span) for name, span in SLOW_LATENCY.items()}


def _good(m: Maker) -> Observation:
    return {"ttft_p95_s": m.u(0.1, 0.9), "itl_p95_s": m.u(0.01, 0.045), "queue_p95_s": m.u(0, 0.4)}


def kv_cache(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    running = m.i(8, 150)
    kind = m.r.choice(("preempts", "waits", "worst case"))
    if kind == "worst case":
        m.engine = m.r.choice(("sglang", "trtllm"))
        load = m.figures(kv_usage=m.u(0.35, 0.84), waiting=int(running * m.u(0.4, 4)) + 5)
        gpus = m.gpus((25, 85), (20, 60), (0.3, 0.8))
    elif kind == "preempts":
        load = m.figures(kv_usage=m.u(0.9, 1.0), waiting=m.i(0, 200), preemptions_per_s=m.u(0.1, 8))
        gpus = m.gpus((40, 100), (30, 80), (0.4, 0.95))
    else:
        load = m.figures(kv_usage=m.u(0.955, 1.0), waiting=int(running * m.u(0.1, 3)) + 3)
        gpus = m.gpus((40, 89), (30, 80), (0.4, 0.85))
    load |= _slow(m) | {"running": running, "gen_tok_s": m.i(100, 5000), "max_num_seqs": m.seats(running)}
    line = m.line(gpus=gpus, engine=load, host=m.host(), probes=m.probes(200, (2, 30)))
    return line, ("engine.kv_usage", "engine.running", "engine.waiting", "engine.preemptions_per_s",
                  "engine.max_num_seqs", "gpus.sm_pct")  # fmt: skip


def gpu_memory(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    running = m.i(2, 60)
    gpus = m.gpus((20, 85), (15, 60), (0.25, 0.8))
    for gpu in gpus:
        gpu["mem_used_mib"] = gpu["mem_total_mib"] - m.i(40, 900)
    load = m.figures(
        running=running, waiting=m.i(0, 3), kv_usage=m.u(0.05, 0.85), gen_tok_s=m.i(60, 2000),
        error_ratio=m.u(0.06, 0.6), max_num_seqs=m.seats(running), ttft_p95_s=m.u(0.3, 5), itl_p95_s=m.u(0.02, 0.2),
    )  # fmt: skip
    line = m.line(gpus=gpus, engine=load, host=m.host(), probes=m.probes(m.r.choice((200, 500)), (0.1, 1)))
    return line, ("gpus.mem_used_mib", "gpus.mem_total_mib", "engine.error_ratio", "engine.running",
                  "engine.gen_tok_s")  # fmt: skip


def scheduler_limit(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    seats = m.r.choice((4, 8, 16, 48, 64, 128, 256))
    load = m.figures(
        running=seats, waiting=int(seats * m.u(0.2, 3)) + 3, kv_usage=m.u(0.02, 0.8), gen_tok_s=m.i(100, 4000),
        max_num_seqs=seats,
    ) | _slow(m)  # fmt: skip
    gpus = m.gpus((25, 96), (20, 80), (0.3, 0.9))
    line = m.line(gpus=gpus, engine=load, host=m.host(), probes=m.probes(200, (2, 30)))
    return line, ("engine.running", "engine.waiting", "engine.max_num_seqs", "engine.kv_usage")


def compute(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    running = m.i(10, 300)
    load = m.figures(
        running=running, waiting=m.i(0, running), kv_usage=m.u(0.1, 0.8), gen_tok_s=m.i(300, 9000),
        prompt_tok_s=m.i(0, 60000), max_num_seqs=m.seats(running), ttft_p95_s=m.u(2.2, 30), itl_p95_s=m.u(0.11, 0.5),
    )  # fmt: skip
    gpus = m.gpus((92, 100), (40, 90), (0.9, 1.0), (0.9, 1.0))
    line = m.line(gpus=gpus, engine=load, host=m.host(), probes=m.probes(200, (2, 20)))
    return line, ("gpus.sm_pct", "gpus.power_w", "gpus.clock_sm_mhz", "engine.running", "engine.ttft_p95_s",
                  "gpus.power_limit_w", "gpus.mem_ctrl_pct")  # fmt: skip


def power_thermal(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    running = m.i(4, 100)
    reasons = m.r.choice((
        ("hw_thermal_slowdown", "hw_slowdown"), ("sw_thermal_slowdown",), ("hw_power_brake", "hw_slowdown"),
        ("sw_power_cap",), ("hw_slowdown",),
    ))  # fmt: skip
    hot = "thermal" in reasons[0]
    slow = m.gpus(
        (85, 100), (15, 60), (0.4, 1.0), (0.25, 0.77), temp=(86, 95) if hot else (40, 80), throttle=reasons
    )
    if m.count > 1 and m.r.random() < 0.4:  # one sick card among its siblings
        slow = [*m.gpus((90, 100), (15, 60), (0.4, 0.8), count=m.count - 1), slow[0]]
    load = m.figures(
        running=running, waiting=m.i(0, 2), kv_usage=m.u(0.05, 0.8), gen_tok_s=m.i(50, 2000),
        max_num_seqs=m.seats(running), ttft_p95_s=m.u(1.2, 8), itl_p95_s=m.u(0.06, 0.4),
    )  # fmt: skip
    line = m.line(gpus=slow, engine=load, host=m.host(), probes=m.probes(200, (1, 6)))
    return line, ("gpus.throttle", "gpus.clock_sm_mhz", "gpus.clock_max_mhz", "engine.running")


def cpu(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    running = m.i(4, 200)
    if m.r.random() < 0.5:
        host = m.host(busiest_thread_cpu_pct=m.u(95, 100, 1), busiest_process_cpu_pct=m.u(96, 180, 1))
    else:
        host = m.host(
            cpu_pct_total=m.u(84, 100, 1), psi_cpu=m.u(45, 95, 1), busiest_thread_cpu_pct=m.u(50, 100, 1),
            busiest_process_cpu_pct=m.u(80, 98) * m.cores,
        )  # fmt: skip
    load = m.figures(
        running=running, waiting=m.i(0, 2), kv_usage=m.u(0.05, 0.8), gen_tok_s=m.i(100, 3000),
        max_num_seqs=m.seats(running), ttft_p95_s=m.u(1.2, 8), itl_p95_s=m.u(0.06, 0.3),
    )  # fmt: skip
    gpus = m.gpus((5, 72), (5, 50), (0.2, 0.6))
    line = m.line(gpus=gpus, engine=load, host=host, probes=m.probes(200, (1, 8)))
    return line, ("host.busiest_thread_cpu_pct", "host.cpu_pct_total", "host.psi_cpu", "gpus.sm_pct",
                  "engine.running", "host.busiest_process_cpu_pct")  # fmt: skip


def lock_contention(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    running = m.i(4, 100)
    m.cores = m.r.choice((32, 64, 96, 128))
    host = m.host(
        cpu_pct_total=m.u(25, 75, 1), busiest_thread_cpu_pct=m.u(25, 78, 1), ctx_switches_s=m.i(5000, 20000) * m.cores,
        busiest_process_cpu_pct=m.u(20, 70) * m.cores, psi_cpu=m.u(0, 25, 1),
    )  # fmt: skip
    load = m.figures(
        running=running, waiting=m.i(0, 2), kv_usage=m.u(0.05, 0.6), gen_tok_s=m.i(60, 1500),
        max_num_seqs=m.seats(running), ttft_p95_s=m.u(2.2, 9), itl_p95_s=m.u(0.11, 0.4),
    )  # fmt: skip
    gpus = m.gpus((5, 60), (5, 40), (0.2, 0.55))
    line = m.line(gpus=gpus, engine=load, host=host, probes=m.probes(200, (2, 9)))
    return line, ("host.ctx_switches_s", "host.busiest_thread_cpu_pct", "gpus.sm_pct", "engine.running",
                  "host.cpu_cores", "host.cpu_pct_total", "host.busiest_process_cpu_pct")  # fmt: skip


def io_disk(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    kind = m.r.choice(("local", "remote", "serving"))
    if kind == "serving":
        host = m.host(iowait_pct=m.u(26, 60, 1), psi_io=m.u(45, 95, 1), disk_util_pct=m.u(91, 100, 1),
                      disk_read_mb_s=m.u(20, 300, 1))  # fmt: skip
        load = m.figures(running=m.i(2, 40), waiting=m.i(0, 2), kv_usage=m.u(0.05, 0.6), gen_tok_s=m.i(20, 400),
                         max_num_seqs=256, ttft_p95_s=m.u(2.5, 20), itl_p95_s=m.u(0.12, 0.9))  # fmt: skip
        gpus = m.gpus((3, 50), (2, 30), (0.15, 0.5))
        line = m.line(gpus=gpus, engine=load, host=host, probes=m.probes(200, (3, 20)))
        return line, ("host.iowait_pct", "host.psi_io", "host.disk_util_pct", "engine.running", "gpus.sm_pct")
    if kind == "local":
        host = m.host(iowait_pct=m.u(5, 60, 1), psi_io=m.u(45, 98, 1), disk_util_pct=m.u(92, 100, 1),
                      disk_read_mb_s=m.u(15, 280, 1), busiest_thread_cpu_pct=m.u(5, 40, 1))  # fmt: skip
    else:
        host = m.host(iowait_pct=m.u(3, 40, 1), psi_io=m.u(50, 98, 1), disk_util_pct=m.u(0, 5, 1),
                      disk_read_mb_s=0, net_mb_s=m.u(8, 110, 1), busiest_thread_cpu_pct=m.u(3, 30, 1))  # fmt: skip
    line = m.line("loading", (200, 2400), gpus=m.idle_gpus((0.001, 0.4)), host=host, probes=m.refused())
    return line, ("host.psi_io", "host.iowait_pct", "host.disk_util_pct", "host.disk_read_mb_s", "host.net_mb_s",
                  "phase")  # fmt: skip


def network(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    running = m.i(4, 100)
    load = m.figures(
        running=running, waiting=m.i(0, 3), kv_usage=m.u(0.05, 0.7), gen_tok_s=m.i(20, 600),
        max_num_seqs=m.seats(running), ttft_p95_s=m.u(2.4, 20), itl_p95_s=m.u(0.12, 0.6),
    )  # fmt: skip
    if m.r.random() < 0.5:
        m.count = m.r.choice((2, 4, 8))
        gpus = m.gpus((93, 100), (5, 30), (0.2, 0.38), (0.93, 1.0))
        host = m.host(net_mb_s=m.r.choice((m.u(0, 5), m.u(1090, 1220), m.u(2700, 3050))))
    else:
        gpus = m.gpus((4, 60), (2, 30), (0.15, 0.45))
        host = m.host(net_mb_s=m.r.choice((m.u(108, 124), m.u(1080, 1240), m.u(2700, 3100), m.u(5500, 6200))))
    line = m.line(gpus=gpus, engine=load, host=host, probes=m.probes(200, (2, 18)))
    return line, ("gpus.sm_pct", "gpus.power_w", "gpus.power_limit_w", "gpus.mem_ctrl_pct", "host.net_mb_s",
                  "engine.running")  # fmt: skip


def queueing_upstream(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    load = m.figures(
        running=m.i(0, 5), waiting=0, kv_usage=m.u(0, 0.15), gen_tok_s=m.i(5, 200), max_num_seqs=256,
        itl_p95_s=m.u(0.01, 0.06),
    )  # fmt: skip
    if m.r.random() < 0.6:
        load |= {"error_ratio": m.u(0.07, 0.7), "http_503_ratio": m.u(0.06, 0.6), "ttft_p95_s": m.u(0.1, 1.0)}
    else:
        load |= {"ttft_p95_s": m.u(3, 30), "queue_p95_s": m.u(0, 0.3)}
    gpus = m.gpus((1, 20), (1, 12), (0.12, 0.3), (0.3, 1.0))
    host = m.host(busiest_thread_cpu_pct=m.u(2, 40, 1))
    line = m.line(gpus=gpus, engine=load, host=host, probes=m.probes(200, (0.05, 0.6)))
    return line, ("engine.error_ratio", "engine.http_503_ratio", "engine.running", "engine.ttft_p95_s",
                  "probes.generate", "gpus.sm_pct")  # fmt: skip


def degraded_cache(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    running = m.i(10, 80)
    m.engine = m.r.choice(("vllm", "sglang"))
    load = m.figures(
        running=running, waiting=m.i(0, 1), kv_usage=m.u(0.2, 0.8), gen_tok_s=m.i(200, 3000),
        prompt_tok_s=m.i(8000, 60000), max_num_seqs=m.seats(running), prefix_hit_ratio=m.u(0.0, 0.13),
        ttft_p95_s=m.u(2.3, 9), itl_p95_s=m.u(0.015, 0.08), evictions_per_s=m.i(200, 40000),
    )  # fmt: skip
    gpus = m.gpus((50, 89), (30, 60), (0.4, 0.88))
    line = m.line(gpus=gpus, engine=load, host=m.host(), probes=m.probes(200, (1, 6)))
    return line, ("engine.prefix_hit_ratio", "engine.ttft_p95_s", "engine.itl_p95_s", "engine.running",
                  "engine.evictions_per_s")  # fmt: skip


def healthy(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    running = m.i(1, 200)
    kind = m.r.choice(
        ("plain", "plain", "busy", "kv full", "capped", "busy thread", "seats full", "link busy")
    )
    gpus = m.busy_gpus()
    host = m.host()
    load = m.figures(running=running, waiting=0, kv_usage=m.u(0.02, 0.8), gen_tok_s=m.i(30, 6000),
                     prompt_tok_s=m.i(0, 30000), max_num_seqs=m.seats(running)) | _good(m)  # fmt: skip
    if kind == "busy":
        gpus = m.gpus((95, 100), (50, 90), (0.93, 1.0), (0.9, 1.0))
    elif kind == "kv full":
        load["kv_usage"] = m.u(0.9, 1.0)
    elif kind == "capped":
        gpus = m.gpus((95, 100), (40, 80), (0.97, 1.0), (0.72, 0.97), throttle=("sw_power_cap",))
    elif kind == "busy thread":
        host = m.host(busiest_thread_cpu_pct=m.u(96, 100, 1))
    elif kind == "seats full":
        load["max_num_seqs"] = running
    elif kind == "link busy":
        host = m.host(net_mb_s=m.u(200, 3000))
    line = m.line(gpus=gpus, engine=load, host=host, probes=m.probes(200, (0.1, 0.9)))
    return line, (
        "engine.running",
        "engine.waiting",
        "engine.gen_tok_s",
        "engine.ttft_p95_s",
        "engine.itl_p95_s",
    )


def idle(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    kind = m.r.choice(("quiet", "quiet", "spin", "thread", "stale kv"))
    gpus = m.idle_gpus()
    host = m.still_host()
    load = m.figures(
        running=0, waiting=0, kv_usage=m.u(0, 0.05), gen_tok_s=0, prompt_tok_s=0, max_num_seqs=256
    )
    if kind == "spin":
        gpus = m.gpus((95, 100), (0, 1), (0.15, 0.35))
    elif kind == "thread":
        host = m.host(busiest_thread_cpu_pct=m.u(95, 100, 1))
    elif kind == "stale kv":
        load["kv_usage"] = m.u(0.5, 1.0)
    line = m.line(gpus=gpus, engine=load, host=host, probes=m.probes(200, (0.02, 0.5)))
    return line, ("engine.running", "engine.waiting", "engine.gen_tok_s", "probes.generate")


def engine_hung(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    running, waiting = m.r.choice(((m.i(1, 40), m.i(0, 60)), (0, m.i(1, 30))))
    gpus = m.r.choice((m.idle_gpus(), m.gpus((97, 100), (0, 2), (0.2, 0.45))))
    load = m.figures(running=running, waiting=waiting, kv_usage=m.u(0.01, 0.9), gen_tok_s=0, prompt_tok_s=0,
                     max_num_seqs=256)  # fmt: skip
    load.pop("error_ratio")
    host = m.r.choice((m.still_host(), m.host(busiest_thread_cpu_pct=m.u(95, 100, 1))))
    probes = m.probes("timeout", (30, 120))
    if m.engine == "sglang" and m.r.random() < 0.5:
        probes["liveness"] = {"status": 503, "latency_s": m.u(20, 21)}
    line = m.line(gpus=gpus, engine=load, host=host, probes=probes)
    return line, ("engine.running", "engine.waiting", "engine.gen_tok_s", "probes.generate")


def engine_down(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    kind = m.r.choice(("refused", "refused", "5xx", "backend"))
    if kind == "refused":
        line = m.line(m.r.choice(("down", "down", "serving")), gpus=m.idle_gpus((0.0001, 0.004)),
                      host=m.still_host(), probes=m.refused())  # fmt: skip
        return line, ("probes.liveness", "probes.readiness", "phase", "gpus.mem_used_mib")
    status = m.r.choice((500, 503))
    probes = m.probes(status, (0.002, 0.05))
    if kind == "5xx":
        probes["liveness"]["status"] = probes["readiness"]["status"] = status
        probes["liveness"]["latency_s"] = 0.01
    load = m.figures(running=m.i(0, 5), waiting=0, gen_tok_s=0, prompt_tok_s=0, error_ratio=m.u(0.95, 1.0),
                     max_num_seqs=256)  # fmt: skip
    line = m.line(gpus=m.idle_gpus((0.0001, 0.9)), engine=load, host=m.still_host(), probes=probes)
    return line, ("probes.generate", "engine.error_ratio", "engine.gen_tok_s", "probes.liveness")


def loading(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    kind = m.r.choice(("disk", "compile", "network", "warm-up"))
    probes = m.refused()
    gpus = m.idle_gpus((0.01, 0.85))
    if kind == "disk":
        host = m.host(
            disk_read_mb_s=m.u(400, 5000), disk_util_pct=m.u(10, 80), psi_io=m.u(0, 25), iowait_pct=m.u(0, 8)
        )
    elif kind == "compile":
        host = m.host(cpu_pct_total=m.u(5, 70), busiest_thread_cpu_pct=m.u(85, 100), disk_read_mb_s=m.u(0, 5))
    elif kind == "network":
        host = m.host(net_mb_s=m.u(40, 1100), busiest_thread_cpu_pct=m.u(20, 90))
    else:
        host = m.host(busiest_thread_cpu_pct=m.u(60, 100))
        gpus = m.gpus((5, 60), (3, 30), (0.15, 0.5))
        probes = {kind: {"status": 503, "latency_s": m.u(0.001, 0.02)} for kind in ("liveness", "readiness")}
    line = m.line("loading", (5, 500), gpus=gpus, host=host, probes=probes)
    return line, ("phase", "probes.readiness", "probes.liveness")


def draining(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    load = m.figures(running=m.i(1, 30), waiting=0, kv_usage=m.u(0.01, 0.5), gen_tok_s=m.i(20, 2000),
                     max_num_seqs=256) | _good(m)  # fmt: skip
    probes = m.probes(m.r.choice((503, 500, "refused", "reset")), (0.001, 0.02))
    probes["readiness"]["status"] = m.r.choice((503, 503, "refused"))
    line = m.line("draining", (3, 120), gpus=m.busy_gpus(), engine=load, host=m.host(), probes=probes)
    return line, ("phase", "probes.readiness", "engine.running")


def gpu_fault(m: Maker) -> tuple[Observation, tuple[str, ...]]:
    m.count = m.r.choice((1, 2, 4, 8))
    gpus: list[Observation] = m.idle_gpus(count=m.count)
    gpus[m.i(0, m.count - 1)] = {}
    if m.r.random() < 0.5:
        load = m.figures(
            running=m.i(0, 4), waiting=m.i(0, 4), gen_tok_s=0, prompt_tok_s=0, error_ratio=m.u(0.3, 1.0)
        )
        probes = m.probes(m.r.choice((500, "timeout")), (0.01, 0.05) if m.r.random() < 0.5 else (30, 60))
        line = m.line(gpus=gpus, engine=load, host=m.still_host(), probes=probes)
    else:
        line = m.line("down", gpus=gpus, host=m.still_host(), probes=m.refused())
    return line, ("gpus",)


BUILDERS: dict[str, Builder] = {
    f.__name__: f
    for f in (
        kv_cache, gpu_memory, scheduler_limit, compute, power_thermal, cpu, lock_contention, io_disk, network,
        queueing_upstream, degraded_cache, healthy, idle, engine_hung, engine_down, loading, draining, gpu_fault,
    )
}  # fmt: skip

NOISE = 0.02
"""Relative noise on every figure: two instruments never agree."""
_EXACT = frozenset(("running", "waiting", "max_num_seqs", "cpu_cores", "mem_total_mib", "power_limit_w", "clock_max_mhz",
                    "mem_used_mib"))  # fmt: skip


def cases(verdict: str, count: int, *, remove: bool = False) -> Iterator[Case]:
    """``count`` cases of a verdict, with noise and missing optional fields; the same for every run.

    Args:
        verdict: which card.
        count: how many.
        remove: take one required field away as well.
    """
    for seed in range(count):
        maker = Maker(seed * 7919 + sum(map(ord, verdict)))
        line, required = BUILDERS[verdict](maker)
        line = copy.deepcopy(line)
        observations = line["observations"]
        _disturb(maker.r, observations)
        for where in _optional(observations, required):
            if maker.r.random() < 0.08:
                remove_field(observations, where)
        present = [where for where in required if _has(observations, where)]
        removed = remove and bool(present)
        if removed:
            remove_field(observations, maker.r.choice(present))
        yield Case(verdict, {"id": f"{verdict}-{seed}", **line}, required, removed)


def _disturb(r: Random, value: Any) -> None:
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in list(children):
        if isinstance(child, dict | list):
            _disturb(r, child)
        elif isinstance(child, float) and key not in _EXACT and key not in ("latency_s", "duration_s"):
            limit = 1.0 if key.endswith("_ratio") or key == "kv_usage" else float("inf")
            limit = 100.0 if key.endswith("_pct") or key.startswith("psi_") else limit
            value[key] = min(limit, child * r.uniform(1 - NOISE, 1 + NOISE))


def fields(observations: Observation) -> list[str]:
    """Every field that is present, as ``section.name``; a GPU's field once for all devices."""
    found: list[str] = [name for name in ("phase", "duration_s") if name in observations]
    for section in ("engine", "host", "probes"):
        found += [f"{section}.{name}" for name in observations.get(section, {})]
    names = {name for gpu in observations.get("gpus", []) for name in gpu}
    return found + [f"gpus.{name}" for name in sorted(names)]


def _optional(observations: Observation, required: tuple[str, ...]) -> list[str]:
    return [
        where
        for where in fields(observations)
        if where not in required and where.split(".")[0] not in required
    ]


def _has(observations: Observation, where: str) -> bool:
    section, _, name = where.partition(".")
    part = observations.get(section)
    if not name or part is None:
        return part is not None
    return any(name in gpu for gpu in part) if isinstance(part, list) else name in part


def remove_field(observations: Observation, where: str) -> None:
    """Take a field, or a whole section, out of an observation."""
    section, _, name = where.partition(".")
    if not name:
        observations.pop(section, None)
        return
    part = observations.get(section, {})
    for table in part if isinstance(part, list) else [part]:
        table.pop(name, None)
