"""Do the GPUs answer, and have they memory left: a short session with the driver, on its own thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tui.checks.finding import CheckFinding
from tui.model.status import SourceError
from tui.sources.nvml.asking import Answers
from tui.sources.nvml.binding import Binding
from tui.sources.nvml.device import OPEN
from tui.sources.nvml.errors import LIBRARY_FATAL, NvmlCallError, device_words, source_error
from tui.sources.nvml.expected import Expected, Seen, places_of_this_host
from tui.sources.nvml.lanes import Lane
from tui.sources.nvml.queries import IDENTITY, QUERIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.sources.nvml.binding import CallNvml

MEMORY_LIMIT = 0.98
"""Of a card's memory; vLLM takes 0.92 of it by default."""
SLOW_S = 1.0
"""Opening all cards takes longer than this only where the driver has to wake them."""
_PERSISTENCE = "slow without persistence mode: nvidia-smi -pm 1"
_FIELDS = {"mem_used_mib", "temp_c", "sm_pct", "power_w", "power_limit_w"}
_ASKED = (*IDENTITY, *(query for query in QUERIES if _FIELDS & set(query.fields)))
WORK_SM_PCT = 90.0
WORK_MEM_CTRL_PCT = 20.0
WORK_POWER_RATIO = 0.6
"""Figures that only real work makes, all three of one card: kernels that wait for each other draw little
and move nothing."""
_GIB = 1024.0


class GpuCheck:
    """Asks every card who it is, its memory, load and temperature. Nothing is sent that changes a card."""

    def __init__(self) -> None:
        self._lane = Lane("nvml", time.monotonic)
        self._expected = Expected(places_of_this_host())
        self._found: list[CheckFinding] = []
        self._seen: list[Seen] = []
        self._index: int | None = None
        self._opened_s: float | None = None
        self._failure: SourceError | None = None
        self.at_work = ""
        """For a person: a card that works, by figures of now; empty: none does, or none tells."""

    def start(self) -> None:
        """Begin; the findings are collected later."""
        self._lane.start(self._run)

    def findings(self, until: float) -> list[CheckFinding]:
        """What was found by then; a driver that does not answer is a finding.

        Args:
            until: monotonic seconds.
        """
        began = time.monotonic()
        if not self._lane.wait(max(0.0, until - began)):
            where = "" if self._index is None else f" (GPU {self._index})"
            opening = self._opened_s is None
            hint = f"; it may still be opening the cards, {_PERSISTENCE}" if opening else ""
            text = f"the NVIDIA driver does not answer: {self._lane.stuck()}{where}{hint}"
            return [*self._found, CheckFinding("gpu-answers", "error", text)]
        if self._failure is not None:
            return [*self._found, self._without_driver(self._failure)]
        absent = [
            CheckFinding("gpu-answers", "error", f"a GPU is missing: {card.detail}")
            for card in self._expected.absent(self._seen)
        ]
        none = [] if self._seen else [CheckFinding("gpu-driver", "warning", "the NVIDIA driver has no GPU")]
        return [*self._found, *absent, *none, *self._slow()]

    def _run(self) -> None:
        try:
            binding = Binding()
            began = time.monotonic()
            binding.initialise(self._lane)
            call = binding.calls(self._lane)
            count: int = call("nvmlDeviceGetCount")
            handles = []
            for self._index in range(count):
                handles.append(_open(call, self._index))
            self._opened_s = time.monotonic() - began
            for self._index, handle in enumerate(handles):
                self._look(call, self._index, handle)
        except SourceError as error:
            self._failure = error
        except NvmlCallError as error:
            self._failure = source_error(error)

    def _look(self, call: CallNvml, index: int, handle: object) -> None:
        if isinstance(handle, NvmlCallError):
            self._seen.append(Seen(None, None, None))
            self._broken(index, handle)
            return
        answers = Answers(_ASKED)
        failure = answers.ask(call, handle, 0.0) or answers.refused()
        values = answers.values()
        self._seen.append(Seen(values.get("uuid"), values.get("name"), values.get("pci_bus_id")))
        if failure is not None:
            self._broken(index, failure)
            return
        self.at_work = self.at_work or _at_work(index, values)
        name = f"GPU {index} {values.get('name') or ''}".strip()
        used, total = values.get("mem_used_mib"), values.get("mem_total_mib")
        if used is None or not total:
            self._found.append(
                CheckFinding("gpu-answers", "ok", f"{name} answers; its memory cannot be read")
            )
            return
        ratio = used / total
        figures = f"memory {ratio:.3f} used ({used / _GIB:.1f} of {total / _GIB:.1f} GiB)"
        if ratio > MEMORY_LIMIT:
            text = f"{name}: {figures}, above {MEMORY_LIMIT}"
            self._found.append(CheckFinding("gpu-memory", "warning", text, round(ratio, 4), MEMORY_LIMIT))
        else:
            text = f"{name} answers, {figures}"
            self._found.append(CheckFinding("gpu-answers", "ok", text, round(ratio, 4), MEMORY_LIMIT))

    def _broken(self, index: int, failure: NvmlCallError) -> None:
        text = f"GPU {index} does not answer: {device_words(failure)}"
        self._found.append(CheckFinding("gpu-answers", "error", text, failure.reason))

    def _without_driver(self, failure: SourceError) -> CheckFinding:
        """A driver that is not there is another matter where there are GPUs for it."""
        unread = self._expected.unread()
        if failure.reason != "no_driver":
            return CheckFinding("gpu-answers", "error", failure.detail, failure.reason)
        if unread:
            cards = f"{unread} NVIDIA GPU{'s are' if unread > 1 else ' is'} on the PCI bus"
            return CheckFinding("gpu-answers", "error", f"{failure.detail}; {cards}", failure.reason)
        return CheckFinding(
            "gpu-driver",
            "warning",
            f"{failure.detail}, and no NVIDIA GPU on the PCI bus",
            failure.reason,
        )

    def _slow(self) -> list[CheckFinding]:
        if self._opened_s is None or self._opened_s <= SLOW_S:
            return []
        text = f"the NVIDIA driver took {self._opened_s:.1f} s to open the cards: {_PERSISTENCE}"
        return [CheckFinding("gpu-slow", "warning", text, round(self._opened_s, 2), SLOW_S)]


def _at_work(index: int, values: Mapping[str, Any]) -> str:
    sm, controller = values.get("sm_pct"), values.get("mem_ctrl_pct")
    power, limit = values.get("power_w"), values.get("power_limit_w")
    if sm is None or controller is None or power is None or not limit:
        return ""
    if sm < WORK_SM_PCT or controller < WORK_MEM_CTRL_PCT or power < WORK_POWER_RATIO * limit:
        return ""
    return f"GPU {index} works (SM {sm:.0f} %, memory controller {controller:.0f} %, {power:.0f} W)"


def _open(call: CallNvml, index: int) -> object:
    """NVML's handle, or why there is none: one card must not hide the others."""
    try:
        handle: object = call(OPEN, index)
    except NvmlCallError as error:
        if error.code in LIBRARY_FATAL:
            raise
        return error
    return handle
