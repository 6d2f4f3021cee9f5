"""Byte code of the programs that tests and benches start."""

from __future__ import annotations

import os
from pathlib import Path


def keep_byte_code() -> None:
    """Let child processes keep theirs, beside the tree so that nothing is left in it.

    Where the environment forbids byte code each of hundreds of children would compile the whole program, for
    0.4 CPU s; an installed one never does.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault(
        "PYTHONPYCACHEPREFIX", str(Path(__file__).parents[2] / ".pytest_cache" / "byte-code")
    )
