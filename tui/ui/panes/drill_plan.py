"""The dialog before a test: what would be done to whom, what speaks against it, and what has to be typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tui.ui.lines import Line, Span, cut, folded, narrow, width
from tui.ui.sheet import SheetKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.actions.plan import TestKind
    from tui.ui.lines import Role

Control = Literal["cancel", "engine", "mode", "kill", "traffic", "type", "start"]

LABEL = 18
WIDE = 56
"""From here on labels have a column of their own."""
_LONGEST = 4000
"""The pids of a large engine are one line of the plan."""
# with the options that refusals and plans speak of
_BOXES: dict[str, tuple[str, str]] = {
    "kill": (
        "SIGKILL to what has not ended after the grace period (--kill-after-grace)",
        "SIGKILL after grace",
    ),
    "traffic": ("go on with requests of others in flight (--with-traffic)", "go on with others in flight"),
}


@dataclass(frozen=True, slots=True)
class PlanSheet:
    """The dialog at one instant."""

    test: TestKind
    engine: str
    """Kind and address of the engine."""
    controls: tuple[Control, ...]
    """Those that there are, in order."""
    focus: Control
    plan: tuple[tuple[str, str], ...] = ()
    """Rows of the plan; empty while there is none."""
    wanted: str = ""
    """What has to be typed."""
    typed: str = ""
    ticked: frozenset[Control] = frozenset()
    mode: str = ""
    engines: int = 1
    refused: tuple[str, ...] = ()
    busy: str = ""
    """What is waited for."""
    said: str = ""
    """The answer to the last key."""

    def title(self) -> Line:
        """Which test of what."""
        return (Span(f"{self.test.upper()} TEST", "title"), Span(" "), Span(self.engine, "value"))

    def head(self, size: int) -> list[Line]:
        """What is waited for, or what speaks against it."""
        if self.busy:
            return [(Span(self.busy, "notice"),)]
        lines: list[Line] = []
        for why in self.refused:
            for index, text in enumerate(folded(narrow(why, 1000), size - 9)):
                lines.append((Span("refused  " if index == 0 else " " * 9, "hot"), Span(text, "warn")))
        return lines

    def body(self, size: int) -> list[Line]:
        """The plan, whole; what must not be overlooked on a small screen comes first."""
        lines: list[Line] = []
        for label, text in _weighed(self.plan):
            role: Role = "warn" if label == "warning" else "value" if label in _FIRST else "text"
            lines += _row(label, text, role, size)
        return lines

    def foot(self, size: int) -> list[Line]:
        """Boxes, the line to type into, and the buttons."""
        lines = [self._choice(control, size) for control in self.controls if control in ("engine", "mode")]
        lines += [self._box(control, size) for control in self.controls if control in _BOXES]
        if "type" in self.controls:
            lines.append(self._typing(size))
        return [*lines, self._buttons(size)]

    def keys(self) -> Sequence[SheetKey]:
        """Of the dialog."""
        keys = [SheetKey("Esc", "cancel", "leave"), SheetKey("Tab", "next", "step(1)")]
        if self.plan:
            keys.append(SheetKey("Up Down", "scroll", "scroll(1)"))
        if "start" in self.controls:
            keys.append(SheetKey("Enter", "start, once it is typed", "press('start')"))
        return keys

    def _mark(self, control: Control) -> Span:
        return Span("▸ " if self.focus == control else "  ", "focus")

    def _role(self, control: Control) -> Role:
        return "focus" if self.focus == control else "text"

    def _choice(self, control: Control, size: int) -> Line:
        shown = self.engine if control == "engine" else self.mode
        more = f"   one of {self.engines}" if control == "engine" else ""
        keys = "  Left Right: another" if self.focus == control else ""
        name = control.ljust(9)
        text = Span(f"< {cut(shown, size - 15)} >", "value", f"press('{control}')")
        return (self._mark(control), Span(name, "label"), text, Span(f"{more}{keys}", "muted"))

    def _box(self, control: Control, size: int) -> Line:
        long, short = _BOXES[control]
        tick = "x" if control in self.ticked else " "
        text = long if len(long) + 6 <= size else short
        role: Role = "notice" if control in self.ticked else self._role(control)
        return (self._mark(control), Span(f"[{tick}] {text}", role, f"press('{control}')"))

    def _typing(self, size: int) -> Line:
        role = self._role("type")
        asks: Line = (self._mark("type"), Span("type ", role), Span(self.wanted, "value"), Span(": ", role))
        room = size - width(asks) - 1
        typed = narrow(self.typed)[-max(0, room) :] if room > 0 else ""
        match: Role = "calm" if self.typed == self.wanted else "key"
        cursor = Span("█" if self.focus == "type" else "_", "muted", "press('type')")
        return (*asks, Span(typed, match, "press('type')"), cursor)

    def _buttons(self, size: int) -> Line:
        cancel: Line = (
            self._mark("cancel"),
            Span("[ Cancel ]", self._role("cancel"), "press('cancel')"),
            Span("  "),
        )
        if "start" not in self.controls:
            return (*cancel, Span(narrow(self.said), "warn"))
        ready = self.typed == self.wanted
        role: Role = "notice" if ready else "muted"
        text = f"[ Start the {self.test} test ]" if size >= 44 else "[ Start it ]"
        line = (*cancel, self._mark("start"), Span(text, role, "press('start')"))
        said = cut(narrow(self.said), size - width(line) - 2)
        return (*line, Span("  "), Span(said, "warn"))


_FIRST = ("warning", "stopped by", "started again by", "grace", "others' requests", "process", "unit")


def _weighed(plan: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The rows by weight; those without a label stay behind theirs, and what has to be typed stands below."""
    blocks: list[list[tuple[str, str]]] = []
    for label, text in plan:
        if label or not blocks:
            blocks.append([])
        blocks[-1].append((label, text))
    ranks = {label: rank for rank, label in enumerate(_FIRST)}
    blocks.sort(key=lambda block: ranks.get(block[0][0], len(_FIRST)))
    return [row for block in blocks for row in block if row[0] != "to confirm"]


def _row(label: str, text: str, role: Role, size: int) -> list[Line]:
    """One row of the plan, its text folded behind the label, or below it where there is little room."""
    if size >= WIDE:
        return [
            (Span((label if index == 0 else "").ljust(LABEL), "label"), Span(part, role))
            for index, part in enumerate(folded(narrow(text, _LONGEST), size - LABEL))
        ]
    parts = folded(narrow(f"{label}: {text}" if label else text, _LONGEST), size - 2)
    lines: list[Line] = []
    for index, part in enumerate(parts):
        if index == 0 and label and part.startswith(label):
            lines.append((Span(label, "label"), Span(part[len(label) :], role)))
        else:
            lines.append((Span("  "), Span(part, role)))
    return lines
