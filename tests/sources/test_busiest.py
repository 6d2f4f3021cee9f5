from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.clock import ManualClock
from tests.support.proctree import ProcTree
from tests.support.waiting import wait_for
from tui.sources.host import HostSource
from tui.sources.kernel.busiest import Busiest, BusiestMeter

if TYPE_CHECKING:
    from pathlib import Path

HZ = os.sysconf("SC_CLK_TCK")


class Host:
    """A made-up machine, its clocks, and a meter of who is busiest."""

    def __init__(self, root: Path) -> None:
        self.tree = ProcTree(root)
        self.clock = ManualClock()
        self.cpu_s = 0.0
        self.scan_cost_s = 0.0
        self.meter = BusiestMeter(os.fspath(self.tree.proc), self.clock.monotonic, self._thread_time)

    def _thread_time(self) -> float:
        self.cpu_s += self.scan_cost_s  # asked before and after each scan
        return self.cpu_s

    def read(self, after: float = 0.0) -> Busiest:
        self.clock.now += after
        return self.meter.read()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def process(found: Busiest) -> tuple[str | None, int | None, int]:
    return found.process, found.process_pid, round(found.process_pct or 0.0)


def thread(found: Busiest) -> tuple[str | None, int | None, int]:
    return found.thread, found.thread_pid, round(found.thread_pct or 0.0)


def test_two_readings_a_second_apart_are_enough(host: Host) -> None:
    host.tree.process(10, comm="idle")
    host.tree.process(11, comm="VLLM::EngineCor", title="VLLM::EngineCore_DP1",
                      threads={11: ("VLLM::EngineCor", 0), 12: ("cuda", 0)})  # fmt: skip
    assert host.read() == Busiest()
    host.tree.process(11, comm="VLLM::EngineCor", title="VLLM::EngineCore_DP1", ticks=int(1.7 * HZ),
                      threads={11: ("VLLM::EngineCor", HZ), 12: ("cuda", int(0.7 * HZ))})  # fmt: skip
    found = host.read(after=1.0)
    assert process(found) == ("VLLM::EngineCore_DP1", 11, 170)
    assert thread(found) == ("VLLM::EngineCore_DP1", 11, 100)


