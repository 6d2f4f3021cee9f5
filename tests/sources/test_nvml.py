"""NVML through the real binding, over a C library of ours in the driver's place."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fake_nvml import MIB, gpu_values
from tui.model.readings import GpuProcess, GpuReading
from tui.model.status import SourceError
from tui.sources.nvml.device import RETRY_LASTING_S
from tui.sources.nvml.queries import SLOW, THROTTLE
from tui.sources.nvml.source import RECOVER_FIRST_S, NvmlSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.fake_nvml import FakeNvml
    from tui.model.status import Reason

pytest_plugins = ("tests.support.nvml_plugin",)

ABSENT = {3: "not_supported", 13: "old_driver"}
REFUSED: dict[int, Reason] = {4: "no_permission", 999: "driver_error"}

CALLS: dict[str, tuple[str, ...]] = {
    "nvmlDeviceGetUUID": ("uuid",),
    "nvmlDeviceGetName": ("name",),
    "nvmlDeviceGetUtilizationRates": ("sm_pct", "mem_ctrl_pct"),
    "nvmlDeviceGetPowerUsage": ("power_w",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit_w",),
    "nvmlDeviceGetTemperature": ("temp_c",),
    "nvmlDeviceGetClockInfo": ("clock_sm_mhz", "clock_mem_mhz"),
    "nvmlDeviceGetMaxClockInfo": ("clock_max_mhz",),
    "nvmlDeviceGetTotalEccErrors": ("ecc_uncorrected",),
    "nvmlDeviceGetRemappedRows": ("remap_pending",),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("pcie_gen",),
    "nvmlDeviceGetCurrPcieLinkWidth": ("pcie_width",),
    "nvmlDeviceGetMaxPcieLinkGeneration": ("pcie_gen_max",),
    "nvmlDeviceGetMaxPcieLinkWidth": ("pcie_width_max",),
    "nvmlDeviceGetMigMode": ("mig",),
}
"""Each function that answers alone for its fields."""

FALLBACKS: dict[tuple[str, str], tuple[str, ...]] = {
    ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"): (
        "mem_used_mib",
        "mem_total_mib",
        "mem_reserved_mib",
    ),
    ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"): ("throttle",),
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"): ("processes",),
}
"""A new function and the older one for the same fields."""


class Clock:
    """Seconds that move when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source(nvml_here: FakeNvml, clock: Clock) -> Iterator[NvmlSource]:
    source = NvmlSource(clock)
    yield source
    source.close()


def calls(function: str) -> int:
    """How often the library was called in this process."""
    counter = ctypes.CDLL("libnvidia-ml.so.1").fake_nvml_calls
    counter.restype = ctypes.c_ulong
    return int(counter(function.encode()))


def row(card: int, tick: int = 0, *, index: int | None = None) -> GpuReading:
    """The reading that a card's values must give."""
    values: dict[str, Any] = gpu_values(card, tick)
    return GpuReading(
        index=card if index is None else index,
        uuid=values["uuid"],
        name=values["name"],
        sm_pct=values["util_gpu"],
        mem_ctrl_pct=values["util_mem"],
        mem_used_mib=(values["mem_total"] - values["mem_free"] - values["mem_reserved"]) / MIB,
        mem_total_mib=values["mem_total"] / MIB,
        mem_reserved_mib=values["mem_reserved"] / MIB,
        power_w=values["power_mw"] / 1000,
        power_limit_w=values["power_limit_mw"] / 1000,
        temp_c=values["temp_c"],
        throttle=("sw_power_cap",) if values["reasons"] else (),
        clock_sm_mhz=values["clock_sm"],
        clock_max_mhz=values["clock_sm_max"],
        clock_mem_mhz=values["clock_mem"],
        ecc_uncorrected=0,
        remap_pending=False,
        pcie_gen=5,
        pcie_gen_max=5,
        pcie_width=16,
        pcie_width_max=16,
        mig=False,
        processes=(),
    )


def without(reading: GpuReading, fields: tuple[str, ...]) -> GpuReading:
    unknown: dict[str, Any] = dict.fromkeys(fields)
    return replace(reading, **unknown)


def others_are_exact(gpus: tuple[GpuReading, ...], but: int) -> bool:
    return [gpu for gpu in gpus if gpu.index != but] == [row(card) for card in range(8) if card != but]


# ------------------------------------------------------------------------------------------- values


def test_eight_gpus_exact(source: NvmlSource) -> None:
    reading = source.read()
    assert reading.driver_version == "550.54.15"
    assert reading.gpus == tuple(row(card) for card in range(8))


def test_values_follow_the_device(source: NvmlSource, nvml_here: FakeNvml) -> None:
    for tick in range(1, 12):
        nvml_here.move(tick)
        assert source.read().gpus == tuple(row(card, tick) for card in range(8))


