"""One card over the whole run, through losses and new sessions: what it last was, and its row."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from tui.model.readings import GpuProcess, GpuReading, Missing
from tui.model.xids import graver, xid_text
from tui.sources.nvml.errors import device_words
from tui.sources.nvml.side import SIDE_FIELDS, SideFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tui.model.readings import GpuState
    from tui.model.status import Reason
    from tui.sources.kernel.visibility import Visibility
    from tui.sources.nvml.device import Found
    from tui.sources.nvml.mig import FoundInstance

SHARE_WINDOW_S = 60.0
SHARE_FROM_S = 10.0
SIDE_STALE_S = 5.0
"""A slow figure older than this is not shown. A pass over 16 cards takes a second."""
_HOLDS_MODEL_MIB = 1024.0
_MIG = " MIG "


class Card:
    """One card of this host.

    Args:
        index: its index in this run.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.uuid: str | None = None
        self.name: str | None = None
        self.pci_bus_id: str | None = None
        self.xid: int | None = None
        self._xid_at = 0.0
        self._good: dict[str, Any] = {}
        self._good_at: float | None = None
        self._instances: tuple[FoundInstance, ...] = ()
        self._shares = _Shares()
        self._state: GpuState = "ok"
        self._recovered_at: float | None = None

    @property
    def ever_good(self) -> bool:
        """It has answered in this run."""
        return self._good_at is not None

    def introduce(self, uuid: str | None, name: str | None, pci_bus_id: str | None = None) -> None:
        """What is known of who it is; None is not known."""
        self.uuid = uuid or self.uuid
        self.name = name or self.name
        self.pci_bus_id = pci_bus_id or self.pci_bus_id

    def note_xid(self, number: int, now: float) -> None:
        """An Xid came; the gravest is kept until the card is back from being lost."""
        if graver(self.xid, number) == number:
            self.xid, self._xid_at = number, now

    def good(
        self, found: Found, side: SideFound | None, side_problem: str, sight: Visibility, now: float
    ) -> list[GpuReading]:
        """Rows of a card that answered: its own, then those of its MIG instances.

        Args:
            found: what it answered.
            side: its slow figures, if there are any.
            side_problem: why there are none, if it is known.
            sight: what can be seen of processes.
            now: monotonic seconds.
        """
        if self._state != "ok":
            self._recovered_at = now
            if self._state == "lost":
                self.xid = None
        self._state = "ok"
        values = dict(found.values)
        missing = list(found.missing)
        if side is not None and now - side.at <= SIDE_STALE_S:
            values.update(side.values)
            missing += side.missing
        elif side_problem:
            missing += [Missing(name, side_problem) for name in SIDE_FIELDS]
            side = None
        values["processes"] = _processes(values, side, sight, missing)
        values["throttle_share"] = self._shares.add(values.get("throttle"), now)
        self._good, self._good_at, self._instances = values, now, found.instances
        rows = [self._row(values, now, tuple(missing), detail=_ailments(values, self.xid))]
        for instance in found.instances:
            gpm = {} if side is None else side.instances.get(instance.gpu_instance or 0, {})
            rows.append(self._instance_row(instance, gpm, sight))
        return rows

    def bad(self, state: GpuState, reason: Reason | None, detail: str, now: float) -> list[GpuReading]:
        """Rows of a card that did not answer: its last good figures, with their age."""
        self._state = state
        if self.xid is not None:
            detail = f"{detail}; Xid {self.xid}: {xid_text(self.xid)}"
        stale_s = None if self._good_at is None else now - self._good_at
        rows = [self._row(self._good, now, (), state=state, reason=reason, detail=detail, stale_s=stale_s)]
        rows += [
            self._instance_row(instance, {}, None, state=state, reason=reason, detail=detail, stale_s=stale_s)
            for instance in self._instances
        ]
        return rows

    def _row(
        self,
        values: Mapping[str, Any],
        now: float,
        missing: tuple[Missing, ...],
        **more: Any,
    ) -> GpuReading:
        known = {**values, "uuid": self.uuid, "name": self.name, "pci_bus_id": self.pci_bus_id, **more}
        if self.xid is not None:
            known.update(xid=self.xid, xid_text=xid_text(self.xid), xid_age_s=now - self._xid_at)
        if self._recovered_at is not None:
            known["recovered_s"] = now - self._recovered_at
        return GpuReading(self.index, missing=missing, **known)

    def _instance_row(
        self,
        instance: FoundInstance,
        gpm: Mapping[str, float],
        sight: Visibility | None,
        **more: Any,
    ) -> GpuReading:
        values = {**instance.values, **{k: v for k, v in gpm.items() if k.startswith("gpm_")}}
        missing = list(instance.missing)
        if sight is not None:
            values["processes"] = _processes(values, None, sight, missing)
        if instance.failure is not None and not more:
            reason = instance.failure.reason
            state: GpuState = "lost" if reason == "lost" else "error"
            more = {"state": state, "reason": reason, "detail": device_words(instance.failure)}
        name = values.get("name") or ""
        return GpuReading(
            self.index,
            parent_uuid=self.uuid,
            mig_name=name.rpartition(_MIG)[2] if _MIG in name else None,
            mig_index=instance.place,
            pci_bus_id=self.pci_bus_id,
            missing=tuple(missing),
            **values,
            **more,
        )


