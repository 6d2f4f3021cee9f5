"""How long engines take from their start to their first good answer: seen, and remembered between runs."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tui.config.state import read_json, write_json
from tui.lint.live import Load
from tui.model.history import History
from tui.model.text import clean
from tui.runtime.past_tests import LOOK_S, PATIENCE_S
from tui.sources import offloop
from tui.verdict.live import http_process, pictures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tui.model.readings import EngineState
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.runtime.clock import Clock

FILE: Final = "load-times.json"
"""In the state directory."""
MOST_ENTRIES: Final = 200
KEPT_LOADS: Final = 10
"""Of one model in one place, the newest."""
LONGEST_S: Final = 86400.0
SKEW_S: Final = 2.0
"""Two clocks that agree this well tell the order of two events."""
_SCHEMA: Final = 1
_MODEL_OPTIONS: Final = ("served-model-name", "model", "model-path", "model-id")


class Key(NamedTuple):
    """Loads that are alike: they take as long as each other, but for what is in the page cache."""

    model: str
    engine: str
    place: str


class Took(NamedTuple):
    """One load."""

    at: float
    """Epoch seconds of its end."""
    load_s: float


class LoadTimes:
    """The loads that were seen, in this run and earlier ones.

    Args:
        path: the file that remembers them; None: this run's only.
    """

    def __init__(self, path: Path | None) -> None:
        self.settled = path is None
        """The file was looked for, or that took too long."""
        self._path = path
        self._changed = False
        self._loads: dict[Key, tuple[Took, ...]] = {}

    def add(self, key: Key, took: Took) -> None:
        """Take down one more."""
        self._merge({key: (took,)})
        self._changed = True

    def span(self, key: Key) -> tuple[float | None, float | None]:
        """Longest and shortest load; the latter only of two at least."""
        known = [took.load_s for took in self._loads.get(key, ())]
        return max(known, default=None), min(known) if len(known) > 1 else None

    async def keep(self, clock: Clock, interval: Callable[[], float]) -> None:
        """Read what other runs have seen, then write what is new, for ever.

        A file that cannot be read or written is as if there were none: what it would say is a convenience.

        Args:
            clock: time.
            interval: gives seconds between pictures: there is nothing new more often.
        """
        while self._path is not None:
            if self._changed or not self.settled:
                work = asyncio.ensure_future(self.sync())
                await asyncio.wait([work], timeout=PATIENCE_S)
                self.settled = True
                await work
            await clock.sleep(max(LOOK_S, interval()))

    async def sync(self) -> None:
        """Once; the file is touched on a thread of its own, for a home may hang."""
        path = self._path
        if path is None:
            return
        with suppress(OSError, ValueError):
            self._merge(await offloop.start(lambda: _parsed(read_json(path)), "load times"))
        if self._changed:
            self._changed = False
            document = _document(self._loads)
            with suppress(OSError):
                await offloop.start(lambda: write_json(path, document), "load times")

    def _merge(self, loads: dict[Key, tuple[Took, ...]]) -> None:
        merged = dict(self._loads)
        for key, more in loads.items():
            merged[key] = tuple(sorted({*merged.get(key, ()), *more})[-KEPT_LOADS:])
        newest = sorted(merged, key=lambda key: merged[key][-1].at)[-MOST_ENTRIES:]
        self._loads = {key: merged[key] for key in newest}


def load_key(view: EngineView, host: str) -> Key | None:
    """Under which an engine's loads are kept; None while its model is not known."""
    reading = view.engine.reading
    # the command line first: it is known before the engine can be asked, and after
    model = next((view.args[name] for name in _MODEL_OPTIONS if view.args.get(name)), None)
    model = model or (reading.model if reading is not None else None)
    engine = reading.engine if reading is not None else None
    engine = engine or (view.processes[0].engine if view.processes else None)
    if not model or engine is None:
        return None
    return Key(model, engine, f"{host} {_place(view)}" if view.local else view.url)


def _place(view: EngineView) -> str:
    place, container = view.place, view.container.reading
    if place is None:
        return "process"
    if place.pod_uid is not None:
        return "pod"  # each restart of a Deployment has another one
    if place.container_id is not None:
        return f"container {(container.name if container else None) or place.container_id[:12]}"
    return place.unit or "process"


def _parsed(document: Any) -> dict[Key, tuple[Took, ...]]:
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        return {}
    entries = document.get("loads")
    found: dict[Key, tuple[Took, ...]] = {}
    for entry in entries[-MOST_ENTRIES:] if isinstance(entries, list) else ():
        names = [entry.get(name) for name in Key._fields] if isinstance(entry, dict) else []
        seen = entry.get("seen") if isinstance(entry, dict) else None
        if names and isinstance(seen, list) and all(isinstance(name, str) and name for name in names):
            loads = tuple(took for one in seen[-KEPT_LOADS:] if (took := _took(one)) is not None)
            if loads:
                found[Key(*(clean(str(name)) for name in names))] = loads
    return found


