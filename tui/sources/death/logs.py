"""The end of an engine's own log: a file, a unit's journal, or a container's output. Read, never followed."""

from __future__ import annotations

import os
import re
import stat
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources import offloop
from tui.sources.child import output
from tui.sources.death.lines import stop_mark
from tui.sources.docker import ContainerSource

if TYPE_CHECKING:
    from tui.model.death import DeathCase, StopMark

TAIL_BYTES: Final = 64 * 1024
MOST_READS: Final = 3
"""Threads in one file at a time: where a file system hangs each of them stays for good."""
JOURNAL_LINES: Final = 200
"""More than the tracebacks of an API server and its core that end together."""
DEADLINE_S: Final = 3.0
_MOST_BYTES: Final = 1 << 20
_FRESH_BYTES: Final = 4096
"""A file shorter than this was just rotated or begun: the end of the one before belongs to it."""
_UNIT: Final = re.compile(r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]{0,199}")
_CONTAINER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


_reading: Counter[str] = Counter()
"""Reads under way by path."""
_counting = threading.Lock()


class Log(Protocol):
    """Where an engine writes its log."""

    origin: str
    """For a person."""
    period_s: float
    """Seconds between looks that are light enough while the engine serves."""

    async def tail(self) -> str:
        """Its last lines, not cleaned; raises ``SourceError``."""
        ...

    async def close(self) -> None:
        """Nothing is asked any more."""
        ...


class MarkSource:
    """Whether a log says that its engine stops; a ``StopMarkSource``.

    Args:
        log: where it is written.
    """

    def __init__(self, log: Log) -> None:
        self.name = log.origin
        self.period_s = log.period_s
        self._log = log

    async def read(self) -> StopMark:
        """One look at the end of the log; raises ``SourceError``."""
        return stop_mark(await self._log.tail())

    async def close(self) -> None:
        """Nothing is asked any more."""
        await self._log.close()


def mark_source(case: DeathCase) -> MarkSource | None:
    """Of the log that is known of an engine; None where none is, or its name is none."""
    try:
        log = log_of(case)
    except SourceError:  # named among what is missing once the engine has gone
        return None
    return None if log is None else MarkSource(log)


def log_of(case: DeathCase) -> Log | None:
    """The log that the settings name, else of its container, its output file or its unit; None: no such one.

    Raises:
        SourceError: not_supported: what the settings name is no such thing.
    """
    kind, colon, name = case.log.partition(":")
    if colon and kind == "unit":
        if not _UNIT.fullmatch(name):
            raise SourceError("not_supported", "log: not the name of a systemd unit", unsupported=True)
        return JournalLog(name if "." in name else f"{name}.service", user=case.user_unit or None)
    if colon and kind == "docker":
        if not _CONTAINER.fullmatch(name):
            raise SourceError("not_supported", "log: not the name of a container", unsupported=True)
        return ContainerLog(name, "docker", name)
    if case.log:
        return FileLog(case.log)
    if case.container_id is not None:
        return ContainerLog(case.container_id, case.runtime, case.container_id[:12])
    if case.output:
        return FileLog(case.output)
    if case.unit is not None and case.manager_uid in (None, os.geteuid()):
        return JournalLog(case.unit, user=case.user_unit)
    return None


