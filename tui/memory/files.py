"""Files of a model directory: regular ones only, never more of them than a bound, never a hang on a FIFO."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from tui.memory.errors import ModelError
from tui.memory.fields import Fields
from tui.memory.rooted import open_place
from tui.model.text import clean

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
CONFIG_LIMIT = 8 * MIB
INDEX_LIMIT = 64 * MIB
"""An index of a mixture of experts with quantised weights names 300,000 tensors in some 40 MB."""


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading, unbuffered.

    Nothing else is opened, not even to look at it: the names are another user's, who may have made one of
    them a link to a device whose mere opening does something (/dev/watchdog restarts the machine).

    Raises:
        ModelError: it is absent, unreadable, or no regular file.
    """
    try:
        place = open_place(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(path, error) from None
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise ModelError(f"{shown(path)}: not a regular file")
        # by its descriptor: by now the name may be that of something else
        descriptor = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(place)
    return os.fdopen(descriptor, "rb", buffering=0)


def absent(path: Path) -> bool:
    """Nothing is there; a file that cannot be looked at is not absent."""
    try:
        os.close(open_place(path))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def read_bounded(path: Path, limit: int) -> bytes:
    """A whole file.

    Raises:
        ModelError: it cannot be read, or is longer than ``limit`` bytes.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise ModelError(f"{shown(path)}: larger than {limit // MIB} MiB")
        try:
            return take(file, limit)
        except OSError as error:
            raise _unreadable(path, error) from None


def take(file: BinaryIO, count: int) -> bytes:
    """Up to ``count`` bytes from here on; fewer only where the file ends."""
    parts = []
    while count > 0 and (part := file.read(min(count, MIB))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def read_object(path: Path, limit: int) -> Fields:
    """A file that holds one JSON object.

    Raises:
        ModelError: it cannot be read, is too large, or holds something else.
    """
    return Fields(parse_object(read_bounded(path, limit), shown(path)), shown(path))


def parse_object(text: bytes, source: str) -> dict[str, object]:
    """One JSON object, strictly: no NaN, no infinity.

    Raises:
        ModelError: it is none; ``source`` is its name in the text.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        detail = "nested too deeply" if isinstance(error, RecursionError) else clean(str(error), 100)
        raise ModelError(f"{source}: not JSON ({detail})") from None
    if not isinstance(value, dict):
        raise ModelError(f"{source}: expected a JSON object")
    return value


def shown(path: Path) -> str:
    """A file's own name, safe to show."""
    return clean(path.name, 80)


def _unreadable(path: Path, error: OSError | ValueError) -> ModelError:
    detail = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ModelError(f"{shown(path)}: {clean(detail, 100)}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
