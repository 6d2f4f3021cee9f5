"""Watches a simulated engine the way the captures were taken, and holds the two against each other."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.demo.clients import Fate, ask, complete
from tests.demo.running import lives, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.demo.running import Running

CAPTURES = Path(__file__).parents[1] / "fixtures" / "lifecycle"
# What lasted less than this may be seen or missed: polls are 200 ms apart there, 50 ms here.
_BRIEF_MS = 400.0
_BRIEF_HERE_MS = 250.0
# Closer together than this the captures themselves disagree about the order.
_ORDER_MS = 450.0
_PROCESSES = {
    "VLLM::EngineCor": "core", "VLLM::Worker": "worker", "sglang::schedul": "core",
    "sglang::detoken": "detokenizer", "vllm": "api", "python": "api",
}  # fmt: skip
_TITLES = {
    "VLLM::EngineCore": "core", "VLLM::Worker_0": "worker", "sglang::scheduler": "core",
    "sglang::detokenizer": "detokenizer",
}  # fmt: skip


@dataclass
class Recording:
    """What was seen after an event: changes of what each poll met, and each request's fate."""

    transitions: list[tuple[float, str, str]] = field(default_factory=list)
    """Milliseconds after the event, what, result."""
    fates: list[Fate] = field(default_factory=list)
    left: set[str] = field(default_factory=set)
    """Processes alive at the end."""
    error: str = ""

    def sequences(self) -> dict[str, list[tuple[float, str, float]]]:
        """Per poll its results in order: the moment each began, and how long it lasted."""
        rows: dict[str, list[tuple[float, str]]] = {}
        for ms, what, result in self.transitions:
            rows.setdefault(what, []).append((ms, result))
        found = {}
        for what, row in rows.items():
            ends = [ms for ms, _ in row[1:]] + [float("inf")]
            found[what] = [(ms, result, end - ms) for (ms, result), end in zip(row, ends, strict=True)]
        return found


def load_capture(dialect: str, name: str) -> Recording:
    """A capture in this form."""
    folder = "vllm-0.32" if dialect == "vllm" else "sglang-0.5.23"
    raw = json.loads((CAPTURES / folder / f"{name}.json").read_text(encoding="utf-8"))
    recording = Recording()
    for row in raw["transitions"]:
        what, result = row["what"], row["result"]
        if what.startswith("process "):
            title = what.removeprefix("process ")
            exited = result.startswith("exited")
            # python and python3 are also multiprocessing's resource tracker, which is not simulated
            if title not in _PROCESSES or (title == "python" and not exited):
                continue
            what, result = _PROCESSES[title], result if exited else "ended"
        recording.transitions.append((row["ms"], what, _network(result)))
    words = {"client timeout": "silent"}
    for row in raw["in_flight"]:
        error = row["error"] or ""
        error = "cut" if error.startswith("ClientPayloadError") else words.get(error, error)
        recording.fates.append(Fate(row["status"], row["chunks"], row["finish"], row["done"], error))
    recording.left = {_PROCESSES[title] for title in raw["processes_left"] if title in _PROCESSES}
    return recording


def _network(result: str) -> str:
    """The ways in which a connection ends without an answer are one."""
    return "conn-reset" if result == "server-disconnected" else result


class Watch:
    """Polls an engine from an event on.

    Args:
        engine: what to watch.
        paths: routes to poll; completions by POST, the others by GET.
        poll_timeout_s: patience of a poll.
    """

    def __init__(self, engine: Running, paths: tuple[str, ...], poll_timeout_s: float) -> None:
        self._engine = engine
        self._paths = paths
        self._poll_timeout_s = poll_timeout_s
        self._recording = Recording()
        self._last: dict[str, str] = {}
        self._event_s = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """The event happens now."""
        self._event_s = time.monotonic()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._poll(path)) for path in self._paths]
        self._tasks.append(loop.create_task(self._poll_processes()))

    @property
    def all_ended(self) -> bool:
        """Whether no process of the engine is left and every poll has met the closed port."""
        refused = all(
            last == "conn-refused" for what, last in self._last.items() if what[:3] in ("GET", "POS")
        )
        return refused and self._engine.exit is not None and not any(map(lives, self._engine.pids.values()))

    async def end(self) -> Recording:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._note_processes()
        pids = self._engine.pids
        self._recording.left = {
            _TITLES[title] for title, pid in pids.items() if title in _TITLES and lives(pid)
        }
        if self._engine.exit is None:
            self._recording.left.add("api")
        return self._recording

    def note(self, what: str, result: str) -> None:
        """Remember a result if it is not the last one again."""
        if self._last.get(what) != result:
            self._last[what] = result
            self._recording.transitions.append(((time.monotonic() - self._event_s) * 1000, what, result))

    async def _poll(self, path: str) -> None:
        body = (
            {"prompt": "one two", "max_tokens": 2, "ignore_eos": True} if path == "/v1/completions" else None
        )
        verb = "POST" if body else "GET"
        while True:
            reply = await ask(self._engine.url, path, body, timeout_s=self._poll_timeout_s)
            self.note(f"{verb} {path}", reply.result)
            await asyncio.sleep(0.05)

    async def _poll_processes(self) -> None:
        while True:
            self._note_processes()
            await asyncio.sleep(0.02)

    def _note_processes(self) -> None:
        for title, pid in self._engine.pids.items():
            if title in _TITLES and not lives(pid):
                self.note(_TITLES[title], "ended")
        if self._engine.exit is not None:
            self.note("api", f"exited {self._engine.exit}")


