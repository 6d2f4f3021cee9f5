"""What several devices together say about one engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from tui.verdict.picture import FATAL_XIDS

if TYPE_CHECKING:
    from tui.model.readings import GpuReading
    from tui.model.settings import Thresholds

LOADED_RATIO = 0.1
"""A device with less of its memory in use than this holds no model."""
OURS_TO_FIX = frozenset(("no_permission", "no_driver", "driver_mismatch", "not_supported", "old_driver"))
"""Reasons that lie in the monitor's rights or libraries, not in the device."""


@dataclass(frozen=True, slots=True)
class Throttled:
    """A device under load whose clock is held down."""

    gpu: GpuReading
    reasons: tuple[str, ...]
    clock_ratio: float | None
    hard: bool
    """Heat, a power brake, or a clock that is hardly there: not the cap that every busy card meets."""


class GpuSignals(NamedTuple):
    """Extremes over the devices that hold a model; None where no device gave the figure."""

    card_count: int = 0
    """Cards; the MIG instances of one are not counted beside it."""
    unreadable: tuple[GpuReading, ...] = ()
    """Devices that are expected but answer nothing, for no reason of ours."""
    suspect: bool = False
    """Unreadable beside readable ones, or lost in the driver's own words: the device, not the monitor."""
    faulty: tuple[GpuReading, ...] = ()
    """Devices with a fatal Xid."""
    marked: tuple[GpuReading, ...] = ()
    """Devices with pending remaps or uncorrected errors: they may serve on."""
    loaded: tuple[GpuReading, ...] = ()
    sm_max: float | None = None
    sm_min: float | None = None
    mem_ctrl_max: float | None = None
    power_ratio_max: float | None = None
    clock_ratio_max: float | None = None
    clock_ratio_min: float | None = None
    free_mib_min: float | None = None
    used_ratio_max: float | None = None
    used_mib_max: float | None = None
    """Over all devices, loaded or not: None only where no device tells."""
    hottest: GpuReading | None = None
    active_max: float | None = None
    """0-1: share of the SMs that were busy, by the profiling counters, where a card has them."""
    tensor_max: float | None = None
    dram_max: float | None = None
    slow_links: tuple[GpuReading, ...] = ()
    """Devices at work over a PCIe link that is narrower or older than it could be."""
    pcie_ratio_max: float | None = None
    """Traffic of the busiest PCIe link in one direction over what the link carries."""

    @property
    def resident_only(self) -> bool:
        """Kernels are there and hardly use an SM or the memory: they wait."""
        known = self.active_max is not None and self.dram_max is not None
        return known and (self.active_max or 0.0) < _WAITING_ACTIVE and (self.dram_max or 0.0) < _WAITING_DRAM

    def throttled(self, thresholds: Thresholds) -> tuple[Throttled, ...]:
        """Devices under load with a reason to throttle, or far below their siblings, worst first."""
        found = [t for gpu in self.loaded if (t := _throttled(gpu, self, thresholds)) is not None]
        return tuple(sorted(found, key=lambda t: (not t.hard, t.clock_ratio or 0.0)))


def gpu_signals(gpus: tuple[GpuReading, ...]) -> GpuSignals:
    """Signals of a set of devices; all None for an empty one."""
    # what ails a card is said once, not once more for each MIG instance on it
    uuids = {g.uuid for g in gpus}
    cards = [g for g in gpus if g.parent_uuid is None or g.parent_uuid not in uuids]
    unreadable = tuple([g for g in cards if g.state != "ok" and g.reason not in OURS_TO_FIX])
    readable = [g for g in gpus if g.state == "ok"]
    used = [used_ratio(g) for g in readable]
    at_work = [g for g, ratio in zip(readable, used, strict=True) if ratio is None or ratio >= LOADED_RATIO]
    loaded = at_work or readable
    sm, clock = [g.sm_pct for g in loaded], [clock_ratio(g) for g in loaded]
    profiled = [g for g in loaded if g.gpm_sm_active is not None]
    linked = [g for g in loaded if g.pcie_gen is not None or g.pcie_width is not None]
    return GpuSignals(
        card_count=len(cards),
        unreadable=unreadable,
        suspect=bool(unreadable) and (bool(readable) or any(g.reason == "lost" for g in unreadable)),
        faulty=tuple([g for g in cards if g.xid in FATAL_XIDS]),
        marked=tuple([g for g in cards if g.state == "ok" and (g.remap_pending or g.ecc_uncorrected)]),
        loaded=tuple(loaded),
        sm_max=_max(sm),
        sm_min=_min(sm),
        mem_ctrl_max=_max([g.mem_ctrl_pct for g in loaded]),
        power_ratio_max=_max([power_ratio(g) for g in loaded]),
        clock_ratio_max=_max(clock),
        clock_ratio_min=_min(clock),
        free_mib_min=_min([free_mib(g) for g in loaded]),
        used_ratio_max=_max(used),
        used_mib_max=_max([g.mem_used_mib for g in readable]),
        hottest=max([g for g in loaded if g.temp_c is not None], key=_heat, default=None),
        active_max=_max([g.gpm_sm_active for g in profiled]),
        tensor_max=_max([g.gpm_tensor_active for g in profiled]),
        dram_max=_max([g.gpm_dram_active for g in profiled]),
        slow_links=tuple([g for g in linked if slow_link(g)]),
        pcie_ratio_max=_max([_pcie_ratio(g) for g in linked]),
    )