def test_the_busiest_thread_need_not_belong_to_the_busiest_process(host: Host) -> None:
    def at(second: int) -> None:
        host.tree.process(20, comm="many", ticks=300 * second * HZ // 100,
                          threads={20 + n: (f"t{n}", 30 * second * HZ // 100) for n in range(10)})  # fmt: skip
        host.tree.process(40, comm="one", ticks=90 * second * HZ // 100)

    at(0)
    host.read()
    at(1)
    found = host.read(after=1.0)
    assert process(found) == ("many", 20, 300)
    assert thread(found) == ("one", 40, 90)


def test_a_thread_never_passes_100_percent(host: Host) -> None:
    host.tree.process(20, comm="spin")
    host.read()
    host.tree.process(
        20, comm="spin", ticks=HZ + 5
    )  # a tick more than the window: the scan itself takes time
    assert host.read(after=1.0).thread_pct == 100.0


def test_figures_are_kept_between_scans(host: Host) -> None:
    host.tree.process(20, comm="a")
    host.read()
    host.tree.process(20, comm="a", ticks=HZ)
    first = host.read(after=1.0)
    host.tree.process(20, comm="a", ticks=HZ)
    assert host.read(after=1.0) is first
    assert host.read(after=1.0).process_pct == 0.0


def test_a_dear_scan_comes_more_rarely(host: Host) -> None:
    host.tree.process(20, comm="a")
    host.read()
    host.scan_cost_s = 0.050  # 2,000 processes: 1 % of a core is a scan every 5 s
    first = host.read(after=1.0)
    host.scan_cost_s = 0.0
    host.tree.process(20, comm="a", ticks=HZ)
    assert host.read(after=4.0) is first
    assert host.read(after=1.0).process_pct == pytest.approx(20.0)
    host.read(after=2.0)
    assert host.read(after=2.0).process_pct == 0.0  # and every 2 s again once it is cheap


def test_a_new_process_counts_with_all_it_used_and_an_old_pid_does_not_lend_its_past(host: Host) -> None:
    host.tree.process(20, comm="old", ticks=500 * HZ, start=5)
    host.read()
    host.tree.process(20, comm="new", ticks=HZ // 2, start=9000,
                      threads={20: ("new", HZ // 10), 21: ("pool", HZ * 4 // 10)})  # fmt: skip
    found = host.read(after=1.0)
    assert process(found) == ("new", 20, 50)
    assert thread(found) == ("pool", 20, 40)


def test_a_process_that_wakes_up_is_seen_by_thread_from_the_next_scan(host: Host) -> None:
    def sleeper(ticks: int) -> None:
        host.tree.process(90, comm="sleeper", ticks=ticks, start=1,
                          threads={90: ("main", 0), 91: ("pool", ticks)})  # fmt: skip

    for pid in range(20, 50):  # more than are looked into on the first scan
        host.tree.process(pid, ticks=1000, start=900, threads={pid: ("x", 500), pid + 100: ("y", 500)})
    sleeper(0)
    host.read()
    sleeper(HZ)
    host.tree.process(20, ticks=1000 + HZ // 10, start=900,
                      threads={20: ("x", 500 + HZ // 10), 120: ("y", 500)})  # fmt: skip
    found = host.read(after=1.0)
    assert process(found) == ("sleeper", 90, 100)
    sleeper(3 * HZ)
    found = host.read(after=2.0)
    assert thread(found) == ("pool", 90, 100)


def test_entries_that_vanish_or_are_odd_are_no_errors(host: Host) -> None:
    host.tree.process(20, comm="gone", threads={20: ("gone", 0), 21: ("gone", 0)})
    host.tree.process(30, comm="evil) 1 (\x1b[31mred", ticks=0)
    host.read()
    (host.tree.proc / "20/stat").unlink()
    (host.tree.proc / "40").mkdir()
    host.tree.write("40/stat", b"")
    host.tree.process(30, comm="evil) 1 (\x1b[31mred", ticks=HZ // 2)
    assert host.read(after=1.0).process == "evil) 1 (red"[: 15 - 5]


def test_hidden_processes_are_named_as_missing(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path)
    assert not [m for m in HostSource(tree.proc, tree.sys).read().missing if "busiest" in m.field]
    tree.remove(1)
    missing = {m.field: m.why for m in HostSource(tree.proc, tree.sys).read().missing}
    assert "hidepid" in missing["busiest_process"]
    (tree.proc / "self/ns/pid").unlink()
    (tree.proc / "self/ns/pid").symlink_to("pid:[4026532999]")
    missing = {m.field: m.why for m in HostSource(tree.proc, tree.sys).read().missing}
    assert "container" in missing["busiest_thread"]


def test_a_real_thread_that_spins_is_found_by_name(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import ctypes, threading, time
        def spin():
            ctypes.CDLL(None).prctl(15, ctypes.c_char_p(b"spinner"), 0, 0, 0)
            print("ready", flush=True)
            while True:
                pass
        threading.Thread(target=spin, daemon=True).start()
        input()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            (tmp_path / str(child.pid)).symlink_to(
                f"/proc/{child.pid}"
            )  # this one alone: others are busy too
            meter = BusiestMeter(os.fspath(tmp_path), time.monotonic)
            found = wait_for(
                lambda: f if (f := meter.read()).thread == "spinner" else None, 20.0, "the spinner"
            )
            assert found.thread_pid == found.process_pid == child.pid
            assert found.thread_pct is not None
            assert 0 < found.thread_pct <= 100
        finally:
            child.kill()


def test_two_thousand_processes_cost_a_bounded_time(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path)
    for pid in range(1000, 3000):
        folder = tree.proc / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (w) S 1 1 1 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 100 1 1 0\n")
    clock = ManualClock()
    meter = BusiestMeter(os.fspath(tree.proc), clock.monotonic)
    began = time.thread_time()
    for _ in range(120):  # two minutes at a reading a second
        meter.read()
        clock.now += 1.0
    # 1 % of a core and the two scans that come before the cost is known, on a machine of any speed
    assert time.thread_time() - began < 2.4