@pytest.mark.parametrize(("bit", "name"), THROTTLE)
def test_each_throttle_reason_by_name(source: NvmlSource, nvml_here: FakeNvml, bit: int, name: str) -> None:
    nvml_here.set(0, "reasons", bit)
    assert source.read().gpus[0].throttle == (name,)


def test_throttle_reasons_together_and_unknown_bits(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.set(0, "reasons", 0x4 | 0x20 | 0x200 | 1 << 40)
    assert source.read().gpus[0].throttle == ("sw_power_cap", "sw_thermal_slowdown")


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("ecc_volatile_uncorrected", 3, {"ecc_uncorrected": 3}),
        ("ecc_volatile_corrected", 3, {"ecc_uncorrected": 0}),
        ("ecc_aggregate_uncorrected", 3, {"ecc_uncorrected": 0}),
        ("remap_pending", 1, {"remap_pending": True}),
        ("remap_corrected", 1, {"remap_pending": False}),
        ("pcie_gen", 1, {"pcie_gen": 1}),
        ("pcie_width", 8, {"pcie_width": 8}),
        ("mig", 1, {"mig": True}),
        ("power_limit_mw", 350_500, {"power_limit_w": 350.5}),
        ("name", "A100 \x1b[31mred\x1b[0m \x07", {"name": "A100 red"}),
    ],
)
def test_one_value(
    source: NvmlSource, nvml_here: FakeNvml, field: str, value: int | str, expected: dict[str, Any]
) -> None:
    nvml_here.set(5, field, value)
    gpus = source.read().gpus
    assert gpus[5] == replace(row(5), **expected)
    assert others_are_exact(gpus, but=5)


