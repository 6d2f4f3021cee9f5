"""Starts a test in a process and session of its own, and watches one from outside.

Whoever watches may go at any time (a closed screen, a lost SSH link, SIGKILL): the test goes on, and
``running`` finds it again.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tui.actions.progress import line
from tui.actions.runs import EventReader, RunFiles, all_runs, holder, new_run
from tui.config.state import open_regular, read_json

if TYPE_CHECKING:
    from tui.actions.plan import Plan
    from tui.model.settings import EngineTarget

_LOOK_S = 0.1
_WORDS_BYTES = 1 << 14
BEGIN_S = 20.0
"""Until the process of a test must have said who it is: Python and its imports take half a second."""
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from tui.actions.runner import main; sys.exit(main())"
)
"""The path as an argument rather than in PYTHONPATH, which an engine that the test starts would inherit."""


def start(plan: Plan, target: EngineTarget) -> RunFiles:
    """Start the test; returns at once.

    What is secret (token, headers) goes over a pipe: it stands in no file, environment or command line.

    Raises:
        OSError: there is no place for its files, or no process can be started.
    """
    files = new_run(plan.test)
    files.write_plan(plan.document())
    token = target.token or os.environ.get(target.token_env, "").strip()
    secrets = dataclasses.asdict(dataclasses.replace(target, token=token, token_env=""))
    root = str(Path(__file__).resolve().parents[2])
    with os.fdopen(
        os.open(files.log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
    ) as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, root, str(files.folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    assert process.stdin is not None
    with process.stdin as pipe:
        pipe.write(json.dumps(secrets).encode())
    # reaped here where we outlive it, without anybody having to wait
    threading.Thread(target=process.wait, name=f"test {process.pid}", daemon=True).start()
    return files


def running() -> RunFiles | None:
    """The test that runs now under this state directory."""
    return next((files for files in all_runs() if holder(files) is not None), None)


def follow(files: RunFiles, err: TextIO, out: TextIO) -> int:
    """Tell of a test until it ends: progress on ``err``, the report on ``out``.

    Ctrl+C asks the test to end, and goes on telling; a second one leaves it to itself.

    Returns:
        0 passed, 1 failed, 2 it could not be run, was cancelled or lost.
    """
    reader = EventReader(files.events)
    asked = False
    while True:
        try:
            return _follow(files, reader, err, out)
        except KeyboardInterrupt:
            if asked:
                err.write("left to itself: the test goes on until it has ended\n")
                return 2
            asked = True
            err.write("cancelling: no more requests are sent (Ctrl+C again leaves the test to itself)\n")
            files.cancel.touch(mode=0o600)


def _follow(files: RunFiles, reader: EventReader, err: TextIO, out: TextIO) -> int:
    patience = time.monotonic() + BEGIN_S
    while True:
        events = reader.read()
        # looked at before the last events: what it wrote at its end is read in the next round
        alive = holder(files) is not None or (not reader.begun and time.monotonic() < patience)
        for event in events:
            text = line(event)
            if text:
                err.write(f"{text}\n")
                err.flush()
            if event.get("kind") == "done":
                return _ended(event, err, out)
        if not events and not alive:
            err.write(f"the test's process has ended without a report; it said: {last_words(files)}\n")
            return 2
        if not events:
            time.sleep(_LOOK_S)


def _ended(event: dict[str, Any], err: TextIO, out: TextIO) -> int:
    report = event.get("report")
    if isinstance(report, str):
        try:
            json.dump(read_json(Path(report)), out, indent=1)
            out.write("\n")
            out.flush()
        except (OSError, ValueError) as error:
            err.write(f"the report cannot be read: {error}\n")
    passed = event.get("passed")
    return 2 if passed is None else 0 if passed else 1


def last_words(files: RunFiles) -> str:
    """The last line that the test's process wrote of itself."""
    try:
        with open_regular(files.log) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _WORDS_BYTES))
            words = file.read(_WORDS_BYTES).decode("utf-8", "replace").strip().splitlines()
    except OSError:
        words = []
    return words[-1] if words else "nothing"
