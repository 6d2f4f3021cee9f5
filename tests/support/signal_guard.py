"""No test ever signals a process that the suite did not start: not itself, and not by the program it runs."""

from __future__ import annotations

import atexit
import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.guard_hook import sitecustomize as hook

if TYPE_CHECKING:
    from collections.abc import Iterator

HOOK = Path(hook.__file__).parent


def guard() -> None:
    """Guard this process and, through their environment, all that it starts; once, before any test."""
    handle, stray = tempfile.mkstemp(prefix="stray-signals-")
    os.close(handle)
    atexit.register(Path(stray).unlink, missing_ok=True)
    os.environ[hook.STRAY] = stray
    os.environ[hook.MARK] = f"{os.getpid()}-{secrets.token_hex(8)}"
    paths = [
        path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != str(HOOK)
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HOOK), *paths])
    hook.install()


def take_notes() -> str:
    """What was kept from strangers since the last call."""
    stray = Path(os.environ[hook.STRAY])
    if not stray.stat().st_size:
        return ""
    text = stray.read_text(encoding="utf-8")
    os.truncate(stray, 0)
    return text


@pytest.fixture(autouse=True)
def no_stray_signal() -> Iterator[None]:
    yield
    if text := take_notes():
        pytest.fail(f"a signal to a process that the suite did not start: {text}")