def test_a_name_that_is_no_text(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.set(5, "name", "A\udcff100")
    gpu = source.read().gpus[5]
    assert (gpu.name, gpu.uuid, gpu.state) == (None, row(5).uuid, "ok")
    assert [missing.field for missing in gpu.missing] == ["name"]


def test_processes(source: NvmlSource, nvml_here: FakeNvml) -> None:
    with subprocess.Popen(["sleep", "60"]) as known:
        absent = 2**22 + 1  # above the kernel's greatest pid
        nvml_here.processes(2, [(known.pid, 512 * MIB), (os.getpid(), None), (absent, 9000 * MIB)])
        gpus = source.read().gpus
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
    assert source.read().gpus[0].processes == (GpuProcess(one, None, 30.0), GpuProcess(two, None, None))


# ------------------------------------------------------------------------- calls that fail: one device


@pytest.mark.parametrize("code", [*ABSENT, *REFUSED])
@pytest.mark.parametrize("function", CALLS)
def test_a_call_that_fails_costs_its_fields_only(
    source: NvmlSource, nvml_here: FakeNvml, function: str, code: int
) -> None:
    nvml_here.fail(3, function, code)
    gpus = source.read().gpus
    fields = CALLS[function]
    assert replace(gpus[3], missing=()) == without(row(3), fields)
    assert tuple(missing.field for missing in gpus[3].missing) == fields
    reason = {**ABSENT, **REFUSED}[code]
    assert all(missing.why.startswith(f"{reason}: {function}: ") for missing in gpus[3].missing)
    assert others_are_exact(gpus, but=3)


@pytest.mark.parametrize("code", [*ABSENT, *REFUSED])
@pytest.mark.parametrize("functions", FALLBACKS)
def test_a_call_and_its_older_form_that_fail(
    source: NvmlSource, nvml_here: FakeNvml, functions: tuple[str, str], code: int
) -> None:
    for function in functions:
        nvml_here.fail(3, function, code)
    gpus = source.read().gpus
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
        gpus = source.read().gpus
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
    gpu = source.read().gpus[3]
    assert (gpu.index, gpu.state, gpu.reason) == (3, "lost", "lost")
    assert "GPU is lost" in gpu.detail
    assert {gpu.temp_c, gpu.power_w, gpu.sm_pct, gpu.processes, gpu.throttle} == {None}
    assert others_are_exact(source.read().gpus, but=3)


def test_lost_in_mid_run_and_back(source: NvmlSource, nvml_here: FakeNvml) -> None:
    source.read()
    nvml_here.fail(3, "*", 15)
    gpus = source.read().gpus
    assert (gpus[3].state, gpus[3].uuid, gpus[3].name) == ("lost", row(3).uuid, row(3).name)
    assert others_are_exact(gpus, but=3)
    nvml_here.fail(3, "*", 0)
    assert source.read().gpus == tuple(row(card) for card in range(8))


@pytest.mark.parametrize(("code", "reason"), REFUSED.items())
def test_a_device_that_refuses_everything_is_in_error(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock, code: int, reason: Reason
) -> None:
    source.read()
    nvml_here.fail(3, "*", code)
    gpus = source.read().gpus
    assert (gpus[3].state, gpus[3].reason, gpus[3].uuid) == ("error", reason, row(3).uuid)
    assert others_are_exact(gpus, but=3)
    nvml_here.fail(3, "*", 0)
    clock.now += RETRY_LASTING_S
    assert source.read().gpus == tuple(row(card) for card in range(8))


def test_a_device_that_needs_a_reset(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.fail(3, "nvmlDeviceGetPowerUsage", 16)
    gpu = source.read().gpus[3]
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
    gpus = source.read().gpus
    assert (gpus[3].index, gpus[3].state, gpus[3].reason) == (3, state, reason)
    assert gpus[3].detail.startswith("nvmlDeviceGetHandleByIndex: ")
    assert others_are_exact(gpus, but=3)


def test_a_broken_device_is_tried_in_a_new_session_with_growing_gaps(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    assert source.read().gpus[3].state == "ok"
    nvml_here.fail(3, "*", 15)
    begun = calls("nvmlInitWithFlags")
    sessions: list[float] = []
    for _ in range(200):
        gpus = source.read().gpus
        assert (gpus[3].state, gpus[3].uuid) == ("lost", row(3).uuid)  # also in a session without a handle
        assert others_are_exact(gpus, but=3)
        if calls("nvmlInitWithFlags") > begun + len(sessions):
            sessions.append(clock.now - 1000.0)
        clock.now += 1.0
    assert sessions == [RECOVER_FIRST_S, 3 * RECOVER_FIRST_S]
    nvml_here.fail(3, "*", 0)
    clock.now += 120.0
    assert source.read().gpus == tuple(row(card) for card in range(8))


# --------------------------------------------------------------------------------------- who asks when


def test_what_is_not_supported_is_asked_seldom(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    nvml_here.set(3, "temp_c", None)
    source.read()
    before = calls("nvmlDeviceGetTemperature")
    for _ in range(10):
        clock.now += 1.0
        assert source.read().gpus[3].temp_c is None
    assert calls("nvmlDeviceGetTemperature") - before == 70  # the other seven devices
    nvml_here.set(3, "temp_c", 44)
    clock.now += RETRY_LASTING_S
    assert source.read().gpus[3] == replace(row(3), temp_c=44.0)


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
    assert source.read().gpus == tuple(row(card) for card in range(8))


def test_what_changes_seldom_is_asked_seldom(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    names, links = calls("nvmlDeviceGetName"), calls("nvmlDeviceGetCurrPcieLinkWidth")
    for _ in range(int(2 * SLOW)):
        source.read()
        clock.now += 1.0
    assert calls("nvmlDeviceGetName") - names == 8
    assert calls("nvmlDeviceGetCurrPcieLinkWidth") - links == 16
    nvml_here.set(0, "pcie_width", 4)
    assert source.read().gpus[0].pcie_width == 4


def test_the_call_in_progress_is_named(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.delay(3, "nvmlDeviceGetTemperature", 60_000)
    before = calls("nvmlDeviceGetTemperature")
    results: list[tuple[GpuReading, ...]] = []
    thread = threading.Thread(target=lambda: results.append(source.read().gpus), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while calls("nvmlDeviceGetTemperature") < before + 4:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        assert source.doing == "nvmlDeviceGetTemperature"
    finally:
        nvml_here.delay(3, "nvmlDeviceGetTemperature", 0)
        thread.join(20)
    assert not thread.is_alive()
    assert source.doing == ""
    assert results == [tuple(row(card) for card in range(8))]


# ----------------------------------------------------------------------------------- the set of devices


def test_the_count_changes(source: NvmlSource, nvml_here: FakeNvml) -> None:
    for number in (8, 2, 16, 1, 0, 8):
        nvml_here.count(number)
        assert source.read().gpus == tuple(row(card) for card in range(number))


def test_a_card_that_goes_moves_the_indices_of_the_others(source: NvmlSource, nvml_here: FakeNvml) -> None:
    source.read()
    nvml_here.cards([0, 1, 2, 4, 5, 6, 7])
    cards = [0, 1, 2, 4, 5, 6, 7]
    assert source.read().gpus == tuple(row(card, index=index) for index, card in enumerate(cards))


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
    assert source.read().gpus == tuple(row(card) for card in range(8))


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
    assert reading.gpus == tuple(row(card) for card in range(8))


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
    with pytest.raises(SourceError) as caught:
        NvmlSource().read()
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
binding = Binding(lambda function: None)
binding.initialise()
try:
    binding.call("nvmlDeviceGetComputeRunningProcesses", binding.call("nvmlDeviceGetHandleByIndex", 0))
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
        assert set(missing) == {"mem_reserved_mib", "remap_pending"}
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
