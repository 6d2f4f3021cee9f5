"""One device in one session with the driver, and what one pass over its queries found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tui.sources.nvml.asking import Answers
from tui.sources.nvml.errors import LIBRARY_FATAL, NvmlCallError
from tui.sources.nvml.mig import Instances
from tui.sources.nvml.queries import IDENTITY, QUERIES

if TYPE_CHECKING:
    from tui.model.readings import Missing
    from tui.sources.nvml.binding import CallNvml
    from tui.sources.nvml.mig import FoundInstance

OPEN = "nvmlDeviceGetHandleByIndex"
"""The first call to a device in a session; the driver may have to wake it."""
SPREAD = 5
"""Over so many readings the seldom questions to a host's devices are spread."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a device answered."""

    failure: NvmlCallError | None = None
    """Why the whole device could not be asked: there are no values then."""
    values: dict[str, Any] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    instances: tuple[FoundInstance, ...] = ()


class Device:
    """One device in one session.

    Args:
        position: NVML's index in this session.
    """

    __slots__ = (
        "_answers",
        "_identity",
        "_instances",
        "changed",
        "found",
        "handle",
        "name",
        "pci_bus_id",
        "position",
        "uuid",
    )

    def __init__(self, position: int) -> None:
        self.position = position
        self.uuid: str | None = None
        self.name: str | None = None
        self.pci_bus_id: str | None = None
        self.handle: object = None
        """NVML's handle; the failure to get one; None before the first look."""
        self.found = Found()
        self.changed = False
        """Another card answers under this handle: the devices must be taken anew."""
        self._identity = Answers(IDENTITY)
        self._answers = Answers(QUERIES, (position % SPREAD) / SPREAD)
        self._instances = Instances()

    def read(self, call: CallNvml, now: float) -> None:
        """Ask what is due and put the outcome in ``found``; who it is, is known before the rest is asked.

        Args:
            call: how to call NVML.
            now: monotonic seconds.

        Raises:
            NvmlCallError: NVML as a whole cannot be asked.
        """
        if self.handle is None:
            self.handle = self._open(call)
        if isinstance(self.handle, NvmlCallError):
            self.found = Found(self.handle)
            return
        failure = self._identity.ask(call, self.handle, now)
        self._introduce(self._identity.values())
        failure = failure or self._answers.ask(call, self.handle, now) or self._answers.refused()
        if failure is not None:
            self.found = Found(failure)
            return
        values = self._answers.values()
        missing = [entry for entry in self._identity.missing() if getattr(self, entry.field) is None]
        missing += self._answers.missing()
        instances: tuple[FoundInstance, ...] = ()
        if values.get("mig"):
            instances, more = self._instances.read(call, self.handle, now)
            missing += more
        self.found = Found(None, values, tuple(missing), instances)

    def _introduce(self, told: dict[str, Any]) -> None:
        """What it tells of itself; once known it stays known."""
        uuid = told.get("uuid")
        self.changed = self.changed or (None not in (uuid, self.uuid) and uuid != self.uuid)
        self.uuid = uuid or self.uuid
        self.name = told.get("name") or self.name
        self.pci_bus_id = told.get("pci_bus_id") or self.pci_bus_id

    def _open(self, call: CallNvml) -> object:
        """NVML's handle, or why there is none: one device must not hide the others."""
        try:
            handle: object = call(OPEN, self.position)
        except NvmlCallError as error:
            if error.code in LIBRARY_FATAL:
                raise
            return error
        return handle
