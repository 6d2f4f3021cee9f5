"""A page about one test that fills the screen in place of a pane: what it shows, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.ui.lines import Line


class SheetKey(NamedTuple):
    """A key of the page, for the footer."""

    shown: str
    label: str
    action: str


class Sheet(Protocol):
    """Between two parts that always stand, one that scrolls; each as many lines as it takes."""

    def title(self) -> Line:
        """Of the frame."""

    def head(self, size: int) -> list[Line]:
        """Above what scrolls, in lines of at most so many cells."""

    def body(self, size: int) -> list[Line]:
        """What scrolls."""

    def foot(self, size: int) -> list[Line]:
        """Below it; on a small screen it stands before all else."""

    def keys(self) -> Sequence[SheetKey]:
        """The most needed first."""
