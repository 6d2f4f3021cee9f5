"""What changed from one picture to the next, as lines of Python's log: sources, devices, verdicts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from tui.model.status import SourceState
from tui.model.text import clean
from tui.model.verdicts import CALM
from tui.verdict.death import exit_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.death import DeathReading
    from tui.model.snapshot import HostSnapshot
    from tui.model.status import SourceStatus
    from tui.model.verdicts import Judgement

LOG = logging.getLogger("infertop")
LOG.addHandler(logging.NullHandler())  # else Python prints warnings that nobody handles
LINE = 600
"""Characters of a line at most."""


class _State(NamedTuple):
    word: str
    """``ok``, ``pending``, or what is wrong: a line is due when it changes."""
    detail: str
    well: bool


class Journal:
    """Writes a line whenever a source, a device or a verdict is another than in the picture before.

    Text from outside was cleaned where it came in and is cleaned once more; addresses hold no credentials.
    """

    def __init__(self) -> None:
        self._states: dict[str, _State] = {}

    def note(self, snapshot: HostSnapshot, judgement: Judgement) -> None:
        """Compare with the picture before; call it once for each."""
        before, self._states = self._states, dict(_states(snapshot, judgement))
        for name, state in self._states.items():
            old = before.get(name)
            if old is not None and old.word == state.word:
                continue
            if state.word == "pending" or (old is None and state.word == "ok"):
                continue
            was = f" (was {old.word})" if old is not None and old.word != "pending" else ""
            detail = f": {state.detail}" if state.detail else ""
            _write(f"{name}: {state.word}{was}{detail}", well=state.well)
        for name in before.keys() - self._states.keys():
            _write(f"{name}: no longer there", well=before[name].well)


def _write(text: str, *, well: bool) -> None:
    LOG.log(logging.INFO if well else logging.WARNING, "%s", clean(text, LINE))


def _states(snapshot: HostSnapshot, judgement: Judgement) -> Iterator[tuple[str, _State]]:
    yield "NVML", _of_source(snapshot.gpus.status)
    yield "host", _of_source(snapshot.host.status)
    reading = snapshot.gpus.reading if snapshot.gpus.status.ok else None
    for gpu in reading.gpus if reading else ():
        if gpu.parent_uuid is None:
            word = "ok" if gpu.state == "ok" else f"{gpu.state} {gpu.reason or ''}".strip()
            yield f"GPU {gpu.index} {gpu.uuid or ''}".strip(), _State(word, gpu.detail, gpu.state == "ok")
    for view in snapshot.engines:
        yield f"engine {view.url}", _of_source(view.engine.status)
        yield f"end of {view.url}", _of_end(view.death.reading)
    for verdict in judgement.verdicts:
        detail = "; ".join(evidence.text for evidence in verdict.evidence if evidence.text)
        calm = verdict.verdict in CALM or verdict.verdict == "unknown"
        yield f"verdict of {verdict.scope}", _State(verdict.verdict, detail, calm)


def _of_end(death: DeathReading | None) -> _State:
    """Why it went: once, when that is found out."""
    if death is None:
        return _State("pending", "", well=True)
    said = "; ".join([*(line.text for line in death.kernel), *death.log])
    return _State(exit_text(death, None) or "how is not known", said, well=False)


def _of_source(status: SourceStatus) -> _State:
    if status.state is SourceState.PENDING:
        return _State("pending", "", well=True)
    if status.state is SourceState.FRESH:
        return _State("ok", "", well=True)
    return _State(status.reason or status.state.value, status.detail, well=False)
