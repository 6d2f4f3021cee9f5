"""Where tests live on disk, and the event file between a test's process and whoever watches it.

``runs/<id>/`` below the state directory holds one running or ended test: ``plan.json`` (written by who
starts it), ``events.jsonl`` (appended by the test process alone, a JSON object a line), ``cancel`` (its
existence asks the test to end), ``unseen`` (a screen owes its user the end of it), ``log`` (what the test's
process had to say of itself) and ``engine.log`` (the output of an engine that the test started). ``spare``
is room on the disk for its end, while it runs. Finished reports lie in ``tests/<id>.json`` and
``tests/<id>.md``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tui.actions import sound
from tui.actions.ancestry import stat_of
from tui.config.state import open_regular, parse_json, read_json, state_dir, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from tui.actions.plan import TestKind

EventKind = Literal["process", "state", "event", "request", "gauge", "note", "done"]
"""The ``kind`` of a line of the event file:

- ``process``, the first line: ``pid`` and ``start_ticks`` of the test process.
- ``state``: ``name`` is preparing, filling or asking, confirming, stopping, draining, closing, starting,
  warming or reporting; ``text``, where it is there, what has gone wrong in it.
- ``event``: ``t_s``, ``event``, ``detail``, as in the report.
- ``request``: the fields of the report's ``requests``, whenever one of ours begins or ends; their ``kind``
  (in_flight or new) is under ``request``.
- ``gauge``, about once a second: ``t_s``, ``running``, ``waiting``, ``readiness`` (status), ``established``,
  ``tokens`` (by now, of our open requests in flight, by id), ``silent`` (ids of those that get no bytes).
- ``note``: ``text``, for a person.
- ``done``, the last line: ``passed`` (null: it could not be run), ``reasons``, ``report`` (path of the JSON).

Each line has ``at``, epoch seconds. Until the action ``t_s``, ``started_s`` and ``ended_s`` are null: they
are seconds since the action, and the requests are told once more, with them, when it comes. Those that are
not had ended before it, or made way for longer ones: they do not count.
"""
REPORTS_KEPT = 200
RUNS_KEPT = 30
_DIGITS_OF_A_RUN = 3
_NAME = re.compile(r"\d{8}T\d{6}Z-(?:drain|restart)-\d{3}")
"""What is named otherwise is no run: it is not read, and never removed."""
_SPARE_BYTES = 1 << 18
"""A report is some 30 KiB twice (JSON and Markdown), and the old one of its name stays until it is whole."""
_FIRST_LINE_BYTES = 4096
_LOOK_BYTES = 1 << 22
"""Most of an event file in one look; a line is a few hundred bytes."""


def runs_dir() -> Path | None:
    """Where runs live; None without a home."""
    home = state_dir()
    return None if home is None else home / "runs"


def reports_dir() -> Path | None:
    """Where reports are kept; None without a home."""
    home = state_dir()
    return None if home is None else home / "tests"


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of one run."""

    folder: Path

    @property
    def plan(self) -> Path:
        """``plan.json``."""
        return self.folder / "plan.json"

    @property
    def events(self) -> Path:
        """``events.jsonl``."""
        return self.folder / "events.jsonl"

    @property
    def cancel(self) -> Path:
        """Its existence asks the test to end."""
        return self.folder / "cancel"

    @property
    def log(self) -> Path:
        """What the test's process writes to stdout and stderr."""
        return self.folder / "log"

    @property
    def engine_log(self) -> Path:
        """The output of an engine that the test started."""
        return self.folder / "engine.log"

    @property
    def spare(self) -> Path:
        """Room on the disk for the end of the test, while it runs."""
        return self.folder / "spare"

    @property
    def unseen(self) -> Path:
        """It exists from the start of a test on a screen until its end was shown on one."""
        return self.folder / "unseen"

    def write_plan(self, document: dict[str, Any]) -> None:
        """Raises OSError where it cannot be written."""
        write_json(self.plan, document)

    def read_plan(self) -> Any:
        """Raises OSError or ValueError as ``read_json`` does."""
        return read_json(self.plan)


