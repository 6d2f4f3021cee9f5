"""One test as its event file tells it: for whoever shows it while it runs, or after it has ended."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tui.actions import sound
from tui.actions.launch import BEGIN_S, last_words
from tui.actions.plan import from_document
from tui.actions.progress import line
from tui.actions.runs import EventReader, holder
from tui.config.state import read_json

if TYPE_CHECKING:
    from tui.actions.plan import Plan
    from tui.actions.runs import RunFiles

_MOST_NOTES = 20


class Happened(NamedTuple):
    """One event of the test."""

    t_s: float | None
    """Seconds after the action; None before it."""
    name: str
    detail: str


class News(NamedTuple):
    """What one look brought."""

    events: list[dict[str, Any]]
    plan: Plan | None = None
    report: dict[str, Any] | None = None
    lost: str = ""
    """The process has ended without a word; this is what it said last."""


@dataclass(slots=True)
class Picture:
    """What is known of a test."""

    plan: Plan | None = None
    began_at: float | None = None
    """Epoch seconds, as all instants here."""
    action_at: float | None = None
    state: str = ""
    """Where it is, for a person."""
    events: list[Happened] = field(default_factory=list)
    requests: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Ours, as the event file has them, by id."""
    gauge: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    done: dict[str, Any] | None = None
    report: dict[str, Any] | None = None
    """The JSON contract; None until it has ended, or where there is none."""
    lost: str = ""

    @property
    def over(self) -> bool:
        """It has ended, one way or the other."""
        return self.done is not None or bool(self.lost)

    def at(self, name: str) -> float | None:
        """When an event came, in seconds after the action."""
        return next((event.t_s for event in self.events if event.name == name), None)

    def take(self, news: News) -> None:
        """Add what a look brought."""
        self.plan = self.plan or news.plan
        self.report = self.report or news.report
        self.lost = news.lost
        for event in news.events:
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        at, kind = event.get("at"), event.get("kind")
        if self.began_at is None and isinstance(at, (int, float)):
            self.began_at = float(at)
        if kind == "state":
            self.state = line(event)
        elif kind == "event":
            self._happened(event)
        elif kind == "request" and isinstance(event.get("id"), int):
            self.requests[event["id"]] = event
        elif kind == "gauge":
            self.gauge = event
            self._progressed(event)
        elif kind == "note" and len(self.notes) < _MOST_NOTES:
            self.notes.append(line(event))
        elif kind == "done":
            self.done = event

    def _progressed(self, gauge: dict[str, Any]) -> None:
        """What open requests have got by now; one without bytes is silent until some come."""
        tokens, silent = gauge.get("tokens"), gauge.get("silent")
        for number, request in self.requests.items():
            if request.get("outcome") is None and isinstance(tokens, dict):
                known = tokens.get(str(number), request.get("tokens"))
                quiet = isinstance(silent, list) and number in silent
                self.requests[number] = {**request, "tokens": known, "silent": quiet}

    def _happened(self, event: dict[str, Any]) -> None:
        t_s, name = event.get("t_s"), str(event.get("event"))
        seconds = float(t_s) if isinstance(t_s, (int, float)) else None
        self.events.append(Happened(seconds, name, str(event.get("detail") or "")))
        if name == "signal_sent":
            self.action_at = event.get("at")
            self.requests.clear()  # those that count are told once more


class Follower:
    """Looks at one test again and again; ``look`` is for a thread, the picture for the event loop.

    Attributes:
        files: of the test.
        picture: what is known by now.
    """

    def __init__(self, files: RunFiles) -> None:
        self.files = files
        self.picture = Picture()
        self._reader = EventReader(files.events)
        self._patience = time.monotonic() + BEGIN_S

    def look(self) -> News:
        """What is new since the last look; reads files.

        Raises:
            OSError: the event file cannot be read.
        """
        plan = None
        if self.picture.plan is None:
            with suppress(OSError, ValueError):  # shown without it
                plan = from_document(self.files.read_plan())
        # before the events: what it wrote at its end is found by the next look
        alive = holder(self.files) is not None or (
            not self._reader.begun and time.monotonic() < self._patience
        )
        events = self._reader.read()
        done = next((event for event in events if event.get("kind") == "done"), None)
        lost = "" if alive or events or done or self.picture.done else last_words(self.files)
        return News(events, plan, None if done is None else _report(done), lost)


def _report(done: dict[str, Any]) -> dict[str, Any] | None:
    path = done.get("report")
    if not isinstance(path, str):
        return None
    try:
        report: dict[str, Any] | None = read_json(Path(path))
    except (OSError, ValueError):
        return None
    return report if sound.report(report) else None
