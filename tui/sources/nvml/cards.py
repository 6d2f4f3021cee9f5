"""The cards of this host over the run, known by their UUIDs: who answers is matched with who was there."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from tui.sources.nvml.card import Card
from tui.sources.nvml.errors import device_words
from tui.sources.nvml.expected import Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tui.model.readings import GpuReading, GpuState
    from tui.sources.kernel.visibility import Visibility
    from tui.sources.nvml.device import Device
    from tui.sources.nvml.expected import Absent, Expected
    from tui.sources.nvml.side import SideDevice


class Cards:
    """All cards that were counted or expected in this run.

    Args:
        expected: what this host should have.
        sight: what can be seen of this host's processes.
    """

    def __init__(self, expected: Expected, sight: Visibility) -> None:
        self._expected = expected
        self._cards: list[Card] = []
        self._of: dict[Device, Card] = {}
        self._matched: tuple[tuple[Device, str | None], ...] = ()
        self._at: dict[int, Card] = {}
        self._sight = sight

    def rows(
        self,
        devices: Sequence[Device],
        held: Mapping[Device, str],
        side: Callable[[Device], SideDevice | None],
        side_problem: str,
        now: float,
    ) -> tuple[GpuReading, ...]:
        """A row for each card, counted or not, by index; those of MIG instances after their card's.

        Args:
            devices: what NVML counts, in its order; asked just now.
            held: devices that hold a call, and what it is.
            side: the slow figures of a device.
            side_problem: why slow figures that are not there are not.
            now: monotonic seconds.
        """
        self._match(devices)
        of_cards: dict[Card, list[GpuReading]] = {}
        for device in devices:
            card, slow = self._of[device], side(device)
            card.introduce(device.uuid, device.name, device.pci_bus_id)
            while slow is not None and slow.xids:
                card.note_xid(slow.xids.popleft(), now)
            if device in held:
                of_cards[card] = card.bad("error", "stuck", held[device], now)
            elif (failure := device.found.failure) is not None:
                state: GpuState = "lost" if failure.reason == "lost" else "error"
                of_cards[card] = card.bad(state, failure.reason, device_words(failure), now)
            else:
                found = slow.found if slow is not None else None
                of_cards[card] = card.good(device.found, found, side_problem, self._sight, now)
        seen = [Seen(card.uuid, card.name, card.pci_bus_id) for card in of_cards]
        for card, detail in self._absent(seen, of_cards.keys()):
            of_cards[card] = card.bad("lost", "lost", detail, now)
        self._expected.remember(seen)
        return tuple(row for card in sorted(of_cards, key=_index) for row in of_cards[card])

    def _match(self, devices: Sequence[Device]) -> None:
        """Find the card of each device: by UUID, by PCI address, and where it cannot tell, by its place."""
        now = tuple((device, device.uuid) for device in devices)
        if now == self._matched:
            return
        self._expected.look_again()
        uuids = {device.uuid for device in devices}
        before, self._of = self._of, {}
        for device in devices:
            own = before.get(device)
            card = self._known(device) or (own if own is not None and own.uuid is None else None)
            if card is None and device.uuid is None:
                card = self._at.get(device.position)
                if card is not None and card.uuid is not None and card.uuid in uuids:
                    card = None  # it is another device now
            if card is None or card in self._of.values():
                card = self._new(device.position)
            self._of[device] = card
        self._matched = now
        self._at = {device.position: card for device, card in self._of.items()}

    def _known(self, device: Device) -> Card | None:
        address = device.pci_bus_id
        for card in self._cards:
            if device.uuid is not None and card.uuid == device.uuid:
                return card
        for card in self._cards:  # one of the two has not told its UUID: not yet, or in this session
            if address is not None and card.pci_bus_id == address and None in (card.uuid, device.uuid):
                return card
        return None

    def _new(self, position: int) -> Card:
        taken = {card.index for card in self._cards}
        index = position if position not in taken else next(i for i in count() if i not in taken)
        card = Card(index)
        self._cards.append(card)
        return card

    def _absent(self, seen: Sequence[Seen], counted: Collection[Card]) -> list[tuple[Card, str]]:
        """Cards that are not counted, and why they should be."""
        details: dict[Card, str] = {}
        for absent in self._expected.absent(seen):
            card = next((c for c in self._cards if c not in counted and _same(c, absent)), None)
            if card is None:
                card = self._new(len(self._cards))
                card.introduce(absent.uuid, absent.name, absent.pci_bus_id)
            details[card] = absent.detail
        # one that never told who it is, or that nobody expects any more, leaves nothing to show
        self._cards = [
            card
            for card in self._cards
            if card in counted or card in details or (card.ever_good and card.uuid is not None)
        ]
        return [
            (card, details.get(card, "no longer counted by the driver"))
            for card in self._cards
            if card not in counted
        ]


def _index(card: Card) -> int:
    return card.index


def _same(card: Card, absent: Absent) -> bool:
    if absent.uuid is not None and card.uuid is not None:
        return card.uuid == absent.uuid
    return card.pci_bus_id is not None and card.pci_bus_id == absent.pci_bus_id
