"""Reports of drain and restart tests of earlier days: read off the loop, when their folder changes."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tui.config.state import read_json
from tui.lint.measured import Figures, ReportError, figures_of
from tui.model.text import clean
from tui.model.units import seconds
from tui.model.verdicts import Finding
from tui.sources import offloop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tui.model.snapshot import EngineView
    from tui.model.verdicts import Level
    from tui.runtime.clock import Clock

FOLDER: Final = "tests"
"""Of the state directory."""
LOOK_S: Final = 1.0
"""A ``stat`` of the folder: who has just run a test looks for its outcome."""
PATIENCE_S: Final = 2.0
"""A home on a network may hang: what waits for the first look goes on without it."""
MOST_FILES: Final = 200
SETTLING_NS: Final = 2_000_000_000
"""A folder that has changed this lately may change again within the grain of its time stamp."""


@dataclass(frozen=True, slots=True)
class PastTest:
    """One report."""

    test: Literal["drain", "restart"]
    url: str
    kind: str
    """What was tested: ``process``, ``systemd``, ``docker`` ..."""
    name: str
    at: float
    """Epoch seconds of its start."""
    passed: bool
    figures: Figures
    downtime_s: float | None = None
    """Of a restart: from its port's end to the first served request."""


class PastTests:
    """The newest reports.

    Args:
        state: the state directory; None: there are none.
        clock: time.
        interval: gives seconds between pictures: there is no look more often.
    """

    def __init__(
        self, state: Path | None, clock: Clock, interval: Callable[[], float] = lambda: LOOK_S
    ) -> None:
        self.settled = state is None
        """They were looked for once, or that took too long."""
        self._folder = None if state is None else state / FOLDER
        self._clock = clock
        self._interval = interval
        self._seen: int | None = None
        self._tests: tuple[PastTest, ...] = ()

    async def watch(self) -> None:
        """Look for ever; a look that hangs is waited for, and no second one is started."""
        while self._folder is not None:
            look = offloop.start(self._look, "past tests")
            await asyncio.wait([look], timeout=PATIENCE_S)
            self.settled = True
            with suppress(OSError):  # no folder, or not ours to read: what was known stays known
                self._seen, self._tests = await look
            await self._clock.sleep(max(LOOK_S, self._interval()))

    def of(self, view: EngineView) -> tuple[PastTest, ...]:
        """The newest drain and the newest restart test of an engine, by its URL, container or unit."""
        container, unit = view.container.reading, view.unit.reading
        names = {
            ("docker", container.name if container is not None else None),
            ("systemd", unit.unit if unit is not None else None),
        }
        found: dict[str, PastTest] = {}
        for test in self._tests:
            if test.url == view.url or (test.kind, test.name) in names:
                found.setdefault(test.test, test)
        return tuple(found.values())

    def _look(self) -> tuple[int | None, tuple[PastTest, ...]]:
        assert self._folder is not None  # or nothing watches
        changed = self._folder.stat().st_mtime_ns
        if changed == self._seen:
            return self._seen, self._tests
        settled = abs(time.time_ns() - changed) > SETTLING_NS
        return changed if settled else None, tuple(_newest_first(self._folder))


def findings_of_tests(
    engines: Iterable[tuple[EngineView, tuple[PastTest, ...]]], wall: float
) -> tuple[Finding, ...]:
    """A line for each test of each engine, and one for the engines of this host that were never drained.

    Args:
        engines: with their newest reports.
        wall: epoch seconds now.
    """
    found, never = [], []
    for view, tests in engines:
        for test in sorted(tests, key=lambda test: test.test):
            outcome = _drained(test) if test.test == "drain" else _restarted(test)
            text = f"{test.test} {outcome}, {seconds(max(0.0, wall - test.at))} ago"
            level: Level = "info" if test.passed else "warning"
            found.append(Finding(f"{test.test}-test", level, view.url, text))
        if view.local and view.processes and all(test.test != "drain" for test in tests):
            never.append(view.url)
    if never:
        many = f" ({len(never)} engines)" if len(never) > 1 else ""
        scope = never[0] if len(never) == 1 else "host"
        found.append(Finding("drain-test", "info", scope, f"drain never tested{many}"))
    return tuple(found)


def _restarted(test: PastTest) -> str:
    served = "" if test.downtime_s is None else f"served again after {seconds(test.downtime_s)}"
    if test.passed:
        return served or "passed"
    return f"{served}, yet failed" if served else "failed"


def _drained(test: PastTest) -> str:
    figures = test.figures
    took = "" if figures.exit_s is None else f" in {seconds(figures.exit_s)}"
    if figures.in_flight is None or figures.lost is None:
        return f"{'passed' if test.passed else 'failed'}{took}"
    failed = "" if test.passed or figures.lost else ", yet failed"
    return f"{figures.in_flight - figures.lost}/{figures.in_flight} finished{took}{failed}"


def _newest_first(folder: Path) -> list[PastTest]:
    files = []
    for path in folder.iterdir():
        if path.suffix == ".json" and not path.name.startswith("."):
            with suppress(OSError):  # gone meanwhile
                files.append((path.lstat().st_mtime_ns, path))
    found = []
    for _, path in sorted(files, reverse=True)[:MOST_FILES]:
        with suppress(OSError, ValueError, ReportError):  # not ours, or damaged: as if it were not there
            found.append(_past_test(read_json(path)))
    return sorted(found, key=lambda test: test.at, reverse=True)


def _past_test(report: Any) -> PastTest:
    figures = figures_of(report)[0]
    target = report.get("target")
    started = report.get("started_at")
    if not isinstance(target, dict) or not isinstance(started, str) or report.get("test") is None:
        raise ReportError("no report of a test")
    at = dt.datetime.fromisoformat(started.replace("Z", "+00:00"))
    return PastTest(
        test=report["test"],
        url=_text(target, "url"),
        kind=_text(target, "kind"),
        name=_text(target, "name"),
        # without a zone it would be read as this host's own time
        at=(at if at.tzinfo is not None else at.replace(tzinfo=dt.timezone.utc)).timestamp(),
        passed=report.get("passed") is True,
        figures=figures,
        downtime_s=_span(report.get("downtime_s")),
    )


def _span(value: Any) -> float | None:
    known = type(value) in (int, float) and 0.0 <= value < math.inf
    return float(value) if known else None


def _text(target: dict[str, Any], name: str) -> str:
    value = target.get(name)
    return clean(value) if isinstance(value, str) else ""
