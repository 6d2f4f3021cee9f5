"""One device: what it was asked, what it answered, and what it refused to answer until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.model.readings import GpuReading, Missing
from tui.sources.nvml.errors import (
    ABSENT,
    DEVICE_FATAL,
    LASTING,
    LIBRARY_FATAL,
    NvmlCallError,
    device_words,
)
from tui.sources.nvml.queries import EACH, IDENTITY, QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.sources.nvml.queries import Query

    CallNvml = Callable[..., Any]
    """``Binding.call``: a function of the binding by name, then its arguments; raises ``NvmlCallError``."""

RETRY_LASTING_S = 60.0
"""What a device does not support, or we may not ask, is asked again: modes and rights do change."""
RETRY_ERROR_MAX_S = 8.0
"""Other failures are retried at the next reading, then after 1, 3, 7 and this many seconds: a call that fails
is often slow, too."""


class Device:
    """One device in one session with the driver.

    Args:
        index: NVML's index in this session.
        handle: NVML's handle, or the failure to get one.
    """

    __slots__ = ("_answers", "_handle", "index", "name", "uuid")

    def __init__(self, index: int, handle: object | NvmlCallError) -> None:
        self.index = index
        self.uuid: str | None = None
        self.name: str | None = None
        self._handle = handle
        self._answers = tuple(_Answer(query) for query in QUERIES)

    def identify(self, call: CallNvml, now: float) -> None:
        """Ask for UUID and name, as far as they can be had; a lost device says so at the next ``read``.

        Raises:
            NvmlCallError: NVML as a whole cannot be asked.
        """
        self._ask(self._answers[: len(IDENTITY)], call, now)

    def remember(self, previous: Device) -> None:
        """Take over the identity of the device that had this place, for one that cannot tell its own."""
        self.uuid, self.name = previous.uuid, previous.name

    def read(self, call: CallNvml, now: float) -> GpuReading:
        """Ask what is due and put the row together.

        Args:
            call: how to call NVML.
            now: monotonic seconds.

        Raises:
            NvmlCallError: NVML as a whole cannot be asked.
        """
        fatal = self._ask(self._answers, call, now)
        if fatal is None:
            return self._row()
        return GpuReading(
            self.index,
            self.uuid,
            self.name,
            state="lost" if fatal.reason == "lost" else "error",
            reason=fatal.reason,
            detail=device_words(fatal),
        )

    def _ask(self, answers: tuple[_Answer, ...], call: CallNvml, now: float) -> NvmlCallError | None:
        """Ask what is due, until a failure of the whole device: that is returned."""
        if isinstance(self._handle, NvmlCallError):
            return self._handle
        fatal = None
        try:
            for answer in answers:
                if now >= answer.due:
                    answer.ask(call, self._handle, now)
        except NvmlCallError as error:
            if error.code in LIBRARY_FATAL:
                raise
            fatal = error
        for answer in self._answers[: len(IDENTITY)]:
            if answer.values:
                setattr(self, answer.query.fields[0], answer.values[0])
        return fatal

    def _row(self) -> GpuReading:
        values: dict[str, Any] = {}
        missing: list[Missing] = []
        alive = False
        refusal: NvmlCallError | None = None
        for answer in self._answers:
            if answer.failure is None:
                values.update(zip(answer.query.fields, answer.values, strict=True))
                alive = alive or answer.query.period_s == EACH
            elif refusal is None and answer.failure.reason not in ("not_supported", "old_driver"):
                refusal = answer.failure
            missing += answer.missing
        values["uuid"], values["name"] = self.uuid, self.name
        if not alive and refusal is not None:  # nothing that changes can be read
            values.update(state="error", reason=refusal.reason, detail=device_words(refusal))
        return GpuReading(self.index, missing=tuple(missing), **values)


class _Answer:
    """The latest answer to one query, good or bad, and when to ask again."""

    __slots__ = ("_failures", "_first", "due", "failure", "missing", "query", "values")

    def __init__(self, query: Query) -> None:
        self.query = query
        self.values: tuple[object, ...] = ()
        self.failure: NvmlCallError | None = None
        self.missing: tuple[Missing, ...] = ()
        self.due = float("-inf")
        """Monotonic seconds."""
        self._first = 0
        self._failures = 0

    def ask(self, call: CallNvml, handle: object, now: float) -> None:
        """Ask the device; a failure that concerns this query alone is kept as the answer.

        Raises:
            NvmlCallError: the device, or NVML as a whole, cannot be asked any further.
        """
        failure: NvmlCallError | None = None
        for position in range(self._first, len(self.query.calls)):
            function, arguments, convert = self.query.calls[position]
            try:
                values = convert(call(function, handle, *arguments))
            except NvmlCallError as error:
                if error.code in DEVICE_FATAL or error.code in LIBRARY_FATAL:
                    raise
                if failure is None or error.reason != "old_driver":  # the more telling of two
                    failure = error
                if error.code not in ABSENT:
                    break
            else:
                self._keep(values, failure, now)
                self._first = position
                return
        assert failure is not None  # every query has a call, and none of this one's answered
        self._refuse(failure, now)

    def _keep(self, values: tuple[object, ...], newer: NvmlCallError | None, now: float) -> None:
        """Keep an answer; ``newer`` is why a newer function, which may tell more, did not give it."""
        if newer is not None:
            lacking = [f for f, value in zip(self.query.fields, values, strict=True) if value is None]
            self.missing = tuple(_missing(field, self.query, newer) for field in lacking)
        elif self._first == 0:
            self.missing = ()
        self.values = values
        self.failure = None
        self._failures = 0
        self.due = now + self.query.period_s

    def _refuse(self, failure: NvmlCallError, now: float) -> None:
        self.values = ()
        self.failure = failure
        self.missing = tuple(_missing(field, self.query, failure) for field in self.query.fields)
        self._first = 0
        if failure.code in LASTING:
            self.due = now + RETRY_LASTING_S
        else:
            self.due = now + min(2.0 ** min(self._failures, 10) - 1.0, RETRY_ERROR_MAX_S)
            self._failures += 1


def _missing(field: str, query: Query, failure: NvmlCallError) -> Missing:
    enable = {
        "not_supported": query.enable,
        "old_driver": "a newer NVIDIA driver",
        "no_permission": "the right to ask: run as root, or give the container the device",
    }.get(failure.reason, "")
    return Missing(field, f"{failure.reason}: {failure}", enable)
