"""What ``systemctl show`` tells of one unit: that verb and no other, bounded in time and output."""

from __future__ import annotations

import os
import re
import time
from typing import Final

from tui.model.places import UnitReading
from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources import offloop
from tui.sources.child import output

DEADLINE_S = 3.0
_MOST_BYTES: Final = 64 * 1024
_MIB = 1024.0 * 1024.0
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,200}\.(?:service|scope)")
_PROPERTIES: Final = (
    "ActiveState", "SubState", "MainPID", "Restart", "NRestarts", "TimeoutStopUSec", "KillMode", "MemoryMax",
    "Result", "ExecMainCode", "ExecMainStatus", "ExecMainStartTimestampMonotonic",
    "ExecMainExitTimestampMonotonic",
)  # fmt: skip
_EXITED, _KILLED, _DUMPED = 1, 2, 3
"""``ExecMainCode``: CLD_EXITED, CLD_KILLED and CLD_DUMPED of ``siginfo``."""
_SPAN_S: Final = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0,
}  # fmt: skip


class UnitSource:
    """An ``AsyncSource`` of one unit.

    Args:
        unit: its name.
        user: it is one of a user's own manager, not of the system's.
        manager_uid: whose, if not this user's.
    """

    def __init__(self, unit: str, *, user: bool = False, manager_uid: int | None = None) -> None:
        self.name = f"unit {unit}"
        self._unit = unit
        self._user = user
        self._owner = manager_uid

    async def read(self) -> UnitReading:
        """One look.

        Raises:
            SourceError: not_supported (no systemctl, or not a unit's name), timeout, no_permission (also
                another user's own manager, which is not asked), too_large, parse (it failed, or printed
                what is not understood).
        """
        if not _UNIT.fullmatch(self._unit) or self._unit.startswith("-"):
            raise SourceError("not_supported", "not the name of a systemd service", unsupported=True)
        if self._user and self._owner not in (None, os.geteuid()):
            whose = f"user {self._owner}'s own systemd"
            raise SourceError(
                "no_permission", f"a unit of {whose}, which only that user can ask", unsupported=True
            )
        text = await offloop.start(lambda: _show(self._unit, self._user), f"systemctl show {self._unit}")
        found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        if not found.get("ActiveState"):
            raise SourceError("parse", "systemctl show tells no state")
        return _reading(self._unit, found)

    async def close(self) -> None:
        """Nothing is held."""


def _show(unit: str, user: bool) -> str:
    manager = ("systemctl", "--user") if user else ("systemctl",)
    words = (*manager, "show", "--no-pager", f"--property={','.join(_PROPERTIES)}", "--", unit)
    return output(words, DEADLINE_S, _MOST_BYTES, user=user)


def _reading(unit: str, found: dict[str, str]) -> UnitReading:
    def text(name: str) -> str | None:
        return clean(found.get(name, ""), 60) or None

    def whole(name: str) -> int | None:
        value = found.get(name, "")
        return int(value) if value.isascii() and value.isdigit() else None

    memory = whole("MemoryMax")  # "infinity" is no limit
    return UnitReading(
        unit=unit,
        active=text("ActiveState"),
        sub=text("SubState"),
        main_pid=whole("MainPID") or None,
        restart=text("Restart"),
        restarts=whole("NRestarts"),
        stop_timeout_s=_span(found.get("TimeoutStopUSec", "")),
        kill_mode=text("KillMode"),
        mem_limit_mib=memory / _MIB if memory is not None and memory < 1 << 62 else None,
        result=text("Result"),
        exit_code=_exit_code(whole("ExecMainCode"), whole("ExecMainStatus")),
        started_at=_instant(whole("ExecMainStartTimestampMonotonic")),
        ended_at=_instant(whole("ExecMainExitTimestampMonotonic")),
    )


def _exit_code(how: int | None, status: int | None) -> int | None:
    """As a shell would have it; None while it runs, and before it ever ended."""
    if status is None or how not in (_EXITED, _KILLED, _DUMPED):
        return None
    return status if how == _EXITED else 128 + status


def _instant(stamp_us: int | None) -> float | None:
    """Epoch seconds of an instant of the monotonic clock, whose text form depends on the time zone."""
    return time.time() - (time.monotonic() - stamp_us / 1e6) if stamp_us else None


def _span(text: str) -> float | None:
    """Seconds of a span as systemd prints it, ``1min 30s``; None where it is not one."""
    if text == "infinity":
        return float("inf")
    total = 0.0
    for word in text.split():
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|min|h|d|w)", word)
        if match is None:
            return None
        total += float(match[1]) * _SPAN_S[match[2]]
    return total if text.strip() else None
