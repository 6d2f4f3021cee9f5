"""The dialog before a test: it makes the plan, holds its process, and starts it once its name was typed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.worker import Worker, WorkerState

from tui.actions.plan import RefusedError
from tui.actions.plan_text import rows
from tui.actions.stops import Wish
from tui.model.text import clean
from tui.ui import drill_desk as desk
from tui.ui.lines import narrow
from tui.ui.panes.drill_plan import PlanSheet
from tui.ui.panes.drill_run import AT_ONCE
from tui.ui.screens.page import DrillPage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from rich.style import Style
    from textual import events

    from tui.actions.plan import Plan, TestKind
    from tui.actions.planning import Prepared
    from tui.actions.runs import RunFiles
    from tui.actions.stops import RestartMode
    from tui.model.settings import Config, EngineTarget
    from tui.ui.charts import Trends
    from tui.ui.feed import Feed
    from tui.ui.lines import Role
    from tui.ui.panes.drill_plan import Control

_MODES: Final[tuple[tuple[RestartMode, str], ...]] = (
    ("tree", "SIGKILL to the whole engine"),
    ("api-server", "SIGKILL to the API server alone"),
    ("graceful", "SIGTERM, then a start"),
    ("supervisor", "systemctl restart"),
)
_LONGEST_NAME = 200


class DrillDialog(DrillPage):
    """Asks before a test is run. Nothing is sent to the engine's process from here.

    Args:
        test: which.
        targets: the engines of this host with their names, the most urgent first.
        begun: called with a test that was started.
        feed, config, styles, trends: as for any page.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "step(1)", show=False, priority=True),
        Binding("shift+tab", "step(-1)", show=False, priority=True),
        Binding("enter", "press", show=False),
        Binding("left", "turn(-1)", show=False),
        Binding("right", "turn(1)", show=False),
        Binding("backspace", "erase(1)", show=False),
        Binding("ctrl+u", "erase(1000)", show=False),
    ]

    def __init__(
        self,
        test: TestKind,
        targets: Sequence[tuple[EngineTarget, str]],
        begun: Callable[[RunFiles], None],
        feed: Feed,
        config: Config,
        styles: Mapping[Role, Style],
        trends: Trends,
    ) -> None:
        super().__init__(feed, config, styles, trends)
        self._test = test
        self._targets = targets
        self._begun = begun
        self._at = 0
        self._mode = 0
        self._prepared: Prepared | None = None
        self._refused: tuple[str, ...] = ()
        self._busy = ""
        self._starting = False
        self._said = ""
        self._typed = ""
        self._ticked: frozenset[Control] = frozenset()
        self._control: Control = "cancel"

    def on_mount(self) -> None:
        """Make the plan of the most urgent engine."""
        self._plan_anew()

    def on_unmount(self) -> None:
        """Let go of the process."""
        self._let_go()

    def sheet(self) -> PlanSheet:
        """The dialog as it stands."""
        plan = self._plan()
        return PlanSheet(
            test=self._test,
            engine=self._targets[self._at][1],
            controls=self._controls(),
            focus=self._control,
            plan=() if plan is None else tuple(rows(plan)),
            wanted="" if plan is None else narrow(plan.target.name, _LONGEST_NAME),
            typed=self._typed,
            ticked=self._ticked,
            mode=_MODES[self._mode][1],
            engines=len(self._targets),
            refused=self._refused,
            busy=self._busy,
            said=self._said,
        )

    # ------------------------------------------------------------------ the plan

    def _plan(self) -> Plan | None:
        """What would be carried out, with the boxes as they are."""
        if self._prepared is None:
            return None
        plan = self._prepared.plan
        return replace(
            plan,
            kill_after_grace="kill" in self._ticked and plan.stop.way not in AT_ONCE,
            with_traffic=plan.with_traffic or "traffic" in self._ticked,
        )

    def _plan_anew(self) -> None:
        self._let_go()
        self._refused, self._said, self._typed = (), "", ""
        self._busy = f"looking at {self._targets[self._at][1]}…"
        self._work(self._prepare)

    def _let_go(self) -> None:
        if self._prepared is not None:
            self._prepared.held.close()
            self._prepared = None

    def _work(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """One thing at a time: what was under way is given up."""
        self.run_worker(work, group="drill", exclusive=True, exit_on_error=False)
        self.paint()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of ours ends no monitor."""
        if event.state is WorkerState.ERROR:
            self._starting = False
            self._refuse(f"this tool failed: {event.worker.error!r}")

    async def _prepare(self) -> None:
        wish = Wish(self._test, _MODES[self._mode][0])
        try:
            self._prepared = await desk.prepare(wish, self._targets[self._at][0], self._config)
        except RefusedError as error:
            self._refuse(str(error))
        except asyncio.TimeoutError:
            self._refuse(f"no plan within {desk.PLAN_S:.0f} s: the engine, systemd or a disk does not answer")
        else:
            await self._check()

    async def _check(self) -> None:
        plan = self._plan()
        if plan is None:
            return
        try:
            self._refused = tuple(await desk.refusals(plan, self._config))
        except asyncio.TimeoutError:
            self._refused = ("whether it may be run cannot be told: a disk does not answer",)
        self._settle()

    def _refuse(self, why: str) -> None:
        self._refused = (why,)
        self._settle()

    def _settle(self) -> None:
        self._busy = ""
        if self._control not in self._controls():
            self._control = "cancel"
        self.paint()

    async def _start(self, plan: Plan, prepared: Prepared, typed: str) -> None:
        try:
            files = await desk.begin(plan, prepared, typed, self._targets[self._at][0], self._config)
        except RefusedError as error:
            self._refused = (str(error),)
        except OSError as error:
            self._refused = (f"the test cannot be started: {error}",)
        except asyncio.TimeoutError:
            self._refused = ("the test did not start in time; if it begins yet, the header will say so",)
        else:
            self._begun(files)
            return
        self._starting = False
        self._settle()

    # ------------------------------------------------------------------ keys

    def _controls(self) -> tuple[Control, ...]:
        """What there is to choose now, in order."""
        plan = self._plan()
        found: list[Control] = []
        if len(self._targets) > 1:
            found.append("engine")
        if self._test == "restart":
            found.append("mode")
        if plan is not None:
            found += [] if plan.stop.way in AT_ONCE else ["kill"]
            found += ["traffic"] if not plan.with_traffic or "traffic" in self._ticked else []
            found += [] if self._refused else ["type"]
        found.append("cancel")
        if plan is not None and not self._refused:
            found.append("start")
        return tuple(found)

    def on_key(self, event: events.Key) -> None:
        """Whatever can be typed is typed; on a box, a button or a choice the space bar presses it."""
        if event.character is None or not event.is_printable or self._starting:
            return
        event.stop()
        if event.key == "space" and self._control != "type":
            self.action_press()
        else:
            self._type(event.character)

    def on_paste(self, event: events.Paste) -> None:
        """As typed; its line ends confirm nothing."""
        event.stop()
        self._type(clean(event.text, _LONGEST_NAME))

    def _type(self, text: str) -> None:
        if "type" in self._controls():
            self._control, self._said = "type", ""
            self._typed = (self._typed + text)[:_LONGEST_NAME]
            self.paint()

    def action_erase(self, characters: int) -> None:
        """Take back what was typed."""
        if not self._starting:
            self._typed = self._typed[:-characters]
            self.paint()

    def action_step(self, step: int) -> None:
        """The next choice, or the one before."""
        controls = self._controls()
        self._control = controls[(controls.index(self._control) + step) % len(controls)]
        self._said = ""
        self.paint()

    def action_turn(self, step: int) -> None:
        """Another engine, or another way to restart it."""
        if self._starting:
            return
        if self._control == "engine":
            self._at = (self._at + step) % len(self._targets)
            self._plan_anew()
        elif self._control == "mode":
            self._mode = (self._mode + step) % len(_MODES)
            self._plan_anew()

    def action_press(self, control: Control | None = None) -> None:
        """Do what is in focus, or was clicked."""
        if self._starting:
            return
        self._control = control or self._control
        if self._control == "cancel":
            self.action_leave()
        elif self._control in ("engine", "mode"):
            self.action_turn(1)
        elif self._control in ("kill", "traffic"):
            self._ticked ^= {self._control}
            self._work(self._check)
        elif control != "type":
            self._confirm()
        else:
            self.paint()

    def action_leave(self) -> None:
        """Nothing is done; a test that is being started right now is not called back by this."""
        if not self._starting:
            super().action_leave()

    def _confirm(self) -> None:
        plan = self._plan()
        if plan is None or self._prepared is None or self._refused or self._busy:
            return
        if self._typed != plan.target.name:
            self._said = f"type {clean(plan.target.name, 60)} first" if not self._typed else "not the name"
            self._control = "type"
            self.paint()
            return
        self._starting = True
        self._busy = "starting the test…"
        self._work(partial(self._start, plan, self._prepared, self._typed))
