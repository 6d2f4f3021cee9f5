"""Which engines tests of ours stop or wait for now, for the monitors beside them: from their event files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tui.actions.runs import EventReader, RunFiles, all_runs, holder, runs_dir
from tui.model.own_test import OwnTest
from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources import offloop

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OVER: Final = frozenset(("", "warming", "reporting"))
"""States before a test knows its engine, and after that serves again."""
_GONE: Final = ("main_exit", "port_closed")
_NEWEST: Final = 5
"""Runs that may be under way: one a user and engine."""


class TestsUnderWay:
    """An ``AsyncSource`` of the engines that a test is about, until they serve again or it ends, by URL."""

    __test__ = False  # for pytest: this is none of its classes

    def __init__(self) -> None:
        self.name = "tests under way"
        self._busy = False
        self._changed: int | None = None
        self._runs: dict[Path, _Run] = {}

    async def read(self) -> Mapping[str, OwnTest]:
        """One look; a host where no test runs costs one ``stat``.

        Raises:
            SourceError: stuck.
        """
        if self._busy:
            raise SourceError("stuck", "the state directory does not answer")
        self._busy = True
        return await offloop.start(self._read, self.name)

    async def close(self) -> None:
        """Nothing is held."""

    def _read(self) -> Mapping[str, OwnTest]:
        try:
            return self._look()
        finally:
            self._busy = False

    def _look(self) -> Mapping[str, OwnTest]:
        home = runs_dir()
        try:
            changed = None if home is None else home.stat().st_mtime_ns
        except OSError:  # no test was ever run here
            changed = None
        if changed is not None and changed != self._changed:
            known = {run.folder: run for run in all_runs()[:_NEWEST]}
            self._runs = {path: self._runs.get(path) or _Run(files) for path, files in known.items()}
        self._changed = changed
        found = {}
        for path, run in list(self._runs.items()):
            run.read()
            if run.ended:
                del self._runs[path]
            elif run.url and run.state not in _OVER:
                found[run.url] = OwnTest(run.test, run.state, run.gone_at, run.failed)
        return found


class _Run:
    """One test, as far as its files tell."""

    def __init__(self, files: RunFiles) -> None:
        self.url = ""
        self.test = ""
        self.state = self.failed = ""
        self.gone_at: float | None = None
        self.ended = False
        self._files = files
        self._events = EventReader(files.events)

    def read(self) -> None:
        """What has been added."""
        try:
            if not self.url:
                self._read_plan(self._files.read_plan())
            events = self._events.read()
        except (OSError, ValueError):  # another user's, or damaged: no test of ours
            self.ended = True
            return
        for event in events:
            if event.get("kind") == "state":
                self.state = clean(str(event.get("name")), 20)
                self.failed = clean(event.get("text") or "")
            elif event.get("kind") == "event" and event.get("event") in _GONE:
                self.gone_at = self.gone_at or event.get("at")
        done = any(event.get("kind") == "done" for event in events)
        # one that was killed wrote no last line
        self.ended = done or (self._events.begun and holder(self._files) is None)

    def _read_plan(self, plan: Any) -> None:
        target = plan.get("target") if isinstance(plan, dict) else None
        url = target.get("url") if isinstance(target, dict) else None
        if isinstance(url, str):
            self.url, self.test = clean(url), clean(str(plan.get("test")), 10)