def new_run(test: TestKind) -> RunFiles:
    """A folder of its own for a test, 0700; those of ended tests beyond ``RUNS_KEPT`` go.

    Raises:
        OSError: there is no home to put it in, or it cannot be made.
    """
    home = runs_dir()
    if home is None:
        raise OSError("there is no home directory for the state of a test: set XDG_STATE_HOME")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{test}"
    ends = [files.folder.name.removeprefix(f"{stem}-") for files in all_runs()]
    first = 1 + max((int(end) for end in ends if end.isdecimal()), default=0)
    for number in range(first, 10**_DIGITS_OF_A_RUN):
        folder = home / f"{stem}-{number:0{_DIGITS_OF_A_RUN}}"
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            for old in all_runs()[RUNS_KEPT:]:
                if holder(old) is None:
                    shutil.rmtree(old.folder, ignore_errors=True)
            return RunFiles(folder)
    raise OSError(f"{home} holds too many tests of this second")


def all_runs() -> list[RunFiles]:
    """Newest first."""
    home = runs_dir()
    try:
        names = [] if home is None else [path.name for path in home.iterdir()]
    except OSError:  # no test was ever run here
        names = []
    found = sorted(filter(_NAME.fullmatch, names), reverse=True)
    return [] if home is None else [RunFiles(home / name) for name in found]


def holder(files: RunFiles) -> int | None:
    """The pid of the process that runs this test now; None: it has ended, or has not begun."""
    try:
        with open_regular(files.events) as file:
            first = parse_json(file.readline(_FIRST_LINE_BYTES))
        pid, ticks = first["pid"], first["start_ticks"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    stat = stat_of(pid) if type(pid) is int else None
    return pid if stat is not None and stat.start_ticks == ticks and not stat.zombie else None


class EventWriter:
    """Appends to the event file; made by the test's process alone.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, files: RunFiles) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(files.events, flags, 0o600)

        self._spare = files.spare
        self._cut = False
        self.lost = ""
        """Why lines were lost; empty: none was."""
        _reserve(self._spare)

    def write(self, kind: EventKind, **fields: Any) -> None:
        """One line, whole; lost where the disk is full: a test that has begun goes on without a reader."""
        line = json.dumps({"kind": kind, "at": time.time(), **fields}).encode() + b"\n"
        line = b"\n" + line if self._cut else line  # so that it does not end in the one that was cut
        try:
            self._cut = os.write(self._fd, line) < len(line)
        except OSError as error:
            self.lost = str(error.strerror)
        else:
            self.lost = "no space left" if self._cut else self.lost

    def free(self) -> None:
        """Give the disk back what was reserved for the end."""
        with suppress(OSError):  # nothing was reserved, or it is given back
            self._spare.unlink()

    def end(self, **fields: Any) -> None:
        """The last line."""
        self.free()
        self.write("done", **fields)

    def close(self) -> None:
        """No more lines."""
        os.close(self._fd)


def _reserve(path: Path) -> None:
    """Nothing where there is no room: then there is none for the test either, and it will say so."""
    with suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, _SPARE_BYTES)
        finally:
            os.close(fd)


class EventReader:
    """Reads what was appended since the last call; a line that is half written waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    @property
    def begun(self) -> bool:
        """Something was read."""
        return self._at > 0

    def read(self) -> list[dict[str, Any]]:
        """New events, oldest first; none while there is no file.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            with open_regular(self._path) as file:
                file.seek(self._at)
                text = file.read(_LOOK_BYTES)
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        events = []
        for line in whole.splitlines():
            try:
                event = parse_json(line)
            except ValueError:
                continue  # a disk that filled up cuts a line; the next one stands on its own
            if isinstance(event, dict) and sound.event(event):
                events.append(event)
        return events
