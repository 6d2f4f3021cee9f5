"""What each verdict says to a person: headline, meaning, and what to do in the engine's own flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.verdict import fits
from tui.verdict.bottleneck_texts import BOTTLENECKS
from tui.verdict.prose import If, Texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui.model.readings import EngineKind
    from tui.model.verdicts import VerdictName

ENGINES: tuple[EngineKind, ...] = ("vllm", "sglang", "trtllm", "triton")
FIND_OUT = "find the exit reason first: 137 (Error or OOMKilled), 143, or 0 that nobody asked for"
"""Not said where it is found."""
SICK_DEVICE = (
    "drain this node and take it out of rotation",
    "save the kernel log (Xid lines) and nvidia-smi -q: a reset wipes them",
    "reset the GPU or reboot; replace the card if the fault returns",
    "do not just restart the engine: the card stays as it is",
)
"""For the host's verdict as well, which is of no engine."""
SPIN = "SM 100 % with the memory controller at 0 %: a collective waits; check peer access and the links"
_STACKS = "save the stacks ({how}) and the kernel log, then restart"
_COST = "a restart costs the load time and all requests in flight"

TEXTS: dict[VerdictName, Texts] = {
    "gpu_fault": Texts(
        "GPU FAULT",
        "A device is lost, unreadable or marked as broken by the driver.",
        SICK_DEVICE,
    ),
    "engine_down": Texts(
        "ENGINE DOWN",
        "The server is gone, or every request to it fails at once.",
        (
            FIND_OUT,
            If(
                fits.memory_is_held,
                "end whatever still holds the GPU memory first (nvidia-smi): a restart finds no room",
            ),
            If(
                fits.may_be_held,
                "if its process is still alive, end that one first: it holds port and GPU memory",
            ),
            If(fits.left_over, "end what is left of it first: it holds the port, and maybe GPU memory"),
            "restart it; a unit with Restart=on-failure stays down after exit code 0",
            "it serves again only after its load time; send traffic once it is ready, not once it runs",
        ),
    ),
    "engine_hung": Texts(
        "ENGINE HUNG",
        "There is work, and the engine makes no step; its status routes may go on saying 200.",
        (
            If(fits.not_asked, "ask for one token first (key g, or --generate): the gauges may be stale"),
            If(
                fits.compiles,
                "see first whether what is busy is a compiler (cicc, ptxas, ninja): that ends by itself",
            ),
            If(
                fits.native,
                _STACKS.format(how="gdb, or py-spy dump --native"),
                _STACKS.format(how="py-spy dump"),
            ),
            "let liveness look at progress, not at a status route",
            If(fits.spins, SPIN),
            If(fits.may_prefill, f"{_COST}: rule out one long prefill first", _COST),
        ),
    ),
    "loading": Texts(
        "LOADING",
        "The engine starts: weights are read, kernels compiled, graphs captured.",
        (
            "wait; a restart begins from nothing: none while bytes, GPU memory or compilers move",
            "compare with the startup budget: initialDelay + period x failureThreshold must outlast the load",
        ),
    ),
    "draining": Texts(
        "DRAINING",
        "A stop was asked for; requests in flight run to their end.",
        (
            "do not restart it",
            "compare the grace that is left with the longest stream: what is over it is cut",
        ),
        {
            "vllm": (
                "from 0.18 on: --shutdown-timeout{drain} must outlast the longest stream",
                "its default 0 drains nothing: streams in flight fall silent until their clients hang up",
            ),
            "sglang": (
                "take its traffic away: it serves new requests while it drains, and waits without end",
            ),
            "trtllm": ("it waits for open requests without end: the grace period is the only limit",),
            "triton": ("--exit-timeout-secs{exit} must outlast the longest request; 30 unless it is set",),
        },
    ),
    **BOTTLENECKS,
    "healthy": Texts("HEALTHY", "Work goes through with latency in target, and nobody waits."),
    "idle": Texts("IDLE", "No requests; a GPU or thread that spins meanwhile only waits for some."),
    "unknown": Texts(
        "UNKNOWN",
        "No rule fires, and an input that would prove health is missing.",
        ("bring the missing inputs: on the screen, v tells what would",),
    ),
}

NEED_FLAGS = frozenset(("kv_cache", "gpu_memory", "scheduler_limit", "compute", "cpu", "degraded_cache"))
"""What an engine's own options do something about."""
_NEED_NO_ADVICE = frozenset(("healthy", "idle"))


def check_complete(ids: Iterable[VerdictName]) -> None:
    """Refuse a verdict that has nothing to say.

    Raises:
        LookupError: texts are missing; names the verdict and what it lacks.
    """
    for name in (*ids, "unknown"):
        texts = TEXTS.get(name)
        if texts is None or not texts.title or not texts.explanation:
            raise LookupError(f"verdict {name}: no title or explanation")
        always = any(isinstance(line, str) for line in texts.advice)
        if name not in _NEED_NO_ADVICE and not always:
            raise LookupError(f"verdict {name}: no advice")
        lacks = set(ENGINES) - set(texts.flags) if name in NEED_FLAGS else set()
        if lacks:
            raise LookupError(f"verdict {name}: no advice for {', '.join(sorted(lacks))}")
