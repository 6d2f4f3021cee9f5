"""Xids of one device, as the driver reports them from the moment of asking on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.sources.nvml.asking import RETRY_LASTING_S, missing
from tui.sources.nvml.errors import LIBRARY_FATAL, NOT_SUPPORTED, TIMEOUT, NvmlCallError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.readings import Missing
    from tui.sources.nvml.binding import CallNvml

_XID = 0x8  # nvmlEventTypeXidCriticalError
_AT_ONCE = 32
"""Events taken at one look: a device that reports without end must not keep us."""


class Xids:
    """One event set for one device: a lost one cannot hide what the others report.

    Looked at without waiting: NVML's wait has no way to be called off, and would hold a session open that
    is to be ended.

    Args:
        tell: called with each number.
    """

    __slots__ = ("_due", "_set", "_tell", "missing")

    def __init__(self, tell: Callable[[int], None]) -> None:
        self.missing: tuple[Missing, ...] = ()
        self._tell = tell
        self._set: Any = None
        self._due = float("-inf")

    def look(self, call: CallNvml, handle: object, now: float) -> None:
        """Tell what came since the last look; from the first one on.

        Raises:
            NvmlCallError: NVML as a whole cannot be asked.
        """
        if now < self._due:
            return
        try:
            if self._set is None:
                self._set = self._register(call, handle)
            for _ in range(_AT_ONCE):
                event = call("nvmlEventSetWait_v2", self._set, 0)
                if event.eventType == _XID:
                    self._tell(int(event.eventData))
        except NvmlCallError as error:
            if error.code == TIMEOUT and error.function == "nvmlEventSetWait_v2":  # nothing more
                self.missing = ()
                return
            if error.code in LIBRARY_FATAL:
                raise
            self.missing = (missing("xid", error, "the kernel log: journalctl -k --grep Xid"),)
            self._due = now + RETRY_LASTING_S

    def close(self, call: CallNvml) -> None:
        """Give the set back; may raise ``NvmlCallError``."""
        if self._set is not None:
            events, self._set = self._set, None
            call("nvmlEventSetFree", events)

    def _register(self, call: CallNvml, handle: object) -> object:
        if not call("nvmlDeviceGetSupportedEventTypes", handle) & _XID:
            raise NvmlCallError(NOT_SUPPORTED, "nvmlDeviceGetSupportedEventTypes", "no Xid events")
        events: object = call("nvmlEventSetCreate")
        try:
            call("nvmlDeviceRegisterEvents", handle, _XID, events)
        except NvmlCallError:
            call("nvmlEventSetFree", events)
            raise
        return events
