"""Every key of the screen, once: bindings, footer, help and palette are all made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Args:
        keys: Textual's names, comma separated; empty where Textual binds it itself.
        action: what it does, as an action of the main screen (``app.`` for one of the app).
        shown: how footer and help write it.
        help: what it does in words; empty where another entry says it.
        label: one word for the footer; empty: not there.
        in_palette: whether the palette offers it.
        priority: taken before any widget sees it.
    """

    keys: str
    action: str
    shown: str
    help: str
    label: str = ""
    in_palette: bool = True
    priority: bool = False


KEYS: Sequence[Key] = (
    Key("q", "app.leave", "q", "Quit; the terminal is left as it was", "quit"),
    Key("question_mark,f1", "fill('help')", "?", "This help, on and off", "help"),
    Key("tab", "next_pane(1)", "Tab", "Next pane (Shift+Tab: the one before)", "pane", False, True),
    Key("z,enter", "zoom", "z", "Fill the screen with the focused pane: more columns, history", "zoom"),
    Key("p", "pause", "p", "Freeze the picture; collection goes on", "pause"),
    Key("v", "fill('verdict')", "v", "Why this verdict: all evidence, what is not known, what to do", "why"),
    Key(
        "d",
        "app.drill('drain')",
        "d",
        "Drain test: stop an engine under load and see what it drops",
        "drain test",
    ),
    Key(
        "r", "app.drill('restart')", "r", "Restart test: end an engine and time its way back", "restart test"
    ),
    Key("g", "generate", "g", "Generate probe on or off: asks each engine for one token now and then"),
    Key("t", "app.next_theme", "t", "Next theme", "theme"),
    Key("", "app.command_palette", "^p", "Palette: every action by name", "palette", False),
    Key("plus,equals_sign", "interval(1)", "+", "Longer interval between readings"),
    Key("minus", "interval(-1)", "-", "Shorter interval between readings"),
    Key("1", "jump('verdict')", "1 .. 5", "Go to verdict, GPUs, engines, host, probes", "", False),
    Key("2", "jump('gpus')", "2", "", "", False),
    Key("3", "jump('engines')", "3", "", "", False),
    Key("4", "jump('host')", "4", "", "", False),
    Key("5", "jump('probes')", "5", "", "", False),
    Key("escape", "back", "Esc", "Back to all panes", "", False),
    Key("down,j", "scroll(1)", "Up Down", "Scroll (also k j, PgUp PgDn, Home End, the wheel)", "", False),
    Key("up,k", "scroll(-1)", "", "", "", False),
    Key("pagedown,space", "scroll_page(1)", "", "", "", False),
    Key("pageup", "scroll_page(-1)", "", "", "", False),
    Key("home", "scroll(-100000)", "", "", "", False),
    Key("end", "scroll(100000)", "", "", "", False),
    Key("shift+tab", "next_pane(-1)", "", "", "", False, True),
    Key("x", "app.demo", "x", "A simulated host to practise on, where no engine is found"),
    Key("ctrl+l", "app.redraw", "^l", "Draw everything again"),
    Key("ctrl+z", "app.suspend_process", "^z", "Suspend; fg brings it back", "", False),
)
