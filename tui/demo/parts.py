"""The engine's processes as the control file names them, held so that a reused pid is never signalled."""

from __future__ import annotations

import contextlib
import os
import signal

from tui.demo.control import ControlError


class Parts:
    """Processes by title."""

    def __init__(self) -> None:
        self._pidfds: dict[str, int] = {}

    def note(self, pids: dict[str, int]) -> None:
        """Take hold of processes that are new."""
        for title, pid in pids.items():
            if title not in self._pidfds:
                with contextlib.suppress(ProcessLookupError):
                    self._pidfds[title] = os.pidfd_open(pid)

    def send(self, part: str, signum: signal.Signals) -> None:
        """Signal a part; one that has ended is left in peace.

        Raises:
            ControlError: the engine never had it.
        """
        found = [fd for title, fd in self._pidfds.items() if _part(title) == part]
        if not found:
            raise ControlError(f"there is no {part}")
        for fd in found:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signum)

    def send_all(self, signum: signal.Signals) -> None:
        """Signal every part there is."""
        for fd in self._pidfds.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signum)

    def forget(self) -> None:
        """Let go of all."""
        for fd in self._pidfds.values():
            os.close(fd)
        self._pidfds.clear()


def _part(title: str) -> str:
    if title.startswith("VLLM::Worker"):
        return "worker"
    return {
        "VLLM::EngineCore": "core",
        "sglang::scheduler": "core",
        "sglang::detokenizer": "detokenizer",
    }.get(title, title)
