"""What may take long, of one device: traffic, links, profiling figures, shares of processes, Xids."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tui.sources.nvml.asking import Answers, missing
from tui.sources.nvml.errors import NvmlCallError
from tui.sources.nvml.events import Xids
from tui.sources.nvml.gpm import FIELDS, Gpm
from tui.sources.nvml.queries import SIDE_QUERIES
from tui.sources.nvml.usage import ProcessUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.readings import Missing
    from tui.sources.nvml.binding import Binding, CallNvml

SIDE_FIELDS = tuple(dict.fromkeys((*FIELDS, *(name for query in SIDE_QUERIES for name in query.fields))))
"""Fields of a reading that come from here."""


@dataclass(frozen=True, slots=True)
class SideFound:
    """What a device told at the last pass."""

    at: float
    """Monotonic seconds."""
    values: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    usage: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """SM and memory controller by pid."""
    instances: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """GPM of GPU instances, by their number."""


class SideDevice:
    """One device in one session, asked by the side lane alone; ``found`` and ``xids`` may be read meanwhile.

    Args:
        binding: for the structures of GPM.
        handle: NVML's.
    """

    def __init__(self, binding: Binding, handle: object) -> None:
        self.found: SideFound | None = None
        self.xids: deque[int] = deque(maxlen=64)
        """Seen and not yet taken, oldest first."""
        self.figures = True
        """False: it is lost or in error, and only asked for Xids."""
        self.gpu_instances: tuple[int, ...] = ()
        """In MIG mode: those that exist."""
        self._binding = binding
        self._handle = handle
        self._events = Xids(self.xids.append)
        self._gpm = Gpm(binding)
        self._instances: dict[int, Gpm] = {}
        self._usage = ProcessUsage()
        self._answers = Answers(SIDE_QUERIES)

    @property
    def waits(self) -> bool:
        """GPM has its first sample and could have figures a moment later."""
        return self.figures and any(gpm.waits for gpm in self._all_gpm())

    def ask(self, call: CallNvml, now: float) -> None:
        """One pass.

        Raises:
            NvmlCallError: NVML as a whole cannot be asked, as the look for Xids has found.
        """
        self._events.look(call, self._handle, now)
        if not self.figures:
            self.found = None
            return
        try:
            self._ask_gpm(call, now)
            self._usage.ask(call, self._handle, now)
            failure = self._answers.ask(call, self._handle, now)
        except NvmlCallError as error:
            failure = error
        if failure is None:
            self.found = self._put_together(now)
        else:
            self._lose(failure, now)

    def again(self, call: CallNvml, now: float) -> None:
        """The second sample of GPM."""
        try:
            self._ask_gpm(call, now)
            self.found = self._put_together(now)
        except NvmlCallError as error:
            self._lose(error, now)

    def close(self, call: CallNvml) -> None:
        """Give everything back."""
        closers = [self._events.close, *(gpm.close for gpm in self._all_gpm())]
        for close in closers:
            with contextlib.suppress(NvmlCallError):  # the session ends anyway
                close(call)

    def _all_gpm(self) -> tuple[Gpm, ...]:
        return tuple(self._instances.values()) or (self._gpm,)

    def _ask_gpm(self, call: CallNvml, now: float) -> None:
        for gone in self._instances.keys() - set(self.gpu_instances):
            self._instances.pop(gone).close(call)
        for number in self.gpu_instances:
            if number not in self._instances:
                self._instances[number] = Gpm(self._binding, number)
        for gpm in self._all_gpm():
            gpm.ask(call, self._handle, now)

    def _lose(self, failure: NvmlCallError, now: float) -> None:
        """The device cannot be asked any further."""
        why = tuple(missing(name, failure) for name in SIDE_FIELDS)
        self.found = SideFound(now, missing=(*why, *self._events.missing))

    def _put_together(self, now: float) -> SideFound:
        values: dict[str, Any] = {} if self._instances else dict(self._gpm.values)
        values.update((name, value) for name, value in self._answers.values().items() if value is not None)
        gpm_missing = [entry for gpm in self._all_gpm() for entry in gpm.missing]
        lacking = (*gpm_missing, *self._answers.missing(), *self._usage.missing, *self._events.missing)
        return SideFound(
            now,
            values,
            tuple({entry.field: entry for entry in lacking if entry.field not in values}.values()),
            self._usage.by_pid,
            {number: gpm.values for number, gpm in self._instances.items()},
        )
