"""The simulated machine: consistent with the load, and slow where real cards are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.demo.load import EngineLoad
from tui.demo.machine import LIMIT_W, Machine
from tui.demo.spec import MachineSpec

if TYPE_CHECKING:
    from tui.model.readings import GpuReading

BUSY = EngineLoad("serving", 0.0, 40, 0, 0.5, busy=0.9, prefill_tok_s=4000.0, decode_tok_s=2000.0)
QUIET = EngineLoad("serving", 0.0)
NORMAL = MachineSpec()
PIDS = {"api": 10, "VLLM::EngineCore": 11, "VLLM::Worker": 12}


def card(machine: Machine) -> GpuReading:
    return machine.gpus(PIDS).gpus[0]


def run(machine: Machine, load: EngineLoad, start: float, seconds: int, spec: MachineSpec = NORMAL) -> None:
    for second in range(seconds + 1):
        machine.advance(load, start + second, spec)


def test_a_load_comes_and_goes_with_inertia() -> None:
    machine = Machine()
    run(machine, QUIET, 0.0, 60)
    quiet = card(machine)
    assert quiet.sm_pct == 0
    assert quiet.throttle == ("idle",)
    machine.advance(BUSY, 62.0, NORMAL)
    soon = card(machine)
    run(machine, BUSY, 62.0, 120)
    busy = card(machine)
    assert busy.sm_pct is not None
    assert 85 <= busy.sm_pct <= 95
    assert busy.power_w is not None
    assert quiet.power_w is not None
    assert soon.power_w is not None
    assert quiet.power_w < soon.power_w < busy.power_w < LIMIT_W
    assert soon.temp_c is not None
    assert busy.temp_c is not None
    assert soon.temp_c < busy.temp_c - 10  # heat follows half a minute later
    assert busy.throttle == ()


def test_memory_rises_while_loading_is_taken_at_once_and_given_back() -> None:
    machine = Machine()
    loading = EngineLoad("loading")
    run(machine, loading, 0.0, 2)
    first = card(machine).mem_used_mib
    run(machine, loading, 2.0, 3)
    later = card(machine).mem_used_mib
    host = machine.host(5.0)
    assert first is not None
    assert later is not None
    assert first < later
    assert host.disk_read_mb_s is not None
    assert host.disk_read_mb_s > 1000
    machine.advance(QUIET, 6.0, NORMAL)
    serving = card(machine)
    assert serving.mem_used_mib is not None
    assert serving.mem_total_mib is not None
    assert 0.85 < serving.mem_used_mib / serving.mem_total_mib < 0.95
    assert [p.pid for p in serving.processes or ()] == [12]
    machine.advance(EngineLoad(), 7.0, NORMAL)
    assert card(machine).mem_used_mib == 0
    assert card(machine).processes == ()


def test_a_hot_room_throttles() -> None:
    machine = Machine()
    run(machine, BUSY, 0.0, 200, MachineSpec(hot_c=40.0))
    hot = card(machine)
    assert hot.throttle is not None
    assert "sw_thermal_slowdown" in hot.throttle
    assert hot.clock_sm_mhz is not None
    assert hot.clock_max_mhz is not None
    assert hot.clock_sm_mhz < 0.9 * hot.clock_max_mhz


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["loading", "serving", "draining", "down"]),
            st.floats(0, 1),
            st.floats(0, 1e5),
            st.floats(0, 30),
        ),
        max_size=20,
    )
)
def test_no_figure_leaves_its_range(steps: list[tuple[str, float, float, float]]) -> None:
    machine, now = Machine(), 0.0
    for phase, busy, rate, dt in steps:
        now += dt
        machine.advance(EngineLoad(phase, now, 5, 5, 0.5, busy, rate, rate), now, MachineSpec(hot_c=20.0))
        for gpu in machine.gpus(PIDS).gpus:
            assert 0 <= (gpu.sm_pct or 0) <= 100
            assert 0 <= (gpu.mem_ctrl_pct or 0) <= 100
            assert 0 <= (gpu.power_w or 0) <= LIMIT_W * 1.01
            assert (gpu.mem_used_mib or 0) <= (gpu.mem_total_mib or 0)
            assert 0 < (gpu.temp_c or 0) < 120
            assert 300 <= (gpu.clock_sm_mhz or 0) <= 1980
        host = machine.host(now)
        assert 0 <= (host.cpu_pct_total or 0) <= 100
        assert 0 <= (host.busiest_thread_cpu_pct or 0) <= 100
        assert 0 <= (host.disk_util_pct or 0) <= 100


def test_the_same_load_gives_the_same_machine_whatever_the_step() -> None:
    coarse, fine = Machine(), Machine()
    for at in range(0, 61, 20):
        coarse.advance(BUSY, float(at), NORMAL)
    for at in range(61):
        fine.advance(BUSY, float(at), NORMAL)
    assert card(coarse).power_w == pytest.approx(card(fine).power_w, rel=0.05)
