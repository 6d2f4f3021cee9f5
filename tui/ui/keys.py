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
        help: what it does in words, for the help; empty where another entry's words say it.
        label: one word for the footer; empty: not there.
        title: how the palette calls it, where ``help`` does not do.
        alone: how the palette writes the key, where ``shown`` stands for several.
        priority: taken before any widget sees it.
    """

    keys: str
    action: str
    shown: str
    help: str
    label: str = ""
    title: str = ""
    priority: bool = False
    alone: str = ""


KEYS: Sequence[Key] = (
    Key("q", "app.leave", "q", "Quit; the terminal is left as it was", "quit"),
    Key("question_mark,f1", "fill('help')", "?", "This help, on and off (also F1)", "help", "Help"),
    Key("tab", "next_pane(1)", "Tab", "Next pane (Shift+Tab: the one before)", "pane", "Next pane", True),
    Key("z,enter", "zoom", "z", "The focused pane in full (also Enter)", "zoom"),
    Key("p", "pause", "p", "Freeze the picture; collection goes on", "pause"),
    Key("space", "mark", "Space", "Mark this moment by a number, on the strip and on every chart"),
    Key("v", "fill('verdict')", "v", "Why this verdict: every rule with its figures and limits", "why"),
    Key(
        "n",
        "next_scope(1)",
        "n N",
        "In there: the next engine, the one before (also Tab)",
        "",
        "Why: the next engine",
        alone="n",
    ),
    Key("N", "next_scope(-1)", "N", "", "", "Why: the engine before"),
    Key("slash", "filter", "/", "Filter rows of engines, their probes, and GPUs (Esc: all)", "filter"),
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
    Key("y", "app.copy", "y", "Copy the verdicts: clipboard and a file", "copy"),
    Key("s", "app.save", "s", "Save the screen as SVG and text", "save"),
    Key("t", "app.next_theme", "t", "Next theme; it is remembered", "theme"),
    Key("", "app.command_palette", "^p", "Palette: every action by name", "palette"),
    Key("plus,equals_sign", "interval(1)", "+", "Longer interval between readings (also =)"),
    Key("minus", "interval(-1)", "-", "Shorter interval between readings"),
    Key(
        "1",
        "jump('verdict')",
        "1 .. 5",
        "Go to verdict, GPUs, engines, host, probes",
        "",
        "Go to the verdict",
        alone="1",
    ),
    Key("2", "jump('gpus')", "2", "", "", "Go to the GPUs"),
    Key("3", "jump('engines')", "3", "", "", "Go to the engines"),
    Key("4", "jump('host')", "4", "", "", "Go to the host"),
    Key("5", "jump('probes')", "5", "", "", "Go to the probes"),
    Key("escape", "back", "Esc", "All rows again; back to all panes"),
    Key(
        "down,j",
        "scroll(1)",
        "Up Down",
        "Scroll the focused pane (also k j, the wheel)",
        "",
        "Scroll down",
        alone="Down",
    ),
    Key("up,k", "scroll(-1)", "Up", "", "", "Scroll up"),
    Key("pagedown", "scroll_page(1)", "PgUp PgDn", "Scroll a page", "", "Page down", alone="PgDn"),
    Key("pageup", "scroll_page(-1)", "PgUp", "", "", "Page up"),
    Key(
        "home",
        "scroll(-100000)",
        "Home End",
        "To the first or the last line",
        "",
        "To the first line",
        alone="Home",
    ),
    Key("end", "scroll(100000)", "End", "", "", "To the last line"),
    Key("shift+tab", "next_pane(-1)", "Shift+Tab", "", "", "The pane before", True),
    Key("x", "app.demo", "x", "A simulated host to practise on, where no engine is found"),
    Key("ctrl+l", "app.redraw", "^l", "Draw everything again"),
    Key("ctrl+z", "app.suspend_process", "^z", "Suspend; fg brings it back"),
)
