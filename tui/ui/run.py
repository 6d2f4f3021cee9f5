"""Runs the screen, and leaves the terminal as it was found."""

from __future__ import annotations

import contextlib
import gc
import locale
import os
import select
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tui.ui.app import DEMO, MonitorApp, ScreenOptions

if TYPE_CHECKING:
    from tui.model.settings import Config
    from tui.ui.feed import Feed

_OFF = (1000, 1002, 1003, 1015, 1016, 1006, 1004, 2004, 2048)
"""Private modes: mouse reports in all their forms, focus reports, bracketed paste, resize reports."""
AFTERCARE = "".join(f"\x1b[?{mode}l" for mode in _OFF) + "\x1b[?7h\x1b[?25h\x1b[0m"
"""Those off; autowrap and cursor on; no style."""


_GC_ALLOCATIONS = 10_000
"""Between two looks for garbage, instead of 700: a picture of eight cards makes some thousand objects."""


class Left(NamedTuple):
    """How the operator left the screen."""

    status: int
    """The exit status: 0, or 1 after a fault in the program itself."""
    wants_demo: bool = False
    """The simulated host is to be shown instead."""


def run_screen(feed: Feed, config: Config, options: ScreenOptions | None = None) -> Left:
    """Show the live screen until the operator leaves.

    Args:
        feed: what is shown; it is started and stopped here.
        config: the settings in force.
        options: about this terminal; by default what the environment says.
    """
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)  # what an ancestor exported outlives the next resize; the terminal knows
    options = options or ScreenOptions.here()
    if not _unicode() or os.environ.get("TERM") == "linux":  # the console's font has neither dots nor bars
        config = replace(config, screen=replace(config.screen, ascii=True))
    app = MonitorApp(feed, config, options)
    # what the start has made lives to the end: looking through it again and again cost 8 % of the CPU time
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_ALLOCATIONS, *gc.get_threshold()[1:])
    try:
        app.run(mouse=options.mouse)
    finally:
        _care_for_terminal()
    return Left(app.return_code or 0, wants_demo=app.return_value == DEMO)


def _unicode() -> bool:
    return locale.getpreferredencoding(do_setlocale=False).lower().replace("-", "") == "utf8"


def _care_for_terminal() -> None:
    """Switch off once more what a terminal may have missed while it was being left (textual#4418)."""
    with contextlib.suppress(OSError):  # it may be gone
        # one that takes nothing would hold the program for ever
        if os.isatty(1) and select.select([], [1], [], 0)[1]:
            os.write(1, AFTERCARE.encode())