class FileLog:
    """A file that may be rotated, truncated, binary, or no file at all.

    Args:
        path: where; ``~`` is this user's home.
    """

    period_s = 1.0

    def __init__(self, path: str) -> None:
        self.origin = clean(path, 120)
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._text = ""

    async def tail(self) -> str:
        """Its last 64 KiB; what has not changed since the last look is not read again.

        Raises:
            SourceError: 404 (not there), no_permission, not_supported (no regular file), stuck (earlier
                reads of it have not returned).
        """
        with _counting:
            if _reading[self._path] >= MOST_READS:
                raise SourceError("stuck", f"{self.origin}: its file system does not answer")
            _reading[self._path] += 1
        return await offloop.start(self._read, f"log {self.origin}")

    async def close(self) -> None:
        """Nothing is held."""

    def _read(self) -> str:
        try:
            return self._look()
        finally:
            with _counting:
                _reading[self._path] -= 1

    def _look(self) -> str:
        try:
            path = Path(self._path).expanduser()
            before = path.with_name(f"{path.name}.1")
            seen, data = _tail(path, self._seen)
            if data is not None:
                if len(data) < _FRESH_BYTES:
                    with suppress(OSError, SourceError):  # never rotated, or not by this name
                        data = (_tail(before, None)[1] or b"") + data
                self._seen, self._text = seen, data[-TAIL_BYTES:].decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            raise SourceError("404", f"there is no {self.origin}") from None
        except PermissionError:
            raise SourceError("no_permission", f"{self.origin} may not be read") from None
        except (OSError, RuntimeError, ValueError) as error:  # no home for ~; a NUL in the path
            raise SourceError("not_supported", clean(f"{self.origin}: {error}")) from None
        return self._text


def _tail(path: Path, seen: tuple[int, int, int] | None) -> tuple[tuple[int, int, int], bytes | None]:
    """What tells whether a file has changed, and its end; None where it has not."""
    # looked at before it is opened: a FIFO's writer would get its reader, and a watchdog would begin to run
    named = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        found = os.fstat(named)
        if not stat.S_ISREG(found.st_mode):
            raise SourceError("not_supported", f"{clean(str(path), 120)} is no regular file")
        mark = found.st_ino, found.st_size, found.st_mtime_ns
        if mark == seen:
            return mark, None
        handle = os.open(f"/proc/self/fd/{named}", os.O_RDONLY | os.O_CLOEXEC)  # that file and no other
    finally:
        os.close(named)
    try:
        return mark, os.pread(handle, TAIL_BYTES, max(0, found.st_size - TAIL_BYTES))
    finally:
        os.close(handle)


class JournalLog:
    """The journal of one unit.

    Args:
        unit: its name.
        user: it is one of this user's own manager; None: of the system's, or else of that.
    """

    period_s = 10.0

    def __init__(self, unit: str, *, user: bool | None = False) -> None:
        self.origin = f"journal of {clean(unit, 80)}"
        self._unit = unit
        self._user = user

    async def tail(self) -> str:
        """Its last lines.

        Raises:
            SourceError: not_supported (no journalctl), no_permission (nothing may be seen), timeout,
                too_large, parse.
        """
        managers = (False, True) if self._user is None else (self._user,)
        text = await offloop.start(lambda: self._first(managers), self.origin)
        if not text.strip():
            # without the right journalctl prints nothing and calls it success
            raise SourceError("no_permission", f"{self.origin}: empty, or not ours to read")
        return text

    def _first(self, managers: tuple[bool, ...]) -> str:
        text = ""
        for user in managers:
            which = ("--user", f"--unit={self._unit}") if user else (f"--unit={self._unit}",)
            words = (
                "journalctl",
                *which,
                f"--lines={JOURNAL_LINES}",
                "--output=cat",
                "--no-pager",
                "--quiet",
            )
            text = output(words, DEADLINE_S / len(managers), _MOST_BYTES, user=user)
            if text.strip():
                break
        return text

    async def close(self) -> None:
        """Nothing is held."""


class ContainerLog:
    """What a container wrote to its standard output and error.

    Args:
        container: id or name.
        runtime: as in ``Place``.
        shown: what it is called for a person.
    """

    period_s = 5.0

    def __init__(self, container: str, runtime: str | None, shown: str) -> None:
        self.origin = f"log of container {shown}"
        self._source = ContainerSource(container, runtime)

    async def tail(self) -> str:
        """Its last lines; raises as ``ContainerSource.log``."""
        return await self._source.log()

    async def close(self) -> None:
        """Close the connections."""
        await self._source.close()
