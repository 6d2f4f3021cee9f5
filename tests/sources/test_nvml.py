"""NVML through the real binding, over a C library of ours in the driver's place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fake_nvml import MIB
from tests.support.nvml_calls import ABSENT, CALLS, FALLBACKS, REFUSED
from tests.support.nvml_rows import (
    Clock,
    calls,
    fast,
    others_are_exact,
    read,
    row,
    without,
)
from tui.model.readings import GpuProcess
from tui.model.status import SourceError
from tui.sources.nvml.asking import RETRY_LASTING_S
from tui.sources.nvml.convert import THROTTLE
from tui.sources.nvml.queries import SLOW
from tui.sources.nvml.source import RECOVER_FIRST_S, NvmlSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.fake_nvml import FakeNvml
    from tui.model.status import Reason

pytest_plugins = ("tests.support.nvml_plugin",)


# ------------------------------------------------------------------------------------------- values


def test_eight_gpus_exact(source: NvmlSource) -> None:
    reading = source.read()
    assert reading.driver_version == "550.54.15"
    assert tuple(map(fast, reading.gpus)) == tuple(row(card) for card in range(8))


def test_values_follow_the_device(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    for tick in range(1, 12):
        nvml_here.move(tick)
        clock.now += SLOW
        assert read(source) == tuple(row(card, tick) for card in range(8))


@pytest.mark.parametrize(("bit", "name"), THROTTLE)
def test_each_throttle_reason_by_name(source: NvmlSource, nvml_here: FakeNvml, bit: int, name: str) -> None:
    nvml_here.set(0, "reasons", bit)
    assert read(source)[0].throttle == (name,)


def test_throttle_reasons_together_and_unknown_bits(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.set(0, "reasons", 0x4 | 0x20 | 0x200 | 1 << 40)
    assert read(source)[0].throttle == ("sw_power_cap", "sw_thermal_slowdown")


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (
            "ecc_volatile_uncorrected",
            3,
            {"ecc_uncorrected": 3, "detail": "3 uncorrected memory errors since the driver was loaded"},
        ),
        ("ecc_volatile_corrected", 3, {"ecc_corrected": 3}),
        ("ecc_aggregate_uncorrected", 3, {"ecc_aggregate_uncorrected": 3}),
        ("ecc_aggregate_corrected", 3, {"ecc_aggregate_corrected": 3}),
        (
            "remap_pending",
            1,
            {"remap_pending": True, "detail": "memory rows wait to be remapped: reset the GPU"},
        ),
        ("remap_corrected", 4, {"remap_corrected": 4}),
        ("remap_uncorrected", 4, {"remap_uncorrected": 4}),
        (
            "remap_failed",
            1,
            {"remap_failed": True, "detail": "a memory row could not be remapped: replace the card"},
        ),
        ("fi_29", 5, {"retired_pages": 6}),
        (
            "fi_31",
            1,
            {"retired_pending": True, "detail": "memory pages wait to be retired: reboot"},
        ),
        ("fi_82", 95, {"mem_temp_c": 95.0}),
        ("persistence", 0, {"persistence": False}),
        ("compute_mode", 3, {"compute_mode": "exclusive_process"}),
        ("compute_mode", 9, {"compute_mode": None}),
        ("energy_mj", 2_500, {"energy_j": 2.5}),
        ("pci", "00010000:E1:00.0", {"pci_bus_id": "10000:e1:00.0"}),
        ("pci", "0000C0DE:E1:00.0", {"pci_bus_id": "c0de:e1:00.0"}),
        ("pcie_gen", 1, {"pcie_gen": 1}),
        ("pcie_width", 8, {"pcie_width": 8}),
        ("mig", 1, {"mig": True}),  # without instances
        ("power_limit_mw", 350_500, {"power_limit_w": 350.5}),
        ("name", "A100 \x1b[31mred\x1b[0m \x07", {"name": "A100 red"}),
    ],
)
def test_one_value(
    source: NvmlSource, nvml_here: FakeNvml, field: str, value: int | str, expected: dict[str, Any]
) -> None:
    nvml_here.set(5, field, value)
    gpus = read(source)
    assert gpus[5] == replace(row(5), **expected)
    assert others_are_exact(gpus, but=5)


def test_a_name_that_is_no_text(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.set(5, "name", "A\udcff100")
    gpu = read(source)[5]
    assert (gpu.name, gpu.uuid, gpu.state) == (None, row(5).uuid, "ok")
    assert [missing.field for missing in gpu.missing] == ["name"]


def test_processes(source: NvmlSource, nvml_here: FakeNvml) -> None:
    with subprocess.Popen(["sleep", "60"]) as known:
        absent = 2**22 + 1  # above the kernel's greatest pid
        nvml_here.processes(2, [(known.pid, 512 * MIB), (os.getpid(), None), (absent, 9000 * MIB)])
        gpus = read(source)
        known.kill()
    assert gpus[2].processes == (
        GpuProcess(absent, None, 9000.0),
        GpuProcess(known.pid, "sleep", 512.0),
        GpuProcess(os.getpid(), Path("/proc/self/comm").read_text().strip(), None),
    )
    assert gpus[2].missing == ()
    assert others_are_exact(gpus, but=2)


def test_a_process_listed_for_two_instances_is_one(source: NvmlSource, nvml_here: FakeNvml) -> None:
    one, two = 2**22 + 1, 2**22 + 2
    nvml_here.processes(0, [(one, 10 * MIB), (two, 5 * MIB), (one, 20 * MIB), (two, None)])
    assert read(source)[0].processes == (GpuProcess(one, None, 30.0), GpuProcess(two, None, None))


# ------------------------------------------------------------------------- calls that fail: one device


@pytest.mark.parametrize("code", [*ABSENT, *REFUSED])
@pytest.mark.parametrize("function", CALLS)
def test_a_call_that_fails_costs_its_fields_only(
    source: NvmlSource, nvml_here: FakeNvml, function: str, code: int
) -> None:
    nvml_here.fail(3, function, code)
    gpus = read(source)
    fields = CALLS[function]
    assert replace(gpus[3], missing=()) == without(row(3), fields)
    assert tuple(missing.field for missing in gpus[3].missing) == fields
    reason = {**ABSENT, **REFUSED}[code]
    name = "nvmlDeviceGetFieldValues" if function.startswith("fi_") else function
    assert all(missing.why.startswith(f"{reason}: {name}: ") for missing in gpus[3].missing)
    assert others_are_exact(gpus, but=3)


@pytest.mark.parametrize("code", [*ABSENT, *REFUSED])
@pytest.mark.parametrize("functions", FALLBACKS)
def test_a_call_and_its_older_form_that_fail(
    source: NvmlSource, nvml_here: FakeNvml, functions: tuple[str, str], code: int
) -> None:
    for function in functions:
        nvml_here.fail(3, function, code)
    gpus = read(source)
    fields = FALLBACKS[functions]
    assert replace(gpus[3], missing=()) == without(row(3), fields)
    assert tuple(missing.field for missing in gpus[3].missing) == fields
    assert others_are_exact(gpus, but=3)


@pytest.mark.parametrize("code", ABSENT)
@pytest.mark.parametrize("functions", FALLBACKS)
def test_the_older_form_steps_in(
    source: NvmlSource, nvml_here: FakeNvml, functions: tuple[str, str], code: int
) -> None:
    nvml_here.fail(3, functions[0], code)
    for _ in range(2):
        gpus = read(source)
        if "mem_used_mib" in FALLBACKS[functions]:  # the old one does not tell the reserved memory apart
            whole = row(3)
            assert whole.mem_used_mib is not None
            assert whole.mem_reserved_mib is not None
            assert replace(gpus[3], missing=()) == replace(
                whole, mem_used_mib=whole.mem_used_mib + whole.mem_reserved_mib, mem_reserved_mib=None
            )
            assert [missing.field for missing in gpus[3].missing] == ["mem_reserved_mib"]
        else:
            assert gpus[3] == row(3)
        assert others_are_exact(gpus, but=3)


@pytest.mark.parametrize(
    "function", [*CALLS, *(function for functions in FALLBACKS for function in functions[:1])]
)
def test_a_lost_device_keeps_its_row(source: NvmlSource, nvml_here: FakeNvml, function: str) -> None:
    nvml_here.fail(3, function, 15)
    gpu = read(source)[3]
    assert (gpu.index, gpu.state, gpu.reason) == (3, "lost", "lost")
    assert "it fell off the bus or hangs" in gpu.detail
    assert {gpu.temp_c, gpu.power_w, gpu.sm_pct, gpu.processes, gpu.throttle, gpu.stale_s} == {None}
    assert others_are_exact(source.read().gpus, but=3)


def test_lost_in_mid_run_and_back(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    source.read()
    nvml_here.fail(3, "*", 15)
    for seconds in (1.0, 2.0, 3.0):
        clock.now += 1.0
        gpus = source.read().gpus
        assert fast(gpus[3]) == replace(
            row(3), state="lost", reason="lost", detail=gpus[3].detail, stale_s=seconds
        )  # the last good figures, with their age
        assert gpus[3].recovered_s is None
        assert others_are_exact(gpus, but=3)
    nvml_here.fail(3, "*", 0)
    clock.now += 1.0
    assert [gpu.recovered_s for gpu in source.read().gpus] == [*[None] * 3, 0.0, *[None] * 4]
    clock.now += 1.0
    gpus = source.read().gpus
    assert tuple(map(fast, gpus)) == tuple(row(card) for card in range(8))
    assert gpus[3].recovered_s == 1.0


@pytest.mark.parametrize(("code", "reason"), REFUSED.items())
def test_a_device_that_refuses_everything_is_in_error(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock, code: int, reason: Reason
) -> None:
    source.read()
    nvml_here.fail(3, "*", code)
    gpus = read(source)
    assert (gpus[3].state, gpus[3].reason, gpus[3].uuid) == ("error", reason, row(3).uuid)
    assert others_are_exact(gpus, but=3)
    nvml_here.fail(3, "*", 0)
    clock.now += RETRY_LASTING_S
    assert read(source) == tuple(row(card) for card in range(8))


def test_a_device_that_needs_a_reset(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.fail(3, "nvmlDeviceGetPowerUsage", 16)
    gpu = read(source)[3]
    assert (gpu.state, gpu.reason) == ("error", "driver_error")
    assert "reset" in gpu.detail


@pytest.mark.parametrize(
    ("code", "state", "reason"),
    [
        (15, "lost", "lost"),
        (999, "error", "driver_error"),
        (4, "error", "no_permission"),
        (8, "error", "insufficient_power"),
        (10, "error", "timeout"),
        (3, "error", "not_supported"),
    ],
)
def test_a_device_without_a_handle(
    source: NvmlSource, nvml_here: FakeNvml, code: int, state: str, reason: str
) -> None:
    nvml_here.fail(3, "nvmlDeviceGetHandleByIndex_v2", code)
    gpus = read(source)
    assert (gpus[3].index, gpus[3].state, gpus[3].reason) == (3, state, reason)
    assert gpus[3].detail.startswith("nvmlDeviceGetHandleByIndex: ")
    assert others_are_exact(gpus, but=3)


def test_a_broken_device_is_tried_in_a_new_session_with_growing_gaps(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    assert read(source)[3].state == "ok"
    nvml_here.fail(3, "*", 15)
    begun = calls("nvmlInitWithFlags")
    sessions: list[float] = []
    for _ in range(200):
        gpus = read(source)
        assert (gpus[3].state, gpus[3].uuid) == ("lost", row(3).uuid)  # also in a session without a handle
        assert others_are_exact(gpus, but=3)
        if calls("nvmlInitWithFlags") > begun + len(sessions):
            sessions.append(clock.now - 1000.0)
        clock.now += 1.0
    assert sessions == [RECOVER_FIRST_S, 3 * RECOVER_FIRST_S]
    nvml_here.fail(3, "*", 0)
    clock.now += 120.0
    assert read(source) == tuple(row(card) for card in range(8))


# --------------------------------------------------------------------------------------- who asks when


def test_what_is_not_supported_is_asked_seldom(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    nvml_here.set(3, "temp_c", None)
    source.read()
    before = calls("nvmlDeviceGetTemperature")
    for _ in range(10):
        clock.now += 1.0
        assert read(source)[3].temp_c is None
    assert calls("nvmlDeviceGetTemperature") - before == 70  # the other seven devices
    nvml_here.set(3, "temp_c", 44)
    clock.now += RETRY_LASTING_S
    assert read(source)[3] == replace(row(3), temp_c=44.0)


def test_a_call_that_keeps_failing_is_backed_off_and_recovers(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    nvml_here.fail(None, "nvmlDeviceGetPowerUsage", 999)
    before = calls("nvmlDeviceGetPowerUsage")
    for _ in range(30):
        source.read()
        clock.now += 1.0
    assert calls("nvmlDeviceGetPowerUsage") - before == 8 * 7  # at 0, 1, 2, 5, 12, 20, 28 s
    nvml_here.fail(None, "nvmlDeviceGetPowerUsage", 0)
    clock.now += 8.0
    assert read(source) == tuple(row(card) for card in range(8))


def test_what_changes_seldom_is_asked_seldom(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    names, links = calls("nvmlDeviceGetName"), calls("nvmlDeviceGetCurrPcieLinkWidth")
    asked: list[int] = []
    for _ in range(int(4 * SLOW)):
        source.read()
        clock.now += 1.0
        asked.append(calls("nvmlDeviceGetCurrPcieLinkWidth") - links - sum(asked))
    assert calls("nvmlDeviceGetName") - names == 8
    assert asked[0] == 8
    assert max(asked[1:]) == 2  # never all devices at one reading
    assert all(sum(asked[begin : begin + int(SLOW)]) == 8 for begin in range(1, len(asked) - int(SLOW)))
    nvml_here.set(0, "pcie_width", 4)
    for _ in range(int(SLOW)):
        width = read(source)[0].pcie_width
        clock.now += 1.0
    assert width == 4


# ----------------------------------------------------------------------------------- the set of devices


def test_the_count_changes(source: NvmlSource, nvml_here: FakeNvml) -> None:
    most = 0
    for number in (8, 2, 16, 1, 0, 8):
        nvml_here.count(number)
        most = max(most, number)
        gpus = read(source)
        assert gpus[:number] == tuple(row(card) for card in range(number))
        assert [(gpu.index, gpu.uuid, gpu.state) for gpu in gpus[number:]] == [
            (card, row(card).uuid, "lost") for card in range(number, most)
        ]


def test_a_card_that_goes_keeps_its_row_and_the_others_their_indices(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    source.read()
    nvml_here.cards([0, 1, 2, 4, 5, 6, 7])
    clock.now += 2.0
    gpus = read(source)
    assert others_are_exact(gpus, but=3)
    assert (gpus[3].index, gpus[3].state, gpus[3].reason, gpus[3].stale_s) == (3, "lost", "lost", 2.0)
    assert gpus[3].detail == "no longer counted by the driver"
    assert gpus[3].temp_c == row(3).temp_c
    nvml_here.count(8)
    assert read(source) == tuple(row(card) for card in range(8))


def test_another_card_under_the_same_handle(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    source.read()
    nvml_here.set(3, "uuid", "GPU-another")
    for _ in range(3):  # seen within a period of asking, and then all are taken anew
        clock.now += 15.0
        gpus = read(source)
    new = next(gpu for gpu in gpus if gpu.uuid == "GPU-another")
    assert new == replace(row(3), uuid="GPU-another", index=8)
    assert gpus[3].uuid == row(3).uuid
    assert (gpus[3].index, gpus[3].state) == (3, "lost")
    assert [gpu.index for gpu in gpus] == list(range(9))


# ---------------------------------------------------------------------------------------- no NVML at all

WHOLE: dict[int, tuple[Reason, str]] = {
    12: ("no_driver", "cannot be loaded"),
    9: ("no_driver", "not loaded"),
    18: ("driver_mismatch", "different versions"),
    4: ("no_permission", "no right"),
    8: ("insufficient_power", "power cables"),
    13: ("old_driver", "too old"),
    999: ("driver_error", "Unknown Error"),
    1000: ("driver_error", "nvmlInit: "),
}


@pytest.mark.parametrize("code", WHOLE)
def test_no_session_in_its_own_words(source: NvmlSource, nvml_here: FakeNvml, code: int) -> None:
    nvml_here.fail(None, "nvmlInitWithFlags", code)
    with pytest.raises(SourceError) as caught:
        source.read()
    reason, words = WHOLE[code]
    assert caught.value.reason == reason
    assert words in caught.value.detail
    assert caught.value.unsupported == (code == 12)
    nvml_here.fail(None, "nvmlInitWithFlags", 0)
    assert read(source) == tuple(row(card) for card in range(8))


def test_the_words_differ() -> None:
    assert len({words for _, words in WHOLE.values()}) == len(WHOLE)


@pytest.mark.parametrize("function", ["nvmlDeviceGetCount_v2", "nvmlDeviceGetTemperature", "*"])
@pytest.mark.parametrize("code", [1, 9, 18])
def test_the_driver_goes_in_mid_run_and_returns(
    source: NvmlSource, nvml_here: FakeNvml, function: str, code: int
) -> None:
    source.read()
    nvml_here.fail(None, function, code)
    with pytest.raises(SourceError) as caught:
        source.read()
    assert caught.value.reason == {1: "driver_error", 9: "no_driver", 18: "driver_mismatch"}[code]
    nvml_here.fail(None, function, 0)
    nvml_here.driver("560.1")
    reading = source.read()
    assert reading.driver_version == "560.1"
    assert tuple(map(fast, reading.gpus)) == tuple(row(card) for card in range(8))


def test_a_driver_without_a_version_still_has_devices(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.fail(None, "nvmlSystemGetDriverVersion", 999)
    reading = source.read()
    assert reading.driver_version is None
    assert len(reading.gpus) == 8


def test_close_ends_the_session_and_a_read_begins_another(source: NvmlSource) -> None:
    source.close()  # none yet: nothing to end
    source.read()
    ended = calls("nvmlShutdown")
    source.close()
    source.close()
    assert calls("nvmlShutdown") == ended + 1
    assert len(source.read().gpus) == 8


def test_a_library_by_name_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFERTOP_NVML_LIBRARY", str(tmp_path / "none.so"))
    source = NvmlSource()
    with pytest.raises(SourceError) as caught:
        source.read()
    source.close()
    assert caught.value.reason == "no_driver"
    assert "INFERTOP_NVML_LIBRARY" in caught.value.detail


# ------------------------------------------------------------------------------------------- old drivers

OLD_DRIVER = """
import dataclasses, json
from tui.sources.nvml.source import NvmlSource
print(json.dumps([dataclasses.asdict(gpu) for gpu in NvmlSource().read().gpus]))
"""
MISMATCH = """
from tui.sources.nvml.binding import Binding
from tui.sources.nvml.errors import NvmlCallError, source_error
from tui.sources.nvml.lanes import Lane
lane = Lane("", lambda: 0.0)
binding = Binding()
binding.initialise(lane)
call = binding.calls(lane)
try:
    call("nvmlDeviceGetComputeRunningProcesses", call("nvmlDeviceGetHandleByIndex", 0))
