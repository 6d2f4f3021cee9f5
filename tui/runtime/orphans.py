"""What holds memory for nothing: engine parts without a server, and memory that no process accounts for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.model.memory import Orphan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tui.model.readings import EngineProcess, GpuReading, GpuSet, ProcessTable

UNACCOUNTED_MIB: Final = 1024.0
"""Contexts, and what the driver itself keeps, stay below this."""


class OrphanWatch:
    """Finds them in what the process table and the driver said last.

    A pid that the driver names and the kernel does not know counts once two readings of the GPUs agree: the
    driver's list may be a moment older than the end of the process.

    Args:
        is_gone: whether a pid has no process.
    """

    def __init__(self, is_gone: Callable[[int], bool]) -> None:
        self._is_gone = is_gone
        self._gpus: GpuSet | None = None
        self._dead: frozenset[int] = frozenset()
        self._unheld: frozenset[int] = frozenset()
        self._found: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def update(
        self, table: ProcessTable | None, gpus: GpuSet | None, wall: float
    ) -> tuple[Orphan, ...] | None:
        """All of them now, the largest first; None where neither argument is known.

        Args:
            table: the engine processes of this host.
            gpus: its devices.
            wall: epoch seconds.
        """
        if table is None and gpus is None:
            return None
        cards = tuple(
            card for card in (gpus.gpus if gpus else ()) if card.state == "ok" and not card.parent_uuid
        )
        left = {p.pid: p for p in (table.processes if table else ()) if p.orphan}
        found = [_engine_part(p, _head(p, left), cards, wall) for p in left.values()]
        if table is not None and table.complete and gpus is not None:
            if gpus is not self._gpus:
                self._look(gpus, cards)
            dead, unheld = self._found
            found += [_dead(pid, cards) for pid in dead]
            found += [_unheld(card) for card in cards if card.index in unheld]
        return tuple(sorted(found, key=lambda o: (-(o.gpu_mem_mib or 0.0), o.pid or 0)))

    def _look(self, gpus: GpuSet, cards: tuple[GpuReading, ...]) -> None:
        pids = {process.pid for card in cards for process in card.processes or ()}
        dead = frozenset(pid for pid in pids if self._is_gone(pid))
        unheld = frozenset(card.index for card in cards if _missing_mib(card) >= UNACCOUNTED_MIB)
        self._found = (tuple(sorted(dead & self._dead)), tuple(sorted(unheld & self._unheld)))
        self._gpus, self._dead, self._unheld = gpus, dead, unheld


def _head(process: EngineProcess, left: Mapping[int, EngineProcess]) -> int | None:
    """The topmost orphan above one; None where it is that itself."""
    above: dict[int, None] = {}
    pid = process.ppid
    while pid in left and pid != process.pid and pid not in above:
        above[pid] = None
        pid = left[pid].ppid
    return next(reversed(above), None)


def _engine_part(
    process: EngineProcess, head: int | None, cards: Iterable[GpuReading], wall: float
) -> Orphan:
    held = dict(_held(process.pid, cards))
    return Orphan(
        pid=process.pid,
        name=process.title or process.comm,
        age_s=None if process.started_at is None else max(0.0, wall - process.started_at),
        gpu_mem_mib=sum(held.values()) if held else None,
        command=f"kill -TERM {process.pid}" if process.user else None,
        gpus=tuple(held),
        why="its server is gone",
        user=process.user,
        ends_with=head,
    )


def _dead(pid: int, cards: Iterable[GpuReading]) -> Orphan:
    held = dict(_held(pid, cards))
    names = [p.name for card in cards for p in card.processes or () if p.pid == pid and p.name]
    return Orphan(
        pid=pid,
        name=names[0] if names else None,
        gpu_mem_mib=sum(held.values()) if held else None,
        gpus=tuple(held),
        why="the driver names it, but there is no such process",
    )


def _unheld(card: GpuReading) -> Orphan:
    return Orphan(
        pid=None,
        gpu_mem_mib=_missing_mib(card),
        gpus=(card.index,),
        why=f"no process accounts for it; who has the device open: fuser -v /dev/nvidia{card.index}",
    )


def _held(pid: int, cards: Iterable[GpuReading]) -> Iterator[tuple[int, float]]:
    for card in cards:
        held = [p.mem_mib for p in card.processes or () if p.pid == pid and p.mem_mib is not None]
        if held:
            yield card.index, sum(held)


def _missing_mib(card: GpuReading) -> float:
    """Memory in use that the driver's list of processes leaves out; 0 where the list is not complete."""
    held = card.processes
    if card.mig or card.mem_used_mib is None or held is None or any(p.mem_mib is None for p in held):
        return 0.0
    return card.mem_used_mib - sum(p.mem_mib or 0.0 for p in held)
