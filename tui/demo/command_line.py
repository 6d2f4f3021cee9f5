"""The API server's command line, as a user of the real engine would have written it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.demo.spec import EngineSpec

_BIN = Path(__file__).resolve().parent / "bin"


def command_line(spec: EngineSpec) -> list[str]:
    """Program and arguments; the program reads its settings elsewhere, the arguments are for readers."""
    flags = _vllm(spec) if spec.dialect == "vllm" else _sglang(spec)
    command = [sys.executable, str(_BIN / spec.dialect), "serve", *flags]
    # a secret on the command line, as real ones are: whoever shows it has to redact it
    return [*command, "--api-key", spec.api_key] if spec.api_key else command


def _vllm(spec: EngineSpec) -> list[str]:
    flags = [spec.model, "--host", spec.host, "--port", str(spec.port)]
    flags += ["--max-model-len", str(spec.max_model_len), "--max-num-seqs", str(spec.max_num_seqs)]
    flags += [
        "--max-num-batched-tokens",
        str(spec.max_num_batched_tokens),
        "--block-size",
        str(spec.block_size),
    ]
    if spec.sigterm == "drain-500":
        flags += ["--shutdown-timeout", f"{spec.shutdown_timeout_s:g}"]
    if spec.max_num_queued_reqs:
        flags += ["--max-num-queued-reqs", str(spec.max_num_queued_reqs)]
    if spec.disable_log_stats:
        flags += ["--disable-log-stats"]
    if spec.tensor_parallel_size > 1:
        flags += ["--tensor-parallel-size", str(spec.tensor_parallel_size)]
    return flags


def _sglang(spec: EngineSpec) -> list[str]:
    flags = ["--model-path", spec.model, "--host", spec.host, "--port", str(spec.port), "--enable-metrics"]
    flags += ["--context-length", str(spec.max_model_len), "--max-running-requests", str(spec.max_num_seqs)]
    flags += ["--max-total-tokens", str(spec.kv_tokens), "--page-size", str(spec.block_size)]
    flags += ["--chunked-prefill-size", str(spec.max_num_batched_tokens)]
    if spec.max_num_queued_reqs:
        flags += ["--max-queued-requests", str(spec.max_num_queued_reqs)]
    return flags