def log_differences(name: str, log: str) -> list[str]:
    """Lines about the shutdown that the captured vLLM wrote and this log lacks, or has in another order."""
    raw = json.loads((CAPTURES / "vllm-0.32" / f"{name}.json").read_text(encoding="utf-8"))
    found = []
    # each process writes for itself: only the order of one process's lines is given
    for role in ("APIServer", "EngineCore"):
        wanted = [_mark(line) for line in raw["log_after_event"] if line.startswith(f"({role} ")]
        # killed at once, the core may have written its first line or not
        wanted = [
            mark for mark in wanted if role == "APIServer" or "mode=abort" not in log or "trigger" not in mark
        ]
        seen = [_mark(line) for line in log.splitlines() if line.startswith(f"({role} ")]
        if not _within(wanted, seen):
            found.append(f"{role} wrote {[mark for mark in seen if mark]}, in the capture {wanted}")
    return found


def _mark(line: str) -> str:
    """What a line says of the shutdown, without pids and times."""
    return re.sub(r"\d+", "N", line.partition("[shutdown] ")[2])


def send(engine: Running, signum: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """The event of a signal to the API server."""
    return lambda: os.kill(engine.pids["api"], signum)


def order(engine: Running, action: str, what: str = "core") -> Callable[[], None]:
    """The event of an order about a process."""
    fields = {"do": action} if action == "resume" else {"do": action, "what": what}
    return lambda: engine.supervisor.order(fields)


def assert_like(found: Iterable[list[str]]) -> None:
    """No scenario differs from its capture."""
    texts = [text for texts in found for text in texts]
    assert not texts, "\n".join(texts)


async def record(
    engine: Running,
    event: Callable[[], Any],
    *,
    paths: tuple[str, ...],
    requests: int = 6,
    tokens: int = 60,
    stream: bool = True,
    later: tuple[tuple[float, Callable[[], Any]], ...] = (),
    silence_s: float = 1.0,
    poll_timeout_s: float = 1.0,
    exits_within_s: float = 0.0,
    watch_s: float = 0.0,
) -> Recording:
    """Put requests in flight, let the event happen, watch until all is over.

    Args:
        engine: a ready one.
        event: what happens at 0 ms.
        paths: what to poll.
        requests: completions in flight.
        tokens: of each.
        stream: their kind.
        later: more that happens, with its moment in seconds.
        silence_s: patience of the completions' clients.
        poll_timeout_s: patience of the polls.
        exits_within_s: watch until every process has ended, at most so long.
        watch_s: watch at least so long.
    """
    clients = [
        asyncio.create_task(complete(engine.url, tokens, stream=stream, silence_s=silence_s))
        for _ in range(requests)
    ]
    load = engine.supervisor
    await until(lambda: load.load.running + load.load.waiting >= requests)
    watch = Watch(engine, paths, poll_timeout_s)
    watch.begin()
    event()
    began_s = time.monotonic()
    for moment_s, action in later:
        await asyncio.sleep(max(0.0, began_s + moment_s - time.monotonic()))
        action()
    fates = await asyncio.gather(*clients)
    ends_s = time.monotonic() + exits_within_s
    while time.monotonic() < ends_s and not watch.all_ended:  # noqa: ASYNC110 - it is what is polled
        await asyncio.sleep(0.02)
    await asyncio.sleep(max(0.0, began_s + watch_s - time.monotonic()))
    recording = await watch.end()
    recording.fates = list(fates)
    return recording


def differences(capture: Recording, seen: Recording, time_scale: float) -> list[str]:
    """How a recording differs from a capture: results, their order, requests' fates."""
    wanted, got = capture.sequences(), seen.sequences()
    brief_ms = max(_BRIEF_HERE_MS, _BRIEF_MS * time_scale)
    found = []
    for what, rows in wanted.items():
        seen_rows = got.get(what, [])
        lasting, every = _lasting(rows, _BRIEF_MS), [result for _, result, _ in rows]
        seen_lasting, seen_every = _lasting(seen_rows, brief_ms), [result for _, result, _ in seen_rows]
        if not _within(lasting, seen_every) or not _within(seen_lasting, every):
            found.append(f"{what}: {seen_rows}, in the capture {rows}")
    moments = {(what, r): at for what, rows in wanted.items() for at, r, ms in rows if ms >= _BRIEF_MS}
    seen_moments = {(what, r): at for what, rows in got.items() for at, r, _ in rows}
    for first, first_ms in moments.items():
        for second, second_ms in moments.items():
            # that the port closed is one event, noticed by each poll when its turn comes
            same = first[1] == second[1] == "conn-refused"
            in_order = (
                same
                or second_ms - first_ms <= _ORDER_MS
                or (seen_moments.get(first, 0.0) <= seen_moments.get(second, float("inf")))
            )
            if not in_order:
                found.append(
                    f"{first} at {seen_moments[first]:.0f} ms came after {second}: {seen_moments[second]:.0f}"
                )
    fates, seen_fates = Counter(f.key for f in capture.fates), Counter(f.key for f in seen.fates)
    if fates != seen_fates:
        found.append(f"requests {dict(seen_fates)}, in the capture {dict(fates)}")
    return found


def _lasting(rows: list[tuple[float, str, float]], least_ms: float) -> list[str]:
    """Results that no poll can have missed; a reset connection is a moment, however long until the next poll."""
    return [result for _, result, ms in rows if ms >= least_ms and result != "conn-reset"]


def _within(part: list[str], whole: list[str]) -> bool:
    """Whether ``part`` is ``whole`` with some left out."""
    rest = iter(whole)
    return all(item in rest for item in part)
