"""NVML over a run: losses and returns, new sessions, what looks back in time, and whose pids they are."""

from __future__ import annotations

import gc
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.fake_nvml import MIB
from tests.support.nvml_rows import (
    Clock,
    Lanes,
    calls,
    fast,
    make_source,
    others_are_exact,
    places,
    read,
    read_until,
    row,
)
from tui.model.readings import GpuProcess, Missing
from tui.sources.nvml.cards import Cards
from tui.sources.nvml.device import Device
from tui.sources.nvml.expected import Expected
from tui.sources.nvml.source import RECOVER_FIRST_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml
    from tui.sources.nvml.source import NvmlSource

pytest_plugins = ("tests.support.nvml_plugin",)
pytestmark = pytest.mark.usefixtures("no_gap")


def seconds_pass(source: NvmlSource, clock: Clock, seconds: int) -> None:
    for _ in range(seconds):
        source.read()
        clock.now += 1.0


# -------------------------------------------------------------------------------------------- throttling


def test_shares_of_throttle_reasons(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    nvml_here.set(0, "reasons", 0)
    seconds_pass(source, clock, 10)
    assert source.read().gpus[0].throttle_share == ()  # 11 readings over 10 s
    nvml_here.set(0, "reasons", 0x4 | 0x20)
    clock.now += 1.0
    seconds_pass(source, clock, 10)
    nvml_here.set(0, "reasons", 0x4)
    seconds_pass(source, clock, 19)
    shares = source.read().gpus[0].throttle_share
    assert shares == (("sw_power_cap", 30 / 41), ("sw_thermal_slowdown", 10 / 41))
    seconds_pass(source, clock, 61)
    assert source.read().gpus[0].throttle_share == (("sw_power_cap", 1.0),)


def test_no_share_before_enough_was_seen(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    for _ in range(10):
        assert {gpu.throttle_share for gpu in source.read().gpus} == {None}
        clock.now += 1.0
    nvml_here.fail(0, "nvmlDeviceGetCurrentClocksEventReasons", 999)
    clock.now += 60.0
    source.read()
    clock.now += 60.0
    assert source.read().gpus[0].throttle_share is None  # long unknown


# ------------------------------------------------------------------------------------ sessions and losses


def test_a_new_session_finds_a_card_that_had_gone(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    read_until(source, lambda gpus: all(gpu.nvlinks for gpu in gpus))
    assert source.slow_lane.wait(20)
    nvml_here.cards([0, 1, 2, 4, 5, 6, 7])
    sessions = calls("nvmlInitWithFlags")
    assert others_are_exact(read(source), but=3)
    assert source.slow_lane.wait(20)
    clock.now += RECOVER_FIRST_S
    gpus = read(source)
    assert calls("nvmlInitWithFlags") == sessions + 1
    assert others_are_exact(gpus, but=3)
    assert (gpus[3].state, gpus[3].stale_s, gpus[3].uuid) == ("lost", RECOVER_FIRST_S, row(3).uuid)
    nvml_here.count(8)
    gpus = source.read().gpus
    assert tuple(map(fast, gpus)) == tuple(row(card) for card in range(8))
    assert gpus[3].recovered_s == 0.0


def test_a_lost_card_and_a_new_session_without_its_handle(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    source.read()
    nvml_here.fail(3, "*", 15)
    source.read()
    assert source.slow_lane.wait(20)
    clock.now += RECOVER_FIRST_S
    gpus = read(source)
    assert gpus[3].detail.startswith("nvmlDeviceGetHandleByIndex: ")
    assert (gpus[3].uuid, gpus[3].temp_c, gpus[3].stale_s) == (row(3).uuid, row(3).temp_c, RECOVER_FIRST_S)
    assert others_are_exact(gpus, but=3)


def test_cards_that_change_places_keep_their_rows(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    nvml_here.count(4)
    source.read()
    nvml_here.cards([3, 2, 1, 0, 4])
    assert read(source) == tuple(row(card) for card in range(5))


@pytest.mark.parametrize("code", [4, 8])
def test_a_card_that_may_not_be_used_or_lacks_power(
    source: NvmlSource, nvml_here: FakeNvml, code: int
) -> None:
    source.read()
    nvml_here.fail(3, "*", code)
    gpu = read(source)[3]
    assert (gpu.state, gpu.reason) == ("error", {4: "no_permission", 8: "insufficient_power"}[code])
    assert {4: "may not use it", 8: "power cables"}[code] in gpu.detail
    assert (gpu.temp_c, gpu.stale_s) == (row(3).temp_c, 0.0)


def test_a_scenario_plays_by_itself(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    read_until(source, lambda gpus: all(gpu.nvlinks for gpu in gpus))
    nvml_here.scenario("at 0.05 xid 1 3 79\nat 0.1 fail 3 nvmlDeviceGetTemperature 15\nat 0.4 fail 3 * 0")
    gpu = read_until(source, lambda gpus: gpus[3].state == "lost" and gpus[3].xid is not None)[3]
    assert gpu.xid == 79
    gpus = read_until(source, lambda gpus: gpus[3].state == "ok")
    assert fast(gpus[3]) == row(3)


def test_nothing_piles_up(nvml_here: FakeNvml, clock: Clock, tmp_path: Path) -> None:
    lanes = Lanes()
    source = make_source(tmp_path, clock)

    def run(rounds: int) -> tuple[int, int]:
        for _ in range(rounds):
            for cards in ([0, 1, 2, 4, 5], range(8)):
                nvml_here.cards(list(cards))
                clock.now += 40.0
                source.read()
                assert source.slow_lane.wait(20)
        gc.collect()
        return threading.active_count(), sum(isinstance(o, Device) for o in gc.get_objects())

    assert run(2) == run(8)
    assert lanes.names() == ["nvml 1", "nvml slow"]
    source.close()


# -------------------------------------------------------------------------------------------- processes

ABSENT = 2**22 + 1  # above the kernel's greatest pid
HINT = Missing(
    "processes",
    "no_permission: only this container's processes are visible",
    "share the host's pid namespace",
)


@pytest.fixture
def contained(nvml_here: FakeNvml, clock: Clock, tmp_path: Path) -> Iterator[NvmlSource]:
    """A source in a PID namespace of its own."""
    places(tmp_path)
    (tmp_path / "proc" / "self" / "ns" / "pid").unlink()
    (tmp_path / "proc" / "self" / "ns" / "pid").symlink_to("pid:[4026532000]")
    source = make_source(tmp_path, clock)
    yield source
    source.close()


def test_pids_of_another_namespace_have_no_names(contained: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.processes(2, [(os.getpid(), 20 * MIB), (ABSENT, 10 * MIB)])
    gpus = read(contained)
    assert gpus[2].processes == (GpuProcess(os.getpid(), None, 20.0), GpuProcess(ABSENT, None, 10.0))
    assert gpus[2].missing == (HINT,)


def test_pids_that_the_driver_translates_have_names(contained: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.processes(2, [(os.getpid(), 20 * MIB)])
    gpu = read(contained)[2]
    assert gpu.processes is not None
    assert gpu.processes[0].name
    assert gpu.missing == ()


def test_processes_that_are_hidden(contained: NvmlSource, nvml_here: FakeNvml) -> None:
    gpus = read(contained)  # 40 GiB are in use, and nobody is to be seen
    assert gpus[2] == replace(row(2), missing=(HINT,))
    nvml_here.set(2, "mem_free", (81559 - 551 - 10) * MIB)
    assert read(contained)[2].missing == ()


# ------------------------------------------------------------------------------------------------ cards


def test_a_card_that_tells_who_it_is_later(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    nvml_here.fail(3, "nvmlDeviceGetUUID", 999)
    assert read(source)[3].uuid is None
    nvml_here.heal()
    clock.now += 10.0
    gpus = read(source)
    assert (gpus[3].uuid, len(gpus)) == (row(3).uuid, 8)


def test_a_card_that_never_told_who_it_is_leaves_no_row(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    nvml_here.fail(7, "nvmlDeviceGetUUID", 999)
    nvml_here.fail(7, "nvmlDeviceGetPciInfo_v3", 999)
    assert len(read(source)) == 8
    nvml_here.count(7)
    assert len(read(source)) == 7


def test_rows_cost_little(tmp_path: Path) -> None:
    """Putting rows together is no more than a fraction of a millisecond a card."""
    from tui.sources.kernel.visibility import Visibility

    cards = Cards(Expected(places(tmp_path)), Visibility(True))
    devices = [Device(position) for position in range(8)]
    cards.rows(devices, {}, lambda _: None, "", 0.0)
    begun = time.process_time()
    for second in range(100):
        cards.rows(devices, {}, lambda _: None, "", float(second))
    assert time.process_time() - begun < 100 * 8 * 0.0005 * 4
