"""The output of a program that only reads, bounded in time and length."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

from tui.model.status import SourceError
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence


def output(words: Sequence[str], deadline_s: float, most_bytes: int, *, user: bool = False) -> str:
    """What a program prints. It blocks; the program never outlives the call.

    Args:
        words: program and arguments; no shell.
        deadline_s: for all of it.
        most_bytes: more is an error.
        user: it asks this user's own systemd.

    Raises:
        SourceError: not_supported (no such program), no_permission (not to be run), timeout, too_large,
            parse (it failed).
    """
    name = " ".join(word for word in words[:3] if not word.startswith("-"))
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=_environment(user),
        )
    except (FileNotFoundError, NotADirectoryError):
        raise SourceError("not_supported", f"there is no {words[0]} here", unsupported=True) from None
    except OSError as error:
        raise SourceError("no_permission", clean(f"{words[0]}: {error.strerror}")) from None
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(deadline_s, end)
    timer.daemon = True
    timer.start()
    try:
        assert process.stdout is not None
        with process.stdout as printed:
            data = printed.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise SourceError("too_large", f"{name}: more than {most_bytes // 1024} KiB")
        status = process.wait()
    finally:
        _kill(process)
        timer.cancel()
    if late.is_set():
        raise SourceError("timeout", f"{name}: no answer within {deadline_s:g} s")
    if status:
        raise SourceError("parse", f"{name} failed with {status}")
    return data.decode("utf-8", "replace")


def _environment(user: bool) -> dict[str, str]:
    """Ours, with the place of the user's bus where a login did not set it (sudo, cron)."""
    bus = {"XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"} if user else {}
    return bus | dict(os.environ)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End it with whatever it started; it leads a session of its own."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
