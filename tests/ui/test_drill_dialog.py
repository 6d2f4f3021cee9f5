"""Keys d and r on the real application: what they ask, what they start, and how one leaves and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.actions.simulated import simulated
from tests.support.waiting import until
from tests.ui import scenes
from tests.ui.drill_scenes import events, plan, report
from tests.ui.feeds import StillFeed
from tui.actions import launch
from tui.actions.plan import Traffic
from tui.actions.runs import EventWriter, RunFiles, all_runs, new_run, reports_dir
from tui.actions.stops import Wish
from tui.config.state import write_json
from tui.model.settings import ActionSettings, Config, EngineTarget
from tui.ui import drill_desk as desk
from tui.ui.app import MonitorApp, ScreenOptions
from tui.ui.drills import OFF, READ_ONLY
from tui.ui.lines import plain
from tui.ui.screens.drill_dialog import DrillDialog
from tui.ui.screens.drill_run import DrillRun
from tui.ui.widgets.pane import Pane

if TYPE_CHECKING:
    from textual.pilot import Pilot

SHIPPED = Path(__file__).parents[2] / "themes"
ALLOWED = Config(actions=ActionSettings(enabled=True))


def app_for(*urls: str, config: Config = ALLOWED) -> MonitorApp:
    """The screen over engines at these addresses."""
    view = scenes.calm_view()
    engines = tuple(replace(view.snapshot.engines[0], url=url, local=True) for url in urls)
    view = replace(view, snapshot=replace(view.snapshot, engines=engines))
    return MonitorApp(StillFeed(view), config, ScreenOptions(theme_directories=[SHIPPED]))


def shown(app: MonitorApp) -> str:
    """What the panes of the top screen show."""
    panes = [pane for pane in app.screen.query(Pane) if pane.display]
    panes.sort(key=lambda pane: (pane.region.y, pane.region.x))
    return "\n".join(plain(line) for pane in panes for line in pane._lines)


async def sees(app: MonitorApp, *words: str, within_s: float = 20.0) -> str:
    await until(lambda: all(word in shown(app) for word in words), within_s, f"{words} in\n{shown(app)}")
    return shown(app)


async def types(pilot: Pilot[str], text: str) -> None:
    await pilot.press(*("colon" if c == ":" else c for c in text))


def held() -> int:
    """Processes that are held by this one, whoever holds them."""
    found = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += "pidfd" in str(file.readlink())
    return found


@pytest.mark.parametrize("key", ["d", "r"])
@pytest.mark.parametrize(
    ("config", "said"),
    [
        (Config(), OFF),
        (replace(ALLOWED, read_only=True), READ_ONLY),
        (ALLOWED, "no engine to test"),
    ],
)
async def test_without_leave_or_engine_one_line_says_so(key: str, config: Config, said: str) -> None:
    app = app_for(config=config)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press(key)
        await until(lambda: said in shown(app).splitlines()[-1], 5)
        assert "12:23:05" in shown(app).splitlines()[0]
        assert app.screen is app.main


async def test_the_dialog_starts_nothing_but_what_was_confirmed() -> None:
    async with simulated(sigterm="drain-refused") as engine:
        app, before = app_for(engine.url, "http://127.0.0.1:9"), held()
        name = f"vllm:{engine.url.rpartition(':')[2]}"
        async with app.run_test(size=(160, 45)) as pilot:
            await pilot.press("d")
            text = await sees(app, f"SIGTERM to pid {engine.pids['api']}", "[ Start")
            assert "then it is left as it is" in text and f"type {name}: " in text
            assert held() == before + len(engine.pids)  # as long as it is shown
            await types(pilot, "vllm:1")
            await pilot.press("enter")
            await sees(app, "not the name")
            await pilot.press("ctrl+u", "enter")
            await sees(app, f"type {name} first")
            await pilot.press("shift+tab", "shift+tab", "space")
            await sees(app, "[x] SIGKILL", "then SIGKILL")
            await pilot.press("shift+tab", "right")  # the other engine: there is none at port 9
            await sees(app, "refused  ", "one of 2")
            assert "[ Start" not in shown(app) and held() == before
            await pilot.press("right")
            await sees(app, "[ Start")
            await types(pilot, name)
            await pilot.press("escape")
            await until(lambda: app.screen is app.main, 5)
        assert held() == before
        assert all_runs() == []
        assert engine.supervisor.pid == engine.pids["api"]


async def test_requests_of_others_are_a_refusal_until_the_box_is_ticked() -> None:
    async with simulated(sigterm="ignore", decode_step_s=0.02) as engine:
        body = {"prompt": "x", "max_tokens": 3000, "stream": True, "ignore_eos": True, "model": "demo-8b"}
        port = int(engine.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        payload = json.dumps(body).encode()
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
            + str(len(payload)).encode() + b"\r\n\r\n" + payload
        )  # fmt: skip
        assert await reader.read(10)
        app = app_for(engine.url)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("d")
            await sees(app, "refused  1 request of others in flight", "[ ] go on")
            assert "[ Start" not in shown(app)
            await types(pilot, "vllm")
            assert "vllm█" not in shown(app)
            await pilot.press("shift+tab", "space")
            await sees(app, "[x] go on", "[ Start")
        writer.close()
    assert all_runs() == []


async def test_a_test_that_runs_is_shown_at_the_start_and_can_be_cancelled() -> None:
    async with simulated(sigterm="ignore", decode_step_s=0.01) as engine:
        long = engine.plan(grace_s=60.0, traffic=Traffic(2, max_tokens=3000, outlast_s=20, model="demo-8b"))
        files = launch.start(long, EngineTarget(engine.url))
        files.unseen.touch()
        await until(lambda: launch.running() == files, 15)
        app = app_for(engine.url)
        async with app.run_test(size=(160, 45)) as pilot:
            await until(lambda: isinstance(app.screen, DrillRun), 10)
            await sees(app, "watching it end", "of 60s", "ours 2 running")
            await pilot.press("c")
            await sees(app, "Cancel it?")
            await pilot.press("x")
            await until(lambda: "Cancel it?" not in shown(app), 5)
            await pilot.press("escape")
            await sees(app, "drain test running", "VERDICT")
            await pilot.press("r")  # no second one
            await until(lambda: isinstance(app.screen, DrillRun), 5)
            await pilot.press("c", "c")
            await sees(app, "NO RESULT", f"still runs (pid {engine.pids['api']}) and was left as it is")
            await until(lambda: not files.unseen.exists(), 5)
            await pilot.press("escape")
            await until(lambda: app.screen is app.main and "drain test" not in shown(app).splitlines()[0], 5)
        assert engine.supervisor.pid == engine.pids["api"]


def kept(*, done: bool = True) -> RunFiles:
    """A test that a screen had started and that ended after it."""
    files = new_run("drain")
    files.write_plan(plan().document())
    files.log.write_text("Killed\n")
    files.unseen.touch()
    writer = EventWriter(files)
    for event in events():
        values: dict[str, Any] = {name: value for name, value in event.items() if name not in ("kind", "at")}
        writer.write(event["kind"], **values)
    if done:
        home = reports_dir()
        assert home is not None
        path = home / f"{files.folder.name}.json"
        write_json(path, {**report(), "passed": False, "reasons": ["it failed"]})
        writer.write("done", passed=False, reasons=["it failed"], report=str(path))
    writer.close()
    return files


async def test_a_test_that_has_ended_meanwhile_is_offered_once() -> None:
    files = kept()
    app = app_for()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: "failed, d: result" in shown(app).splitlines()[0], 10)
        assert not files.unseen.exists()
        await pilot.press("d")
        await sees(app, "FAILED", "it failed")
        await until(lambda: app._drills._follower is None, 5)
        await pilot.press("q")
        await until(lambda: app._exit, 5)
    again = app_for()
    async with again.run_test(size=(160, 45)) as pilot:
        await until(lambda: again._drills._searched_at > 0, 5)
        await pilot.press("d")
        await sees(again, "no engine to test")


async def test_a_test_whose_process_was_killed_is_told_with_its_last_words() -> None:
    kept(done=False)
    app = app_for()
    async with app.run_test(size=(160, 45)) as pilot:
        await until(lambda: "no result, d: result" in shown(app).splitlines()[0], 10)
        await pilot.press("d")
        await sees(app, "NO RESULT", "ended without a report; it said: Killed")


async def test_a_fault_of_ours_is_told_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("tui.ui.drill_desk.prepare", fail)
    app = app_for("http://127.0.0.1:9")
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("d")
        await sees(app, "this tool failed: KeyError('surprise')")
        assert isinstance(app.screen, DrillDialog)


async def test_a_plan_that_comes_too_late_is_let_go() -> None:
    async with simulated(sigterm="drain-refused") as engine:
        before = held()
        work = asyncio.ensure_future(desk.prepare(Wish("drain"), EngineTarget(engine.url), ALLOWED))
        await until(lambda: planning(engine.url), 10)
        work.cancel()  # as by a dialog that is left
        await asyncio.wait([work])
        assert planning(engine.url)
        await until(lambda: not planning(engine.url), 20)
        await until(lambda: held() == before, 5)


def planning(url: str) -> bool:
    return any(thread.name == f"plan of {url}" for thread in threading.enumerate())
