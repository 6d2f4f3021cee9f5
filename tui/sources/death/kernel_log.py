"""The kernel's log about one engine: processes ended for memory, and Xid lines of its GPUs.

``/dev/kmsg`` where it may be read (root, or ``kernel.dmesg_restrict = 0``), else ``journalctl -k``.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Final, Literal

from tui.model.death import KernelLine
from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources.child import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tui.model.death import DeathCase

KMSG: Final = "/dev/kmsg"
DEADLINE_S: Final = 3.0
BEFORE_S: Final = 60.0
"""A line this much older than the last sign of life may still be the cause: Xid lines come first."""
UNSEEN_S: Final = 3600.0
"""Where it was never seen to serve."""
MOST_LINES: Final = 3
_RECORD: Final = 8192
"""Longer than any record of ``/dev/kmsg``; a shorter buffer would be refused."""
_MOST_RECORDS: Final = 50_000
_JOURNAL_LINES: Final = 2000
_MOST_BYTES: Final = 2 << 20

_OOM = re.compile(r"[Oo]ut of memory: Killed process \d+|^oom-kill:")
_PID = re.compile(r"\bpid=(\d+)|Killed process (\d+)")
_GROUP = re.compile(r"\btask_memcg=([^,\s]+)")
_XID = re.compile(r"NVRM: Xid \(")
_SHORT_UNIX = re.compile(r"(\d+\.\d+) \S+ kernel: (.*)")


def kernel_lines(case: DeathCase, kmsg: str = "") -> tuple[KernelLine, ...]:
    """Lines about this engine since it was last seen to serve, oldest first, 3 at most. It blocks.

    Args:
        case: what is known of it.
        kmsg: what to read in place of ``/dev/kmsg``.

    Raises:
        SourceError: no_permission, not_supported, timeout, too_large, parse.
    """
    try:
        records: Iterable[tuple[float, str]] = list(_records(kmsg or KMSG))
    except OSError:  # not ours to read, or none (in a container): then the journal, if that is
        records = list(_journal())
    oldest = (time.time() - UNSEEN_S if case.since is None else case.since) - BEFORE_S
    found: dict[str, KernelLine] = {}
    for at, text in records:
        if at >= oldest and (kind := _kind(text, case)) is not None:
            # one end for memory has two lines, of which the second is meant for people
            pid = _pid(text) if kind == "oom" else ""
            found[f"{kind} {pid or text}"] = KernelLine(kind, clean(text, 200), at)
    return tuple(found.values())[-MOST_LINES:]


def _kind(text: str, case: DeathCase) -> Literal["oom", "xid"] | None:
    """What a line is, where it is about this engine: another's end for memory is not its own."""
    pid = _pid(text)
    ours = pid.isdigit() and int(pid) in case.pids
    if _OOM.search(text) is not None:
        return "oom" if ours or _in_its_group(text, case) else None
    # a fault of the card itself names no process, or one that is not there any more
    return "xid" if _XID.search(text) is not None and (ours or not pid) else None


def _pid(text: str) -> str:
    found = _PID.search(text)
    return (found[1] or found[2]) if found is not None else ""


def _in_its_group(text: str, case: DeathCase) -> bool:
    """The line names its control group; in a container pids are not those that we see."""
    names = (case.container_id, f"/{case.unit}/" if case.unit and not case.container_id else None)
    group = _GROUP.search(text)
    return group is not None and any(name and name in f"{group[1]}/" for name in names)


def _records(kmsg: str) -> Iterator[tuple[float, str]]:
    """The ring buffer from its oldest record to its newest, and no waiting for another."""
    booted = time.time() - time.monotonic()
    handle = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    limit = time.monotonic() + DEADLINE_S
    try:
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(handle, _RECORD)
            except BlockingIOError:
                return  # that was the newest
            except BrokenPipeError:
                continue  # overwritten while it was read: the next one is there
            if not record or time.monotonic() > limit:
                return
            head, _, text = record.partition(b";")
            fields = head.split(b",")
            if len(fields) >= 3 and fields[2].isdigit():
                # a record's further lines are its properties
                yield booted + int(fields[2]) / 1e6, text.partition(b"\n")[0].decode("utf-8", "replace")
    finally:
        os.close(handle)


def _journal() -> Iterator[tuple[float, str]]:
    words = (
        "journalctl",
        "--dmesg",
        f"--lines={_JOURNAL_LINES}",
        "--output=short-unix",
        "--no-pager",
        "--quiet",
    )
    text = output(words, DEADLINE_S, _MOST_BYTES)
    if not text.strip():
        raise SourceError("no_permission", "the kernel's log may not be read")
    for line in text.splitlines():
        if (found := _SHORT_UNIX.match(line)) is not None:
            yield float(found[1]), found[2]
