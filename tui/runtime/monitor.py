"""Owns every poll loop and everything they have read; hands out frozen snapshots of it."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tui.model.history import History
from tui.model.settings import EngineTarget
from tui.model.snapshot import HostSnapshot
from tui.model.text import clean
from tui.model.urls import host_port
from tui.model.verdicts import LEVELS, Judgement
from tui.runtime import record
from tui.runtime.blocking import BlockingRunner
from tui.runtime.deaths import DeathWatch, case_of
from tui.runtime.journal import Journal
from tui.runtime.live_lint import LiveLint
from tui.runtime.models import ModelWatch
from tui.runtime.notify import Notifier
from tui.runtime.orphans import OrphanWatch
from tui.runtime.own import OwnWatch
from tui.runtime.places import PlaceWatch
from tui.runtime.poll import Poller
from tui.runtime.stops import StopWatch
from tui.runtime.target import WatchedEngine, discovered
from tui.runtime.turns import Turns
from tui.sources.command_line import command_args
from tui.sources.engine_processes import EngineTree
from tui.sources.engine_tree import is_in_other_network, on_sockets, reached_at, tree_of
from tui.sources.kernel.visibility import is_gone
from tui.verdict.judge import Judge, judge_all

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tui.model.explanations import Explanation
    from tui.model.readings import EngineProcess, GpuSet, HostReading, ProcessTable
    from tui.model.settings import Config
    from tui.runtime.clock import Clock
    from tui.runtime.sources import Sources

PROCESS_PERIOD_S = 2.0
GUESS_PERIOD_S = 10.0
GUESSES = ("http://127.0.0.1:8000", "http://127.0.0.1:30000")
"""Default ports of vLLM, Triton and trtllm-serve, and of SGLang: tried when no process gave itself away."""
RELAXED_S = 5.0
"""Between two readings at least while nobody looks at new pictures: counters grow on, so nothing is lost."""
RELAXED_HOST_S = 10.0
"""The same for the host and its processes: that an engine fails shows in its scrapes first."""
FIRST_LOOK_S = 0.5
"""How long the first judgement at a new pace waits for readings to judge."""
AFTER_READING_S = 0.1
"""Judging comes so long after reading, in each interval: figures are shown when they are new."""
CLOSE_S = 1.0
NEVER_SERVED_KEPT_S = 60.0
"""How long the end of an engine is shown that ended before it served."""


class Monitor:
    """Reads everything on its cadence, judges once an interval.

    The loop's thread alone touches it. ``snapshot`` and ``judgement`` never wait.

    Args:
        config: the settings in force.
        targets: endpoints given by name; none: those found on this host.
        sources: where readings come from.
        clock: time.
        backoff: off for a one-shot run.
    """

    def __init__(
        self,
        config: Config,
        targets: tuple[EngineTarget, ...],
        sources: Sources,
        clock: Clock,
        *,
        backoff: bool = True,
    ) -> None:
        self.history = History()
        self._interval_s = config.interval_s
        self._relaxed = False
        self.version = 0
        """Grows with each judgement: a screen that has drawn it has nothing new to draw."""
        self._config = config
        self._sources = sources
        self._clock = clock
        self._backoff = backoff
        self._hostname = clean(socket.gethostname(), 40)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._engines: dict[str, WatchedEngine] = {}
        self._reading = False
        self._generate = config.probes.generate and not config.read_only
        self._one_shot = False
        self._limit: int | None = None
        self._judge = Judge(config.thresholds, config.slo)
        self._judgement = Judgement()
        self._journal = Journal()
        self._snapshot: HostSnapshot | None = None
        self._searching = not targets and config.discovery.enabled
        self._looked = not self._searching
        self._orphans = OrphanWatch(is_gone)
        self._models = ModelWatch(sources.model, self._spawn)
        self._places = PlaceWatch(sources.container, sources.unit, clock, self._spawn)
        self._deaths = DeathWatch(sources.death, clock, self._spawn, self._on_death)
        self._stops = StopWatch(sources.stop_mark, sources.tests, clock, self._spawn, self._pace_s)
        self._notifier: Notifier | None = None
        self._lint = LiveLint(config.probes, sources.state, self._hostname, clock, self._spawn, self._pace_s)
        self._judging = Turns(clock, self._pace_s)
        of_host = partial(self._pace_s, RELAXED_HOST_S)
        self._own = OwnWatch(sources.own, clock, of_host, self._spawn)
        self.gpus: Poller[GpuSet] = self._blocking(sources.gpus(), self._pace_s, 3.0)
        self.host: Poller[HostReading] = self._blocking(sources.host(), of_host, 3.0)
        self.processes: Poller[ProcessTable] = self._blocking(
            sources.processes(), lambda: max(PROCESS_PERIOD_S, of_host()), 5.0, self._on_processes
        )
        for target in targets:
            self.watch(target)

    # -------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Start every loop and return; they run until ``stop``."""
        self._start_reading()
        if self._config.notify.command and not self._sources.simulated:
            self._notifier = Notifier(self._config.notify, self._clock, self._spawn)
        self._spawn(self._judge_for_ever())

    def watch(self, target: EngineTarget) -> None:
        """Watch one more endpoint from now on; one that is watched already is left as it is."""
        if target.url in self._engines:
            return
        watched = WatchedEngine(
            target,
            self._sources,
            self._clock,
            self._pace_s,
            self._spawn,
            backoff=self._backoff,
            on_loss=self._judge_now,
            probes=self._config.probes,
            generate_timeout_s=self._config.thresholds.generate_timeout_s,
        )
        watched.probes.generate(on=self._generate)
        watched.scrape.limit = self._limit
        self._engines[target.url] = watched
        if self._reading:
            watched.start()
            self._follow_logs()

    async def stop(self) -> None:
        """End every loop and close what it held, within a second."""
        for task in self._tasks:
            task.cancel()
        held: list[Poller[Any] | WatchedEngine | PlaceWatch | LiveLint | OwnWatch | StopWatch | Notifier]
        held = [self.gpus, self.host, self.processes, self._places, self._lint, self._own, self._stops]
        held += self._engines.values()
        if self._notifier is not None:
            held.append(self._notifier)
        closing = [asyncio.ensure_future(one.close()) for one in held]
        _, late = await asyncio.wait({*self._tasks, *closing}, timeout=CLOSE_S)
        for task in late:
            task.cancel()

    async def sample(self, samples: int) -> tuple[HostSnapshot, Judgement]:
        """Read everything ``samples`` times, an interval apart, and judge what was seen, once.

        A source that cannot keep up is given its deadline and then left out; the others wait for it
        with the samples that they have, so that no verdict depends on a neighbour. While a generation is
        awaited all go on: judged on figures of before it, a busy engine would be taken for a hung one.
        """
        self._one_shot = True
        self._limit = None if self._generate else samples
        for poller in self._figures():
            poller.limit = self._limit
        self._start_reading()
        patience = (samples - 1) * self.interval_s + 6.0
        if self._generate:
            patience += self._config.thresholds.generate_timeout_s
        limit = self._clock.monotonic() + patience
        seen = 0
        while self._clock.monotonic() < limit:
            done = self._rounds()
            if done > seen:
                seen = done
                self._record()
            watches = (self._places, self._models, self._lint, self._own, self._stops)
            settled = all(watch.settled for watch in watches)
            settled = settled and all(watched.probes.settled for watched in self._engines.values())
            # an engine whose processes nobody has looked for yet would be taken for one without any
            settled = settled and self.processes.attempts > 0
            if self._looked and done >= samples and settled:
                break
            await self._clock.sleep(0.02)
        snapshot = self._record()
        judgement = self._judged_alone(snapshot)
        self._look_into_ends(snapshot, judgement)
        if await self._deaths.settle():
            snapshot = self._take()
            judgement = self._judged_alone(snapshot)
        return snapshot, self._with_lint(snapshot, judgement)

    def _judged_alone(self, snapshot: HostSnapshot) -> Judgement:
        return judge_all(snapshot, self.history, self._config.thresholds, self._config.slo)

    @property
    def interval_s(self) -> float:
        """Seconds between readings, as asked for; another one is in force at once."""
        return self._interval_s

    @interval_s.setter
    def interval_s(self, value: float) -> None:
        self._interval_s = value
        self._hurry()

    @property
    def relaxed(self) -> bool:
        """Nobody looks at new pictures: it is enough to read and to judge each 5 s, and the host each 10 s.

        Probes keep their own times, and a scrape that fails is judged at once all the same.
        """
        return self._relaxed

    @relaxed.setter
    def relaxed(self, on: bool) -> None:
        if on != self._relaxed:
            self._relaxed = on
            self._hurry()

    @property
    def generate(self) -> bool:
        """The generate probe is switched on; never while nothing may be done to an engine."""
        return self._generate

    @generate.setter
    def generate(self, on: bool) -> None:
        self._generate = on and not self._config.read_only
        for watched in self._engines.values():
            watched.probes.generate(on=self._generate)

    # -------------------------------------------------------------------------------- what is known

    def snapshot(self) -> HostSnapshot:
        """The host as last recorded (once an interval); made on the spot before the first time."""
        return self._snapshot or self._take()

    def judgement(self) -> Judgement:
        """The newest verdicts and findings."""
        return self._judgement

    def timeline(self, scope: str) -> list[tuple[float, str]]:
        """Changes of a scope's verdict: (epoch seconds, verdict), oldest first."""
        return [(at, str(name)) for at, name in self._judge.timeline(scope)]

    def explain(self, scope: str, snapshot: HostSnapshot) -> Explanation | None:
        """Everything behind the verdict of one engine on a snapshot; None where that has no such engine."""
        return self._judge.explain(scope, snapshot, self.history)

    # -------------------------------------------------------------------------------- inside

    def _blocking(
        self,
        source: Any,
        interval: Callable[[], float],
        deadline_s: float,
        on_reading: Callable[[Any], None] | None = None,
    ) -> Poller[Any]:
        return Poller(
            BlockingRunner(source, self._clock),
            self._clock,
            interval,
            deadline_s=deadline_s,
            on_reading=on_reading,
            backoff=self._backoff,
        )

    def _start_reading(self) -> None:
        self._reading = True
        for poller in (self.gpus, self.host, self.processes):
            self._spawn(poller.run())
        for watched in self._engines.values():
            watched.start()
        self._lint.start()
        self._stops.start()
        self._follow_logs()
        if self._searching:
            self._spawn(self._guess_for_ever())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # a task that nothing refers to may vanish in mid-flight
        task.add_done_callback(self._tasks.discard)
        return task

    def _on_processes(self, table: ProcessTable) -> None:
        table = self._with_published(table)
        if self._searching:
            for url in (*table.listeners, *table.expected):
                at = reached_at(table, url)
                if at != url and url in self._engines:  # watched before the container told of its ports
                    self._spawn(self._engines.pop(url).end())
                self.watch(discovered(at, tree_of(table, at)))
        trees: dict[str, EngineTree] = {}
        for url, watched in self._engines.items():
            # a container's own address is not one of this host, and yet what answers there is
            watched.local = watched.local or is_in_other_network(table, url)
            if not watched.local:
                continue
            tree = tree_of(table, url)
            files = self._models.files(url)
            trees[url] = EngineTree(tree, files.device if files is not None else None)
            if tree:
                watched.learn_tree(tree)
                self._models.update(url, command_args(tree[0].cmdline), tree[0].pid)
        self._own.update(trees)
        # also containers that no watched address leads to: one may publish a port at which we watch
        found = (process.place for process in table.processes)
        inside = [place for place in found if place is not None and place.container_id]
        self._places.update([*inside, *(w.place for w in self._engines.values() if w.place)])
        self._follow_logs()

        self._forget_gone(table)

    def _follow_logs(self) -> None:
        shared = Counter(w.output for w in self._engines.values())  # whose words they are cannot be told then
        self._stops.keep(
            {
                url: case_of(url, w.target.log, w.place, w.output if shared[w.output] == 1 else "")
                for url, w in self._engines.items()
            }
        )

    def _with_published(self, table: ProcessTable) -> ProcessTable:
        """With the ports that only the containers' own runtime knows of: the kernel forwards them."""
        ports = self._places.published
        return replace(table, published=(*table.published, *ports)) if ports else table

    def _forget_gone(self, table: ProcessTable) -> None:
        """No longer watch what was found here and has been gone for as long as its past is shown.

        One that never served has none: its end is shown, and then nothing is left to tell of it.
        """
        for url, watched in list(self._engines.items()):
            kept_s = record.KEPT_S if watched.ever_served else NEVER_SERVED_KEPT_S
            if url in table.listeners or tree_of(table, url):
                watched.seen()
            elif watched.target.discovered and watched.gone_s > kept_s:
                del self._engines[url]
                self._spawn(watched.end())

    async def _guess_for_ever(self) -> None:
        while not self.processes.attempts:
            await self._clock.sleep(0.02)
        while True:
            if not self._engines:
                await asyncio.gather(*(self._guess(url) for url in GUESSES))
            self._looked = True
            await self._clock.sleep(GUESS_PERIOD_S)

    async def _guess(self, url: str) -> None:
        """Watch a default port if an engine answers there; whatever else listens is left alone."""
        target = EngineTarget(url=url, discovered=True)
        guess = Poller(self._sources.engine(target), self._clock, lambda: 1.0, deadline_s=2.0)
        try:
            await guess.read_once()
        finally:
            await guess.close()
        reading = guess.reading
        if reading is not None and reading.engine is not None:
            self.watch(target)

    def _pace_s(self, relaxed_s: float = RELAXED_S) -> float:
        return max(relaxed_s, self._interval_s) if self._relaxed else self._interval_s

    def _hurry(self) -> None:
        """What is overdue by the interval that is in force now is not to wait out the one that was."""
        held: list[Poller[Any] | WatchedEngine | OwnWatch] = [self.gpus, self.host, self.processes, self._own]
        self._judging.hurry()  # before the others: it waits for what they read from now on
        for one in (*held, *self._engines.values()):
            one.hurry()

    async def _judge_for_ever(self) -> None:
        self._judge_now()
        hurried = True
        while True:
            if hurried:
                await self._first_look()
                self._judging.begin(AFTER_READING_S)
            self._judge_now()
            hurried = await self._judging.next()

    async def _first_look(self) -> None:
        """Wait for what is being read for the first time, or for the first time at this pace."""
        limit = self._clock.monotonic() + FIRST_LOOK_S
        pollers = self._figures()
        seen = [poller.attempts for poller in pollers]
        while self._clock.monotonic() < limit:
            if all(poller.attempts > before for poller, before in zip(pollers, seen, strict=True)):
                return
            await self._clock.sleep(0.02)

    def _judge_now(self) -> None:
        """Also when a scrape fails that has just worked: what is down shows at once, not a second later."""
        snapshot = self._record()
        self._judgement = self._with_lint(snapshot, self._judge.update(snapshot, self.history))
        for found in self._judgement.verdicts:
            if found.scope in self._engines:
                self._engines[found.scope].verdict = found.verdict
        self._journal.note(snapshot, self._judgement)
        self._look_into_ends(snapshot, self._judgement)
        if self._notifier is not None:
            self._notifier.note(snapshot, self._judgement, self._deaths.looking)
        self.version += 1

    def _look_into_ends(self, snapshot: HostSnapshot, judgement: Judgement) -> None:
        down = {found.scope for found in judgement.verdicts if found.verdict == "engine_down"}
        logs = ((url, watched.target.log) for url, watched in self._engines.items())
        self._deaths.update(snapshot, down, logs)

    def _on_death(self) -> None:
        if not self._one_shot:  # a one-shot run judges when everything is there
            self._judge_now()

    def _record(self) -> HostSnapshot:
        self._snapshot = snapshot = self._take()
        record.add(self.history, snapshot)
        self._lint.note(snapshot)
        return snapshot

    def _with_lint(self, snapshot: HostSnapshot, judgement: Judgement) -> Judgement:
        """The settings' faults behind the present trouble of the same level."""
        told = self._notifier.findings() if self._notifier is not None else ()
        found = (*judgement.findings, *told, *self._lint.findings(snapshot))
        return replace(judgement, findings=tuple(sorted(found, key=lambda f: LEVELS.index(f.level))))

    def _rounds(self) -> int:
        return min(poller.attempts for poller in self._figures())

    def _figures(self) -> list[Poller[Any]]:
        """What the figures of a picture come from."""
        return [self.gpus, self.host, *(watched.scrape for watched in self._engines.values())]

    def _take(self) -> HostSnapshot:
        now = self._clock.monotonic()
        table = self.processes.observed(now)
        processes = table.reading if table.status.ok else None
        processes = processes and self._with_published(processes)
        gpus, wall = self.gpus.observed(now), self._clock.wall()
        cards = gpus.reading.gpus if gpus.reading is not None else ()
        views = []
        for url, watched in self._engines.items():
            tree: tuple[EngineProcess, ...] | None = None
            args: dict[str, str] = {}
            if watched.local and processes is not None:
                tree = tree_of(processes, url)
                args = command_args(tree[0].cmdline) if tree else {}
                if not tree and not processes.complete:
                    tree = None  # not seen is not gone where other users' processes are hidden
            view = watched.view(now, tree, args, cards)
            place = watched.place
            container = self._places.container(place, now)
            if container.reading is not None:
                watched.probes.learn_healthcheck(container.reading.healthcheck)
            view = replace(
                view,
                place=place,
                container=container,
                unit=self._places.unit(place, now),
                death=self._deaths.observed(url, now),
                memory=self._models.memory(view, cards),
                own=self._own.observed(url, now, self._models.files(url), loads=not view.engine.status.ok),
            )
            views.append(self._stops.seen(view, watched.probes.kind, now))
        return HostSnapshot(
            taken_at=now,
            wall=wall,
            hostname=self._hostname,
            gpus=gpus,
            host=self.host.observed(now),
            engines=tuple(sorted(views, key=lambda view: host_port(view.url)[1])),
            interval_s=self._interval_s,
            simulated=self._sources.simulated
            or any(v.engine.reading is not None and v.engine.reading.simulated for v in views),
            read_only=self._config.read_only,
            generate=self._generate,
            discovery_done=self._looked,
            hidden=table.reading.hidden if table.reading is not None else "",
            on_sockets=on_sockets(table.reading) if self._searching and table.reading is not None else (),
            orphans=self._orphans.update(
                table.reading if table.status.ok else None, gpus.reading if gpus.status.ok else None, wall
            ),
        )
