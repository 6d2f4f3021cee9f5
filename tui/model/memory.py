"""Where GPU memory went: to an engine's weights and cache, or to what serves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class GpuShare:
    """One engine's memory on one GPU, as the driver has it."""

    gpu: int
    """Index."""
    engine_mib: float | None = None
    """What the engine's processes hold."""
    rest_mib: float | None = None
    """Of that, what is neither weights nor KV: activations, CUDA graphs, contexts. Below 0 where the
    arithmetic gives more than is held."""
    free_mib: float | None = None
    total_mib: float | None = None


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Where an engine's GPU memory went; weights and KV of one GPU, by arithmetic from the model's files."""

    gpus: tuple[GpuShare, ...] = ()
    weights_mib: float | None = None
    kv_token_bytes: float | None = None
    """What one token takes in the KV cache of one GPU while every window has room."""
    kv_mib: float | None = None
    """The pool: the tokens that the engine says it holds."""
    kv_predicted_mib: float | None = None
    """The pool that utilisation, weights and usual overheads leave."""
    sequences: int | None = None
    """How many sequences of ``sequence_tokens`` the pool holds."""
    sequence_tokens: int | None = None
    origin: str = ""
    """Where the weights' size is from."""
    why: str = ""
    """Why the arithmetic is missing, where it is."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """What holds memory although nothing is served from it."""

    pid: int | None
    """None: the driver names no process for the memory."""
    name: str | None = None
    age_s: float | None = None
    gpu_mem_mib: float | None = None
    """On all GPUs; None where the driver does not tell."""
    command: str | None = None
    """What would end it, for a person to type: nothing here runs it. None: no command is known to."""
    gpus: tuple[int, ...] = ()
    """Indexes of the GPUs on which it holds memory."""
    why: str = ""
    """For a person: what makes it one."""
    user: str = ""
    """Who runs it; empty where that is not known. Nobody is told to end what may be anybody's."""
    ends_with: int | None = None
    """The pid of the orphan that it ends with, as a worker does with its core."""


@dataclass(frozen=True, slots=True)
class OrphanGroup:
    """An orphan with those that end with it."""

    head: Orphan
    parts: int
    """How many they are."""
    gpu_mem_mib: float | None
    """Of all of them; None where the driver tells it of none."""
    gpus: tuple[int, ...]

    def text(self) -> str:
        """Its name and pid, whose it is, and how many end with it."""
        head = self.head
        whose = f" of {head.user}" if head.user else ""
        more = f" with {self.parts} that {'end' if self.parts > 1 else 'ends'} with it" if self.parts else ""
        return f"{head.name or 'process'} pid {head.pid}{whose}{more}"


def grouped(orphans: Iterable[Orphan]) -> tuple[OrphanGroup, ...]:
    """Orphans that have a pid, by what ends them; the group that holds most first."""
    members: dict[int, list[Orphan]] = {}
    for orphan in orphans:
        if orphan.pid is not None:
            members.setdefault(orphan.pid if orphan.ends_with is None else orphan.ends_with, []).append(
                orphan
            )
    found = []
    for pid, group in members.items():
        head = next((one for one in group if one.pid == pid), group[0])
        held = [one.gpu_mem_mib for one in group if one.gpu_mem_mib is not None]
        gpus = tuple(sorted({gpu for one in group for gpu in one.gpus}))
        found.append(OrphanGroup(head, len(group) - 1, sum(held) if held else None, gpus))
    return tuple(sorted(found, key=lambda g: (-(g.gpu_mem_mib or 0.0), g.head.pid or 0)))
