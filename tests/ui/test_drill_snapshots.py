"""The pages of a test that were looked at and accepted (``make snapshots`` after a change that was meant)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui import scenes
from tests.ui.drill_scenes import dialog, ended, plan, running
from tests.ui.feeds import StillFeed
from tui.actions.plan_text import rows
from tui.model.settings import Config, ScreenSettings
from tui.ui.app import MonitorApp, ScreenOptions
from tui.ui.screens.page import DrillPage

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

    from tui.ui.sheet import Sheet

SHIPPED = Path(__file__).parents[2] / "themes"

CASES: dict[str, tuple[Callable[[], Sheet], tuple[int, int]]] = {
    "dialog-160x45": (dialog, (160, 45)),
    "dialog-60x15": (dialog, (60, 15)),
    "refused-80x24": (
        lambda: dialog(
            controls=("traffic", "cancel"), focus="cancel", refused=("2 requests of others in flight",),
            plan=tuple(rows(plan(others_running=2.0))),
        ),
        (80, 24),
    ),
    "run-160x45": (running, (160, 45)),
    "run-80x24": (lambda: running(asking=True), (80, 24)),
    "failed-160x45": (ended, (160, 45)),
    "failed-40x12": (ended, (40, 12)),
    "passed-80x24": (lambda: ended(True), (80, 24)),
}  # fmt: skip


class StillPage(DrillPage):
    """Shows one sheet as it is."""

    def __init__(self, sheet: Sheet, app: MonitorApp) -> None:
        super().__init__(*app.page_parts())
        self._still = sheet

    def sheet(self) -> Sheet:
        return self._still


@pytest.mark.parametrize("case", CASES)
def test_page(case: str, snap_compare: Callable[..., bool]) -> None:
    make, size = CASES[case]
    app = MonitorApp(
        StillFeed(scenes.sick_view()),
        Config(screen=ScreenSettings(theme="dark")),
        ScreenOptions(theme_directories=[SHIPPED]),
    )

    async def act(pilot: Pilot[str]) -> None:
        await app.push_screen(StillPage(make(), app))
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=act)
