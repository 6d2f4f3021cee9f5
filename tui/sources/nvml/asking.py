"""Asking one device the queries of a table: what it answered, and what it refused to answer until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.model.readings import Missing
from tui.sources.nvml.errors import ABSENT, DEVICE_FATAL, LASTING, LIBRARY_FATAL, NvmlCallError
from tui.sources.nvml.queries import EACH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.sources.nvml.binding import CallNvml
    from tui.sources.nvml.queries import Query

RETRY_LASTING_S = 60.0
"""What a device does not support, or we may not ask, is asked again: modes and rights do change."""
RETRY_ERROR_MAX_S = 8.0
"""Other failures are retried at the next reading, then after 1, 3, 7 and this many seconds: a call that fails
is often slow, too."""

_NOTHING: Mapping[str, object] = {}


class Answers:
    """The latest answers of one device to a table of queries.

    Args:
        queries: the table.
        spread: 0-1, at which part of their period the seldom ones are asked, so that not all devices are
            asked everything at the same reading.
    """

    __slots__ = ("_answers",)

    def __init__(self, queries: Sequence[Query], spread: float = 0.0) -> None:
        self._answers = tuple(_Answer(query, spread) for query in queries)

    def ask(self, call: CallNvml, handle: object, now: float) -> NvmlCallError | None:
        """Ask what is due; the failure of the whole device, if it failed: nothing more was asked then.

        Raises:
            NvmlCallError: NVML as a whole cannot be asked.
        """
        try:
            for answer in self._answers:
                if now >= answer.due:
                    answer.ask(call, handle, now)
        except NvmlCallError as error:
            if error.code in LIBRARY_FATAL:
                raise
            return error
        return None

    def values(self) -> dict[str, Any]:
        """The figures that are known, by field."""
        found: dict[str, Any] = {}
        for answer in self._answers:
            found.update(answer.values)
        return found

    def missing(self) -> list[Missing]:
        """Those that are not, and why."""
        return [entry for answer in self._answers if answer.missing for entry in answer.missing]

    def refused(self) -> NvmlCallError | None:
        """The first refusal to tell, if nothing that changes could be read; None while something could."""
        first: NvmlCallError | None = None
        for answer in self._answers:
            if answer.failure is None:
                if answer.query.period_s == EACH:
                    return None
            elif first is None and answer.failure.reason not in ("not_supported", "old_driver"):
                first = answer.failure
        return first


class _Answer:
    """The latest answer to one query, good or bad, and when to ask again."""

    __slots__ = (
        "_counted",
        "_counted_at",
        "_failures",
        "_first",
        "_spread",
        "due",
        "failure",
        "missing",
        "query",
        "values",
    )

    def __init__(self, query: Query, spread: float) -> None:
        self.query = query
        self.values: Mapping[str, object] = _NOTHING
        """By field."""
        self.failure: NvmlCallError | None = None
        self.missing: tuple[Missing, ...] = ()
        self.due = float("-inf")
        """Monotonic seconds."""
        self._first = 0
        self._failures = 0
        self._spread = spread
        self._counted: tuple[float, ...] | None = None
        self._counted_at = 0.0

    def ask(self, call: CallNvml, handle: object, now: float) -> None:
        """Ask the device; a failure that concerns this query alone is kept as the answer.

        Raises:
            NvmlCallError: the device, or NVML as a whole, cannot be asked any further.
        """
        failure: NvmlCallError | None = None
        for position in range(self._first, len(self.query.calls)):
            try:
                values = self.query.calls[position].ask(call, handle)
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
            self.missing = tuple(missing(field, newer, self.query.enable) for field in lacking)
        elif self._first == 0:
            self.missing = ()
        known = self._growth(values, now) if self.query.rate else values
        self.values = dict(zip(self.query.fields, known, strict=True))
        self.failure = None
        self._failures = 0
        self.due = now + self.query.period_s * (1.0 - self._spread)
        self._spread = 0.0

    def _growth(self, values: tuple[Any, ...], now: float) -> tuple[object, ...]:
        """Growth in a second since the last answer; unknown at first, and where a counter was set back."""
        before, seconds = self._counted, now - self._counted_at
        self._counted, self._counted_at = values, now
        if before is None or seconds <= 0.0:
            return (None,) * len(values)
        return tuple(
            (value - old) / seconds if value >= old else None
            for value, old in zip(values, before, strict=True)
        )

    def _refuse(self, failure: NvmlCallError, now: float) -> None:
        self.values = _NOTHING
        self._counted = None
        self.failure = failure
        self.missing = tuple(missing(field, failure, self.query.enable) for field in self.query.fields)
        self._first = 0
        if failure.code in LASTING:
            self.due = now + RETRY_LASTING_S
        else:
            self.due = now + min(2.0 ** min(self._failures, 10) - 1.0, RETRY_ERROR_MAX_S)
            self._failures += 1


def missing(field: str, failure: NvmlCallError, enable: str = "") -> Missing:
    """Why a field is unknown, and what would bring it.

    Args:
        field: the field of the reading.
        failure: why.
        enable: what would bring it where the device does not support it.
    """
    helps = {
        "not_supported": enable,
        "old_driver": "a newer NVIDIA driver",
        "no_permission": "the right to ask: run as root, or give the container the device",
    }.get(failure.reason, "")
    return Missing(field, f"{failure.reason}: {failure}", helps)
