"""The machine around a simulated engine: GPUs and host whose figures follow the engine's load.

Pure: time and load come in, readings go out. Nothing of the real machine is loaded or read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.model.readings import DiskReading, GpuProcess, GpuReading, GpuSet, HostReading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.demo.load import EngineLoad
    from tui.demo.spec import MachineSpec

TOTAL_MIB, RESERVED_MIB, CONTEXT_MIB = 81559.0, 551.0, 620.0
WEIGHTS_MIB, POOL_MIB = 34000.0, 38500.0
"""Weights of a 70B at 8 bits, split over two cards, and the KV pool that the engine takes at once."""
IDLE_W, LIMIT_W = 72.0, 700.0
CLOCK_IDLE_MHZ, CLOCK_MAX_MHZ, CLOCK_MEM_MHZ = 345.0, 1980.0, 2619.0
ROOM_C, PER_W_C = 27.0, 0.075
POWER_TAU_S, HEAT_TAU_S, SM_TAU_S = 2.0, 25.0, 1.0
"""Time constants: power follows the work at once, the card's temperature half a minute later."""
CORES, MEMORY_MIB = 64, 515_000.0
LOAD_MB_S = 1900.0
MEMORY_HOLDERS = ("VLLM::Worker", "sglang::scheduler")
"""Titles of the processes that hold device memory in the real engines; the listener holds none."""


@dataclass(slots=True)
class _Card:
    """What a card remembers: everything here moves towards its target, never at once."""

    index: int
    sm: float = 0.0
    power_w: float = IDLE_W
    temp_c: float = ROOM_C + IDLE_W * PER_W_C
    held_mib: float = 0.0
    throttle: tuple[str, ...] = ("idle",)

    def advance(self, load: EngineLoad, dt: float, hot_c: float) -> None:
        """Pass ``dt`` seconds under a load."""
        tilt = 1.0 - 0.015 * self.index  # no two cards of a host are alike
        prefill = min(1.0, load.prefill_tok_s / 20000.0)
        self.sm = _towards(self.sm, min(1.0, load.busy * 1.02) * tilt, dt, SM_TAU_S)
        work = self.sm * (0.58 + 0.34 * prefill)
        self.power_w = _towards(self.power_w, IDLE_W + (LIMIT_W - IDLE_W) * work, dt, POWER_TAU_S)
        room = ROOM_C + hot_c
        self.temp_c = _towards(self.temp_c, room + self.power_w * PER_W_C, dt, HEAT_TAU_S)
        self.held_mib = _memory(load, self.held_mib, dt)
        reasons = []
        if self.temp_c >= 87.0:
            reasons.append("sw_thermal_slowdown")
        if self.power_w >= 0.97 * LIMIT_W:
            reasons.append("sw_power_cap")
        self.throttle = tuple(reasons) or (("idle",) if self.sm < 0.01 else ())

    def reading(self, processes: tuple[GpuProcess, ...]) -> GpuReading:
        """The card as NVML would show it."""
        clock = CLOCK_IDLE_MHZ if self.sm < 0.01 else CLOCK_MAX_MHZ
        if "sw_thermal_slowdown" in self.throttle:
            clock *= max(0.45, 1.0 - 0.05 * (self.temp_c - 85.0))
        return GpuReading(
            index=self.index,
            uuid=f"GPU-51a00000-0000-0000-0000-00000000000{self.index}",
            name="NVIDIA H100 80GB HBM3",
            sm_pct=round(100.0 * self.sm),
            mem_ctrl_pct=round(62.0 * self.sm),
            mem_used_mib=round(self.held_mib),
            mem_total_mib=TOTAL_MIB,
            mem_reserved_mib=RESERVED_MIB,
            power_w=round(self.power_w, 1),
            power_limit_w=LIMIT_W,
            temp_c=round(self.temp_c),
            throttle=self.throttle,
            clock_sm_mhz=15.0 * round(clock / 15.0),
            clock_max_mhz=CLOCK_MAX_MHZ,
            clock_mem_mhz=CLOCK_MEM_MHZ,
            ecc_uncorrected=0,
            remap_pending=False,
            pcie_gen=5,
            pcie_gen_max=5,
            pcie_width=16,
            pcie_width_max=16,
            mig=False,
            processes=processes,
        )


