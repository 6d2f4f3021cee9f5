"""Every input of every rule is a figure that really comes: from four engines under one monitor at once."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.model_dirs import config, write_config, write_safetensors
from tests.verdict_live.live import BUSY, put, served, simulated, working
from tests.verdict_live.served import WEIGHTS_MIB
from tui.commands.setup import real_sources
from tui.model.settings import Config, DiscoverySettings, EngineTarget, ProbeSettings
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor
from tui.sources.engine_processes import EngineProcessSource
from tui.sources.host import HostSource
from tui.verdict.live import HITS_WELL, USUAL_EVERY, USUAL_POINTS, WINDOW_S, pictures
from tui.verdict.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.fake_nvml import FakeNvml
    from tests.verdict_live.live import Engine
    from tui.verdict.picture import Picture

pytest_plugins = ("tests.support.nvml_plugin",)

OF_ITS_END = frozenset(("death",))
"""Of an engine that is asked for at its supervisor; the tests of deaths see it with real children."""
INPUTS = frozenset(name for rule in RULES for name in rule.inputs) - OF_ITS_END
WITHIN_S = 45.0
AT_THE_END = frozenset(("processes.orphans", "processes.held"))
"""Of an engine that has lost its server, and of one that was stopped: nothing else comes of them any more."""


def seen(picture: Picture, name: str) -> bool:
    """Whether a picture has an input; an empty collection tells nothing of what it would hold."""
    source, _, field = name.partition(".")
    holder: Any = getattr(picture, source)
    if not field:
        return holder is not None
    if source == "probes":
        return field in picture.probes
    holders: Iterable[Any] = (holder or ()) if source == "gpus" else (holder,)
    return any(getattr(h, field) not in (None, (), {}) for h in holders if h is not None)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Machine:
    """This machine, with an InfiniBand adapter, a quota of CPU and the speed of its interfaces beside it."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self._group = self.sys / "fs/cgroup/engine"
        self._ticks = 0
        (self.sys / "class").mkdir(parents=True)
        (self.sys / "block").symlink_to("/sys/block")
        self.proc.mkdir()
        for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
            name = line.partition(":")[0].strip()
            if name != "lo":
                write(self.sys / "class/net" / name / "speed", "10000\n")
                (self.sys / "class/net" / name / "device").symlink_to("pci")
        write(self.sys / "fs/cgroup/cgroup.controllers", "cpu memory\n")
        write(self._group / "cpu.max", "150000 100000\n")
        write(self._group / "memory.max", f"{64 << 30}\n")
        write(self._group / "memory.current", f"{8 << 30}\n")
        write(self._group / "memory.events", "oom_kill 0\n")
        write(self._group / "io.pressure", "some avg10=1.50 avg60=0.00 avg300=0.00 total=0\n")
        self.move()

    def move(self) -> None:
        """A little later."""
        self._ticks += 1
        port = self.sys / "class/infiniband/mlx5_0/ports/1"
        write(port / "state", "4: ACTIVE\n")
        write(port / "rate", "400 Gb/sec (4X NDR)\n")
        for counter in ("port_rcv_data", "port_xmit_data"):
            write(port / "counters" / counter, f"{self._ticks * 1_000_000}\n")
        write(self._group / "cpu.stat", f"nr_periods {self._ticks * 10}\nnr_throttled {self._ticks}\n")

    def limit(self, pids: Iterable[int]) -> None:
        """Put processes into the group with the quota; all else of them is the kernel's own word."""
        for pid in pids:
            folder = self.proc / str(pid)
            if not folder.exists():
                folder.mkdir()
                (folder / "cgroup").write_text("0::/engine\n")
                for name in ("task", "io", "mountinfo", "stat", "status"):
                    (folder / name).symlink_to(f"/proc/{pid}/{name}")


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[dict[str, Engine | str]]:
    """One that preempts, one of the other dialect that turns requests away, one that fights, one that loads."""
    model = write_config(tmp_path / "model", config("llama-3-70b"))
    write_safetensors(model / "model.safetensors", {"w": ("BF16", [40, 1 << 30])})
    weights = tmp_path / "weights"
    weights.write_bytes(os.urandom(WEIGHTS_MIB * 2**20))
    homes = [tmp_path / name for name in ("thrash", "away", "fight", "load")]
    for home in homes:
        home.mkdir()
    full = ("--traffic", "20", "--prompt-tokens", "100", "--output-tokens", "200")
    small: dict[str, Any] = {"max_model_len": 512, "kv_tokens": 2048}
    with (
        simulated(homes[0], *full, keep_orphans_s=30.0, **small) as thrash,
        simulated(homes[1], "--dialect", "sglang", *full, max_num_queued_reqs=2, **small) as away,
        served(homes[2], "fight") as fight,
        served(homes[3], "read", str(weights), model=str(model)) as load,
    ):
        yield {"thrash": thrash, "away": away, "fight": fight, "load": load}


