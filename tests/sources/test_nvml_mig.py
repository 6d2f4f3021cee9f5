"""MIG instances: rows of their own under their card."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fake_nvml import MIB, instance_values
from tests.support.nvml_rows import Clock, fast, read, read_until, row
from tui.model.readings import GpuProcess, GpuReading
from tui.sources.nvml.queries import SLOW

if TYPE_CHECKING:
    from tests.support.fake_nvml import FakeNvml
    from tui.sources.nvml.source import NvmlSource

pytest_plugins = ("tests.support.nvml_plugin",)
pytestmark = pytest.mark.usefixtures("no_gap")


def instance(card: int, place: int) -> GpuReading:
    values: dict[str, Any] = instance_values(card, place)
    return GpuReading(
        index=card,
        uuid=values["uuid"],
        name=values["name"],
        mem_used_mib=(values["mem_total"] - values["mem_free"] - values["mem_reserved"]) / MIB,
        mem_total_mib=values["mem_total"] / MIB,
        mem_reserved_mib=values["mem_reserved"] / MIB,
        processes=(),
        pci_bus_id=row(card).pci_bus_id,
        parent_uuid=row(card).uuid,
        mig_name="1g.10gb",
        mig_index=place,
    )


def test_instances_follow_their_card(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.instances(1, [0, 2, 6])
    nvml_here.processes("1.2", [(2**22 + 1, 100 * MIB)])
    holder = (GpuProcess(2**22 + 1, None, 100.0),)
    assert read(source) == (
        row(0),
        replace(row(1), mig=True),
        instance(1, 0),
        replace(instance(1, 2), processes=holder),
        instance(1, 6),
        *(row(card) for card in range(2, 8)),
    )


def test_gpm_of_instances(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.instances(1, [0, 2])
    gpus = read_until(source, lambda gpus: gpus[3].gpm_sm_active is not None)
    assert [gpu.gpm_sm_active for gpu in gpus[1:4]] == [None, 0.70, 0.72]
    assert [gpu.gpm_dram_active for gpu in gpus[1:4]] == [None, 0.50, 0.52]
    assert gpus[1].missing == ()


def test_instances_come_and_go(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    layouts: list[list[int]] = [[], [0, 1], [1], [0, 1, 2, 3, 4, 5, 6], []]
    for layout in layouts:
        nvml_here.instances(1, layout)
        clock.now += SLOW
        gpus = read(source)
        assert [gpu.mig_index for gpu in gpus if gpu.parent_uuid] == layout
        assert gpus[1].mig == bool(layout)
        assert [gpu for gpu in gpus if gpu.index != 1] == [row(card) for card in range(8) if card != 1]
        assert source.slow_lane.wait(20)


@pytest.mark.parametrize(
    ("function", "code", "field"),
    [
        ("nvmlDeviceGetMaxMigDeviceCount", 999, "mig_instances"),
        ("nvmlDeviceGetMigDeviceHandleByIndex", 4, "mig_instances"),
    ],
)
def test_instances_that_cannot_be_listed(
    source: NvmlSource, nvml_here: FakeNvml, function: str, code: int, field: str
) -> None:
    nvml_here.instances(1, [0, 1])
    nvml_here.fail(1, function, code)
    gpus = read(source)
    assert len(gpus) == 8
    assert [entry.field for entry in gpus[1].missing] == [field]
    assert gpus[1].state == "ok"


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("nvmlDeviceGetUUID", ("uuid",)),
        ("nvmlDeviceGetName", ("name", "mig_name")),
        ("nvmlDeviceGetComputeRunningProcesses_v3", ()),
        ("nvmlDeviceGetGpuInstanceId", ()),
    ],
)
@pytest.mark.parametrize("code", [3, 13, 4, 999])
def test_a_call_on_an_instance_that_fails(
    source: NvmlSource, nvml_here: FakeNvml, function: str, fields: tuple[str, ...], code: int
) -> None:
    nvml_here.instances(1, [0, 1])
    nvml_here.fail("1.1", function, code)
    gpus = read(source)
    unknown: dict[str, Any] = dict.fromkeys(fields)
    expected = replace(instance(1, 1), **unknown)
    if "Processes" in function and code not in (3, 13):
        expected = replace(expected, processes=None)
    assert replace(gpus[3], missing=()) == expected
    assert gpus[2] == instance(1, 0)


def test_an_instance_that_refuses_everything(source: NvmlSource, nvml_here: FakeNvml) -> None:
    nvml_here.instances(1, [0, 1])
    nvml_here.fail("1.1", "*", 999)
    gpus = read(source)
    assert [(gpu.state, gpu.reason) for gpu in gpus[1:4]] == [
        ("ok", None),
        ("ok", None),
        ("error", "driver_error"),
    ]


def test_instances_of_a_lost_card(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    nvml_here.instances(1, [0, 1])
    read(source)
    nvml_here.fail(1, "*", 15)
    clock.now += 3.0
    gpus = source.read().gpus
    assert [(gpu.state, gpu.reason, gpu.stale_s) for gpu in gpus[1:4]] == [("lost", "lost", 3.0)] * 3
    assert gpus[2].mem_used_mib == instance(1, 0).mem_used_mib
    nvml_here.fail(1, "*", 0)
    assert tuple(map(fast, source.read().gpus))[1:4] == (
        replace(row(1), mig=True),
        instance(1, 0),
        instance(1, 1),
    )
