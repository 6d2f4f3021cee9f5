"""``[notify] command``: each lasting change of a verdict goes to a program of the user's.

The program gets one JSON object on stdin, in a session of its own and without a shell; its output is
dropped::

    {"schema": 1, "at": "2026-05-04T10:00:00.000Z", "hostname", "simulated": bool,
     "scope": "host" | URL, "from": verdict | null, "to": verdict, "title", "confidence",
     "since": instant | null, "evidence": [text, ...], "missing": [text, ...], "advice": [text, ...]}

``from`` is null for the first trouble of a scope. What is told are verdicts that the screen shows as held:
availability at once (that an engine is down: with the reason, which takes a moment and
10 s at most), a bottleneck when it has held, and the end of either; healthy and idle count as one, and
neither *changing* nor *unknown* is a change. Each scope is told of at most once in ``min_interval_s``: what
changes meanwhile is told at the end of it, as it then is. What an engine's message says, no message about
the host of the same moment says again. A command that still runs when the program
ends is ended with it. It acts on no engine, so it runs with ``--read-only`` too; it does not run in
``once``, nor over a simulated host.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tui.model.text import clean
from tui.model.units import seconds
from tui.model.verdicts import CALM, Finding
from tui.runtime.journal import LOG
from tui.sources import offloop
from tui.verdict.judge import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from tui.model.settings import NotifySettings
    from tui.model.snapshot import HostSnapshot
    from tui.model.verdicts import Judgement, Verdict, VerdictName
    from tui.runtime.clock import Clock

SCHEMA: Final = 1
DEADLINE_S: Final = 10.0
TERM_S: Final = 2.0
"""Between SIGTERM and SIGKILL to a command that does not end."""
LEAVING_TERM_S: Final = 0.3
"""The same when the program ends, which takes a second at most."""
STEP_S: Final = 0.1
"""How often a command that runs is looked at."""
MOST_TEXTS: Final = 20
LINE: Final = 300
"""Characters of a text at most: what is written at once must fit into a pipe (64 KiB)."""


class NotifyError(Exception):
    """The command did not do its work; says why."""


@dataclass(slots=True)
class _Scope:
    """What was said of one scope."""

    told: VerdictName | None = None
    """The verdict that the command knows of; a calm one before it was ever run."""
    at: float | None = None
    """Monotonic seconds of the last message."""


class Notifier:
    """Runs the command, one at a time.

    Args:
        settings: command and interval.
        clock: time.
        spawn: starts a coroutine that the caller owns and ends.
    """

    def __init__(
        self,
        settings: NotifySettings,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._spawn = spawn
        self._scopes: dict[str, _Scope] = {}
        self._pending: dict[str, dict[str, Any]] = {}
        """By scope, in the order in which they came."""
        self._running = False
        self._leaving = threading.Event()
        self._command: asyncio.Future[None] | None = None
        """The command that runs, or the last that ran."""
        self._failures = 0
        self._failure = ""
        self._failed_at = 0.0

    def note(self, snapshot: HostSnapshot, judgement: Judgement, looking: Collection[str] = ()) -> None:
        """Tell of what has changed since the picture before; call it once for each.

        Args:
            snapshot: the newest picture.
            judgement: what was concluded from it.
            looking: engines into whose end is being looked: why they are down is worth those seconds.
        """
        for gone in self._scopes.keys() - {verdict.scope for verdict in judgement.verdicts}:
            del self._scopes[gone]
        said: set[str] = set()
        for verdict in sorted(judgement.verdicts, key=lambda verdict: verdict.scope == HOST):
            scope = self._scopes.setdefault(verdict.scope, _Scope())
            if looking and verdict.verdict == "engine_down" and verdict.scope in (HOST, *looking):
                continue
            if self._is_due(scope, verdict, snapshot.taken_at):
                earlier = self._pending.pop(verdict.scope, None)
                before = scope.told if earlier is None else earlier["from"]
                scope.told, scope.at = verdict.verdict, snapshot.taken_at
                if verdict.scope != HOST or verdict.verdict not in said:
                    self._pending[verdict.scope] = document(snapshot, verdict, before)
                said |= CALM if verdict.verdict in CALM else {verdict.verdict}
        if self._pending and not self._running and not self._leaving.is_set():
            self._running = True
            self._spawn(self._run_all())

    async def close(self) -> None:
        """End the command that runs, with what it has started, within half a second; no other is run."""
        self._leaving.set()
        if self._command is not None:
            await asyncio.wait({self._command})

    def findings(self) -> tuple[Finding, ...]:
        """That the command fails, until it works again."""
        if not self._failures:
            return ()
        ago = seconds(max(0.0, self._clock.monotonic() - self._failed_at))
        again = f", {self._failures} times in a row" if self._failures > 1 else ""
        text = f"notify command failed {ago} ago{again}: {self._failure}"
        return (Finding("notify-failed", "warning", "host", text),)

    def _is_due(self, scope: _Scope, verdict: Verdict, now: float) -> bool:
        if verdict.state != "held" or verdict.verdict == "unknown":
            return False
        calm = verdict.verdict in CALM
        if calm and (scope.told is None or scope.told in CALM):
            scope.told = verdict.verdict  # at the start all is well, or it still is: not worth a message
        if scope.told == verdict.verdict:
            return False
        return scope.at is None or now - scope.at >= self._settings.min_interval_s

    async def _run_all(self) -> None:
        try:
            while self._pending:
                scope = next(iter(self._pending))
                await self._tell(self._pending.pop(scope))
        finally:
            self._running = False

    async def _tell(self, message: dict[str, Any]) -> None:
        what = f"{message['scope']}: {message['to']}"
        data = json.dumps(message).encode()
        try:
            self._command = offloop.start(lambda: run(self._settings.command, data, self._leaving), "notify")
            await asyncio.wait(
                {self._command}
            )  # not the future itself: its end is awaited after a cancellation
            self._command.result()
        except NotifyError as error:
            self._failures += 1
            self._failure, self._failed_at = str(error), self._clock.monotonic()
            LOG.warning("notify of %s failed: %s", what, error)
        else:
            self._failures = 0
            LOG.info("notify of %s done", what)


def document(snapshot: HostSnapshot, verdict: Verdict, before: VerdictName | None) -> dict[str, Any]:
    """The message about one verdict, ready for ``json.dumps``; its texts were redacted where they came in."""
    return {
        "schema": SCHEMA,
        "at": _instant(snapshot.wall),
        "hostname": snapshot.hostname,
        "simulated": snapshot.simulated,
        "scope": verdict.scope,
        "from": before,
        "to": verdict.verdict,
        "title": verdict.title,
        "confidence": verdict.confidence,
        "since": None if verdict.since is None else _instant(verdict.since),
        "evidence": [clean(e.text, LINE) for e in verdict.evidence if e.text][:MOST_TEXTS],
        "missing": [clean(text, LINE) for text in verdict.missing][:MOST_TEXTS],
        "advice": [clean(text, LINE) for text in verdict.advice][:MOST_TEXTS],
    }


def run(
    command: tuple[str, ...], message: bytes, leaving: threading.Event, deadline_s: float = DEADLINE_S
) -> None:
    """Run a command with a message on its stdin. It blocks, for ``deadline_s`` and a little at most.

    Args:
        command: words, seen by no shell.
        message: what it can read.
        leaving: set when the program ends: the command is then ended at once.
        deadline_s: seconds that it has.

    Raises:
        NotifyError: it could not be started, failed, or had to be ended.
    """
    name = clean(os.path.basename(command[0]), 60)  # noqa: PTH119  # a word of a command, not a path of ours
    try:
        process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # a NUL in a word
        why = error.strerror if isinstance(error, OSError) else None
        raise NotifyError(clean(f"{name}: {why or error}")) from None
    if not _done(process, message, leaving, deadline_s):
        if leaving.is_set():
            _end(process, LEAVING_TERM_S)
            raise NotifyError(f"{name}: ended with the program")
        _end(process, TERM_S)
        raise NotifyError(f"{name}: not done within {deadline_s:g} s, ended")
    if process.returncode > 0:
        raise NotifyError(f"{name}: exit status {process.returncode}")
    if process.returncode < 0:
        raise NotifyError(f"{name}: ended by signal {-process.returncode}")


def _done(process: subprocess.Popen[bytes], message: bytes, leaving: threading.Event, limit_s: float) -> bool:
    """Feed it and wait for its end; False where it still runs at the limit, or when the program ends."""
    limit = time.monotonic() + limit_s
    pipe = process.stdin
    assert pipe is not None
    os.set_blocking(pipe.fileno(), False)
    with pipe:
        left = message
        while True:
            if not pipe.closed and not (left := _fed(pipe.fileno(), left)):
                pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STEP_S)
                return True
            if leaving.is_set() or time.monotonic() >= limit:
                return False


def _fed(pipe: int, message: bytes) -> bytes:
    """What the pipe did not take; one that nobody reads any more needs no more."""
    try:
        return message[os.write(pipe, message) :]
    except BlockingIOError:
        return message
    except BrokenPipeError:
        return b""


def _end(process: subprocess.Popen[bytes], term_s: float) -> None:
    """End it with what it has started: its process group, which is surely its own until it is reaped."""
    _signal(process, signal.SIGTERM)
    limit = time.monotonic() + term_s
    while _lives(process) and time.monotonic() < limit:
        time.sleep(0.02)
    _signal(process, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(term_s)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or another user's by now
        os.killpg(process.pid, number)


def _lives(process: subprocess.Popen[bytes]) -> bool:
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:  # the kernel reaps for who was started with SIGCHLD ignored
        return False


def _instant(epoch_s: float) -> str:
    at = dt.datetime.fromtimestamp(epoch_s, dt.timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
