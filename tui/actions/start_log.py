"""The phases of a start as an engine's own log tells them, dated by when their line was there to read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

Mark = Literal["weights_begin", "weights_end", "compile_end"]

_MARKS: tuple[tuple[bytes, Mark], ...] = (
    (b"Starting to load model", "weights_begin"),  # vLLM
    (b"Loading weights took", "weights_end"),
    (b"init engine (profile, create kv cache, warmup model) took", "compile_end"),
    (b"Load weight begin", "weights_begin"),  # SGLang
    (b"Load weight end", "weights_end"),
    (b"Capture cuda graph end", "compile_end"),
)
_MOST = 1 << 20
"""Bytes that one look reads."""


class StartLog:
    """Follows a log from where it stands now.

    Attributes:
        marks: when each was first seen.
    """

    def __init__(self, path: Path) -> None:
        self.marks: dict[Mark, float] = {}
        self._path = path
        self._rest = b""
        try:
            self._at = path.stat().st_size
        except OSError:
            self._at = 0

    def look(self, now: float) -> None:
        """Read what was appended; a log that cannot be read tells nothing."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if os.fstat(fd).st_size < self._at:
                self._at, self._rest = 0, b""  # truncated, or another file by now
            text = os.pread(fd, _MOST, self._at)
        except OSError:  # a FIFO
            return
        finally:
            os.close(fd)
        self._at += len(text)
        *lines, self._rest = (self._rest + text).split(b"\n")
        for line in lines:
            for words, mark in _MARKS:
                if words in line:
                    self.marks.setdefault(mark, now)
