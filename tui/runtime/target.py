"""One engine endpoint under watch: its scrape, its probes, and what is known of its processes."""

from __future__ import annotations

import dataclasses
import statistics
from collections import deque
from typing import TYPE_CHECKING, Final

from tui.model.readings import EngineReading
from tui.model.settings import EngineTarget, ProbeSettings
from tui.model.snapshot import EngineView
from tui.model.urls import host_port
from tui.runtime.poll import Poller
from tui.runtime.probe_watch import ProbeWatch
from tui.sources.command_line import command_args
from tui.sources.engines.fault import EngineFaultError
from tui.sources.option_defaults import option_defaults
from tui.sources.proxies import name_of_proxy

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from typing import Any

    from tui.model.places import Place
    from tui.model.readings import EngineKind, EngineProcess, GpuReading
    from tui.model.status import SourceError
    from tui.model.verdicts import VerdictName
    from tui.runtime.clock import Clock
    from tui.runtime.sources import Sources

SCRAPE_DEADLINE_S = 5.0
"""A busy API server answers late (4.3 s seen on a healthy one); the reading is stale long before."""

SCRAPING_SHARE = 0.2
"""A server whose scrapes take long is scraped less often: they keep it busy for no more of the time."""
SLOWEST_S = 15.0
NO_GENERATION: Final[frozenset[VerdictName]] = frozenset(("loading", "draining", "engine_down"))
"""While it is one of these a generation would fail, or delay its end."""
TOO_LARGE_S = 30.0
"""Until a body is read again that was too large: it will hardly have shrunk, and costs both sides much."""


