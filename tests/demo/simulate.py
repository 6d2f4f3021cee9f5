"""Runs the pure scheduler on a manual clock, with requests that arrive at random."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.demo.scheduler import Request, Scheduler
from tui.demo.spec import EngineSpec
from tui.demo.updates import Gauges, Totals, Update

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from typing import Any


@dataclass
class Run:
    """What a simulated stretch of time brought."""

    spec: EngineSpec
    updates: list[Update] = field(default_factory=list)
    submitted: dict[int, Request] = field(default_factory=dict)
    ended_s: float = 0.0

    @property
    def finished(self) -> list[Any]:
        return [row for update in self.updates for row in update.finished]

    @property
    def gauges(self) -> list[tuple[float, Gauges]]:
        return [(update.at_s, update.gauges) for update in self.updates]

    @property
    def totals(self) -> list[Totals]:
        return [update.totals for update in self.updates]


def small(**settings: Any) -> EngineSpec:
    """A little engine: 8 seats, a pool of 1,000 tokens unless said otherwise."""
    chosen = {"max_num_seqs": 8, "max_model_len": 512, "kv_tokens": 1008, "decode_step_s": 0.01, **settings}
    return EngineSpec(**chosen)


def arrivals(
    rng: random.Random,
    rate: float,
    until_s: float,
    *,
    prompt: int,
    target: int,
    prefixes: int = 0,
    block: int = 16,
) -> list[Request]:
    """Requests at random times and of random lengths; the first half of a prompt may be a common one."""
    found, now, number = [], 0.0, 0
    while (now := now + rng.expovariate(rate)) < until_s:
        number += 1
        tokens, wanted = rng.randint(1, 2 * prompt), rng.randint(1, 2 * target)
        common = rng.randrange(prefixes) if prefixes else -1
        hashes = [
            hash((common, index))
            if prefixes and index < prompt // block // 2
            else hash((number, index, "own"))
            for index in range(tokens // block)
        ]
        found.append(Request(number, now, tokens, wanted, wanted + rng.randint(0, 1), hashes))
    return found


def run(
    spec: EngineSpec,
    requests: list[Request],
    each_step: Callable[[Scheduler, float], None] = lambda _scheduler, _now: None,
) -> Run:
    """Let all requests come and go."""
    scheduler, done = Scheduler(spec), Run(spec)
    queue, now = sorted(requests, key=lambda request: request.arrived_s), 0.0
    while queue or scheduler.unfinished:
        while queue and queue[0].arrived_s <= now:
            request = queue.pop(0)
            done.submitted[request.id] = request
            scheduler.submit(request, request.arrived_s)
        each_step(scheduler, now)
        duration = scheduler.begin_step(now)
        if duration is None:
            if not queue:
                break
            now = queue[0].arrived_s
            continue
        now += duration
        update = Update()
        scheduler.end_step(now, update)
        done.updates.append(update)
    done.ended_s = now
    return done
