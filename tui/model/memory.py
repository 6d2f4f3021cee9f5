"""Where GPU memory went: to an engine's weights and cache, or to what serves nothing."""

from __future__ import annotations

from dataclasses import dataclass


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
