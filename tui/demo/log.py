"""Log lines in the engines' own form, on standard error."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.demo.spec import Dialect


class EngineLog:
    """Writes lines as the engine's processes do; a reader that does not keep up loses lines.

    Args:
        dialect: whose form.
        role: the process as vLLM names it in its prefix (``APIServer``, ``EngineCore``, ``Worker``).
    """

    def __init__(self, dialect: Dialect, role: str) -> None:
        self._vllm = dialect == "vllm"
        self._prefix = f"({role} pid={os.getpid()}) " if self._vllm else ""

    def info(self, where: str, text: str, level: str = "INFO") -> None:
        """One line of the engine's logger; ``where`` is its source position, shown by vLLM only."""
        if self._vllm:
            self._write(f"{self._prefix}{level} {time.strftime('%m-%d %H:%M:%S')} [{where}] {text}")
        else:
            self._write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}")

    def plain(self, text: str) -> None:
        """One line of the HTTP server (uvicorn)."""
        self._write(text if self._vllm else f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}")

    def _write(self, line: str) -> None:
        # a full pipe must never stop the engine: the descriptor is shared, so it is asked first
        # rather than made non-blocking
        try:
            if _writable():
                os.write(2, line.encode(errors="replace") + b"\n")
        except OSError:
            pass  # nobody reads the log any more


def _writable() -> bool:
    return bool(select.select([], [2], [], 0)[1])
