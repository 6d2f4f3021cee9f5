"""The MIG instances of a card: each has memory and processes of its own, and a place that may be empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tui.sources.nvml.asking import Answers, missing
from tui.sources.nvml.errors import DEVICE_FATAL, INVALID_ARGUMENT, LIBRARY_FATAL, NOT_FOUND, NvmlCallError
from tui.sources.nvml.queries import MIG_QUERIES, SLOW

if TYPE_CHECKING:
    from tui.model.readings import Missing
    from tui.sources.nvml.binding import CallNvml

_EMPTY = frozenset((NOT_FOUND, INVALID_ARGUMENT))


@dataclass(frozen=True, slots=True)
class FoundInstance:
    """What a MIG instance answered."""

    place: int
    """NVML's index among the MIG devices of the card."""
    gpu_instance: int | None
    failure: NvmlCallError | None
    values: dict[str, Any]
    missing: tuple[Missing, ...]


class _Instance(NamedTuple):
    place: int
    handle: object
    gpu_instance: int | None
    answers: Answers


class Instances:
    """The MIG instances of one card, looked for every few seconds: they come and go at run time."""

    __slots__ = ("_due", "_known", "_missing")

    def __init__(self) -> None:
        self._known: dict[str, _Instance] = {}
        self._missing: list[Missing] = []
        self._due = float("-inf")

    def read(
        self, call: CallNvml, card: object, now: float
    ) -> tuple[tuple[FoundInstance, ...], list[Missing]]:
        """What each answers, in NVML's order, and why some cannot be listed.

        Args:
            call: how to call NVML.
            card: the card's handle.
            now: monotonic seconds.

        Raises:
            NvmlCallError: NVML as a whole cannot be asked.
        """
        if now >= self._due:
            self._list(call, card)
            self._due = now + SLOW
        found = []
        for instance in self._known.values():
            failure = instance.answers.ask(call, instance.handle, now)
            found.append(
                FoundInstance(
                    instance.place,
                    instance.gpu_instance,
                    failure or instance.answers.refused(),
                    instance.answers.values(),
                    tuple(instance.answers.missing()),
                )
            )
        return tuple(found), self._missing

    def _list(self, call: CallNvml, card: object) -> None:
        before, self._known, self._missing = self._known, {}, []
        try:
            for place in range(call("nvmlDeviceGetMaxMigDeviceCount", card)):
                found = _at(call, card, place)
                if found is not None:
                    key, handle, gpu_instance = found
                    old = before.get(key)
                    answers = old.answers if old is not None else Answers(MIG_QUERIES)
                    self._known[key] = _Instance(place, handle, gpu_instance, answers)
        except NvmlCallError as error:
            if error.code in LIBRARY_FATAL:
                raise
            self._missing = [missing("mig_instances", error)]


def _at(call: CallNvml, card: object, place: int) -> tuple[str, object, int | None] | None:
    """What tells the instance from others, its handle, its GPU instance; None where the place is empty."""
    try:
        handle = call("nvmlDeviceGetMigDeviceHandleByIndex", card, place)
    except NvmlCallError as error:
        if error.code in _EMPTY:
            return None
        raise
    gpu_instance = _or_none(call, "nvmlDeviceGetGpuInstanceId", handle)
    return _or_none(call, "nvmlDeviceGetUUID", handle) or f"place {place}", handle, gpu_instance


def _or_none(call: CallNvml, function: str, handle: object) -> Any:
    try:
        return call(function, handle)
    except NvmlCallError as error:
        if error.code in LIBRARY_FATAL or error.code in DEVICE_FATAL:
            raise
        return None
