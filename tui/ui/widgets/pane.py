"""The widget that shows a pane's lines: it keeps the strip of every line and repaints only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.ui.glyphs import glyphs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.style import Style
    from textual import events

    from tui.ui.layout import Box
    from tui.ui.lines import Line, Role
    from tui.ui.pen import Pen
    from tui.ui.view import PaneName


class Pane(Widget):
    """Fixed lines at a fixed place. It decides nothing: what it shows was made elsewhere."""

    DEFAULT_CSS = "Pane { position: absolute; }"
    ALLOW_SELECT = False

    class Clicked(Message):
        """A click on the pane, with the action of the text under it."""

        def __init__(self, pane: PaneName, action: str, double: bool) -> None:
            super().__init__()
            self.pane = pane
            self.action = action
            self.double = double

    class Wheeled(Message):
        """The wheel turned over the pane, by so many lines."""

        def __init__(self, lines: int) -> None:
            super().__init__()
            self.lines = lines

    def __init__(self, pane: PaneName) -> None:
        super().__init__(id=pane)
        self._pane = pane
        self._box: Box | None = None
        self._lines: list[Line] = []
        self._strips: list[Strip | None] = []
        """Made when Textual asks for them."""
        self._styles_by_role: Mapping[Role, Style] = {}
        self.display = False

    def place(self, box: Box | None) -> bool:
        """Stand there, or nowhere; whether that is another place than before."""
        if box == self._box:
            return False
        self._box = box
        self.display = box is not None
        if box is not None:
            self.styles.offset = (box.x, box.y)
            self.styles.width = box.width
            self.styles.height = box.height
        return True

    def show(self, lines: list[Line], styles: Mapping[Role, Style], pen: Pen | None = None) -> None:
        """Show these lines, each as wide as the pane; an equal line costs nothing.

        Args:
            lines: as many as the pane is high.
            styles: how each role looks.
            pen: writes what changed past Textual, which has nothing else to paint; None: through it.
        """
        before, box = self._lines, self._box
        if styles is not self._styles_by_role or len(lines) != len(before) or box is None:
            self._styles_by_role = styles
            self._lines = lines
            self._strips = [None] * len(lines)
            self.refresh()
            return
        changed = [y for y, line in enumerate(lines) if line != before[y]]
        if not changed:
            return
        for y in changed:
            self._strips[y] = None
        self._lines = lines
        if pen is None:
            self.refresh(*(Region(0, y, box.width, 1) for y in changed))
            return
        for y in changed:
            pen.line(box.y + y, box.x, before[y], lines[y])

    def _kept(self, y: int) -> Strip:
        strip = self._strips[y]
        if strip is None:
            strip = self._strips[y] = self._strip(self._lines[y])
        return strip

    def _strip(self, line: Line) -> Strip:
        styles = self._styles_by_role
        segments: list[Segment] = []
        text, role = "", None
        for span in line:
            if span.role != role and text:
                segments.append(Segment(glyphs(text), styles[role]))  # type: ignore[index]
                text = ""
            text += span.text
            role = span.role
        if text:
            segments.append(Segment(glyphs(text), styles[role]))  # type: ignore[index]
        return Strip(segments, sum(len(span.text) for span in line))

    def render_lines(self, crop: Region) -> list[Strip]:
        """The kept strips as they are; Textual would rebuild each for borders that are not there."""
        strips = [
            self._kept(y) if y < len(self._strips) else Strip.blank(self.size.width)
            for y in range(crop.y, crop.bottom)
        ]
        if crop.x == 0 and crop.width == self.size.width:
            return strips
        return [strip.crop(crop.x, crop.right) for strip in strips]

    def on_click(self, event: events.Click) -> None:
        """Tell the screen what was hit."""
        event.stop()
        action = ""
        if event.y < len(self._lines):
            x = 0
            for span in self._lines[event.y]:
                if x <= event.x < x + len(span.text):
                    action = span.action
                    break
                x += len(span.text)
        self.post_message(self.Clicked(self._pane, action, event.chain == 2))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll a filled screen."""
        event.stop()
        self.post_message(self.Wheeled(3))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll a filled screen."""
        event.stop()
        self.post_message(self.Wheeled(-3))
