"""Feeds for the screen: one that shows a fixed picture, one in which every figure walks at random.

``python -m tests.ui.feeds [SCENE | walk [SECONDS] | steps N] [THEME]`` runs the screen over one of them,
for pseudo-terminal tests and for looking at it; a walk ends after that many seconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.ui import scenes
from tui.model.history import History
from tui.model.readings import GpuSet
from tui.model.settings import Config, ScreenSettings, Slo, Thresholds
from tui.model.status import Observed
from tui.runtime import record
from tui.verdict.judge import Judge

if TYPE_CHECKING:
    from tui.model.explanations import Explanation
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.model.verdicts import Judgement
    from tui.ui.feed import Feed
    from tui.ui.view import View


class StillFeed:
    """Shows one view's picture, and remembers what was done to it."""

    def __init__(self, view: View, history: History | None = None) -> None:
        self.history = history if history is not None else view.trends._history
        self.version = 1
        self.interval_s = view.snapshot.interval_s
        self.relaxed = False
        self.generate = view.snapshot.generate
        self.view = view
        self.started = 0
        self.stopped = 0

    def snapshot(self) -> HostSnapshot:
        return self.view.snapshot

    def judgement(self) -> Judgement:
        return self.view.judgement

    def timeline(self, scope: str) -> list[tuple[float, str]]:
        return list(self.view.timelines.get(scope, ()))

    def explain(self, scope: str, snapshot: HostSnapshot) -> Explanation | None:
        return Judge(Thresholds(), Slo()).explain(scope, snapshot, self.history)

    def change(self, view: View) -> None:
        self.view = view
        self.version += 1

    async def start(self) -> None:
        self.started += 1

    async def stop(self) -> None:
        self.stopped += 1


