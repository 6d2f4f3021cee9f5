"""The commands of a test: how the engine is stopped and started, each in a session of its own."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from typing import TYPE_CHECKING

from tui.actions.result import CannotRunError
from tui.model.text import clean
from tui.sources import offloop

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tui.actions.session import Session


def spawn(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Run a command that may outlive us: a session of its own, stdin closed, output to a log (0600).

    Raises:
        OSError: it cannot be run, or the log cannot be written.
    """
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=fd, stderr=fd, start_new_session=True, cwd="/"
        )
    finally:
        os.close(fd)
    threading.Thread(target=process.wait, name=f"reap {process.pid}", daemon=True).start()
    return process


async def act(session: Session) -> None:
    """Do what was confirmed, and nothing else; from here on time counts.

    Raises:
        CannotRunError: nothing was done, and why.
        RefusedError: the process is another one, or this user may not signal it.
    """
    stop, held = session.plan.stop, session.held
    held.verify()
    await _logged(session, stop.text)
    at = time.monotonic()
    done = True
    if stop.way == "sigterm":
        done = held.terminate()
    elif stop.way == "kill_api_server":
        done = held.kill_api_server()
    elif stop.way == "kill_tree":
        done = bool(held.kill_tree())
    else:
        try:
            spawn(stop.command, session.files.log)
        except OSError as error:
            name = stop.command[0] if stop.command else "the stop command"
            raise CannotRunError(clean(f"{name} cannot be run: {error.strerror}")) from None
    if not done:
        raise CannotRunError("the engine had ended before anything was sent")
    session.acted(at, stop.text)


def start_again(session: Session) -> None:
    """Run the start command of the plan; what it starts outlives the test."""
    try:
        session.starter = spawn(session.plan.start.command, session.files.engine_log)
    except OSError as error:
        session.state("starting", clean(f"the start command cannot be run: {error.strerror}"))
    else:
        session.event("spawned", detail=f"pid {session.starter.pid}")


async def kill(session: Session) -> None:
    """SIGKILL to what is left, as confirmed.

    Raises:
        RefusedError: this user may not.
    """
    what = "SIGKILL after the grace period"
    await _logged(session, what)
    session.event("killed", detail=what)
    session.held.kill_tree()


async def _logged(session: Session, what: str) -> None:
    """Have it in the audit log, on disk, before it is done: on a busy disk that took 1.3 s."""
    await offloop.start(lambda: session.before_signal(what), "audit log")
