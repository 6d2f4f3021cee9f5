"""The command palette: Textual's, at rest while nobody types, and not to be upset by a double click."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette
from textual.widgets import Input, OptionList

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.message import Message


class _Entries(CommandList):
    """Textual's raises IndexError, which ends the program, where an entry is clicked as the list shrinks."""

    def on_click(self, event: events.Click) -> None:
        """Pass over a click on what is no longer there."""
        index = event.style.meta.get("option")
        if index is not None and index >= self.option_count:
            event.prevent_default()
            event.stop()  # else it is one beside the list, which closes it


class Palette(CommandPalette):
    """Takes one entry, once: Textual's closes again for a second click or Enter, which ends the program."""

    # entries of no width at all, as on a screen of 3 columns, end the program in Textual's wrapping
    CSS = "Palette CommandList { min-width: 8; }"

    def __init__(self) -> None:
        super().__init__()
        self._choice: Message | None = None
        self._over = False

    def on_mount(self) -> None:
        """A blinking cursor is traffic on an idle screen."""
        self.query_one(Input).cursor_blink = False

    def compose(self) -> ComposeResult:
        """As Textual's, with a list of our own."""
        for widget in super().compose():
            yield _Entries() if type(widget) is CommandList else widget

    def check_message_enabled(self, message: Message) -> bool:
        """No second choice."""
        if isinstance(message, OptionList.OptionSelected):
            self._choice = self._choice or message
            if message is not self._choice:
                return False
        return super().check_message_enabled(message)

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Leave, once."""
        if self._over:
            return AwaitComplete()
        self._over = True
        return super().dismiss(result)