except NvmlCallError as error:
    print(source_error(error))
"""
# What appeared with the drivers 510 to 535.
YOUNG = (
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetComputeRunningProcesses_v3",
)


def python(code: str, environment: dict[str, str]) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout


def test_a_driver_without_the_young_functions(fake_nvml: FakeNvml, build_nvml: Callable[..., Path]) -> None:
    library = build_nvml(*YOUNG, "nvmlDeviceGetRemappedRows")
    environment = {**fake_nvml.environment(), "INFERTOP_NVML_LIBRARY": str(library)}
    gpus = json.loads(python(OLD_DRIVER, environment))
    assert len(gpus) == 8
    for card, gpu in enumerate(gpus):
        assert gpu["mem_used_mib"] == (row(card).mem_used_mib or 0) + (row(card).mem_reserved_mib or 0)
        assert (gpu["throttle"], gpu["processes"]) == (list(row(card).throttle or ()), [])
        assert (gpu["remap_pending"], gpu["sm_pct"]) == (None, row(card).sm_pct)
        missing = {entry["field"]: entry for entry in gpu["missing"]}
        assert set(missing) == {
            "mem_reserved_mib",
            "remap_corrected",
            "remap_uncorrected",
            "remap_pending",
            "remap_failed",
        }
        assert all(entry["why"].startswith("old_driver: ") for entry in missing.values())
        assert all(entry["enable"] == "a newer NVIDIA driver" for entry in missing.values())


def test_a_binding_that_does_not_fit_the_library(
    fake_nvml: FakeNvml, build_nvml: Callable[..., Path]
) -> None:
    environment = {**fake_nvml.environment(), "INFERTOP_NVML_LIBRARY": str(build_nvml(*YOUNG))}
    assert python(MISMATCH, environment).startswith("driver_mismatch: nvidia-ml-py does not fit")


def test_another_process_sees_changes(fake_nvml: FakeNvml) -> None:
    fake_nvml.set(1, "temp_c", 91)
    gpus = json.loads(python(OLD_DRIVER, fake_nvml.environment()))
    assert [gpu["temp_c"] for gpu in gpus[:2]] == [row(0).temp_c, 91.0]


def test_the_binding_is_loaded_at_the_first_read_only() -> None:
    code = "import sys, tui.sources.nvml.source as s; s.NvmlSource(); print('pynvml' in sys.modules)"
    assert python(code, {}).strip() == "False"
