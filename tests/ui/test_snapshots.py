"""The screens that were looked at and accepted (``make snapshots`` after a change that was meant)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until
from tests.ui import scenes
from tests.ui.feeds import StillFeed
from tui.model.settings import Config, ScreenSettings
from tui.ui.app import MonitorApp, ScreenOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

SHIPPED = Path(__file__).parents[2] / "themes"

CASES: dict[str, tuple[str, tuple[int, int], str, dict[str, Any]]] = {
    "healthy-160x45": ("healthy", (160, 45), "", {}),
    "healthy-80x24": ("healthy", (80, 24), "", {}),
    "kv-cache-160x45": ("kv_cache", (160, 45), "", {}),
    "kv-cache-120x40": ("kv_cache", (120, 40), "", {}),
    "kv-cache-80x24": ("kv_cache", (80, 24), "", {}),
    "kv-cache-60x15": ("kv_cache", (60, 15), "", {}),
    "kv-cache-40x12": ("kv_cache", (40, 12), "", {}),
    "kv-cache-light": ("kv_cache", (160, 45), "", {"theme": "light"}),
    "kv-cache-okabe-ito": ("kv_cache", (160, 45), "", {"theme": "okabe-ito"}),
    "kv-cache-high-contrast": ("kv_cache", (160, 45), "", {"theme": "high-contrast"}),
    "kv-cache-ascii": ("kv_cache", (160, 45), "", {"ascii": True}),
    "kv-cache-mono": ("kv_cache", (120, 40), "", {"theme": "mono"}),
    "no-gpu-no-engine": ("bare", (160, 45), "", {}),
    "stale": ("stale", (160, 45), "", {}),
    "broken": ("broken", (160, 45), "", {}),
    "broken-80x24": ("broken", (80, 24), "", {}),
    "broken-zoomed": ("broken", (160, 60), "2 z", {}),
    "hung": ("hung", (160, 45), "", {}),
    "hung-60x15": ("hung", (60, 15), "", {}),
    "probes-zoomed": ("hung", (160, 45), "5 z", {}),
    "probes-zoomed-ascii-80x24": ("hung", (80, 24), "5 z", {"ascii": True}),
    "first-frame": ("pending", (120, 40), "", {}),
    "crowded-160x45": ("crowded", (160, 45), "", {}),
    "crowded-200x60": ("crowded", (200, 60), "", {}),
    "why": ("kv_cache", (160, 45), "space v", {}),
    "why-80x24": ("kv_cache", (80, 24), "v", {}),
    "why-healthy": ("healthy", (160, 45), "v", {}),
    "why-healthy-80x24": ("healthy", (80, 24), "v", {}),
    "why-unknown": ("unknown", (160, 45), "v", {}),
    "why-unknown-80x24": ("unknown", (80, 24), "v pagedown", {}),
    "filtered": ("crowded", (160, 45), "slash 8 0 0 enter", {}),
    "filter-typed-60x15": ("crowded", (60, 15), "slash 8 0", {}),
    "scrolled-80x24": ("crowded", (80, 24), "2 down down down", {}),
    "slow-link": ("healthy", (120, 40), "", {"slow": True}),
    "wide-names": ("wide", (160, 45), "", {}),
    "help-120x40": ("healthy", (120, 40), "question_mark", {}),
    "help-60x15": ("healthy", (60, 15), "question_mark", {}),
    "gpus-zoomed": ("healthy", (160, 45), "2 z", {}),
    "engines-zoomed": ("kv_cache", (160, 45), "3 z", {}),
    "host-zoomed-paused": ("healthy", (160, 45), "4 z p", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_screen(case: str, snap_compare: Callable[..., bool]) -> None:
    scene, size, keys, screen = CASES[case]
    app = MonitorApp(
        StillFeed(scenes.SCENES[scene]()),
        Config(screen=ScreenSettings(**screen)),
        ScreenOptions(theme_directories=[SHIPPED]),
    )

    async def act(pilot: Pilot[str]) -> None:
        await pilot.pause()
        await pilot.press(*keys.split())
        if case == "engines-zoomed":
            await until(lambda: app.main._mode.plots, 10)
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=act)
