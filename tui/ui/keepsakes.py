"""What the operator takes along: the verdicts as text, the screen as a picture, the theme chosen last.

All of it lies below the state directory, which may be on a file system that hangs: files are written off
the loop, on threads that end with the program.
"""

from __future__ import annotations

import os
import re
import threading
import time
from typing import TYPE_CHECKING

from tui.config.state import read_json, write_json
from tui.report.once_text import conclusions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tui.ui.view import View

VERDICT_FILE = "verdict.txt"
"""In the state directory: what was copied last."""
_CLIPBOARD_BYTES = 48_000
"""xterm takes sequences of up to 100,000 bytes and hterm some 75,000; base64 makes four bytes of three."""
_CHOICE = "screen.json"
_FONT_FACES = re.compile(r"@font-face\s*\{[^}]*\}")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


def verdict_text(view: View) -> str:
    """Host, time, and every verdict and finding with what is behind it, as plain text."""
    snapshot = view.snapshot
    clock = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(snapshot.wall))
    simulated = "  SIMULATED" if snapshot.simulated and not snapshot.simulated_engines else ""
    first = f"{snapshot.hostname or 'host'}  {clock}{simulated}"
    return "\n".join([first, *conclusions(snapshot, view.judgement)]) + "\n"


def for_clipboard(text: str) -> str:
    """Whole lines of a text, as many as every terminal takes; the last one says where the rest is."""
    if len(text.encode()) <= _CLIPBOARD_BYTES:
        return text
    head = text.encode()[:_CLIPBOARD_BYTES].decode(errors="ignore").rpartition("\n")[0]
    return f"{head}\nthe rest is in {VERDICT_FILE}\n"


def without_fonts(svg: str) -> str:
    """A picture that names no other host to load a font from."""
    return _FONT_FACES.sub("", svg)


def stamped(view: View) -> str:
    """A file name without its ending: the host and the picture's time to the second."""
    host = _UNFIT.sub("-", view.snapshot.hostname)[:60].strip(".-") or "host"
    return f"{host}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(view.snapshot.wall))}"


def keep(directory: Path | None, files: Mapping[str, str], tell: Callable[[str], None]) -> None:
    """Write files for their owner alone, in place of older ones of their names; tell where, or why not.

    Args:
        directory: made where it is missing; None: there is no state directory.
        files: texts by name.
        tell: called from the thread that writes.
    """
    if directory is None:
        tell("nowhere to write: neither HOME nor XDG_STATE_HOME is set")
        return

    def write() -> None:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, text in files.items():
                _write(directory / name, text)
        except OSError as error:
            tell(f"not written: {error.strerror or error}")
        else:
            tell(str(directory / next(iter(files))))

    threading.Thread(target=write, name="keepsakes", daemon=True).start()


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def chosen_theme(state: Path | None) -> str:
    """The theme that was chosen last; empty where none was, or that cannot be read."""
    try:
        document = None if state is None else read_json(state / _CHOICE)
    except (OSError, ValueError):
        return ""
    name = document.get("theme") if isinstance(document, dict) else None
    return name if isinstance(name, str) else ""


def remember_theme(state: Path | None, name: str) -> None:
    """Have ``chosen_theme`` say so from now on; what cannot be written lasts as long as this run."""
    if state is None:
        return

    def write() -> None:
        try:
            write_json(state / _CHOICE, {"theme": name})
        except OSError:
            return

    threading.Thread(target=write, name="theme", daemon=True).start()
