"""NVML calls that do not return: what they cost, and what they do not."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.nvml_calls import CALLS, FALLBACKS, SLOW_CALLS, WHOLE
from tests.support.nvml_rows import (
    Clock,
    Lanes,
    calls,
    fast,
    make_source,
    others_are_exact,
    read,
    read_until,
    row,
)
from tui.model.status import SourceError
from tui.runtime.blocking import BlockingRunner
from tui.runtime.clock import SystemClock
from tui.runtime.poll import Poller
from tui.sources.nvml.queries import SLOW
from tui.sources.nvml.side_lane import STUCK_AFTER_S
from tui.sources.nvml.source import OPENING_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml
    from tui.model.readings import GpuReading
    from tui.sources.nvml.source import NvmlSource

pytest_plugins = ("tests.support.nvml_plugin",)
pytestmark = pytest.mark.usefixtures("no_gap")

PATIENCE_S = 0.3
"""Long enough for a busy machine to read eight cards; each hang costs it once."""
DEVICE_CALLS = [
    "nvmlDeviceGetHandleByIndex_v2",
    *(function for function in CALLS if not function.startswith("fi_")),
    *(functions[0] for functions in FALLBACKS),
]
SLOW_FUNCTIONS = [function for function in SLOW_CALLS if not function.startswith("fi_")]
AT_FIRST = (
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
)
"""Called once in a session."""
LANES = ["nvml 1", "nvml 2", "nvml slow"]


@pytest.fixture
def lanes() -> Lanes:
    return Lanes()


@pytest.fixture
def source(nvml_here: FakeNvml, clock: Clock, lanes: Lanes, tmp_path: Path) -> Iterator[NvmlSource]:
    source = make_source(tmp_path, clock, patience_s=PATIENCE_S)
    yield source
    nvml_here.heal()
    wait_for_quiet(source)
    source.close()


def wait_for_quiet(source: NvmlSource) -> None:
    """Until every thread is back from its call, so that a test starts without those of another."""
    deadline = time.monotonic() + 20
    while any(lane.busy for lane in (*source.lanes, source.slow_lane)):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def entered(function: str, before: int) -> None:
    deadline = time.monotonic() + 20
    while calls(function) == before:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def told(gpu: GpuReading, field: str) -> str:
    return next((entry.why for entry in gpu.missing if entry.field == field), "")


@pytest.mark.parametrize("function", DEVICE_CALLS)
def test_a_device_that_hangs_costs_its_own_row(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock, lanes: Lanes, function: str
) -> None:
    if function not in AT_FIRST:
        source.read()
        wait_for_quiet(source)  # the slow lane calls some of the same functions
        clock.now += 3600.0
    nvml_here.hang(3, function)
    begun = clock.now
    if function == "nvmlDeviceGetHandleByIndex_v2":  # given more time, for it may have to wake the card
        for _ in range(2):
            with pytest.raises(SourceError, match="stuck in nvmlDeviceGetHandleByIndex for"):
                source.read()
        clock.now += OPENING_S
    assert others_are_exact(read(source), but=3)
    for tick in range(1, 4):  # the others go on as if nothing were
        clock.now += SLOW
        nvml_here.move(tick)
        gpus = read(source)
        assert others_are_exact(gpus, but=3, tick=tick)
        stuck = gpus[3]
        name = function.removesuffix("_v2")
        assert (stuck.state, stuck.reason) == ("error", "stuck")
        assert stuck.detail.startswith(f"stuck in {name}"), stuck.detail
        assert stuck.detail.endswith(f" for {clock.now - begun:.0f} s"), stuck.detail
        if function not in AT_FIRST:
            assert (stuck.uuid, stuck.temp_c) == (row(3).uuid, row(3).temp_c)
            assert stuck.stale_s == 3600.0 + SLOW * tick
    assert lanes.names() == LANES
    nvml_here.heal()
    clock.now += SLOW
    gpus = read_until(source, lambda gpus: gpus[3].state == "ok")
    clock.now += SLOW
    assert read(source) == tuple(row(card, 3) for card in range(8))
    assert gpus[3].recovered_s is not None


@pytest.mark.parametrize("function", WHOLE)
def test_a_hang_of_nvml_itself(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock, lanes: Lanes, function: str
) -> None:
    if function == "nvmlDeviceGetCount_v2":
        source.read()
    nvml_here.hang(None, function)
    for seconds in (0, 5, 12):
        clock.now = 1000.0 + seconds
        with pytest.raises(SourceError) as caught:
            source.read()
        assert caught.value.reason == "stuck"
        name = {"nvmlInitWithFlags": "nvmlInit", "nvmlDeviceGetCount_v2": "nvmlDeviceGetCount"}[function]
        assert caught.value.detail == f"stuck in {name} for {seconds} s"
    assert "nvml 2" not in lanes.names()
    nvml_here.heal()
    wait_for_quiet(source)
    assert read(source) == tuple(row(card) for card in range(8))


@pytest.mark.parametrize("function", ["nvmlDeviceGetTemperature", "*"])
def test_every_device_hangs(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock, lanes: Lanes, function: str
) -> None:
    source.read()
    wait_for_quiet(source)
    nvml_here.hang(None, function)
    for _ in range(20):
        clock.now += 3.0
        with pytest.raises(SourceError) as caught:
            source.read()
        assert caught.value.reason == "stuck"
    if function != "*":
        assert "nvmlDeviceGetTemperature for 57 s (GPU 0)" in caught.value.detail
        assert "(GPU 1)" in caught.value.detail
    assert lanes.names() in (LANES, ["nvml 1", "nvml slow"])
    nvml_here.heal()
    wait_for_quiet(source)
    assert read(source) == tuple(row(card) for card in range(8))


def test_two_devices_hang(source: NvmlSource, nvml_here: FakeNvml, clock: Clock, lanes: Lanes) -> None:
    source.read()
    wait_for_quiet(source)
    nvml_here.hang(3, "nvmlDeviceGetTemperature")
    nvml_here.hang(7, "nvmlDeviceGetPowerUsage")
    gpus = read(source)
    assert [gpu.index for gpu in gpus if gpu.reason == "stuck"] == [3, 7]
    assert [gpu for gpu in gpus if gpu.reason is None] == [row(card) for card in (0, 1, 2, 4, 5, 6)]
    clock.now += 4.0
    with pytest.raises(SourceError) as caught:  # there is no third thread
        source.read()
    assert caught.value.detail == (
        "stuck in nvmlDeviceGetTemperature for 4 s (GPU 3) and stuck in nvmlDeviceGetPowerUsage for 4 s (GPU 7)"
    )
    nvml_here.delay(7, "nvmlDeviceGetPowerUsage", 0)
    assert source.lanes[1].wait(20)
    assert others_are_exact(read(source), but=3)  # one lane is enough again
    assert lanes.names() == LANES


@pytest.mark.parametrize("function", SLOW_FUNCTIONS)
def test_a_hang_of_what_is_slow_costs_only_that(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock, lanes: Lanes, function: str
) -> None:
    nvml_here.hang(None, function)
    before = calls(function)
    source.read()
    entered(function, before)
    for tick in range(1, 4):
        clock.now += max(SLOW, STUCK_AFTER_S) + 1.0
        nvml_here.move(tick)
        gpus = source.read().gpus
        assert tuple(map(fast, gpus)) == tuple(row(card, tick) for card in range(8))
        assert all(told(gpu, "pcie_tx_mb_s").startswith(f"stuck: stuck in {function} for ") for gpu in gpus)
    assert lanes.names() == ["nvml 1", "nvml slow"]
    nvml_here.heal()
    gpus = read_until(source, lambda gpus: all(gpu.gpm_sm_active is not None for gpu in gpus))
    assert {gpu.missing for gpu in gpus} == {()}


def test_the_slow_lane_leaves_a_device_alone_that_holds_a_call(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    source.read()
    wait_for_quiet(source)
    nvml_here.hang(3, "nvmlDeviceGetTemperature")
    nvml_here.hang(3, "nvmlDeviceGetPcieThroughput")
    clock.now += SLOW
    assert read(source)[3].reason == "stuck"
    gpus = read_until(
        source, lambda gpus: all(gpu.gpm_sm_active is not None for gpu in gpus if gpu.index != 3)
    )
    assert {told(gpu, "pcie_tx_mb_s") for gpu in gpus} == {""}


def test_no_session_is_ended_under_a_call(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    source.read()
    wait_for_quiet(source)
    ended = calls("nvmlShutdown")
    nvml_here.hang(3, "nvmlDeviceGetTemperature")
    for _ in range(5):
        clock.now += 100.0
        assert read(source)[3].reason == "stuck"
    source.close()
    assert calls("nvmlShutdown") == ended
    nvml_here.heal()


def test_devices_that_take_long_to_open(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    """Without persistence mode; each reading goes on where the last one ran out of patience."""
    nvml_here.count(4)
    nvml_here.delay(None, "nvmlDeviceGetHandleByIndex_v2", int(700 * PATIENCE_S))
    opened = calls("nvmlDeviceGetHandleByIndex_v2")
    failures = 0
    while True:
        try:
            gpus = read(source)
            break
        except SourceError as error:
            assert error.reason == "stuck"
            failures += 1
            assert failures < 10
    assert gpus == tuple(row(card) for card in range(4))
    assert calls("nvmlDeviceGetHandleByIndex_v2") == opened + 4


async def test_the_cadence_holds(nvml_here: FakeNvml, tmp_path: Path) -> None:
    """Through the runner and the loop that poll it, on a real clock."""
    clock = SystemClock()
    source = make_source(tmp_path, clock.monotonic, patience_s=PATIENCE_S)
    poller = Poller(BlockingRunner(source, clock), clock, lambda: 0.1, deadline_s=5.0)
    await poller.read_once()
    task = asyncio.get_running_loop().create_task(poller.run())
    nvml_here.hang(3, "nvmlDeviceGetPowerUsage")
    nvml_here.delay(None, "nvmlDeviceGetPcieThroughput", 20)
    deadline = clock.monotonic() + 20
    while not (poller.reading and poller.reading.gpus[3].reason == "stuck"):
        assert clock.monotonic() < deadline
        await asyncio.sleep(0.01)
    before, begun = poller.attempts, clock.monotonic()
    while poller.attempts < before + 10:
        assert clock.monotonic() < deadline
        await asyncio.sleep(0.01)
    assert clock.monotonic() - begun < 10 * 0.1 * 4
    assert poller.observed(clock.monotonic()).status.ok
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    nvml_here.heal()
    wait_for_quiet(source)
    await poller.close()