@dataclass(slots=True)
class Machine:
    """Two cards and a host, consistent with one engine's load.

    Args:
        cards: how many devices there are.
    """

    cards: int = 2
    _cards: list[_Card] = field(default_factory=list)
    _at: float | None = None
    _read_mb_s: float = 0.0
    _load: EngineLoad | None = None
    _busy_now: float = 0.0

    def advance(self, load: EngineLoad, now: float, spec: MachineSpec) -> None:
        """Bring the machine to ``now`` (monotonic seconds) under a load."""
        if not self._cards:
            self._cards = [_Card(index) for index in range(self.cards)]
        dt = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at, self._load = now, load
        for card in self._cards:
            card.advance(load, dt, spec.hot_c)
        loading = load.phase == "loading" and self._cards[0].held_mib < CONTEXT_MIB + WEIGHTS_MIB
        self._read_mb_s = _towards(self._read_mb_s, LOAD_MB_S if loading else 0.0, dt, 0.5)

    def gpus(self, pids: Mapping[str, int]) -> GpuSet:
        """The devices now; the engine's core or workers hold their memory."""
        holders = [pid for title, pid in pids.items() if title.startswith(MEMORY_HOLDERS)]
        rows = []
        for card in self._cards:
            held = tuple(GpuProcess(pid, "simulated", card.held_mib) for pid in holders if card.held_mib)
            rows.append(card.reading(held))
        return GpuSet(tuple(rows), "550.54.15")

    def host(self, now: float) -> HostReading:
        """The host now: a busy front process, a polling core, weights from disk while loading."""
        load = self._load
        requests = 0 if load is None else load.running + load.waiting
        serving = load is not None and load.phase in ("serving", "draining")
        tokens = 0.0 if load is None else load.decode_tok_s
        ripple = 1.5 * math.sin(now / 7.0)
        front = min(97.0, 3.0 + tokens / 160.0 + requests / 8.0 + ripple) if serving else 4.0
        core = min(99.0, 100.0 * (load.busy if load is not None else 0.0))
        reading = self._read_mb_s >= 1.0
        total = (front + core + 60.0 + (180.0 if reading else 0.0)) / CORES
        disk = DiskReading(
            "nvme0n1",
            r_s=self._read_mb_s * 8.0,
            w_s=12.0,
            read_mb_s=self._read_mb_s,
            write_mb_s=0.4,
            util_pct=min(100.0, self._read_mb_s / 32.0),
            await_ms=0.3 if reading else 0.1,
        )
        return HostReading(
            cpu_pct_total=total,
            cpu_cores=CORES,
            load1=total * CORES / 100.0,
            busiest_process_cpu_pct=max(front, core),
            busiest_process="VLLM::EngineCor" if core >= front else "vllm",
            busiest_thread_cpu_pct=max(front, core),
            busiest_thread="VLLM::EngineCor" if core >= front else "vllm",
            iowait_pct=3.0 if reading else 0.0,
            disk_util_pct=disk.util_pct,
            disk_read_mb_s=disk.read_mb_s,
            disk_write_mb_s=disk.write_mb_s,
            mem_used_pct=11.0,
            mem_used_mib=0.11 * MEMORY_MIB,
            mem_total_mib=MEMORY_MIB,
            psi_cpu=0.2,
            psi_io=4.0 if reading else 0.0,
            psi_mem=0.0,
            ctx_switches_s=9000.0 + 20.0 * tokens,
            net_mb_s=tokens * 0.0005,
            net_rx_mb_s=tokens * 0.0001,
            net_tx_mb_s=tokens * 0.0004,
            disks=(disk,),
        )


def _towards(value: float, target: float, dt: float, tau_s: float) -> float:
    """Exponential approach, whatever the step."""
    return target + (value - target) * math.exp(-dt / tau_s)


def _memory(load: EngineLoad, held: float, dt: float) -> float:
    """Weights come in while loading, the pool all at once; an engine that is down has given all back."""
    if load.phase == "down":
        return 0.0
    if load.phase == "loading":
        return min(max(held, CONTEXT_MIB) + LOAD_MB_S * dt, CONTEXT_MIB + WEIGHTS_MIB)
    return CONTEXT_MIB + WEIGHTS_MIB + POOL_MIB
