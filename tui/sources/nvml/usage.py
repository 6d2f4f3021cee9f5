"""What share of a device each process uses, from the samples that the driver keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.sources.nvml.asking import RETRY_ERROR_MAX_S, RETRY_LASTING_S, missing
from tui.sources.nvml.errors import (
    DEVICE_FATAL,
    LASTING,
    LIBRARY_FATAL,
    NOT_FOUND,
    SUCCESS,
    NvmlCallError,
)

if TYPE_CHECKING:
    from tui.model.readings import Missing
    from tui.sources.nvml.binding import CallNvml

PERIOD_S = 2.0


class ProcessUsage:
    """Per process: SM and memory controller, 0-100 of the driver's sample period."""

    __slots__ = ("_due", "_seen_us", "by_pid", "missing")

    def __init__(self) -> None:
        self.by_pid: dict[int, tuple[float, float]] = {}
        """Replaced, never changed. Only processes of which there was a sample since the last look."""
        self.missing: tuple[Missing, ...] = ()
        self._seen_us = 0
        self._due = float("-inf")

    def ask(self, call: CallNvml, handle: object, now: float) -> None:
        """Take the samples since the last ask.

        Raises:
            NvmlCallError: the device, or NVML as a whole, cannot be asked.
        """
        if now < self._due:
            return
        newest: dict[int, tuple[int, float, float]] = {}
        try:
            for sample in call("nvmlDeviceGetProcessUtilization", handle, self._seen_us):
                stamp, sm, memory = sample.timeStamp, sample.smUtil, sample.memUtil
                if stamp >= newest.get(sample.pid, (0, 0.0, 0.0))[0] and sm <= 100 and memory <= 100:
                    newest[sample.pid] = (stamp, float(sm), float(memory))
        except NvmlCallError as error:
            # nothing new is "not found"; the binding also takes an empty answer for a failure
            if error.code not in (NOT_FOUND, SUCCESS):
                self.by_pid = {}
                if error.code in LIBRARY_FATAL or error.code in DEVICE_FATAL:
                    raise
                why = missing("process_sm_pct", error, "a GPU that is not in MIG mode")
                self.missing = (why,)
                self._due = now + (RETRY_LASTING_S if error.code in LASTING else RETRY_ERROR_MAX_S)
                return
        self._due = now + PERIOD_S
        self.missing = ()
        self.by_pid = {pid: (sm, memory) for pid, (_, sm, memory) in newest.items()}
        self._seen_us = max((stamp for stamp, _, _ in newest.values()), default=self._seen_us)