class WatchedEngine:
    """The pollers of one endpoint. Probes start when the engine's kind is known: their routes depend on it.

    Args:
        target: the endpoint.
        sources: makes its sources.
        clock: time.
        interval: gives seconds between scrapes.
        spawn: starts a coroutine that the caller owns and ends.
        backoff: as for ``Poller``.
        on_loss: called when a scrape fails after one that succeeded.
        probes: settings of config and command line.
        generate_timeout_s: until an unanswered generation is given up.
    """

    def __init__(
        self,
        target: EngineTarget,
        sources: Sources,
        clock: Clock,
        interval: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        backoff: bool = True,
        on_loss: Callable[[], None] | None = None,
        probes: ProbeSettings | None = None,
        generate_timeout_s: float = 30.0,
    ) -> None:
        self.target = target
        self.local = sources.is_local(target.url)
        self.place: Place | None = None
        """Where it runs, or last ran."""
        self.output = ""
        """The file that its server writes to, or last wrote to."""
        self._proxy = name_of_proxy(target)
        self._sources = sources
        self._clock = clock
        self._spawn = spawn
        self._backoff = backoff
        self.verdict: VerdictName | None = None
        """What it was judged to be."""
        self.probes = ProbeWatch(
            target,
            sources,
            probes or ProbeSettings(),
            generate_timeout_s,
            clock,
            spawn,
            self._may_generate,
            once=not backoff,
        )
        self._served_last: float | None = None
        self._asked_interval = interval
        self._took: deque[float] = deque(maxlen=3)
        self._too_large = False
        self._seen_last = clock.monotonic()
        self._scraping: asyncio.Task[None] | None = None
        self.scrape: Poller[EngineReading] = Poller(
            sources.engine(target),
            clock,
            self._interval,
            deadline_s=SCRAPE_DEADLINE_S,
            on_reading=self._on_reading,
            on_loss=on_loss,
            on_failure=self._on_failure,
            backoff=backoff,
        )
        self._known: EngineReading | None = None
        """Who it said to be before the last read of it failed."""
        if target.engine != "auto":
            self.probes.learn_kind(target.engine)

    def start(self) -> None:
        """Begin to scrape."""
        self._scraping = self._spawn(self.scrape.run())

    def hurry(self) -> None:
        """The interval has changed: a scrape that is overdue by it is made at once."""
        self.scrape.hurry()

    def seen(self) -> None:
        """The process table has it."""
        self._seen_last = self._clock.monotonic()

    @property
    def gone_s(self) -> float:
        """Seconds for which it has neither answered nor been in the process table."""
        return self._clock.monotonic() - max(self._seen_last, self._served_last or self._seen_last)

    @property
    def ever_served(self) -> bool:
        """It was read at least once."""
        return self._served_last is not None

    def learn_tree(self, tree: tuple[EngineProcess, ...]) -> None:
        """What the process table says of an endpoint of this host."""
        server = tree[0]
        self.probes.learn_process("pid", server.pid, server.started_at)
        self.learn_kind(server.engine)
        place = next((process.place for process in tree if process.place is not None), None)
        self.place = place or self.place
        self.output = server.output

    def learn_kind(self, kind: EngineKind) -> None:
        """What the process table says of an endpoint that has not answered yet."""
        if self.probes.kind is None:
            self.probes.learn_kind(kind)

    def view(
        self,
        now: float,
        tree: tuple[EngineProcess, ...] | None,
        args: dict[str, str],
        gpus: tuple[GpuReading, ...] = (),
    ) -> EngineView:
        """The endpoint at ``now``, with what its command line or its version's defaults say of the seats.

        Args:
            now: monotonic seconds.
            tree: its processes.
            args: the options of its command line.
            gpus: the devices of this host.
        """
        observed = self.scrape.observed(now)
        reading = observed.reading
        # what a command line leaves out can only be told where there is one
        defaults = self._defaults(reading, args, tree, gpus) if tree and tree[0].cmdline else {}
        seats = _seats(args) or _seats(defaults)
        if reading is not None and reading.max_num_seqs is None and seats is not None:
            missing = tuple(m for m in reading.missing if m.field != "max_num_seqs")
            reading = dataclasses.replace(reading, max_num_seqs=seats, missing=missing)
            observed = dataclasses.replace(observed, reading=reading)
        if reading is not None and (every := self._interval()) > self._asked_interval():
            reading = dataclasses.replace(reading, scrape_every_s=every)
            observed = dataclasses.replace(observed, reading=reading)
        looks = reading.health_looks if reading is not None and observed.status.ok else 0
        return EngineView(
            url=self.target.url,
            engine=observed,
            known=self._known or self._known_before(reading),
            probes=self.probes.readings(now),
            probe_specs=self.probes.specs,
            probe_origin=self.probes.origin,
            probe_platform=self.probes.platform,
            probe_requests=self.probes.sent(now) + looks,
            local=self.local,
            processes=tree,
            ever_served=self.ever_served,
            served_last=self._served_last,
            discovered=self.target.discovered,
            proxy=self._proxy,
            unverified=not self.target.verify and self.target.url.startswith("https:"),
            args=args,
            defaults=defaults,
        )

    def _defaults(
        self,
        reading: EngineReading | None,
        args: dict[str, str],
        tree: tuple[EngineProcess, ...],
        gpus: tuple[GpuReading, ...],
    ) -> dict[str, str]:
        pids = {process.pid for process in tree}
        held = tuple(card for card in gpus if any(p.pid in pids for p in card.processes or ()))
        version = reading.version if reading is not None else None
        return option_defaults(self.probes.kind, version, args, held or gpus)

    async def end(self) -> None:
        """Stop reading it, for good."""
        if self._scraping is not None:
            self._scraping.cancel()
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.scrape.close()
        await self.probes.close()

    def _known_before(self, reading: EngineReading | None) -> EngineReading | None:
        """What its process or its settings said it is, where it has never answered."""
        if reading is not None or self.probes.kind is None:
            return None
        return EngineReading(self.target.url, engine=self.probes.kind)

    def _on_failure(self, error: SourceError) -> None:
        if isinstance(error, EngineFaultError):
            self._known = error.known
            if error.known.engine is not None:
                self.probes.learn_kind(error.known.engine)

    def _on_reading(self, reading: EngineReading) -> None:
        self._known = None
        self._served_last = self._clock.monotonic()
        self._too_large = reading.reason == "too_large"
        if reading.scrape_s is not None:
            self._took.append(reading.scrape_s)
        if reading.started_at is not None:
            self.probes.learn_process("start", reading.started_at, reading.started_at)
        if reading.engine is not None:
            self.probes.learn_kind(reading.engine)
        if self.scrape.recovered:
            self.probes.served()

    def _may_generate(self) -> bool:
        """It serves as far as is known, and does not drain: SGLang takes requests then, and never ends."""
        now = self._clock.monotonic()
        reason = self.scrape.observed(now).status.reason
        if (
            self._served_last is None
            or reason in ("refused", "reset", "dns")
            or self.verdict in NO_GENERATION
        ):
            return False
        return not self.probes.turns_away

    def _interval(self) -> float:
        """Seconds between scrapes: what was asked for, or more where a scrape takes long or is in vain.

        A one-shot run has a fixed number of scrapes to make, so it keeps to what was asked for.
        """
        asked = self._asked_interval()
        if not self._backoff:
            return asked
        if self._too_large:
            return max(asked, TOO_LARGE_S)
        usual = statistics.median(self._took) if self._took else 0.0
        return max(asked, min(SLOWEST_S, usual / SCRAPING_SHARE))


def discovered(url: str, tree: tuple[EngineProcess, ...]) -> EngineTarget:
    """An endpoint that was found by its processes, with the metrics port that their command line names."""
    port = command_args(tree[0].cmdline).get("metrics-port", "") if tree else ""
    at = ""
    if port.isdecimal() and 0 < int(port) < 65536:
        host = host_port(url)[0]
        at = f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
    return EngineTarget(url=url, metrics_url=at, discovered=True)


def _seats(args: dict[str, str]) -> float | None:
    for option in ("max-num-seqs", "max-running-requests", "max_batch_size", "max-batch-size"):
        value = args.get(option, "")
        if value.isdecimal() and int(value) > 0:
            return float(value)
    return None