class _Shares:
    """In which share of the last minute's readings each throttle reason was active."""

    __slots__ = ("_counts", "_readings")

    def __init__(self) -> None:
        self._readings: deque[tuple[float, tuple[str, ...]]] = deque()
        self._counts: Counter[str] = Counter()

    def add(self, reasons: tuple[str, ...] | None, now: float) -> tuple[tuple[str, float], ...] | None:
        """Take one reading in (None: unknown) and give the shares, None until enough was seen."""
        if reasons is not None:
            self._readings.append((now, reasons))
            self._counts.update(reasons)
        while self._readings and now - self._readings[0][0] > SHARE_WINDOW_S:
            self._counts.subtract(self._readings.popleft()[1])
        if not self._readings or now - self._readings[0][0] < SHARE_FROM_S:
            return None
        return tuple((name, n / len(self._readings)) for name, n in self._counts.most_common() if n)


def _processes(
    values: Mapping[str, Any], side: SideFound | None, sight: Visibility, missing: list[Missing]
) -> tuple[GpuProcess, ...] | None:
    """Processes with their shares; and why they have no names, where that is not by chance."""
    found: tuple[GpuProcess, ...] | None = values.get("processes")
    if found is None:
        return None
    if not sight.complete:
        nameless = any(process.name is None for process in found)
        hidden = not found and (values.get("mem_used_mib") or 0.0) >= _HOLDS_MODEL_MIB
        if nameless or hidden:
            missing.append(Missing("processes", f"no_permission: {sight.why}", sight.enable))
        if nameless:  # pids of another namespace: one that exists here, too, is another process
            found = tuple(GpuProcess(process.pid, None, process.mem_mib) for process in found)
    if side is None or not side.usage:
        return found
    return tuple(
        GpuProcess(process.pid, process.name, process.mem_mib, *side.usage.get(process.pid, ()))
        for process in found
    )


def _ailments(values: Mapping[str, Any], xid: int | None) -> str:
    """What is wrong with a card that works, for a person."""
    return "; ".join(_found_ailments(values, xid))


def _found_ailments(values: Mapping[str, Any], xid: int | None) -> Iterable[str]:
    if xid is not None:
        yield f"Xid {xid}: {xid_text(xid)}"
    errors = values.get("ecc_uncorrected") or 0
    if errors:
        yield f"{errors} uncorrected memory error{'s' * (errors != 1)} since the driver was loaded"
    if values.get("remap_failed"):
        yield "a memory row could not be remapped: replace the card"
    if values.get("remap_pending"):
        yield "memory rows wait to be remapped: reset the GPU"
    if values.get("retired_pending"):
        yield "memory pages wait to be retired: reboot"
