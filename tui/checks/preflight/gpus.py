"""The GPUs that an engine is to be started on: there, healthy, usable, and with enough memory free."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tui.checks.finding import CheckFinding
from tui.model.status import SourceError
from tui.sources.nvml.source import NvmlSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tui.checks.preflight.intent import Intent
    from tui.model.readings import GpuReading, GpuSet

SLOW_S: Final = 2.0
"""More than a driver takes that is loaded and has its devices open."""
_SIDE_S: Final = 3.0
"""For a pass over what is slow: the links."""
_RETRY_S: Final = 0.2
_OPENING: Final = ("stuck", "timeout")
_MODES: Final = {
    "prohibited": ("error", "no program may compute on it; nvidia-smi -c DEFAULT"),
    "exclusive_process": ("warning", "one process alone may use it"),
    "exclusive_thread": ("warning", "one thread alone may use it"),
}


@dataclass(frozen=True, slots=True)
class GpuLook:
    """Two readings of the devices; a memory that belongs to nobody must show in both."""

    first: GpuSet
    last: GpuSet
    took_s: float
    """Until the driver had answered for the first time."""


def look(deadline_s: float, monotonic: Callable[[], float] = time.monotonic) -> GpuLook:
    """Read the devices; a driver that opens them only now is waited for.

    Args:
        deadline_s: how long to wait for it.
        monotonic: seconds that only grow.

    Raises:
        SourceError: as ``NvmlSource.read``.
    """
    source, began = NvmlSource(monotonic), monotonic()
    try:
        while True:
            try:
                first = source.read()
                break
            except SourceError as error:
                if error.reason not in _OPENING or monotonic() - began > deadline_s:
                    raise
                time.sleep(_RETRY_S)
        took = monotonic() - began
        source.slow_lane.wait(_SIDE_S)
        return GpuLook(first, source.read(), took)
    finally:
        source.close()


def chosen(intent: Intent, gpus: Iterable[GpuReading]) -> tuple[list[GpuReading], list[str]]:
    """The devices that were asked for, in the order of the asking, and those that are not there.

    A card in MIG mode stands for its instances.
    """
    rows = list(gpus)
    parents = {row.parent_uuid for row in rows if row.parent_uuid}
    usable = [row for row in rows if row.uuid is None or row.uuid not in parents]
    if intent.gpus is None:
        return usable, []
    found: list[GpuReading] = []
    absent: list[str] = []
    for selector in intent.gpus:
        matching = [row for row in usable if _is(row, selector, rows)]
        found += [row for row in matching if row not in found]
        if not matching:
            absent.append(selector)
    return found, absent


def findings(intent: Intent, seen: GpuLook) -> Iterator[CheckFinding]:
    """Everything about the devices except what depends on the model."""
    rows, absent = chosen(intent, seen.last.gpus)
    yield _driver(seen)
    yield _count(intent, rows, absent)
    good = [row for row in rows if row.state == "ok"]
    for row in rows:
        if row.state != "ok":
            yield CheckFinding("gpu-state", "error", f"{named(row)}: {row.detail or row.state}", row.state)
    for row in good:
        if row.mig and row.parent_uuid is None:
            text = f"{named(row)}: in MIG mode without an instance: nothing can run on it"
            yield CheckFinding("gpu-state", "error", text, "mig")
        yield _memory(intent, row)
    yield from _modes(good)
    yield from _errors(good)
    if len(good) > 1:
        yield from _links(good)


def named(row: GpuReading) -> str:
    """How a device is called: index, kind, place of its instance."""
    kind = row.mig_name or row.name
    place = "" if row.mig_index is None else f".{row.mig_index}"
    return f"GPU {row.index}{place}" + (f" ({kind})" if kind else "")


def free_mib(row: GpuReading) -> float | None:
    """Memory that a new process can have; None where it cannot be told."""
    if row.mem_total_mib is None or row.mem_used_mib is None:
        return None
    return row.mem_total_mib - row.mem_used_mib - (row.mem_reserved_mib or 0.0)


def _is(row: GpuReading, selector: str, rows: Sequence[GpuReading]) -> bool:
    if selector.isdigit():
        return row.index == int(selector)
    card = next((r for r in rows if r.uuid is not None and r.uuid == row.parent_uuid), None)
    return any(r is not None and (r.uuid or "").startswith(selector) for r in (row, card))


def _driver(seen: GpuLook) -> CheckFinding:
    text = f"NVIDIA driver {seen.last.driver_version or '(version not told)'} answers"
    took = round(seen.took_s, 1)
    if seen.took_s < SLOW_S:
        return CheckFinding("driver", "ok", text, took, SLOW_S)
    why = "the driver closes devices that nobody uses: persistence mode keeps them open"
    off = any(row.persistence is False for row in seen.last.gpus)
    return CheckFinding(
        "driver", "warning", f"{text}, but took {took} s" + (f"; {why}" if off else ""), took, SLOW_S
    )


def _count(intent: Intent, rows: Sequence[GpuReading], absent: Sequence[str]) -> CheckFinding:
    need = intent.needed_gpus
    source = "on this host" if intent.gpus is None else f"chosen by {intent.gpus_from}"
    if absent:
        names = ", ".join(absent[:8])
        text = f"not there: GPU {names} ({intent.gpus_from})"
        return CheckFinding("gpu-count", "error", text, len(rows), need)
    kinds = sorted({row.name for row in rows if row.name})
    text = f"{_gpus(len(rows))} {source}{': ' if kinds else ''}{', '.join(kinds[:4])}"
    if len(rows) < need:
        if intent.more_hosts:
            text += f"; {need} needed, the others must be on other hosts of Ray"
            return CheckFinding("gpu-count", "warning", text, len(rows), need)
        return CheckFinding("gpu-count", "error", f"{text}; {need} needed", len(rows), need)
    if len(kinds) > 1 and need > 1:
        text += "; the ranks of one engine should be alike"
        return CheckFinding("gpu-count", "warning", text, len(rows), need)
    return CheckFinding("gpu-count", "ok", f"{text}; {need} needed", len(rows), need)


def _memory(intent: Intent, row: GpuReading) -> CheckFinding:
    free, least = free_mib(row), intent.min_free_mib
    if free is None:
        text = f"{named(row)}: how much memory is free cannot be read"
        return CheckFinding("gpu-memory", "warning", text, None, least)
    total = row.mem_total_mib or 0.0
    text = f"{named(row)}: {free:,.0f} of {total:,.0f} MiB free"
    if free >= least:
        return CheckFinding("gpu-memory", "ok", text, round(free), least)
    return CheckFinding(
        "gpu-memory", "error", f"{text}, {least:,.0f} needed{_holders(row)}", round(free), least
    )


def _holders(row: GpuReading) -> str:
    held = sorted(row.processes or (), key=lambda p: -(p.mem_mib or 0.0))
    words = [
        f"pid {p.pid}{f' {p.name}' if p.name else ''}{'' if p.mem_mib is None else f' {p.mem_mib:,.0f} MiB'}"
        for p in held[:3]
    ]
    more = f", {len(held) - 3} more" if len(held) > 3 else ""
    return f"; held by {', '.join(words)}{more}" if words else ""


def _modes(rows: Sequence[GpuReading]) -> Iterator[CheckFinding]:
    bad = [row for row in rows if row.compute_mode in _MODES]
    for row in bad:
        mode = row.compute_mode or ""
        level, what = _MODES[mode]
        if level == "warning" and row.processes:
            level, what = "error", f"{what}, and pid {row.processes[0].pid} does"
        yield CheckFinding(
            "gpu-compute-mode",
            "error" if level == "error" else "warning",
            f"{named(row)}: compute mode {mode}: {what}",
            mode,
            "default",
        )
    if not bad and any(row.compute_mode for row in rows):
        yield CheckFinding("gpu-compute-mode", "ok", "compute mode default", "default", "default")


def _errors(rows: Sequence[GpuReading]) -> Iterator[CheckFinding]:
    """A card that must be replaced fails; one that waits for a reset works, with less certainty."""
    sick = False
    for row in rows:
        count = row.ecc_uncorrected or 0
        if not (row.remap_failed or row.remap_pending or row.retired_pending or count):
            continue
        sick = True
        yield CheckFinding(
            "gpu-ecc", "error" if row.remap_failed else "warning", f"{named(row)}: {row.detail}", count, 0
        )
    known = [row for row in rows if row.ecc_uncorrected is not None]
    if known and not sick:
        text = "no uncorrected memory errors since the driver was loaded"
        without = len(rows) - len(known)
        yield CheckFinding("gpu-ecc", "ok", text + (f"; {without} without ECC" if without else ""), 0, 0)


def _links(rows: Sequence[GpuReading]) -> Iterator[CheckFinding]:
    """Boards wire some of their links only: a link is down where others of the kind have it up."""
    kinds: dict[str | None, list[tuple[GpuReading, int]]] = defaultdict(list)
    for row in rows:
        if row.nvlinks and row.nvlinks_up is not None:
            kinds[row.name].append((row, row.nvlinks_up))
    bad = False
    for alike in kinds.values():
        most = max(up for _, up in alike)
        for row, up in alike:
            if up == 0 or up < most:
                bad = True
                total = max(most, 1)
                text = f"{named(row)}: {up} of {total} NVLinks up: traffic between GPUs is slow or fails"
                yield CheckFinding("gpu-nvlink", "warning", text, up, total)
    if kinds and not bad:
        counts = sorted({up for alike in kinds.values() for _, up in alike})
        text = f"NVLink: {' or '.join(map(str, counts))} links up on each GPU"
        yield CheckFinding("gpu-nvlink", "ok", text, counts[0], counts[0])


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"
