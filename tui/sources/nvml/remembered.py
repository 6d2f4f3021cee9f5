"""The state file that remembers the cards of this host for the next run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui.config.state import read_json, write_json
from tui.model.text import clean

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMA = 1


class Remembered(NamedTuple):
    """A card that was there."""

    uuid: str
    name: str | None
    pci_bus_id: str | None
    seen_at: float
    """Epoch seconds."""


def read(path: Path, host: str) -> dict[str, Remembered]:
    """The cards that this host had, by UUID; none where there is no file, or it is another host's.

    A file in a home that several hosts share is the last one's: the others then miss nothing, rather than
    missing another host's cards.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not what ``write`` writes.
    """
    data = read_json(path)
    if not isinstance(data, dict) or data.get("schema") != _SCHEMA or data.get("host") != host:
        return {}
    cards = (_card(entry) for entry in data.get("gpus") or ())
    return {card.uuid: card for card in cards if card is not None}


def write(path: Path, host: str, cards: dict[str, Remembered]) -> None:
    """Put the file in place as a whole, for its owner alone.

    Raises:
        OSError: it cannot be written.
    """
    entries = [card._asdict() for card in sorted(cards.values())]
    write_json(path, {"schema": _SCHEMA, "host": host, "gpus": entries})


def _card(entry: object) -> Remembered | None:
    if not isinstance(entry, dict):
        return None
    uuid, seen_at = entry.get("uuid"), entry.get("seen_at")
    if not isinstance(uuid, str) or not uuid or not isinstance(seen_at, int | float):
        return None
    name, address = entry.get("name"), entry.get("pci_bus_id")
    return Remembered(
        clean(uuid),
        clean(name) if isinstance(name, str) else None,
        clean(address) if isinstance(address, str) else None,
        float(seen_at),
    )
