"""Display-class devices on the PCI bus, from sysfs."""

from __future__ import annotations

import os
from typing import NamedTuple

from tui.sources.kernel.procfs import link, read_start

PCI_DEVICES = "/sys/bus/pci/devices"

NVIDIA, AMD, INTEL = "10de", "1002", "8086"
_VENDORS = {f"0x{vendor}".encode(): vendor for vendor in (NVIDIA, AMD, INTEL)}


class PciGpu(NamedTuple):
    """One device of class 03xx (VGA, 3D or other display controller)."""

    address: str
    """E.g. ``0000:17:00.0``."""
    vendor: str
    """Four hexadecimal digits."""
    device: str
    driver: str | None
    """The kernel driver bound to it; None where there is none."""


def pci_gpus(folder: str = PCI_DEVICES) -> tuple[PciGpu, ...]:
    """GPUs of NVIDIA, AMD and Intel by address; none where the bus cannot be read.

    Args:
        folder: sysfs's folder of PCI devices.
    """
    try:
        addresses = sorted(os.listdir(folder))  # noqa: PTH208 names are all that is wanted
    except OSError:
        return ()
    found = (_gpu(folder, address) for address in addresses)
    return tuple(gpu for gpu in found if gpu is not None)


def _gpu(folder: str, address: str) -> PciGpu | None:
    path = f"{folder}/{address}"
    try:
        vendor = _VENDORS.get(read_start(f"{path}/vendor", 16).strip())
        if vendor is None or not read_start(f"{path}/class", 16).startswith(b"0x03"):
            return None
        device = read_start(f"{path}/device", 16).strip().decode("ascii", "replace").removeprefix("0x")
    except OSError:  # taken out while we looked
        return None
    try:
        driver: str | None = link(f"{path}/driver").rpartition("/")[2]
    except OSError:
        driver = None
    return PciGpu(address, vendor, device, driver)