class Watch:
    """A monitor over all of them, and which inputs have been there."""

    def __init__(self, urls: tuple[str, ...], machine: Machine) -> None:
        sources = dataclasses.replace(
            real_sources(),
            host=lambda: HostSource(sys=machine.sys),
            own=lambda: EngineProcessSource(proc=machine.proc, sys=machine.sys),
        )
        settings = Config(
            interval_s=0.5,
            discovery=DiscoverySettings(enabled=False),
            probes=ProbeSettings(generate=True, generate_period_s=2.0),
        )
        self.monitor = Monitor(settings, tuple(EngineTarget(url) for url in urls), sources, SystemClock())
        self.machine = machine
        self.found: set[str] = set()

    def remember(self, url: str, signal: str, value: float) -> None:
        """Five minutes that no test waits for."""
        points = USUAL_POINTS * USUAL_EVERY
        before = time.monotonic() - WINDOW_S - points
        for second in range(points):
            self.monitor.history.add(url, signal, before + second, value)

    def look(self) -> set[str]:
        """What has not been seen yet, but for what this machine's kernel does not have."""
        snapshot = self.monitor.snapshot()
        self.machine.move()
        self.machine.limit(p.pid for view in snapshot.engines for p in view.processes or ())
        for picture in pictures(snapshot, self.monitor.history):
            self.found |= {name for name in INPUTS - self.found if seen(picture, name)}
        lacking = set()
        if snapshot.host.reading is not None:
            lacking = {f"host.{missing.field}" for missing in snapshot.host.reading.missing}
        for view in snapshot.engines:
            if view.own.reading is not None:
                lacking |= {f"own.{missing.field}" for missing in view.own.reading.missing}
        return set(INPUTS - self.found - lacking)


@pytest.mark.timeout(120)
async def test_every_input_of_every_rule_comes_the_live_way(
    tmp_path: Path, nvml_here: FakeNvml, engines: dict[str, Any]
) -> None:
    working(nvml_here, 2)
    put(nvml_here, 0, **{**BUSY, "reasons": 0x4})
    urls = {name: engine if isinstance(engine, str) else engine.url for name, engine in engines.items()}
    watch = Watch(tuple(urls.values()), Machine(tmp_path / "machine"))
    watch.remember(urls["thrash"], "prefix_hit_ratio", HITS_WELL)
    await watch.monitor.start()
    limit, left, told, ended = time.monotonic() + WITHIN_S, set(INPUTS), 0.0, False
    try:
        while left and time.monotonic() < limit:
            await asyncio.sleep(0.25)
            left = watch.look()
            if "gpus.xid" in left and time.monotonic() - told > 2.0:
                nvml_here.xid(1, 79)  # only those that listen by now hear of it
                told = time.monotonic()
            if left <= AT_THE_END and not ended:
                engines["thrash"].order("kill", what="api")
                engines["away"].order("hang")
                ended = True
    finally:
        engines["away"].order("resume")
        await watch.monitor.stop()
    assert not left