def _max(values: list[float | None]) -> float | None:
    return max(_known(values), default=None)


def _min(values: list[float | None]) -> float | None:
    return min(_known(values), default=None)


def _known(values: list[float | None]) -> list[float]:
    return cast("list[float]", values) if None not in values else [v for v in values if v is not None]


def _heat(gpu: GpuReading) -> float:
    return gpu.temp_c or 0.0


def used_ratio(gpu: GpuReading) -> float | None:
    """Memory in use over the total, 0-1."""
    return _ratio(gpu.mem_used_mib, gpu.mem_total_mib)


def power_ratio(gpu: GpuReading) -> float | None:
    """Power drawn over the enforced limit."""
    return _ratio(gpu.power_w, gpu.power_limit_w)


def clock_ratio(gpu: GpuReading) -> float | None:
    """SM clock over its maximum."""
    return _ratio(gpu.clock_sm_mhz, gpu.clock_max_mhz)


def free_mib(gpu: GpuReading) -> float | None:
    """Memory that nothing holds, the driver's reserve left out."""
    if gpu.mem_total_mib is None or gpu.mem_used_mib is None:
        return None
    return gpu.mem_total_mib - gpu.mem_used_mib - (gpu.mem_reserved_mib or 0.0)


def slow_link(gpu: GpuReading) -> bool:
    """A PCIe link below its maximum; by its generation only under load, for it steps down when idle."""
    width, width_max, gen, gen_max = gpu.pcie_width, gpu.pcie_width_max, gpu.pcie_gen, gpu.pcie_gen_max
    narrow = width is not None and width_max is not None and width < width_max
    old = gen is not None and gen_max is not None and gen < gen_max
    return narrow or (old and (gpu.sm_pct or 0.0) >= LOAD_SM_PCT)


_LANE_MB_S = {1: 250.0, 2: 500.0, 3: 985.0, 4: 1969.0, 5: 3938.0, 6: 7563.0}
"""What a PCIe lane carries in one direction, by generation."""
_WAITING_ACTIVE = 0.25
"""A collective that waits occupies a few SMs; NCCL takes up to 32 of 132."""
_WAITING_DRAM = 0.05


def _pcie_ratio(gpu: GpuReading) -> float | None:
    rates = [v for v in (gpu.pcie_rx_mb_s, gpu.pcie_tx_mb_s) if v is not None]
    lane = _LANE_MB_S.get(gpu.pcie_gen or 0)
    return None if not rates or lane is None else _ratio(max(rates), lane * (gpu.pcie_width or 0))


def _ratio(value: float | None, whole: float | None) -> float | None:
    return None if value is None or not whole else value / whole


HARMLESS = frozenset(("idle", "display_clocks"))
_CAPS = frozenset(("sw_power_cap", "applications_clocks", "sync_boost"))
_STUCK_CLOCK_RATIO = 0.6
"""Boost tables and power-limited cards work at 0.7 of their maximum without any fault."""
LOAD_SM_PCT = 50.0
"""From here on a card counts as under load."""
_LASTING_SHARE = 0.5


def _throttled(gpu: GpuReading, all_: GpuSignals, thresholds: Thresholds) -> Throttled | None:
    if gpu.sm_pct is not None and gpu.sm_pct < LOAD_SM_PCT:
        return None  # an idle card clocks down, and that is no fault
    ratio = clock_ratio(gpu)
    reasons = tuple(r for r in gpu.throttle or () if r not in HARMLESS)
    if not reasons and ratio is not None:
        # reasons flicker: one that held for most of the last minute explains a clock that is low now
        lasting = (r for r, share in gpu.throttle_share or () if share >= _LASTING_SHARE)
        reasons = tuple(r for r in lasting if r not in HARMLESS)
    hard = any(r not in _CAPS for r in reasons)
    if ratio is None:
        return Throttled(gpu, reasons, None, hard) if hard else None
    if ratio >= thresholds.clock_low_ratio:
        return None
    if gpu.sm_pct is None and not reasons:
        return None  # not known to be under load
    behind = all_.clock_ratio_max is not None and ratio < thresholds.clock_low_ratio * all_.clock_ratio_max
    stuck = ratio < _STUCK_CLOCK_RATIO
    if reasons or behind or stuck:
        return Throttled(gpu, reasons, ratio, hard or stuck)
    return None
