"""A measured figure and the bar that it must hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    name: str
    value: float
    unit: str
    bar: float | None
    """The most that the value may be; None: printed, not judged."""
    ok: bool

    @staticmethod
    def at_most(name: str, value: float, unit: str, bar: float | None) -> Row:
        return Row(name, value, unit, bar, bar is None or value <= bar)
