"""Every way in which the captured vLLM ended, hung or crashed, against the simulated one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.demo.clients import ask, complete
from tests.demo.recording import (
    CAPTURES,
    assert_like,
    differences,
    load_capture,
    log_differences,
    order,
    record,
    send,
)
from tests.demo.running import lives, running, until, until_ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.demo.running import Running

_PATHS = ("/health", "/v1/models", "/metrics", "/v1/completions")
_LONG = 3000


async def _compare(
    folder: Path,
    name: str,
    event: Callable[[Running], Callable[[], None]],
    *,
    time_scale: float = 0.2,
    settings: dict[str, Any] | None = None,
    later: tuple[tuple[float, Callable[[Running], Callable[[], None]]], ...] = (),
    **watching: Any,
) -> list[str]:
    """Run a scenario and hold it against its capture."""
    chosen = {"max_num_seqs": 8, "decode_step_s": 0.02, "time_scale": time_scale, **(settings or {})}
    async with running(folder / f"{name}.log", **chosen) as engine:
        seen = await record(
            engine,
            event(engine),
            **{"paths": _PATHS, **watching},
            later=tuple((moment_s, action(engine)) for moment_s, action in later),
        )
        found = differences(load_capture("vllm", name), seen, time_scale) + log_differences(name, engine.log)
    return [f"{name}: {text}" for text in found]


async def test_crashes_as_captured(tmp_path: Path) -> None:
    """A dead core or worker: errors to all in flight, a short 503, the port closes, code 0."""
    exits: dict[str, Any] = {"exits_within_s": 5.0, "tokens": _LONG, "time_scale": 0.4}
    assert_like(
        await asyncio.gather(
            _compare(tmp_path, "crash-enginecore-kill9-loaded", lambda e: order(e, "kill"), **exits),
            _compare(tmp_path, "crash-worker-kill9-loaded", lambda e: order(e, "kill", "worker"), **exits),
            _crash_idle(tmp_path),
        )
    )


async def _crash_idle(folder: Path) -> list[str]:
    """With nothing in flight only the watchdog, which looks every 5 s, ends the server."""
    name, time_scale = "crash-enginecore-kill9-idle", 0.4
    async with running(folder / f"{name}.log", time_scale=time_scale) as engine:
        period_s = 5.0 * time_scale
        into_s = (time.monotonic() - engine.ready_s) % period_s
        await asyncio.sleep((0.25 * period_s - into_s) % period_s)
        seen = await record(engine, order(engine, "kill"), requests=0, paths=_PATHS[:3], exits_within_s=5.0)
    return differences(load_capture("vllm", name), seen, time_scale)


async def test_aborts_as_captured(tmp_path: Path) -> None:
    """SIGTERM without a time-out: the port closes, clients hear nothing, the end waits for them."""
    silent: dict[str, Any] = {"time_scale": 1.0, "tokens": _LONG, "exits_within_s": 5.0}
    again = (
        (0.4, send),
        (0.8, lambda engine: send(engine, signal.SIGINT)),
    )
    assert_like(
        await asyncio.gather(
            _compare(tmp_path, "drain-sigterm-default", send, **silent),
            _compare(tmp_path, "drain-sigint-default", lambda e: send(e, signal.SIGINT), **silent),
            _compare(tmp_path, "drain-sigterm-default-nonstreaming", send, stream=False, silence_s=2.0, **silent),
            _compare(tmp_path, "drain-sigterm-default-then-again", send, later=again, silence_s=1.5, **silent),
            _compare(
                tmp_path, "hang-enginecore-then-sigterm", lambda e: order(e, "hang"),
                later=((1.0, send),), silence_s=2.5, poll_timeout_s=0.6, **silent,
            ),
        )
    )  # fmt: skip


async def test_drains_as_captured(tmp_path: Path) -> None:
    """--shutdown-timeout: in flight and queued requests finish, new ones get 500, /health says 200."""
    drain = {"sigterm": "drain-500"}
    short = {**drain, "shutdown_timeout_s": 1.0}
    exits: dict[str, Any] = {"exits_within_s": 8.0}
    assert_like(
        await asyncio.gather(
            _compare(tmp_path, "drain-sigterm-timeout60", send, settings=drain, **exits),
            _compare(
                tmp_path,
                "drain-sigterm-timeout60-queued",
                send,
                settings=drain,
                requests=16,
                tokens=30,
                **exits,
            ),
            _compare(
                tmp_path,
                "drain-sigterm-twice-timeout60",
                send,
                settings=drain,
                later=((0.4, send),),
                **exits,
            ),
            _compare(
                tmp_path,
                "drain-sigterm-timeout3",
                send,
                settings=short,
                tokens=_LONG,
                time_scale=0.4,
                **exits,
            ),
        )
    )


async def test_hangs_as_captured(tmp_path: Path) -> None:
    """A stopped process: health and metrics answer (unless it is their own), requests wait and then finish."""
    resume = ((1.5, lambda engine: order(engine, "resume")),)
    hang: dict[str, Any] = {
        "later": resume,
        "silence_s": 10.0,
        "watch_s": 2.4,
        "tokens": 80,
        "poll_timeout_s": 0.6,
    }
    assert_like(
        await asyncio.gather(
            _compare(tmp_path, "hang-enginecore-stop", lambda e: order(e, "hang"), **hang),
            _compare(tmp_path, "hang-worker-stop", lambda e: order(e, "hang", "worker"), **hang),
            _compare(
                tmp_path, "hang-apiserver-stop", lambda e: order(e, "hang", "api"), **{**hang, "requests": 2}
            ),
        )
    )


async def test_a_killed_api_server_leaves_orphans(tmp_path: Path) -> None:
    """SIGKILL: streams are cut at once; core and worker live on, finish their work, and a new server starts."""
    captured = json.loads((CAPTURES / "vllm-0.32" / "orphans-after-kill9-apiserver-loaded.json").read_text())
    async with running(tmp_path / "log", time_scale=0.2) as engine:
        seen = await record(engine, order(engine, "kill", "api"), paths=_PATHS, tokens=30, watch_s=1.0)
        assert differences(load_capture("vllm", "kill9-apiserver"), seen, 0.2) == []
        assert seen.left == load_capture("vllm", "kill9-apiserver").left == {"core", "worker"}
        core, worker = engine.pids["VLLM::EngineCore"], engine.pids["VLLM::Worker_0"]
        for row in captured[0]["procs"].values():
            if row["comm"].startswith("VLLM"):
                pid = core if row["comm"] == "VLLM::EngineCor" else worker
                assert _comm(pid) == row["comm"]
        assert _parent(worker) == core and _parent(core) not in (os.getpid(), engine.pids["api"])
        engine.supervisor.order({"do": "start"})
        await until_ready(engine.url)
        assert (await complete(engine.url, 3)).key == (200, "length", True, "")
        assert lives(core) and lives(worker)
        os.kill(core, signal.SIGTERM)
        took_s = await until(lambda: not lives(worker), 3.0)
        assert took_s > 0.2  # its tear-down, not its death by the signal
        await until(lambda: not lives(core), 3.0)


async def test_a_core_that_dies_while_loading_ends_the_server_with_1(tmp_path: Path) -> None:
    async with running(tmp_path / "log", wait=False, load_s=2.0) as engine:
        await until(lambda: "VLLM::EngineCore" in engine.supervisor.pids, 20.0)
        assert (await ask(engine.url, "/health")).result == "conn-refused"
        engine.supervisor.order({"do": "kill"})
        await until(lambda: engine.exit is not None)
        assert engine.exit == "rc=1"
        assert "EngineCore failed to start." in engine.log


async def test_a_server_may_outlive_its_core(tmp_path: Path) -> None:
    async with running(tmp_path / "log", keep_alive_on_engine_death=True, time_scale=0.05) as engine:
        engine.supervisor.order({"do": "kill"})
        await until(lambda: not lives(engine.pids["VLLM::Worker_0"]))
        assert (await ask(engine.url, "/health")).result == "503"
        reply = await ask(engine.url, "/v1/completions", {"prompt": "x"})
        assert reply.result == "500" and "EngineCore encountered an issue" in reply.json["error"]["message"]
        assert (await ask(engine.url, "/metrics")).result == "200"
        assert engine.exit is None


async def test_other_answers_to_sigterm(tmp_path: Path) -> None:
    await asyncio.gather(
        _refuses_and_finishes(tmp_path / "refused"),
        _finishes_with_abort(tmp_path / "abort"),
        _ignores(tmp_path / "ignore"),
        _hangs(tmp_path / "hang"),
        _shell_swallows(tmp_path / "shell"),
    )


async def _refuses_and_finishes(log: Path) -> None:
    async with running(log, sigterm="drain-refused", time_scale=0.2) as engine:
        seen = await record(engine, send(engine), paths=_PATHS, exits_within_s=5.0)
        assert {fate.key for fate in seen.fates} == {(200, "length", True, "")}
        assert [result for _, what, result in seen.transitions if what == "GET /health"][-1] == "conn-refused"
        assert engine.exit == "rc=0"


async def _finishes_with_abort(log: Path) -> None:
    async with running(log, sigterm="abort-finish", time_scale=0.2) as engine:
        seen = await record(engine, send(engine), paths=_PATHS, tokens=_LONG, exits_within_s=5.0)
        assert {fate.key for fate in seen.fates} == {(200, "abort", True, "")}
        assert engine.exit == "rc=0"


async def _ignores(log: Path) -> None:
    async with running(log, sigterm="ignore") as engine:
        client = asyncio.create_task(complete(engine.url, 20))
        os.kill(engine.pids["api"], signal.SIGTERM)
        assert (await client).key == (200, "length", True, "")
        assert (await ask(engine.url, "/health")).result == "200"
        assert engine.exit is None


async def _hangs(log: Path) -> None:
    async with running(log, sigterm="hang") as engine:
        client = asyncio.create_task(complete(engine.url, _LONG, silence_s=0.7))
        await until(lambda: engine.supervisor.load.running == 1)
        os.kill(engine.pids["api"], signal.SIGTERM)
        assert (await client).error == "silent"
        assert (await ask(engine.url, "/health", timeout_s=0.3)).result == "timeout"
        os.kill(engine.pids["api"], signal.SIGTERM)
        assert engine.exit is None and lives(engine.pids["api"])


async def _shell_swallows(log: Path) -> None:
    async with running(log, under_shell=True) as engine:
        shell = _parent(engine.pids["api"])
        assert _comm(shell) in ("sh", "dash", "bash")
        engine.supervisor.order({"do": "terminate"})  # what a container runtime would do
        assert (await complete(engine.url, 20)).key == (200, "length", True, "")
        assert engine.exit is None
        os.kill(engine.pids["api"], signal.SIGTERM)
        await until(lambda: engine.exit is not None)
        assert engine.exit == "rc=0"


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
