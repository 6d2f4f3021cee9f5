"""Where tests live on disk, and the event file between a test's process and whoever watches it.

``runs/<id>/`` below the state directory holds one running or ended test: ``plan.json`` (written by who
starts it), ``events.jsonl`` (appended by the test process alone, a JSON object a line), ``cancel`` (its
existence asks the test to end). Finished reports lie in ``tests/<id>.json`` and ``tests/<id>.md``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tui.config.state import read_json, state_dir, write_json

if TYPE_CHECKING:
    from pathlib import Path

EventKind = Literal["process", "state", "event", "request", "gauge", "note", "done"]
"""The ``kind`` of a line of the event file:

- ``process``, the first line: ``pid`` and ``start_ticks`` of the test process.
- ``state``: ``name`` is preparing, filling, confirming, stopping, draining, closing, starting, warming or
  reporting.
- ``event``: ``t_s``, ``event``, ``detail``, as in the report.
- ``request``: the fields of the report's ``requests``, whenever one of ours changes.
- ``gauge``, about once a second: ``t_s``, ``running``, ``waiting``, ``readiness`` (status), ``established``.
- ``note``: ``text``, for a person.
- ``done``, the last line: ``passed`` (null: it could not be run), ``reasons``, ``report`` (path of the JSON).

Each line has ``at``, epoch seconds.
"""
REPORTS_KEPT = 200


def runs_dir() -> Path | None:
    """Where runs live; None without a home."""
    home = state_dir()
    return None if home is None else home / "runs"


def reports_dir() -> Path | None:
    """Where reports are kept; None without a home."""
    home = state_dir()
    return None if home is None else home / "tests"


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of one run."""

    folder: Path

    @property
    def plan(self) -> Path:
        """``plan.json``."""
        return self.folder / "plan.json"

    @property
    def events(self) -> Path:
        """``events.jsonl``."""
        return self.folder / "events.jsonl"

    @property
    def cancel(self) -> Path:
        """Its existence asks the test to end."""
        return self.folder / "cancel"

    def write_plan(self, document: dict[str, Any]) -> None:
        """Raises OSError where it cannot be written."""
        write_json(self.plan, document)

    def read_plan(self) -> Any:
        """Raises OSError or ValueError as ``read_json`` does."""
        return read_json(self.plan)


class EventReader:
    """Reads what was appended since the last call; a line that is half written waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def read(self) -> list[dict[str, Any]]:
        """New events, oldest first; none while there is no file.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        events = []
        for line in whole.splitlines():
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue  # a disk that filled up cuts a line; the next one stands on its own
            if isinstance(event, dict):
                events.append(event)
        return events
