"""The Textual application: the monitor and the pages over it, themes, signals, and the feed's life."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import os
import signal
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import rich
from rich.console import Console
from rich.segment import Segments
from rich.traceback import Traceback
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.constants import COLOR_SYSTEM
from textual.worker import Worker, WorkerState

from tui.config.state import state_dir
from tui.model.text import clean
from tui.sources.deadline import within
from tui.ui import themes
from tui.ui.drills import Drills
from tui.ui.driver import CellDriver, driver_class
from tui.ui.keepsakes import (
    VERDICT_FILE,
    chosen_theme,
    for_clipboard,
    keep,
    remember_theme,
    stamped,
    verdict_text,
    without_fonts,
)
from tui.ui.keys import KEYS
from tui.ui.main_screen import MainScreen
from tui.ui.palette import Palette
from tui.ui.pane_screen import PaneScreen
from tui.ui.words import title

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from pathlib import Path

    from rich.style import Style
    from textual import events
    from textual.screen import Screen

    from tui.actions.plan import TestKind
    from tui.model.settings import Config, ScreenSettings
    from tui.ui.charts import Trends
    from tui.ui.feed import Feed
    from tui.ui.lines import Role

DEMO = "demo"
"""What the app returns when the simulated host was asked for."""
USUAL_THEME = "dark"
STOP_S = 1.0
"""How long leaving waits for the feed."""
_LASTING = {"feed": "collection", "tests": "following tests"}
"""Groups of workers that run as long as the screen."""
_LEAVE_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class ScreenOptions:
    """What the command line and the environment say about this terminal."""

    no_color: bool = False
    few_colors: bool = False
    """The terminal has sixteen."""
    mouse: bool = True
    title: bool = False
    """The terminal, or its pane, is titled with the verdict."""
    theme_directories: list[Path] = dataclasses.field(default_factory=themes.directories)
    state: Path | None = None
    """Where the chosen theme, copied verdicts and saved screens are kept; None: nowhere."""

    @classmethod
    def here(cls, *, mouse: bool = True, title: bool = False) -> ScreenOptions:
        """Those of this environment (``NO_COLOR``, ``TERM`` and ``COLORTERM``, the state directory)."""
        # it finds out as Textual's own does
        console = Console(color_system=COLOR_SYSTEM, force_terminal=True)  # type: ignore[arg-type]
        return cls(
            no_color=bool(os.environ.get("NO_COLOR")),
            few_colors=console.color_system == "standard",
            mouse=mouse,
            title=title,
            state=state_dir(),
        )


class MonitorApp(App[str]):
    """Owns the feed: started when the screen stands, stopped when it goes.

    Args:
        feed: what is shown.
        config: the settings in force; ``screen.theme``, ``screen.ascii`` and ``screen.slow`` are heeded.
        options: about this terminal.
    """

    TITLE = "infertop"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "leave", "Quit", show=False, priority=True)]
    # the icon is an emoji, whose width differs; the prompt was light grey on white in sixteen colours
    CSS = "SearchIcon { display: none; } Input > .input--placeholder { color: $foreground; }"

    def __init__(self, feed: Feed, config: Config, options: ScreenOptions | None = None) -> None:
        options = options or ScreenOptions()
        super().__init__(
            driver_class=driver_class(colourless=options.no_color, ascii_only=config.screen.ascii)
        )
        self.animation_level = "none"
        self._feed = feed
        self._config = config
        self._options = options
        self._themes, self._faults = themes.load_all(options.theme_directories)
        if options.no_color and "mono" in self._themes:
            self._themes = {"mono": self._themes["mono"]}
        if not self._themes:
            raise themes.ThemeError("no usable theme: " + "; ".join(self._faults or ["none installed"]))
        for theme in self._themes.values():
            self.register_theme(theme.textual)
        self._theme_name = self._first_theme(config.screen)
        self.theme = self._theme_name
        self.main = MainScreen(feed, config, self._styles())
        self._drills = Drills(self, config)
        self._keeping_up: asyncio.TimerHandle | None = None

    def _first_theme(self, screen: ScreenSettings) -> str:
        """The one that the user named, else the one chosen last, else the usual one."""
        wanted = screen.theme
        if wanted and wanted not in self._themes and not self._options.no_color:
            of_its_file = (fault for fault in self._faults if fault.startswith(f"theme {wanted}.toml:"))
            none = f"no theme {clean(wanted, 40)}; there are {', '.join(self._themes)}"
            self._faults.insert(0, next(of_its_file, none))
        chosen = chosen_theme(self._options.state)
        ranked = (wanted, chosen) if screen.theme_named else (chosen, wanted)
        names = (*ranked, USUAL_THEME, next(iter(self._themes)))
        return next(name for name in names if name in self._themes)

    def _styles(self) -> Mapping[Role, Style]:
        theme = self._themes[self._theme_name]
        return themes.for_sixteen(theme) if self._options.few_colors else theme.styles

    def get_default_screen(self) -> Screen[None]:
        """The monitor itself: nothing lies below it."""
        return self.main

    def on_mount(self) -> None:
        """Start the feed, and leave cleanly when told to by a signal."""
        loop = asyncio.get_running_loop()
        for number in _LEAVE_ON:
            # not where there is none to be had: in a thread that is not the main one
            with contextlib.suppress(ValueError, RuntimeError):
                loop.add_signal_handler(number, self.action_leave)
        self._keep_up()
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())
        if self._faults:
            # a file that nobody asked for may be broken for months: it has its word, and not the header
            wanted = self._config.screen.theme
            missing = bool(wanted) and wanted not in self._themes and not self._options.no_color
            (self.main.notice if missing else self.main.answer)(self._faults[0])
        # owned by the app, in a group of its own: no other worker's start may cancel it
        self.run_worker(self._feed.start(), name="feed", group="feed", exit_on_error=False)
        self._begin(self._drills.attend, "tests")

    async def on_unmount(self) -> None:
        """Stop the feed; what does not stop in time is left behind."""
        if self._keeping_up is not None:
            self._keeping_up.cancel()
        with contextlib.suppress(asyncio.TimeoutError):
            await within(STOP_S, self._feed.stop())

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A feed that fails is a state on the screen, not the screen's end."""
        if event.worker.group in _LASTING and event.state is WorkerState.ERROR:
            self.main.notice(f"{_LASTING[event.worker.group]} stopped: {clean(str(event.worker.error), 80)}")

    def on_resize(self, event: events.Resize) -> None:
        """Whatever the terminal did with its content, it is drawn again."""
        self.action_redraw()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every action that has a key, and every theme by name."""
        for key in KEYS:
            if key.keys:
                run = partial(self.run_action, key.action, self.main)
                yield SystemCommand(key.title or key.help, f"key {key.alone or key.shown}", run)
        for name in self._themes:
            yield SystemCommand(f"Theme {name}", "colours", partial(self._use_theme, name))

    def _fatal_error(self) -> None:
        """As Textual's, without the values of local variables: settings are among them, and their secrets."""
        trace = Traceback(show_locals=False, width=None, suppress=[rich])
        self._exit_renderables.append(Segments(self.console.render(trace, self.console.options)))
        self._close_messages_no_wait()

    # ------------------------------------------------------------------ actions

    def action_command_palette(self) -> None:
        """Every action by name."""
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(Palette())

    def action_leave(self) -> None:
        """Quit."""
        self.exit()

    def action_drill(self, test: TestKind) -> None:
        """The test that runs or has just ended; else the dialog for a new one."""
        self._begin(partial(self._drills.ask, test), "ask")

    def _begin(self, work: Callable[[], Coroutine[object, object, None]], group: str) -> None:
        """Not with the coroutine itself: at the very end none is begun any more, and it would say so."""
        self.run_worker(work, name=group, group=group, exclusive=True, exit_on_error=False)

    def page_parts(self) -> tuple[Feed, Config, Mapping[Role, Style], Trends]:
        """What every page over the monitor is made of."""
        return self._feed, self._config, self._styles(), self.main.trends

    def action_demo(self) -> None:
        """Leave for the simulated host, where there is nothing real to look at."""
        snapshot = self._feed.snapshot()
        if snapshot.discovery_done and not snapshot.engines and not snapshot.simulated:
            self.exit(DEMO)
        else:
            self.main.answer("the demo is offered where no engine is found: infertop demo")

    def action_next_theme(self) -> None:
        """The next theme by name."""
        names = sorted(self._themes)
        self._use_theme(names[(names.index(self._theme_name) + 1) % len(names)])

    def action_copy(self) -> None:
        """The verdicts as text, to the terminal's clipboard and, as not every terminal has one, to a file."""
        text, done = verdict_text(self.main.shown()), "written to"
        if os.environ.get("TERM") != "linux":  # the console would print what it does not know
            self.copy_to_clipboard(for_clipboard(text))
            done = "copied, and in"
        keep(self._options.state, {VERDICT_FILE: text}, self._teller(done))

    def action_save(self) -> None:
        """The screen as a picture and as text, without the answer to another key."""
        self.main.hush()
        view, state = self.main.shown(), self._options.state
        name = stamped(view)
        picture = without_fonts(self.export_screenshot(title=f"infertop {view.snapshot.hostname}"))
        files = {f"{name}.svg": picture, f"{name}.txt": f"{self.main.as_text()}\n"}
        keep(state / "screens" if state else None, files, self._teller("saved"))

    def action_redraw(self) -> None:
        """Draw everything: the terminal may show anything by now."""
        if isinstance(self._driver, CellDriver):
            self._driver.forget()
        self.screen.refresh()

    def _teller(self, done: str) -> Callable[[str], None]:
        """Says in the header, from any thread, where something was written or why not."""
        loop, home = asyncio.get_running_loop(), os.environ.get("HOME", "")
        # the thread's own knows no app: a timer begun in it fails when it is over, and the exit with it
        ours = contextvars.copy_context()

        def tell(text: str) -> None:
            said = f"{done} {text}" if text.startswith("/") else text
            if home:
                said = said.replace(f" {home}/", " ~/")
            with contextlib.suppress(RuntimeError):  # the program has ended meanwhile
                loop.call_soon_threadsafe(self.main.answer, clean(said), context=ours)

        return tell

    def _use_theme(self, name: str) -> None:
        self._theme_name = name
        self.theme = name
        if not self._options.no_color:
            remember_theme(self._options.state, name)
            names = sorted(self._themes)
            self.main.answer(f"theme {name} ({names.index(name) + 1} of {len(names)})")
        for screen in self.screen_stack:
            if isinstance(screen, PaneScreen):
                screen.restyle(self._styles())

    def _keep_up(self) -> None:
        """Each second, by the loop's own timer, as ``MainScreen`` looks for news."""
        self._keeping_up = asyncio.get_running_loop().call_later(1.0, self._keep_up)
        self._catch_up()

    def _catch_up(self) -> None:
        """A frame that a slow terminal had no room for is sent once it has; without a terminal it is over."""
        if isinstance(self._driver, CellDriver):
            if self._options.title:
                self._driver.set_title(title(self._feed.snapshot(), self._feed.judgement()))
            self._driver.catch_up()
            if self._driver.hung_up:
                self.action_leave()
