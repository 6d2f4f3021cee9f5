"""What NVML's slow lane tells: traffic, links, profiling figures, shares of processes, Xids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.fake_nvml import MIB
from tests.support.nvml_calls import ABSENT, REFUSED, SLOW_CALLS
from tests.support.nvml_rows import (
    Clock,
    calls,
    fast,
    others_are_exact,
    read,
    read_until,
    row,
)
from tui.model.readings import GpuProcess
from tui.model.xids import XIDS, graver, xid_text
from tui.sources.nvml import side_lane
from tui.sources.nvml.asking import RETRY_LASTING_S
from tui.sources.nvml.gpm import FIELDS as GPM_FIELDS
from tui.sources.nvml.gpm import GAP_S
from tui.sources.nvml.side import SIDE_FIELDS
from tui.verdict.picture import FATAL_XIDS

if TYPE_CHECKING:
    from tests.support.fake_nvml import FakeNvml
    from tui.model.readings import GpuReading
    from tui.sources.nvml.source import NvmlSource

pytest_plugins = ("tests.support.nvml_plugin",)
pytestmark = pytest.mark.usefixtures("no_gap")


def all_known(gpus: tuple[GpuReading, ...]) -> bool:
    return all(gpu.gpm_sm_active is not None and gpu.pcie_rx_mb_s is not None for gpu in gpus)


def first_share(gpu: GpuReading) -> float | None:
    assert gpu.processes
    return gpu.processes[0].sm_pct


def why(gpu: GpuReading) -> dict[str, str]:
    return {entry.field: entry.why for entry in gpu.missing}


# ------------------------------------------------------------------------------------------- values


def test_all_slow_figures(source: NvmlSource) -> None:
    for card, gpu in enumerate(read_until(source, all_known)):
        assert (gpu.pcie_tx_mb_s, gpu.pcie_rx_mb_s) == (1000.0 + card, 2000.0 + card)
        assert (gpu.nvlinks, gpu.nvlinks_up, gpu.nvlink_errors) == (18, 18, 10)
        assert (gpu.gpm_sm_active, gpu.gpm_sm_occupancy) == pytest.approx(
            (0.80 + card / 100, 0.40 + card / 100)
        )
        assert (gpu.gpm_tensor_active, gpu.gpm_dram_active) == pytest.approx(
            (0.30 + card / 100, 0.60 + card / 100)
        )
        assert (gpu.xid, gpu.missing) == (None, ())
        assert hash(gpu)  # verdicts keep readings in sets


def test_two_reads_are_enough(source: NvmlSource, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_lane, "GAP_S", GAP_S)  # the true one
    source.read()
    assert source.slow_lane.wait(20)
    assert all_known(source.read().gpus)


def test_traffic_of_nvlink_is_the_growth_of_its_counters(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    read_until(source, all_known)
    nvml_here.move(10)
    clock.now += 4.0
    gpus = read_until(source, lambda gpus: gpus[7].nvlink_rx_mb_s is not None)
    for card, gpu in enumerate(gpus):
        sent = 1_000_000 * (card + 1) * 10 * 1024 / 1e6 / 4.0
        assert (gpu.nvlink_tx_mb_s, gpu.nvlink_rx_mb_s) == pytest.approx((sent, 2 * sent))


def test_a_counter_that_was_set_back_has_no_growth(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    nvml_here.move(10)
    read_until(source, all_known)
    nvml_here.move(5)
    clock.now += 4.0
    source.read()
    assert source.slow_lane.wait(20)
    assert {gpu.nvlink_tx_mb_s for gpu in source.read().gpus} == {None}


def test_a_counter_that_moves_by_itself(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    nvml_here.set(2, "energy_mj", "1000+1000000/s")
    first = read(source)[2].energy_j
    clock.now += 10.0
    later = read_until(source, lambda gpus: gpus[2].energy_j != first)[2].energy_j
    assert first is not None
    assert later is not None
    assert later > first


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"fi_91": 0}, (0, 0, None)),
        ({"nvlinks_up": 0b1011}, (18, 3, 10)),
        ({"fi_38": None, "fi_45": None, "fi_52": None}, (18, 18, 4)),
        ({"fi_38": None, "fi_45": None, "fi_52": None, "fi_59": None}, (18, 18, None)),
    ],
)
def test_links(
    source: NvmlSource,
    nvml_here: FakeNvml,
    fields: dict[str, int | None],
    expected: tuple[int | None, ...],
) -> None:
    with nvml_here.together():
        for field, value in fields.items():
            nvml_here.set(5, field, value)
    gpu = read_until(source, all_known)[5]
    assert (gpu.nvlinks, gpu.nvlinks_up, gpu.nvlink_errors) == expected


def test_errors_of_each_link_where_there_are_no_totals(source: NvmlSource, nvml_here: FakeNvml) -> None:
    with nvml_here.together():
        for total in (38, 45, 52, 59):
            nvml_here.set(5, f"fi_{total}", None)
        for kind in (161, 162, 163):
            for link in range(18):
                nvml_here.set(5, f"fi_{kind}_{link}", link)
        nvml_here.set(5, "nvlinks_up", 0b111)
    gpu = read_until(source, all_known)[5]
    assert (gpu.nvlinks_up, gpu.nvlink_errors) == (3, 3 * (0 + 1 + 2))


def test_gpm_gives_the_traffic_that_no_counter_does(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    with nvml_here.together():
        for field in ("pcie_tx_kb", "pcie_rx_kb", "fi_138", "fi_139"):
            nvml_here.set(5, field, None)
        for metric, value in ((20, 100), (21, 200), (60, 300), (61, 400)):
            nvml_here.set(5, f"gpm_{metric}", value)
    gpu = read_until(source, all_known)[5]
    mib = MIB / 1e6
    assert (gpu.pcie_tx_mb_s, gpu.pcie_rx_mb_s) == pytest.approx((100 * mib, 200 * mib))
    assert (gpu.nvlink_rx_mb_s, gpu.nvlink_tx_mb_s) == pytest.approx((300 * mib, 400 * mib))
    assert gpu.missing == ()


def test_a_gpu_without_gpm(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    nvml_here.set(5, "gpm", 0)
    gpu = read_until(source, lambda gpus: gpus[5].nvlinks is not None and all_known(gpus[:5]))[5]
    assert set(why(gpu)) == set(GPM_FIELDS)
    assert {entry.enable for entry in gpu.missing} == {"Hopper or newer; or DCGM's profiling fields"}
    asked = calls("nvmlGpmQueryDeviceSupport")
    nvml_here.set(5, "gpm", 1)
    clock.now += RETRY_LASTING_S
    assert read_until(source, all_known)[5].missing == ()
    assert calls("nvmlGpmQueryDeviceSupport") == asked + 1


def test_shares_of_processes(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    one, two, three = 2**22 + 1, 2**22 + 2, 2**22 + 3
    with nvml_here.together():
        nvml_here.processes(2, [(one, 30 * MIB), (two, 20 * MIB), (three, 10 * MIB)])
        nvml_here.usage(2, [(one, 100, 10, 5), (one, 200, 40, 15), (two, 150, 7, 3), (three, 150, 999, 0)])
    gpu = read_until(source, lambda gpus: first_share(gpus[2]) is not None)[2]
    assert gpu.processes == (
        GpuProcess(one, None, 30.0, 40.0, 15.0),
        GpuProcess(two, None, 20.0, 7.0, 3.0),
        GpuProcess(three, None, 10.0),  # a share above 100 is none
    )
    clock.now += 2.0  # only newer samples count: there are none
    gpus = read_until(source, lambda gpus: first_share(gpus[2]) is None)
    assert gpus[2].missing == ()


# ------------------------------------------------------------------------------------- calls that fail


@pytest.mark.parametrize("code", [*ABSENT, *REFUSED])
@pytest.mark.parametrize("function", SLOW_CALLS)
def test_a_slow_call_that_fails_costs_its_fields_only(
    source: NvmlSource, nvml_here: FakeNvml, function: str, code: int
) -> None:
    nvml_here.fail(3, function, code)
    gpus = read_until(source, lambda gpus: bool(gpus[3].missing) and gpus[7].gpm_sm_active is not None)
    reason = {**ABSENT, **REFUSED}[code]
    name = "nvmlDeviceGetFieldValues" if function.startswith("fi_") else function
    told = why(gpus[3])
    assert set(told) == set(SLOW_CALLS[function])
    assert all(text.startswith(f"{reason}: {name}: ") for text in told.values()), told
    assert fast(gpus[3]) == row(3)
    assert others_are_exact(gpus, but=3)
    assert all(gpu.missing == () for gpu in gpus if gpu.index != 3)


@pytest.mark.parametrize("function", SLOW_CALLS)
def test_a_device_that_is_lost_to_the_slow_lane_only(
    source: NvmlSource, nvml_here: FakeNvml, function: str
) -> None:
    nvml_here.fail(3, function, 15)
    gpus = read_until(source, lambda gpus: bool(gpus[3].missing) and all_known(gpus[4:]))
    expected = {"xid"} if SLOW_CALLS[function] == ("xid",) else set(SIDE_FIELDS)
    assert set(why(gpus[3])) == expected
    assert all(text.startswith("lost: ") for text in why(gpus[3]).values())
    assert fast(gpus[3]) == row(3)
    assert others_are_exact(gpus, but=3)


@pytest.mark.parametrize("function", ["nvmlEventSetCreate", "nvmlGpmSampleAlloc"])
def test_a_slow_call_without_a_device_that_fails(
    source: NvmlSource, nvml_here: FakeNvml, function: str
) -> None:
    nvml_here.fail(None, function, 999)
    fields = {"xid"} if function == "nvmlEventSetCreate" else set(GPM_FIELDS)
    gpus = read_until(source, lambda gpus: all(set(why(gpu)) == fields for gpu in gpus))
    assert tuple(map(fast, gpus)) == tuple(row(card) for card in range(8))


# ---------------------------------------------------------------------------------------------- Xids


def test_an_xid_and_what_it_means(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    nvml_here.xid(3, 31)  # before anybody watched
    read_until(source, all_known)
    nvml_here.xid(3, 48)
    nvml_here.xid(5, 999)
    gpus = read_until(source, lambda gpus: None not in (gpus[3].xid, gpus[5].xid))
    clock.now += 7.0
    gpus = source.read().gpus
    assert (gpus[3].xid, gpus[3].xid_text, gpus[3].xid_age_s) == (48, XIDS[48].text, 7.0)
    assert gpus[3].detail == f"Xid 48: {XIDS[48].text}"
    assert (gpus[5].xid, gpus[5].xid_text) == (999, "see NVIDIA's Xid list")
    assert {gpu.xid for gpu in gpus} == {None, 48, 999}
    assert {gpu.state for gpu in gpus} == {"ok"}


def test_the_xid_of_a_lost_card_stays_until_it_is_back(
    source: NvmlSource, nvml_here: FakeNvml, clock: Clock
) -> None:
    read_until(source, all_known)
    with nvml_here.together():
        nvml_here.xid(3, 79)
        nvml_here.xid(3, 45)  # the teardown that follows
        nvml_here.fail(3, "nvmlDeviceGetTemperature", 15)
    gpu = read_until(source, lambda gpus: gpus[3].xid == 79)[3]
    assert gpu.state == "lost"
    assert gpu.detail.endswith("; Xid 79: the GPU has fallen off the bus")
    nvml_here.heal()
    gpu = read_until(source, lambda gpus: gpus[3].state == "ok")[3]
    assert (gpu.xid, gpu.xid_text, gpu.xid_age_s, gpu.detail) == (None, "", None, "")


def test_an_endless_stream_of_xids_does_not_keep_the_lane(source: NvmlSource, nvml_here: FakeNvml) -> None:
    read_until(source, all_known)
    assert source.slow_lane.wait(20)
    with nvml_here.together():
        for _ in range(60):
            nvml_here.xid(3, 13)
    before = calls("nvmlEventSetWait_v2")
    source.read()
    assert source.slow_lane.wait(20)
    assert calls("nvmlEventSetWait_v2") - before == 7 + 32
    assert read_until(source, lambda gpus: gpus[3].xid == 13)[3].state == "ok"


def test_the_table_of_xids() -> None:
    assert {number for number, xid in XIDS.items() if xid.gravity} == FATAL_XIDS
    assert all(0 < len(xid.text) < 70 for xid in XIDS.values())
    assert xid_text(79) == XIDS[79].text
    assert graver(None, 13) == 13
    assert graver(13, 31) == 31
    assert graver(79, 45) == 79
    assert graver(79, 154) == 79
    assert graver(63, 79) == 79
    assert graver(48, 79) == 48


# --------------------------------------------------------------------------------------------- gentle


def test_the_slow_calls_keep_their_period(source: NvmlSource, nvml_here: FakeNvml, clock: Clock) -> None:
    read_until(source, all_known)
    before = {name: calls(name) for name in ("nvmlDeviceGetPcieThroughput", "nvmlDeviceGetNvLinkState")}
    for _ in range(30):
        clock.now += 1.0
        source.read()
        assert source.slow_lane.wait(20)
    assert calls("nvmlDeviceGetPcieThroughput") - before["nvmlDeviceGetPcieThroughput"] == 8 * 2 * 6
    assert calls("nvmlDeviceGetNvLinkState") - before["nvmlDeviceGetNvLinkState"] == 8 * 18 * 2


def test_everything_is_given_back(source: NvmlSource, nvml_here: FakeNvml) -> None:
    freed = calls("nvmlEventSetFree"), calls("nvmlGpmSampleFree")
    made = calls("nvmlEventSetCreate"), calls("nvmlGpmSampleAlloc")
    read_until(source, all_known)
    assert (calls("nvmlEventSetCreate") - made[0], calls("nvmlGpmSampleAlloc") - made[1]) == (8, 16)
    source.close()
    assert (calls("nvmlEventSetFree") - freed[0], calls("nvmlGpmSampleFree") - freed[1]) == (8, 16)
