"""Cards that should be there: those on the PCI bus, and those that were there the last time."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui.config.state import state_dir
from tui.model.text import clean
from tui.model.units import seconds
from tui.sources.kernel.pci import AMD, INTEL, NVIDIA, PCI_DEVICES, pci_gpus
from tui.sources.kernel.procfs import read_start
from tui.sources.kernel.visibility import in_own_namespace
from tui.sources.nvml.remembered import Remembered, read, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tui.sources.kernel.pci import PciGpu

PCI_VARIABLE = "INFERTOP_PCI_DEVICES"
"""Environment variable: where sysfs's folder of PCI devices is, if not in its place (a container that has the
host's /sys elsewhere)."""
FORGET_S = 7 * 86400.0
"""A card that was taken out is missed for so long."""
REWRITE_S = 3600.0
SCAN_S = 60.0
_BRANDS = {AMD: "AMD", INTEL: "Intel"}
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look; each may be elsewhere in a container."""

    proc: str = "/proc"
    pci: str = PCI_DEVICES
    driver: str = "/proc/driver/nvidia"
    dev: str = "/dev"
    state: Path | None = None
    """The file that remembers the cards; None: nothing is remembered."""
    contained: bool = False
    """In a container: which of the host's cards are ours is somebody else's choice, and may change."""


def places_of_this_host() -> Places:
    """The usual places, as the environment has them."""
    home = state_dir()
    return Places(
        pci=os.environ.get(PCI_VARIABLE) or PCI_DEVICES,
        state=None if home is None else home / "expected-gpus.json",
        contained=in_own_namespace("/proc")
        or "KUBERNETES_SERVICE_HOST" in os.environ
        or any(Path(mark).exists() for mark in _CONTAINER_MARKS),
    )


class Absent(NamedTuple):
    """A card that should be there and is not."""

    uuid: str | None
    name: str | None
    pci_bus_id: str | None
    detail: str


class Seen(NamedTuple):
    """A card that is there."""

    uuid: str | None
    name: str | None
    pci_bus_id: str | None


class Expected:
    """What this host should have.

    Args:
        places: where to look.
        monotonic: seconds that only grow.
        wall: epoch seconds.
    """

    def __init__(
        self,
        places: Places,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.notes: tuple[str, ...] = ()
        self.places = places
        self._monotonic = monotonic
        self._wall = wall
        self._host = clean(socket.gethostname(), 64)
        self._gpus: tuple[PciGpu, ...] = ()
        self._ours: frozenset[str] = frozenset()
        self._scan_due = float("-inf")
        self._cards: dict[str, Remembered] | None = None
        self._this_run: set[str] = set()
        self._to_write: dict[str, Remembered] | None = None
        self._written: frozenset[str] = frozenset()
        self._write_due = float("-inf")

    def others(self) -> tuple[str, ...]:
        """One line for each GPU of another vendor."""
        self._scan()
        return tuple(
            f"{_BRANDS[gpu.vendor]} GPU {gpu.address} ({gpu.vendor}:{gpu.device}): present, not read"
            for gpu in self._gpus
            if gpu.vendor in _BRANDS
        )

    def unread(self) -> int:
        """NVIDIA GPUs on the bus that no other use has been found for: what a missing driver would read."""
        self._scan()
        return sum(gpu.vendor == NVIDIA and gpu.driver in (None, "nvidia", "nouveau") for gpu in self._gpus)

    def look_again(self) -> None:
        """The devices have changed: what the PCI bus said before no longer counts."""
        self._scan_due = float("-inf")

    def absent(self, counted: Iterable[Seen]) -> list[Absent]:
        """Cards that should be among those that the driver counts and are not, by PCI address."""
        self._scan()
        there = list(counted)
        addresses = {card.pci_bus_id for card in there}
        uuids = {card.uuid for card in there}
        if None in addresses:
            return []  # which of them is which cannot be told
        found = {}
        for gpu in self._gpus:
            if gpu.address in self._ours and gpu.address not in addresses:
                found[gpu.address] = Absent(
                    None, None, gpu.address, f"on the PCI bus ({gpu.address}) but not counted by the driver"
                )
        now = self._wall()
        for card in self._remembered().values():
            if card.uuid in uuids or card.pci_bus_id in addresses or now - card.seen_at > FORGET_S:
                continue  # there; or another one is in its place; or it was taken out for good
            key = card.pci_bus_id or card.uuid
            found[key] = Absent(card.uuid, card.name, card.pci_bus_id, self._where(card, now))
        return [found[key] for key in sorted(found)]

    def _where(self, card: Remembered, now: float) -> str:
        """What has become of a card that was there."""
        if card.uuid in self._this_run:
            when = "no longer counted by the driver"
        else:
            when = f"there {seconds(max(0.0, now - card.seen_at))} ago, not counted by the driver now"
        if any(gpu.address == card.pci_bus_id for gpu in self._gpus):
            return f"{when}, still on the PCI bus ({card.pci_bus_id})"
        return f"{when}, gone from the PCI bus" if Path(self.places.pci).is_dir() else when

    def remember(self, counted: Iterable[Seen]) -> None:
        """Take down who is there, for the next run; due on file when that has changed, or once an hour."""
        if self.places.state is None or self.places.contained:
            return
        now = self._wall()
        cards = self._remembered()
        uuids = set()
        for seen in counted:
            if seen.uuid is not None:
                uuids.add(seen.uuid)
                self._this_run.add(seen.uuid)
                cards[seen.uuid] = Remembered(seen.uuid, seen.name, seen.pci_bus_id, now)
        if not uuids or (uuids <= self._written and self._monotonic() < self._write_due):
            return
        for gone in [uuid for uuid, card in cards.items() if now - card.seen_at > FORGET_S]:
            del cards[gone]
        self._to_write = dict(cards)
        self._written = frozenset(uuids)
        self._write_due = self._monotonic() + REWRITE_S

    def store(self) -> None:
        """Write what is due to the state file; may be on another thread, for a home may hang."""
        cards, self._to_write = self._to_write, None
        if cards is None or self.places.state is None:
            return
        try:
            write(self.places.state, self._host, cards)
            self.notes = ()
        except OSError as error:
            self._note("cannot be written", error)

    def _remembered(self) -> dict[str, Remembered]:
        if self._cards is None:
            self._cards = {}
            if self.places.state is not None and not self.places.contained:
                try:
                    self._cards = read(self.places.state, self._host)
                except OSError as error:
                    self._note("cannot be read", error)
                except ValueError as error:
                    self._note("is damaged and will be written anew", error)
        return self._cards

    def _note(self, what: str, error: Exception) -> None:
        self.notes = (clean(f"{self.places.state} {what}: {error}"),)

    def _scan(self) -> None:
        if self._monotonic() >= self._scan_due:
            self._gpus = pci_gpus(self.places.pci)
            self._ours = frozenset(gpu.address for gpu in self._gpus if self._is_ours(gpu))
            self._scan_due = self._monotonic() + SCAN_S

    def _is_ours(self, gpu: PciGpu) -> bool:
        """Whether the driver should count it for us.

        /sys shows all of the host's cards also in a container that was given some of them, and cards that
        were given to virtual machines.
        """
        if gpu.vendor != NVIDIA:
            return False
        if gpu.driver is None:  # the driver did not take it, or has let go of it
            return not self.places.contained
        if gpu.driver != "nvidia":
            return False
        try:
            text = read_start(f"{self.places.driver}/gpus/{gpu.address}/information")
        except OSError:
            return False
        for line in text.splitlines():
            key, _, value = line.partition(b":")
            if key == b"Device Minor":
                return Path(f"{self.places.dev}/nvidia{value.strip().decode('ascii', 'replace')}").exists()
        return not self.places.contained
