"""What judging costs: eight GPUs, eight engines, half of them sick, half an hour of history."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.bench.rows import Row
from tests.verdict import made
from tui.model.history import History
from tui.model.readings import GpuSet
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed
from tui.runtime.record import add
from tui.verdict.judge import Judge

if TYPE_CHECKING:
    from tui.model.snapshot import EngineView, HostSnapshot

HISTORY_S = 1800
BATCH = 20
BATCHES = 30
BAR_MS = 2.0


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
    return [Row.at_most("8 GPUs, 8 engines, one tick", min(spent), "ms CPU", BAR_MS)]


def _snapshot(at: float) -> HostSnapshot:
    gpus = GpuSet(tuple(made.gpu_of(i, 102 + 10 * i) for i in range(8)))
    return made.snapshot(*(_view(i) for i in range(8)), at=at, gpus=Observed(gpus, made.FRESH))


def _view(index: int) -> EngineView:
    url = f"http://127.0.0.1:{8000 + index}"
    found = made.full_cache(url) if index % 2 else made.reading(url)
    return made.view(found, url=url, probes=made.probes(url=url), processes=made.tree(pid=100 + 10 * index))
