"""The lint of the engines under watch: what is in force and what was measured, held against each other."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from tui.lint.engines import NAMES
from tui.lint.live import Seen, Settings, WholeManifest, lint
from tui.lint.measured import merged
from tui.model.text import clean
from tui.model.verdicts import Finding
from tui.runtime.load_times import FILE, LoadTimes, LoadWatch, load_key
from tui.runtime.measuring import Measuring
from tui.runtime.past_tests import PastTests, findings_of_tests

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from pathlib import Path

    from tui.lint.shape import ProbeName
    from tui.model.settings import ProbeSettings, ProbeSpec
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.runtime.clock import Clock
    from tui.runtime.past_tests import PastTest

EVERY_S: Final = 1.0
_PROBES: Final[tuple[ProbeName, ...]] = ("liveness", "readiness", "startup")


class LiveLint:
    """Findings on the settings of every engine under watch.

    Args:
        probes: the operator's own; the engines' defaults are ours to get right.
        state: the state directory; None: nothing is remembered.
        host: the name of this host.
        clock: time.
        spawn: starts a coroutine that the caller owns and ends.
        interval: gives seconds between pictures.
    """

    def __init__(
        self,
        probes: ProbeSettings,
        state: Path | None,
        host: str,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        interval: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._probes = probes
        self._host = host
        self._clock = clock
        self._spawn = spawn
        self._times = LoadTimes(None if state is None else state / FILE)
        self._loads = LoadWatch(self._times, host)
        self._interval = interval
        self._past = PastTests(state, clock, interval)
        self._measured: defaultdict[str, Measuring] = defaultdict(Measuring)
        self._known: dict[str, tuple[Settings, Seen, tuple[Finding, ...]]] = {}
        self._found: tuple[Finding, ...] = ()
        self._found_at = float("-inf")

    def start(self) -> None:
        """Begin to read what earlier runs have left."""
        self._spawn(self._times.keep(self._clock, self._interval))
        self._spawn(self._past.watch())

    @property
    def settled(self) -> bool:
        """What earlier runs have left is known, or takes too long."""
        return self._times.settled and self._past.settled

    async def close(self) -> None:
        """Remember what was seen."""
        await self._times.sync()

    def note(self, snapshot: HostSnapshot) -> None:
        """Measure; call it for each snapshot."""
        self._loads.update(snapshot)
        for view in snapshot.engines:
            self._measured[view.url].note(view, snapshot)
        for gone in self._measured.keys() - {view.url for view in snapshot.engines}:
            del self._measured[gone]
            self._known.pop(gone, None)

    def findings(self, snapshot: HostSnapshot) -> tuple[Finding, ...]:
        """On the newest snapshot, which was noted; judged once a second at most."""
        if snapshot.taken_at - self._found_at >= EVERY_S:
            self._found_at = snapshot.taken_at
            tests = [(view, self._past.of(view)) for view in snapshot.engines]
            each = [self._engine(view, past, snapshot.taken_at) for view, past in tests]
            self._found = (
                *(f for found in each for f in found),
                *findings_of_tests(tests, snapshot.wall),
                *self._unused(snapshot),
            )
        return self._found

    def _unused(self, snapshot: HostSnapshot) -> Iterator[Finding]:
        """Engines that the manifest says nothing of: their probes are others than were asked for."""
        held = {one.engine: one.origin for one in self._probes.manifest}
        if not held:
            return
        file = next(iter(held.values())).rpartition(":")[0]
        runs = ", ".join(f"{NAMES[kind]} (line {origin.rpartition(':')[2]})" for kind, origin in held.items())
        for view in snapshot.engines:
            kind = self._settings(view).kind
            if kind is not None and kind not in held:
                text = f"--manifest {file} is not used: no container in it runs {NAMES[kind]}"
                force = f"; {view.probe_origin} are in force" if view.probe_origin else ""
                seen = f"looked for {NAMES[kind]}, found {runs}{force}"
                yield Finding("manifest-unused", "warning", view.url, clean(text), clean(seen, 300))

    def _engine(self, view: EngineView, past: tuple[PastTest, ...], now: float) -> tuple[Finding, ...]:
        settings, seen = self._settings(view), self._seen(view, past, now)
        known = self._known.get(view.url)
        if known is None or known[0] != settings or known[1] != seen:
            # 0.3 ms for an engine: too much for what stays the same from one second to the next
            known = self._known[view.url] = (settings, seen, lint(settings, seen))
        return known[2]

    def _settings(self, view: EngineView) -> Settings:
        reading, place = view.engine.reading, view.place
        container, unit = view.container.reading, view.unit.reading
        processes = view.processes or ()
        command = processes[0].cmdline if processes else ()
        kind = reading.engine if reading is not None else None
        manifest = next((one for one in self._probes.manifest if one.origin == view.probe_origin), None)
        probes = self._operators(view, manifest=manifest is not None)
        return Settings(
            url=view.url,
            kind=kind or (processes[0].engine if processes else None),
            version=reading.version if reading is not None else None,
            options={**view.defaults, **view.args} if command else None,
            command=command,
            probes=probes,
            complete=manifest is not None,
            manifest=manifest.workload if isinstance(manifest, WholeManifest) else None,
            # the kubelet starts a pod's containers again, whatever their runtime was told
            container=None if place is not None and place.pod_uid is not None else container,
            # a service that an engine was merely started from (a terminal's, an agent's) is not its unit
            unit=unit if unit is not None and unit.main_pid in {p.pid for p in processes} else None,
        )

    def _operators(self, view: EngineView, *, manifest: bool) -> Mapping[ProbeName, ProbeSpec]:
        given = {kind for kind in _PROBES if manifest or getattr(self._probes, kind) is not None}
        return {kind: spec for kind in _PROBES if kind in given and (spec := view.probe_specs.get(kind))}

    def _seen(self, view: EngineView, past: tuple[PastTest, ...], now: float) -> Seen:
        measured = self._measured[view.url]
        key = load_key(view, self._host)
        longest, least = self._times.span(key) if key is not None else (None, None)
        own = measured.figures(view, longest, least)
        return Seen(
            figures=merged((own, *(test.figures for test in past))) if past else own,
            early=measured.early(view, now),
            load=self._loads.load(view.url),
        )
