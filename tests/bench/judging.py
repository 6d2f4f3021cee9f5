"""What judging costs: eight GPUs, eight engines, half of them sick, half an hour of history."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.bench.rows import Row
from tests.verdict import made
from tui.model.engine_host import EngineHostReading, ThreadUse
from tui.model.history import History
from tui.model.readings import GpuSet
from tui.model.settings import ProbeSettings, ProbeSpec, Slo, Thresholds
from tui.model.status import Observed
from tui.runtime.clock import SystemClock
from tui.runtime.live_lint import LiveLint
from tui.runtime.record import add
from tui.verdict.judge import Judge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.readings import ProbeKind
    from tui.model.snapshot import EngineView, HostSnapshot

HISTORY_S = 1800
BATCH = 20
BATCHES = 30
BAR_MS = 2.0
LINT_BAR_MS = 0.3
PROBES: Mapping[ProbeKind, ProbeSpec] = dict.fromkeys(("liveness", "readiness"), ProbeSpec("/health"))


def results() -> list[Row]:
    history, judge = History(), Judge(Thresholds(), Slo())
    at = made.NOW
    for _ in range(HISTORY_S):
        at += 1.0
        add(history, _snapshot(at))
    spent = []
    for _ in range(BATCHES):
        ticks = []
        for _ in range(BATCH):
            at += 1.0
            ticks.append(_snapshot(at))
            add(history, ticks[-1])
        start = time.thread_time()
        for snapshot in ticks:
            judge.update(snapshot, history)
        spent.append((time.thread_time() - start) / BATCH * 1000.0)
    # a neighbour on the same core doubles what a batch takes: the best one is the program's own cost
    return [Row.at_most("8 GPUs, 8 engines, one tick", min(spent), "ms CPU", BAR_MS), _linting()]


def _linting() -> Row:
    """Settings in force against what was measured; nothing new, as in most seconds."""
    given = ProbeSettings(liveness=PROBES["liveness"], readiness=PROBES["readiness"])
    lint = LiveLint(given, None, "gpu-07", SystemClock(), asyncio.ensure_future)
    at, spent = made.NOW, []
    for _ in range(BATCHES):
        ticks = [_snapshot(at := at + 1.0) for _ in range(BATCH)]
        start = time.thread_time()
        for snapshot in ticks:
            lint.note(snapshot)
            lint.findings(snapshot)
        spent.append((time.thread_time() - start) / BATCH * 1000.0)
    return Row.at_most("8 engines, the lint of one tick", min(spent), "ms CPU", LINT_BAR_MS)


def _snapshot(at: float) -> HostSnapshot:
    gpus = GpuSet(tuple(made.gpu_of(i, 102 + 10 * i) for i in range(8)))
    return made.snapshot(*(_view(i, at) for i in range(8)), at=at, gpus=Observed(gpus, made.FRESH))


def _view(index: int, at: float) -> EngineView:
    url = f"http://127.0.0.1:{8000 + index}"
    found = made.full_cache(url) if index % 2 else made.reading(url)
    age_s = (at - made.NOW) % 10.0
    tree = made.tree(pid=100 + 10 * index)
    threads = tuple(ThreadUse(p.pid, p.pid, p.role, p.comm, 30.0, 2.0, 90.0) for p in tree)
    own = EngineHostReading(2.0, threads, 40, 3, 90.0, 4.0, 300.0, futex_share=0.2, read_mb_s=0.1, backlog=0)
    return made.view(
        found,
        url=url,
        probes=tuple(replace(probe, age_s=age_s) for probe in made.probes(url=url)),
        probe_specs=PROBES,
        processes=tree,
        own=Observed(own, made.FRESH),
    )
