"""The screens that were looked at and accepted (``make snapshots`` after a change that was meant)."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import pytest
from textual.command import CommandList, CommandPalette

from tests.support.waiting import until
from tests.ui import address_scenes, scenes, verdict_scenes
from tests.ui.feeds import StillFeed
from tui.model.settings import Config, ScreenSettings
from tui.model.verdicts import VerdictName
from tui.ui.app import MonitorApp, ScreenOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.pilot import Pilot

    from tui.ui.view import View

ROOT = Path(__file__).parents[2]


class Case(NamedTuple):
    """One screen: a scene, or else the verdict of that name."""

    scene: str
    size: tuple[int, int]
    keys: str = ""
    screen: Mapping[str, Any] = MappingProxyType({})
    terminal: Mapping[str, Any] = MappingProxyType({})


HUGE, LARGE, MIDDLE, SMALL, NARROW, TINY = (200, 60), (160, 45), (120, 40), (80, 24), (60, 15), (40, 12)

CASES: dict[str, Case] = {
    "healthy-160x45": Case("healthy", LARGE),
    "healthy-80x24": Case("healthy", SMALL),
    "kv-cache-160x45": Case("kv_cache", LARGE),
    "kv-cache-120x40": Case("kv_cache", MIDDLE),
    "kv-cache-80x24": Case("kv_cache", SMALL),
    "kv-cache-60x15": Case("kv_cache", NARROW),
    "kv-cache-40x12": Case("kv_cache", TINY),
    "crowded-200x60": Case("crowded", HUGE),
    "crowded-160x45": Case("crowded", LARGE),
    "crowded-40x12": Case("crowded", TINY),
    "wide-names": Case("wide", LARGE),
    "wide-names-60x15": Case("wide", NARROW),
    "ports-80x24": Case("ports", SMALL),
    "ports-60x15": Case("ports", NARROW),
    "ports-probes-zoomed-60x15": Case("ports", NARROW, "5 z"),
    "kind-not-known": Case("nameless", MIDDLE),
    # themes and terminals
    "kv-cache-light": Case("kv_cache", LARGE, screen={"theme": "light"}),
    "kv-cache-okabe-ito": Case("kv_cache", LARGE, screen={"theme": "okabe-ito"}),
    "kv-cache-high-contrast": Case("kv_cache", LARGE, screen={"theme": "high-contrast"}),
    "kv-cache-mono": Case("kv_cache", MIDDLE, screen={"theme": "mono"}),
    "kv-cache-ascii": Case("kv_cache", LARGE, screen={"ascii": True}),
    "stale-no-color": Case("stale", MIDDLE, terminal={"no_color": True}),
    "broken-16-colours": Case("broken", MIDDLE, terminal={"few_colors": True}),
    "hung-16-colours-light": Case("hung", MIDDLE, screen={"theme": "light"}, terminal={"few_colors": True}),
    # what is missing, old or broken
    "first-frame": Case("pending", MIDDLE),
    "no-gpu-no-engine": Case("bare", MIDDLE),
    "no-gpu-no-engine-60x15": Case("bare", NARROW),
    "no-permission": Case("forbidden", LARGE),
    "no-permission-80x24": Case("forbidden", SMALL),
    "stale": Case("stale", LARGE),
    "stale-60x15": Case("stale", NARROW),
    "broken": Case("broken", LARGE),
    "broken-80x24": Case("broken", SMALL),
    "broken-40x12": Case("broken", TINY),
    # verdicts
    "hung": Case("hung", LARGE),
    "hung-60x15": Case("hung", NARROW),
    "loading": Case("loading", SMALL),
    "draining": Case("draining", MIDDLE),
    "gpu-memory": Case("gpu_memory", MIDDLE),
    "scheduler-limit": Case("scheduler_limit", SMALL),
    "compute": Case("compute", LARGE),
    "power-thermal": Case("power_thermal", LARGE),
    "cpu": Case("cpu", MIDDLE),
    "lock-contention": Case("lock_contention", SMALL),
    "io-disk": Case("io_disk", MIDDLE),
    "network": Case("network", NARROW),
    "queueing-upstream": Case("queueing_upstream", SMALL),
    "degraded-cache": Case("degraded_cache", SMALL),
    "idle": Case("idle", MIDDLE),
    # panes that fill the screen
    "gpus-zoomed": Case("healthy", LARGE, "2 z"),
    "broken-zoomed": Case("broken", (160, 60), "2 z"),
    "engines-zoomed": Case("kv_cache", LARGE, "space 3 z"),
    "engines-zoomed-80x24": Case("hung", SMALL, "3 z"),
    "host-zoomed-paused": Case("healthy", LARGE, "4 z p"),
    "probes-zoomed": Case("hung", LARGE, "5 z"),
    "probes-zoomed-ascii-80x24": Case("hung", SMALL, "5 z", {"ascii": True}),
    # what keys bring
    "why": Case("kv_cache", LARGE, "space v"),
    "why-80x24": Case("kv_cache", SMALL, "v"),
    "why-healthy": Case("healthy", LARGE, "v"),
    "why-healthy-80x24": Case("healthy", SMALL, "v"),
    "why-unknown": Case("unknown", LARGE, "v"),
    "why-unknown-80x24": Case("unknown", SMALL, "v pagedown"),
    "help-120x40": Case("healthy", MIDDLE, "question_mark"),
    "help-60x15": Case("healthy", NARROW, "question_mark"),
    "palette": Case("kv_cache", MIDDLE, "ctrl+p"),
    "theme-next": Case("healthy", MIDDLE, "t"),
    "filtered": Case("crowded", LARGE, "slash 8 0 0 3 enter"),
    "filter-typed-60x15": Case("crowded", NARROW, "slash 8 0 0"),
    "scrolled-80x24": Case("crowded", SMALL, "2 down down down"),
    "marked-paused-60x15": Case("kv_cache", NARROW, "space p"),
    "slow-link": Case("healthy", MIDDLE, screen={"slow": True}),
}


def view_of(scene: str) -> View:
    """A scene by name."""
    made = scenes.SCENES.get(scene) or address_scenes.SCENES.get(scene)
    return made() if made is not None else verdict_scenes.judged(scene)


@pytest.mark.parametrize("case", CASES)
def test_screen(case: str, snap_compare: Callable[..., bool]) -> None:
    scene, size, keys, screen, terminal = CASES[case]
    app = MonitorApp(
        StillFeed(view_of(scene)),
        Config(screen=ScreenSettings(**screen)),
        ScreenOptions(theme_directories=[ROOT / "themes"], **terminal),
    )

    async def act(pilot: Pilot[str]) -> None:
        await pilot.pause()
        await pilot.press(*keys.split())
        if case.startswith("engines-zoomed"):
            await until(lambda: app.main._mode.plots, 10)
        if case == "palette":
            await until(lambda: _listed(app) > 0, 10)
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=act)


def _listed(app: MonitorApp) -> int:
    screen = app.screen
    return screen.query_one(CommandList).option_count if isinstance(screen, CommandPalette) else 0


@pytest.mark.parametrize("name", verdict_scenes.SNAPSHOTS)
def test_the_rules_conclude_what_the_picture_is_named_after(name: str) -> None:
    assert {verdict.verdict for verdict in view_of(name).judgement.verdicts} == {name}


def test_each_verdict_is_on_a_picture() -> None:
    seen = {v.verdict for case in CASES.values() for v in view_of(case.scene).judgement.verdicts}
    assert seen == set(get_args(VerdictName))


def test_each_picture_is_of_a_case_that_exists() -> None:
    kept = {
        path.name.partition("[")[2].removesuffix("].svg")
        for path in (ROOT / "snapshots" / "test_snapshots").iterdir()
    }
    assert kept <= set(CASES)
