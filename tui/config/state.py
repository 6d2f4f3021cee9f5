"""Files that are kept between runs: small JSON documents below the state directory, for their owner alone."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

LIMIT_BYTES = 1 << 20
"""No document of ours is larger; what is was not written by us."""


def state_dir() -> Path | None:
    """``$XDG_STATE_HOME/infertop``, by default below the home directory; None without a home.

    A relative ``XDG_STATE_HOME`` is ignored, as the XDG specification has it.
    """
    base = os.environ.get("XDG_STATE_HOME", "")
    if base.startswith("/"):
        return Path(base) / "infertop"
    try:
        return Path("~/.local/state/infertop").expanduser()
    except RuntimeError:  # no $HOME, and a user without an entry in passwd
        return None


def open_regular(path: Path) -> BinaryIO:
    """A file to be read; opening a FIFO would wait for its writer, and a device may never end.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path.name} is not a regular file")
    return os.fdopen(handle, "rb")


def parse_json(text: str | bytes) -> Any:
    """A document, whoever wrote it.

    Raises:
        ValueError: not JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_json(path: Path, limit: int = LIMIT_BYTES) -> Any:
    """The document in a file; None where there is none.

    Raises:
        OSError: it cannot be read, or is no regular file.
        ValueError: not JSON, or larger than ``limit`` bytes.
    """
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return None
    with file:
        text = file.read(limit + 1)
    if len(text) > limit:
        raise ValueError(f"larger than {limit} bytes")
    return parse_json(text)


def write_json(path: Path, document: Any) -> None:
    """Put a document in place as a whole, mode 0600, its directory 0700.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps(document, indent=1)
    handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{text}\n")
        Path(fresh).replace(path)
    except OSError:
        with suppress(OSError):
            Path(fresh).unlink()
        raise