def _took(one: object) -> Took | None:
    if not isinstance(one, list) or len(one) != 2 or any(type(number) not in (int, float) for number in one):
        return None
    at, load_s = one
    # comparisons only: a whole number of JSON may be too large for a float
    if not (0 < load_s <= LONGEST_S and 0 < at < 1e11):
        return None
    return Took(float(at), float(load_s))


def _document(loads: dict[Key, tuple[Took, ...]]) -> dict[str, Any]:
    entries = [{**key._asdict(), "seen": [list(took) for took in seen]} for key, seen in loads.items()]
    return {"schema": _SCHEMA, "loads": entries}


class LoadWatch:
    """Sees engines load. One that was up when it was first seen tells nothing.

    Args:
        times: gets each load that ended while it was watched.
        host: the name of this host.
    """

    def __init__(self, times: LoadTimes, host: str) -> None:
        self._times = times
        self._host = host
        self._lives: defaultdict[str, _Life] = defaultdict(_Life)

    def update(self, snapshot: HostSnapshot) -> None:
        """Look at the newest snapshot."""
        for view in snapshot.engines:
            done = self._lives[view.url].look(view, snapshot)
            key = load_key(view, self._host) if done is not None else None
            if done is not None and key is not None:
                self._times.add(key, Took(snapshot.wall, done.took_s))
        for gone in self._lives.keys() - {view.url for view in snapshot.engines}:
            del self._lives[gone]

    def load(self, url: str) -> Load | None:
        """The present process's load as far as it was seen."""
        life = self._lives.get(url)
        return None if life is None else life.load


class _Life:
    """One engine's present process."""

    def __init__(self) -> None:
        self.load: Load | None = None
        self._start: float | None = None
        self._settled = False
        self._refused_at: float | None = None

    def look(self, view: EngineView, snapshot: HostSnapshot) -> Load | None:
        """The load, at the look at which it has ended."""
        if not view.processes:
            return self._by_its_own_word(view, snapshot)
        http = http_process(view)
        start = None if http is None else http.started_at
        if start is None:
            return None
        # the kernel tells the boot, and with it each start, to the second; the clock may be set meanwhile
        if self._start is None or abs(start - self._start) > SKEW_S:
            self._start, self._settled, self.load = start, False, None
        if self._settled:
            return None
        ready = _ready_at(view, snapshot)
        if ready is None:
            if self.load is not None or _phase(view, snapshot) == "loading":
                self.load = Load(start, max(0.0, round(snapshot.wall - start, 1)), over=False)
            return None
        self._settled = True
        self.load = None if self.load is None else _ended(start, ready)
        return self.load

    def _by_its_own_word(self, view: EngineView, snapshot: HostSnapshot) -> Load | None:
        """Where its processes cannot be seen: a start that the engine tells, while its port was closed."""
        status, reading = view.engine.status, view.engine.reading
        if not status.ok:
            if status.reason == "refused" and self._refused_at is None and status.since is not None:
                self._refused_at = snapshot.wall - (snapshot.taken_at - status.since)
            return None
        ready = None if self._refused_at is None else _ready_at(view, snapshot)
        if ready is None or self._refused_at is None:
            return None
        start, refused, self._refused_at = reading.started_at if reading else None, self._refused_at, None
        # the clock of another host may be any; between what this one saw it is right enough
        if start is None or not (view.local or refused - SKEW_S <= start):
            return None
        self.load = _ended(start, ready)
        return self.load


def _ended(start: float, ready: float) -> Load | None:
    took = round(ready - start, 1)
    return Load(start, took) if 0.0 < took <= LONGEST_S else None


def _ready_at(view: EngineView, snapshot: HostSnapshot) -> float | None:
    """Epoch seconds at which it was seen to be ready; None while it is not, or nobody has asked yet."""
    status, probes = view.engine.status, {probe.kind: probe for probe in view.probes}
    probe = probes.get("readiness") or probes.get("liveness")
    if probe is None or probe.age_s is None or not isinstance(probe.status, int) or probe.status >= 500:
        return None
    since = status.since if status.ok else None
    # what a probe said of the closed port, or of the process before, is of another time
    stale = since is not None and snapshot.taken_at - probe.age_s < since
    return None if stale or status.reason == "refused" else snapshot.wall - probe.age_s


def _phase(view: EngineView, snapshot: HostSnapshot) -> EngineState | None:
    return pictures(replace(snapshot, engines=(view,)), History())[0].phase
