"""Cards that should be there and are not: by the PCI bus, and by what the last run saw."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.nvml_rows import Clock, fast, make_source, places, row
from tui.model.status import SourceError
from tui.sources.kernel.pci import pci_gpus
from tui.sources.nvml.expected import (
    FORGET_S,
    REWRITE_S,
    SCAN_S,
    Expected,
    Seen,
    places_of_this_host,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml
    from tui.sources.nvml.source import NvmlSource

pytest_plugins = ("tests.support.nvml_plugin",)

EPOCH = 1_700_000_000.0


class Wall(Clock):
    """The calendar."""

    def __init__(self) -> None:
        super().__init__()
        self.now = EPOCH


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def run(nvml_here: FakeNvml, clock: Clock, wall: Wall, tmp_path: Path) -> Iterator[Callable[[], NvmlSource]]:
    """Begins a run of the program on this host; the one before is over."""
    sources: list[NvmlSource] = []

    def begin() -> NvmlSource:
        if sources:
            assert sources[0].slow_lane.wait(20)  # it keeps the state file
            sources.pop().close()
        sources.append(make_source(tmp_path, clock, wall=wall))
        return sources[0]

    yield begin
    for source in sources:
        source.close()


def pci(
    folder: Path, address: str, vendor: str = "10de", kind: str = "030200", driver: str | None = None
) -> None:
    """A device on the bus."""
    device = folder / "pci" / address
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"0x{vendor}\n")
    (device / "device").write_text("0x2330\n")
    (device / "class").write_text(f"0x{kind}\n")
    if driver is not None:
        (device / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")


def driven(folder: Path, address: str, minor: int, *, node: bool = True) -> None:
    """A device that the NVIDIA driver has taken, and its node."""
    pci(folder, address, driver="nvidia")
    home = folder / "driver" / "gpus" / address
    home.mkdir(parents=True)
    (home / "information").write_text(
        f"Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n"
    )
    if node:
        (folder / "dev").mkdir(exist_ok=True)
        (folder / "dev" / f"nvidia{minor}").touch()


def address(card: int) -> str:
    return f"0000:{0x10 + card:02x}:00.0"


# --------------------------------------------------------------------------------------------- the bus


def test_a_card_on_the_bus_that_is_not_counted(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, clock: Clock, tmp_path: Path
) -> None:
    for card in range(8):
        driven(tmp_path, address(card), card)
    nvml_here.cards([0, 1, 2, 4, 5, 6, 7])
    source = run()
    gpus = source.read().gpus
    assert [fast(gpu) for gpu in gpus[:7]] == [
        replace(row(card), index=index) for index, card in enumerate([0, 1, 2, 4, 5, 6, 7])
    ]
    lost = gpus[7]
    assert (lost.index, lost.state, lost.reason, lost.pci_bus_id) == (7, "lost", "lost", address(3))
    assert lost.detail == f"on the PCI bus ({address(3)}) but not counted by the driver"
    assert (lost.uuid, lost.stale_s) == (None, None)
    nvml_here.count(8)  # it is found again, and is the one that was missed
    gpus = source.read().gpus
    assert [(gpu.index, gpu.state) for gpu in gpus] == [(index, "ok") for index in range(8)]
    assert fast(gpus[7]) == replace(row(3), index=7)


def test_a_card_that_no_driver_took(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, tmp_path: Path
) -> None:
    nvml_here.count(1)
    driven(tmp_path, address(0), 0)
    pci(tmp_path, address(1))
    gpus = run().read().gpus
    assert [(gpu.state, gpu.pci_bus_id) for gpu in gpus] == [("ok", address(0)), ("lost", address(1))]


def test_no_card_at_all_is_counted(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, tmp_path: Path
) -> None:
    nvml_here.count(0)
    for card in range(3):
        driven(tmp_path, address(card), card)
    assert [(gpu.index, gpu.state) for gpu in run().read().gpus] == [(0, "lost"), (1, "lost"), (2, "lost")]


def test_cards_that_are_not_ours_to_miss(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, tmp_path: Path
) -> None:
    nvml_here.count(1)
    driven(tmp_path, address(0), 0)
    pci(tmp_path, "0000:a0:00.0", driver="vfio-pci")  # given to a virtual machine
    pci(tmp_path, "0000:a1:00.0", driver="nvidia")  # another container's: the driver does not show it here
    driven(tmp_path, "0000:a2:00.0", 5, node=False)  # another container's: no node
    pci(tmp_path, "0000:a3:00.0", kind="068000")  # a switch
    pci(tmp_path, "0000:a3:00.1", kind="040300")  # sound
    pci(tmp_path, "0000:a4:00.0", vendor="1a03", kind="030000")  # the board's VGA
    assert [fast(gpu) for gpu in run().read().gpus] == [row(0)]


def test_a_container_misses_nothing_that_no_driver_took(tmp_path: Path) -> None:
    pci(tmp_path, address(1))
    expected = Expected(replace(places(tmp_path), contained=True))
    assert expected.absent([Seen("GPU-0", "H100", address(0))]) == []
    expected.remember([Seen("GPU-0", "H100", address(0))])
    expected.store()
    assert not (tmp_path / "state").exists()


def test_a_card_without_an_address_rules_nothing_out(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, tmp_path: Path
) -> None:
    driven(tmp_path, address(0), 0)
    nvml_here.fail(3, "nvmlDeviceGetPciInfo_v3", 3)
    nvml_here.cards([3])
    assert len(run().read().gpus) == 1


def test_other_vendors_are_named(run: Callable[[], NvmlSource], nvml_here: FakeNvml, tmp_path: Path) -> None:
    pci(tmp_path, "0000:03:00.0", vendor="1002", kind="038000", driver="amdgpu")
    pci(tmp_path, "0000:00:02.0", vendor="8086", kind="030000", driver="i915")
    reading = run().read()
    assert reading.other_gpus == (
        "Intel GPU 0000:00:02.0 (8086:2330): present, not read",
        "AMD GPU 0000:03:00.0 (1002:2330): present, not read",
    )
    assert len(reading.gpus) == 8


@pytest.mark.parametrize("code", [9, 12])
def test_no_driver_but_gpus(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, tmp_path: Path, code: int
) -> None:
    pci(tmp_path, address(0))
    pci(tmp_path, address(1), driver="nouveau")
    pci(tmp_path, address(2), driver="vfio-pci")
    pci(tmp_path, "0000:03:00.0", vendor="1002", kind="038000")
    nvml_here.fail(None, "nvmlInitWithFlags", code)
    with pytest.raises(SourceError) as caught:
        run().read()
    assert caught.value.reason == "no_driver"
    assert not caught.value.unsupported  # a driver may be loaded yet
    assert "2 NVIDIA GPUs are on the PCI bus" in caught.value.detail
    assert "AMD GPU 0000:03:00.0" in caught.value.detail


def test_no_gpu_and_no_driver(run: Callable[[], NvmlSource], nvml_here: FakeNvml) -> None:
    nvml_here.fail(None, "nvmlInitWithFlags", 12)
    with pytest.raises(SourceError) as caught:
        run().read()
    assert caught.value.unsupported
    assert "PCI" not in caught.value.detail


def test_the_bus_is_looked_at_again_once_a_minute(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, clock: Clock, tmp_path: Path
) -> None:
    source = run()
    source.read()
    source.read()
    pci(tmp_path, "0000:03:00.0", vendor="1002", kind="038000")
    assert source.read().other_gpus == ()
    clock.now += SCAN_S
    assert len(source.read().other_gpus) == 1


def test_broken_entries_on_the_bus(tmp_path: Path) -> None:
    pci(tmp_path, address(0))
    (tmp_path / "pci" / "0000:aa:00.0").mkdir()
    pci(tmp_path, address(1))
    (tmp_path / "pci" / address(1) / "class").unlink()
    assert [gpu.address for gpu in pci_gpus(str(tmp_path / "pci"))] == [address(0)]
    assert pci_gpus(str(tmp_path / "none")) == ()


# ------------------------------------------------------------------------------------------ the last run


def test_a_card_that_the_last_run_saw(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, wall: Wall, tmp_path: Path
) -> None:
    for card in range(8):
        if card != 3:
            driven(tmp_path, address(card), card)
    run().read()
    nvml_here.cards([0, 1, 2, 4, 5, 6, 7])
    wall.now += 7200.0
    gpus = run().read().gpus
    assert len(gpus) == 8
    lost = gpus[7]
    assert (lost.state, lost.reason, lost.uuid, lost.name) == ("lost", "lost", row(3).uuid, row(3).name)
    assert lost.detail == "there 2.0h ago, not counted by the driver now, gone from the PCI bus"
    wall.now += FORGET_S
    assert len(run().read().gpus) == 7


def test_a_card_that_goes_in_mid_run_is_still_on_the_bus(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, tmp_path: Path
) -> None:
    for card in range(8):
        driven(tmp_path, address(card), card)
    source = run()
    source.read()
    nvml_here.cards([0, 1, 2, 4, 5, 6, 7])
    gpus = source.read().gpus
    assert gpus[3].detail == f"no longer counted by the driver, still on the PCI bus ({address(3)})"
    assert (gpus[3].index, gpus[3].uuid) == (3, row(3).uuid)


def test_a_card_in_place_of_another_is_not_missed(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, tmp_path: Path
) -> None:
    run().read()
    nvml_here.set(3, "uuid", "GPU-new")
    gpus = run().read().gpus
    assert [gpu.state for gpu in gpus] == ["ok"] * 8
    assert gpus[3].uuid == "GPU-new"


def test_the_state_file(
    run: Callable[[], NvmlSource], nvml_here: FakeNvml, clock: Clock, wall: Wall, tmp_path: Path
) -> None:
    source = run()
    source.read()
    assert source.slow_lane.wait(20)
    file = tmp_path / "state" / "expected-gpus.json"
    data = json.loads(file.read_text())
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert data["schema"] == 1
    assert data["gpus"][3] == {
        "uuid": row(3).uuid,
        "name": row(3).name,
        "pci_bus_id": address(3),
        "seen_at": EPOCH,
    }
    assert list(file.parent.iterdir()) == [file]
    written = file.stat().st_mtime_ns
    wall.now += 10.0
    clock.now += 10.0
    source.read()
    assert source.slow_lane.wait(20)
    assert file.stat().st_mtime_ns == written  # nothing has changed
    wall.now += REWRITE_S
    clock.now += REWRITE_S
    source.read()
    assert source.slow_lane.wait(20)
    assert json.loads(file.read_text())["gpus"][0]["seen_at"] == wall.now


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"schema": 2}', '{"schema": 1, "host": "another", "gpus": [{"uuid": "GPU-x", "seen_at": 9e9}]}',
     '{"schema": 1, "gpus": 7}', "\udcff"],
)  # fmt: skip
def test_a_state_file_that_says_nothing(run: Callable[[], NvmlSource], tmp_path: Path, text: str) -> None:
    file = tmp_path / "state" / "expected-gpus.json"
    file.parent.mkdir()
    file.write_text(text, errors="surrogateescape")
    source = run()
    assert [fast(gpu) for gpu in source.read().gpus] == [row(card) for card in range(8)]
    assert source.slow_lane.wait(20)
    assert len(json.loads(file.read_text())["gpus"]) == 8
    assert source.read().notes == ()


def test_a_state_folder_that_cannot_be_written(run: Callable[[], NvmlSource], tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in its place")
    source = run()
    source.read()
    assert source.slow_lane.wait(20)
    reading = source.read()
    assert [gpu.state for gpu in reading.gpus] == ["ok"] * 8
    assert len(reading.notes) == 1
    assert "expected-gpus.json cannot be written" in reading.notes[0]


def test_the_places_of_this_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("INFERTOP_PCI_DEVICES", "/elsewhere")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    found = places_of_this_host()
    assert (found.state, found.pci) == (tmp_path / "infertop" / "expected-gpus.json", "/elsewhere")
    assert found.contained
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # to be ignored, by the specification
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("INFERTOP_PCI_DEVICES")
    found = places_of_this_host()
    assert found.state == tmp_path / "home" / ".local" / "state" / "infertop" / "expected-gpus.json"
    assert os.fspath(found.pci) == "/sys/bus/pci/devices"