class WalkFeed:
    """Eight GPUs, two engines and a host; each figure makes an integer step with each picture.

    Args:
        seed: of the walk; pictures depend on it and on their number alone.
        interval_s: between pictures; 0: only ``step`` makes them.
        gpus: devices.
        engines: engines.
        past: pictures before the first that is shown.
    """

    def __init__(
        self, seed: int = 1, interval_s: float = 1.0, gpus: int = 8, engines: int = 2, past: int = 120
    ) -> None:
        self.history = History()
        self.version = 0
        self.generate = False
        self.interval_s = interval_s
        self.relaxed = False
        self._random = random.Random(seed)
        self._snapshot = scenes.snapshot(gpus, engines)
        self._judgement = scenes.CALM
        for _ in range(past):
            self.step()

    def snapshot(self) -> HostSnapshot:
        return self._snapshot

    def judgement(self) -> Judgement:
        return self._judgement

    def timeline(self, scope: str) -> list[tuple[float, str]]:
        return [(scenes.WALL - 900, "healthy")]

    def explain(self, scope: str, snapshot: HostSnapshot) -> Explanation | None:
        return Judge(Thresholds(), Slo()).explain(scope, snapshot, self.history)

    async def start(self) -> None:
        due = time.monotonic()
        while True:
            due += self.interval_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self.step()

    async def stop(self) -> None:
        return

    def step(self) -> None:
        """The next picture."""
        old = self._snapshot
        assert old.gpus.reading is not None and old.host.reading is not None
        gpus = tuple(
            replace(
                gpu,
                sm_pct=self._walk(gpu.sm_pct, 3, 0, 100),
                mem_ctrl_pct=self._walk(gpu.mem_ctrl_pct, 3, 0, 100),
                mem_used_mib=self._walk(gpu.mem_used_mib, 900, 2000, 81_000),
                power_w=self._walk(gpu.power_w, 12, 90, 700),
                temp_c=self._walk(gpu.temp_c, 1, 30, 88),
                clock_sm_mhz=self._walk((gpu.clock_sm_mhz or 0) / 15, 2, 60, 132) * 15,
            )
            for gpu in old.gpus.reading.gpus
        )
        host = old.host.reading
        host = replace(
            host,
            cpu_pct_total=self._walk(host.cpu_pct_total, 3, 0, 100),
            cpu_pct_per_core=tuple(self._walk(core, 9, 0, 100) for core in host.cpu_pct_per_core or ()),
            load1=self._walk(host.load1, 1, 0, 64),
            iowait_pct=self._walk(host.iowait_pct, 1, 0, 100),
            mem_used_pct=self._walk(host.mem_used_pct, 1, 0, 100),
            mem_used_mib=self._walk(host.mem_used_mib, 900, 9000, 500_000),
            psi_cpu=self._walk(host.psi_cpu, 1, 0, 100),
            psi_io=self._walk(host.psi_io, 1, 0, 100),
            busiest_process_cpu_pct=self._walk(host.busiest_process_cpu_pct, 9, 0, 900),
            busiest_thread_cpu_pct=self._walk(host.busiest_thread_cpu_pct, 3, 0, 100),
            ctx_switches_s=self._walk(host.ctx_switches_s, 900, 0, 300_000),
            net_rx_mb_s=self._walk(host.net_rx_mb_s, 9, 0, 3000),
            net_tx_mb_s=self._walk(host.net_tx_mb_s, 3, 0, 3000),
            disks=tuple(
                replace(
                    disk,
                    r_s=self._walk(disk.r_s, 9, 0, 900),
                    w_s=self._walk(disk.w_s, 9, 0, 900),
                    read_mb_s=self._walk(disk.read_mb_s, 3, 0, 900),
                    write_mb_s=self._walk(disk.write_mb_s, 3, 0, 900),
                    util_pct=self._walk(disk.util_pct, 2, 0, 100),
                )
                for disk in host.disks or ()
            ),
        )
        self._snapshot = replace(
            old,
            taken_at=old.taken_at + 1.0,
            wall=old.wall + 1.0,
            interval_s=self.interval_s or 1.0,
            gpus=Observed(GpuSet(gpus, "550.54.15"), scenes.FRESH),
            host=Observed(host, scenes.FRESH),
            engines=tuple(self._engine(engine) for engine in old.engines),
        )
        record.add(self.history, self._snapshot)
        self.version += 1

    def _engine(self, view: EngineView) -> EngineView:
        reading = view.engine.reading
        assert reading is not None
        reading = replace(
            reading,
            running=self._walk(reading.running, 3, 0, 256),
            waiting=self._walk(reading.waiting, 2, 0, 90),
            kv_usage=self._walk((reading.kv_usage or 0) * 100, 2, 0, 100) / 100,
            prefix_hit_ratio=self._walk((reading.prefix_hit_ratio or 0) * 100, 2, 0, 100) / 100,
            preemptions_per_s=self._walk(reading.preemptions_per_s, 1, 0, 9),
            ttft_p95_s=self._walk((reading.ttft_p95_s or 0) * 100, 3, 1, 900) / 100,
            itl_p95_s=self._walk((reading.itl_p95_s or 0) * 1000, 3, 5, 900) / 1000,
            gen_tok_s=self._walk(reading.gen_tok_s, 90, 0, 9000),
        )
        return replace(view, engine=Observed(reading, scenes.FRESH))

    def _walk(self, value: float | None, most: int, low: float, high: float) -> float:
        step = self._random.choice([n for n in range(-most, most + 1) if n])
        return min(high, max(low, round(value or 0.0) + step))


class _Limited(WalkFeed):
    """Ends the program after a while, as an operator would."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def start(self) -> None:
        asyncio.get_running_loop().call_later(self._seconds, os.kill, os.getpid(), signal.SIGTERM)
        await super().start()


class _Stepped(WalkFeed):
    """Makes some pictures, quickly, and then no more: every run ends at the very same one."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._steps = steps

    async def start(self) -> None:
        for _ in range(self._steps):
            await asyncio.sleep(0.03)
            self.step()


def main(words: list[str]) -> int:
    from tui.ui.run import run_screen

    name = words[0] if words else "walk"
    theme = words[2] if len(words) > 2 else "dark"
    screen = ScreenSettings(theme=theme, theme_named=True, ascii="ascii" in words)
    number = float(words[1]) if len(words) > 1 else 3600.0
    feed: Feed
    if name == "walk":
        feed = _Limited(number)
    elif name == "hasty":
        feed = WalkFeed(interval_s=0.1)
    elif name == "steps":
        feed = _Stepped(int(number))
    else:
        feed = StillFeed(scenes.SCENES[name]())
    return run_screen(feed, Config(screen=screen)).status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
