"""``once`` for people: where GPU memory went, and what holds it for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.model import units
from tui.model.memory import grouped
from tui.report.columns import table

if TYPE_CHECKING:
    from tui.model.memory import GpuShare
    from tui.model.snapshot import EngineView, HostSnapshot

ORPHANS_SHOWN: Final = 8


def engine_memory(view: EngineView) -> list[str]:
    """Where the memory of its GPUs went, as far as that is known."""
    found = view.memory
    if found is None:
        return []
    parts = []
    if found.weights_mib is not None:
        parts.append(f"weights {units.gib(found.weights_mib)}")
    if found.kv_mib is not None or found.kv_predicted_mib is not None:
        predicted = (
            f" ({units.gib(found.kv_predicted_mib)} predicted)" if found.kv_predicted_mib is not None else ""
        )
        parts.append(f"KV {units.gib(found.kv_mib)}{predicted}")
    parts += _shares(found.gpus)
    if not parts:
        return []
    fits = ""
    if found.sequences is not None:
        fits = f"; room for {found.sequences} sequences of {found.sequence_tokens} tokens"
    why = f" ({found.why})" if found.why and found.weights_mib is None else ""
    return [f"  {view.url} memory of a GPU, GiB: {'  '.join(parts)}{fits}{why}"]


def _shares(gpus: tuple[GpuShare, ...]) -> list[str]:
    """Each of them; of more than two the one with the least room."""
    if not gpus:
        return []
    fullest = min(gpus, key=lambda share: (share.free_mib is None, share.free_mib or 0.0))
    several = [f"fullest of {len(gpus)} GPUs:"] if len(gpus) > 2 else []
    return several + [_share(share) for share in (gpus if len(gpus) <= 2 else (fullest,))]


def _share(share: GpuShare) -> str:
    rest = f", rest {units.gib(share.rest_mib)}" if share.rest_mib is not None else ""
    free = f"free {units.gib(share.free_mib)} of {units.gib(share.total_mib)}"
    return f"GPU {share.gpu} holds {units.gib(share.engine_mib)}{rest}, {free}"


def orphans(snapshot: HostSnapshot) -> list[str]:
    """Those that hold most, each with those that end with it, and the command that would end it."""
    groups = grouped(snapshot.orphans or ())
    rows = [["orphan", "of", "pid", "and", "age", "GPU GiB", "of GPU"]]
    rows += [
        [
            group.head.name or "unknown",
            group.head.user or units.DASH,
            str(group.head.pid),
            f"+{group.parts}" if group.parts else "",
            units.seconds(group.head.age_s),
            units.gib(group.gpu_mem_mib),
            ",".join(map(str, group.gpus)) or units.DASH,
        ]
        for group in groups[:ORPHANS_SHOWN]
    ]
    rows += [
        [
            "no process",
            units.DASH,
            units.DASH,
            "",
            units.DASH,
            units.gib(orphan.gpu_mem_mib),
            str(orphan.gpus[0]),
        ]
        for orphan in (snapshot.orphans or ())
        if orphan.pid is None
    ][:ORPHANS_SHOWN]
    if len(rows) == 1:
        return []
    more = len(groups) - ORPHANS_SHOWN
    ends = [
        f"  to end it: {group.head.command}  (a process of {group.head.user})"
        for group in groups[:ORPHANS_SHOWN]
        if group.head.command
    ]
    return [
        *table(rows, left=2),
        *([f"  and {more} more, none of which is known to hold more"] if more > 0 else []),
        *ends,
    ]
