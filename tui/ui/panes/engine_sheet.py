"""What a zoomed engine tells of itself: how it was started, where it runs, where its memory went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.ui.lines import Line, Span, cut, narrow

if TYPE_CHECKING:
    from tui.model.snapshot import EngineView

_TOLD = (
    "max-num-seqs", "max-running-requests", "max-batch-size", "max-model-len", "context-length",
    "max-seq-len",
    "gpu-memory-utilization", "mem-fraction-static", "kv-cache-free-gpu-memory-fraction",
    "kv-cache-memory-bytes", "max-num-batched-tokens", "chunked-prefill-size", "tensor-parallel-size",
    "tp-size", "tp", "pipeline-parallel-size", "data-parallel-size", "dp-size", "kv-cache-dtype", "dtype",
    "quantization", "shutdown-timeout", "api-server-count", "tokenizer-worker-num",
)  # fmt: skip
"""Options that decide about memory, seats and restarts; the JSON has all."""


def about(engine: EngineView, size: int) -> list[Line]:
    """Lines of one engine; none where nothing is known."""
    given = [f"{name} {narrow(engine.args[name])}" for name in _TOLD if name in engine.args]
    assumed = [f"{name} {value}" for name, value in engine.defaults.items() if name in _TOLD]
    access = ["found on this host, so no token is sent to it"] if engine.discovered else []
    access += ["its certificate is not checked (verify = false)"] if engine.unverified else []
    facts = (("started with", given), ("by default", assumed), ("access", access))
    return [labelled(label, texts, size) for label, texts in facts if texts]


def labelled(label: str, texts: list[str], size: int) -> Line:
    """A name and what is said of it, cut to the width."""
    return (Span(f"{label} ", "label"), Span(cut("  ".join(texts), size - len(label) - 1), "muted"))
