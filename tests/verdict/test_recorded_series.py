"""Four minutes of real engines, replayed through reader and judge: each phase has its verdicts."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import lzma
import math
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.captures import SGLANG as SGLANG_FIXTURES
from tests.support.captures import VLLM as VLLM_FIXTURES
from tests.verdict import made
from tui.model.history import History
from tui.model.settings import Slo, Thresholds
from tui.model.snapshot import EngineView
from tui.model.status import Observed, SourceState, SourceStatus
from tui.runtime.record import add
from tui.sources.engines.loads import from_loads
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.sglang import SGLANG
from tui.sources.engines.vllm import VLLM
from tui.verdict.judge import Judge

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tui.model.readings import EngineKind, EngineProcess, EngineReading, GpuSet, ProbeReading, ProcessRole
    from tui.model.verdicts import Verdict
    from tui.sources.engines.samples import Samples

LIMITS = Thresholds()
TOLERANCE_S = LIMITS.hold_s + 3.0
"""A verdict may come this much later than what it is of: its hold time and three scrapes."""
SOON_S = 3.0
"""What a closed port, a start or a stop shows needs no holding."""
SOON = frozenset(("engine_down", "loading", "draining"))
PROBE_EVERY_S = 5.0


@dataclasses.dataclass(frozen=True)
class Recording:
    """One recorded run: when its processes were killed and started, and what may be said from when to when."""

    kind: EngineKind
    file: Path
    killed_s: float
    spawned_s: float
    phases: tuple[tuple[float, float, frozenset[str]], ...]
    told_s: float = math.inf
    """When its log told of a stop."""


def phase(start: float, end: float, *allowed: str) -> tuple[float, float, frozenset[str]]:
    return start, end, frozenset(allowed)


RECORDINGS = (
    Recording(
        "vllm", VLLM_FIXTURES / "series.jsonl.xz", 166.0, 173.6,
        (
            phase(0.0, 15.0, "idle"),
            phase(15.0, 50.2, "healthy"),
            phase(50.2, 62.0, "scheduler_limit", "kv_cache"),  # the pool fills while its eight seats are full
            phase(62.0, 111.6, "kv_cache"),
            phase(112.4, 127.0, "kv_cache", "idle"),
            phase(129.6, 144.6, "engine_hung"),
            phase(144.6, 160.0, "healthy"),
            phase(166.0, 173.6, "engine_down"),
            phase(173.6, 194.5, "loading"),
            phase(194.5, 220.0, "healthy"),
            phase(220.1, 228.0, "idle"),
            phase(231.1, 240.0, "draining"),
        ), 231.1,
    ),
    Recording(
        "sglang", SGLANG_FIXTURES / "series.jsonl.xz", 185.9, 193.5,
        (
            phase(2.0, 15.0, "idle"),
            phase(15.0, 50.2, "healthy"),
            phase(50.2, 111.4, "kv_cache"),
            phase(112.1, 127.0, "kv_cache", "idle"),
            phase(129.4, 159.4, "engine_hung"),
            phase(159.4, 180.0, "healthy"),
            phase(185.9, 193.5, "engine_down"),
            phase(193.5, 211.0, "loading"),
            phase(212.9, 238.1, "healthy"),
            phase(238.2, 247.0, "idle"),
            phase(249.2, 279.1, "draining"),
        ),
    ),
)  # fmt: skip


class Replay:
    """Feeds one recording, scrape by scrape, on its own clock."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._reader = EngineReader(VLLM if recording.kind == "vllm" else SGLANG, made.URL)
        self._history, self._judge = History(), Judge(LIMITS, Slo())
        self._since, self._worked = made.NOW, True
        self._served: float | None = None
        self._last: EngineReading | None = None
        self._written = 0.0
        self._probes: tuple[float, tuple[ProbeReading, ...]] | None = None

    def verdicts(self) -> Iterator[tuple[float, Verdict, EngineReading | None]]:
        with lzma.open(self._recording.file, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield self._step(json.loads(line))

    def _step(self, row: Mapping[str, Any]) -> tuple[float, Verdict, EngineReading | None]:
        at, works = made.NOW + row["t"], row["body"] is not None
        if works != self._worked:
            self._since, self._worked = at, works
        if works:
            self._last = self._reader.feed(row["body"], at, aside=self._aside(row, at))
            self._served = at
            status = SourceStatus(SourceState.FRESH, since=self._since, age_s=0.0)
        else:
            age = None if self._served is None else at - self._served
            status = SourceStatus(SourceState.FAILED, row["metrics"], since=self._since, age_s=age)
        if self._probes is None or at - self._probes[0] >= PROBE_EVERY_S:
            self._probes = at, self._probed(row)
        probed, probes = self._probes
        view = EngineView(
            url=made.URL,
            engine=Observed(self._last, status),
            probes=tuple(dataclasses.replace(p, age_s=at - probed) for p in probes),
            local=True,
            processes=self._processes(row["t"]),
            ever_served=self._served is not None,
            served_last=self._served,
            stopping="its log" if row["t"] >= self._recording.told_s else "",
        )
        no_driver: Observed[GpuSet] = Observed(None, SourceStatus(SourceState.UNSUPPORTED, "no_driver"))
        host = Observed(made.host(cpu_cores=2), made.FRESH)
        snapshot = made.snapshot(view, at=at, gpus=no_driver, host=host)
        add(self._history, snapshot)
        found = self._judge.update(snapshot, self._history).verdicts[1]
        return row["t"], found, self._last if works else None

    def _aside(self, row: Mapping[str, Any], at: float) -> Samples | None:
        if row.get("loads") is None:
            return None
        wall = dt.datetime.fromtimestamp(made.WALL + at - made.NOW, dt.timezone.utc)
        written = wall.timestamp() - row["age_s"]
        if abs(written - self._written) > 0.05:  # ages were recorded in hundredths
            self._written = written
        load = {**row["loads"], "dp_rank": 0, "timestamp": self._written}
        return from_loads({"timestamp": wall.isoformat(), "loads": [load]}).samples

    def _probed(self, row: Mapping[str, Any]) -> tuple[ProbeReading, ...]:
        ready = row.get("ready") or row["health"]
        liveness = made.probe("liveness", row["health"], latency_s=row["health_s"]) if row["health"] else None
        return tuple(p for p in (liveness, made.probe("readiness", ready) if ready else None) if p)

    def _processes(self, t: float) -> tuple[EngineProcess, ...]:
        if self._recording.killed_s <= t < self._recording.spawned_s:
            return ()
        again = t >= self._recording.spawned_s
        started = made.WALL + (self._recording.spawned_s if again else -500.0)
        kind, pid = self._recording.kind, 500 if again else 100
        core: ProcessRole = "engine_core" if kind == "vllm" else "scheduler"
        return (
            made.process(pid, "api_server", kind=kind, port=8000, listening=True, started_at=started),
            made.process(pid + 1, core, pid, kind, started_at=started),
        )


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda r: r.kind)
def test_each_phase_has_its_verdict(recording: Recording) -> None:
    shown = [(t, v.verdict) for t, v, _ in Replay(recording).verdicts()]
    wrong = [
        (t, verdict)
        for start, end, allowed in recording.phases
        for t, verdict in shown
        if start + (SOON_S if allowed <= SOON else TOLERANCE_S) <= t < end and verdict not in allowed
    ]
    assert not wrong
