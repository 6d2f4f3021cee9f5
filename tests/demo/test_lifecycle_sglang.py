"""Every way in which the captured SGLang ended, hung or crashed, against the simulated one."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Any

from tests.demo.clients import ask, complete
from tests.demo.recording import assert_like, differences, load_capture, order, record, send
from tests.demo.running import lives, running, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.demo.running import Running

_PATHS = ("/health", "/v1/models", "/metrics", "/v1/completions")
_LONG = 3000
_SGLANG: dict[str, Any] = {"dialect": "sglang", "sigterm": "drain-serve", "max_num_seqs": 8}


async def _compare(
    folder: Path,
    name: str,
    event: Callable[[Running], Callable[[], None]],
    *,
    time_scale: float,
    later: tuple[tuple[float, Callable[[Running], Callable[[], None]]], ...] = (),
    exit_code: str | None = None,
    left: set[str] | None = None,
    step_s: float = 0.02,
    **watching: Any,
) -> list[str]:
    """Run a scenario and hold it against its capture."""
    settings = {**_SGLANG, "time_scale": time_scale, "decode_step_s": step_s}
    async with running(folder / f"{name}.log", **settings) as engine:
        seen = await record(
            engine,
            event(engine),
            **{"paths": _PATHS, **watching},
            later=tuple((moment_s, action(engine)) for moment_s, action in later),
        )
        found = differences(load_capture("sglang", name), seen, time_scale)
        if exit_code is not None:
            await until(lambda: engine.exit is not None)
        if engine.exit != exit_code:
            found.append(f"exit {engine.exit}, in the capture {exit_code}")
        if left is not None and seen.left != left:
            found.append(f"left {seen.left}, in the capture {left}")
    return [f"{name}: {text}" for text in found]


async def test_ends_as_captured(tmp_path: Path) -> None:
    """Drain that still serves, SIGINT that leaves the process behind, SIGKILL that leaves nothing."""
    assert_like(
        await asyncio.gather(
            _compare(
                tmp_path, "drain-sigterm", send, time_scale=0.2, step_s=0.005, tokens=150,
                exits_within_s=20.0, exit_code="rc=0", left=set(),
            ),
            _compare(
                tmp_path, "drain-sigint", lambda e: send(e, signal.SIGINT), time_scale=0.5, watch_s=2.0,
                left={"api", "core", "detokenizer"},
            ),
            _compare(
                tmp_path, "kill9-main", lambda e: order(e, "kill", "api"), time_scale=0.2, tokens=_LONG,
                watch_s=1.5, exits_within_s=2.0, exit_code="rc=-9", left=set(),
            ),
        )
    )  # fmt: skip


async def test_crashes_as_captured(tmp_path: Path) -> None:
    """A dead child: everything blocks, for five seconds or sixty-five, then the whole tree is killed."""
    crash: dict[str, Any] = {"tokens": _LONG, "exit_code": "rc=-9"}
    assert_like(
        await asyncio.gather(
            _compare(
                tmp_path, "crash-scheduler-kill9-loaded", lambda e: order(e, "kill"), time_scale=0.3,
                silence_s=5.0, poll_timeout_s=5.0, exits_within_s=5.0, **crash,
            ),
            _compare(
                tmp_path, "crash-detokenizer-kill9-loaded", lambda e: order(e, "kill", "detokenizer"),
                time_scale=0.05, silence_s=2.0, poll_timeout_s=1.25, watch_s=3.0, **crash,
            ),
        )
    )  # fmt: skip


async def test_hangs_as_captured(tmp_path: Path) -> None:
    """A stopped scheduler: /health is silent, then 503; with SIGTERM on top the process blocks as well."""
    resume = ((1.7, lambda engine: order(engine, "resume")),)
    hang: dict[str, Any] = {"requests": 4}
    assert_like(
        await asyncio.gather(
            _compare(
                tmp_path, "hang-scheduler-stop", lambda e: order(e, "hang"), time_scale=0.05,
                later=resume, silence_s=10.0, poll_timeout_s=1.25, watch_s=3.0, **hang,
            ),
            _compare(
                tmp_path, "hang-then-sigterm", lambda e: order(e, "hang"), time_scale=0.08,
                later=((0.4, send),), tokens=_LONG, silence_s=2.5, poll_timeout_s=1.8, watch_s=4.4, **hang,
            ),
        )
    )  # fmt: skip


async def test_a_hang_shows_in_loads_first_and_in_ready_only_after_a_health_call(tmp_path: Path) -> None:
    async with running(tmp_path / "log", **_SGLANG, time_scale=0.05) as engine:
        client = asyncio.create_task(complete(engine.url, 60))
        await until(lambda: engine.supervisor.load.running == 1)
        assert await _load_age_s(engine.url) < 1.0
        engine.supervisor.order({"do": "hang"})
        before = (await ask(engine.url, "/v1/loads")).json["loads"][0]["timestamp"]
        ends_s = time.monotonic() + 20.0
        while await _load_age_s(engine.url) < 0.2:
            assert time.monotonic() < ends_s, "its steps went on"
        stopped = (await ask(engine.url, "/v1/loads")).json["loads"][0]
        assert stopped["timestamp"] - before < 0.1 and stopped["num_running_reqs"] == 1
        assert (await ask(engine.url, "/ready")).result == "200"
        began_s = time.monotonic()
        assert (await ask(engine.url, "/health")).result == "503"
        assert time.monotonic() - began_s > 20.0 * 0.05 * 0.9
        assert (await ask(engine.url, "/ready")).result == "503"
        engine.supervisor.order({"do": "resume"})
        assert (await client).key == (200, "length", True, "")
        assert (await ask(engine.url, "/health")).result == "200"
        assert (await ask(engine.url, "/ready")).result == "200"


async def _load_age_s(url: str) -> float:
    timestamp: float = (await ask(url, "/v1/loads")).json["loads"][0]["timestamp"]
    return time.time() - timestamp


async def test_start_up_answers_models_before_it_is_ready(tmp_path: Path) -> None:
    """Refused, then models and metrics 200 with health and ready 503, then all 200."""
    seen: dict[str, list[str]] = {path: [] for path in ("/v1/models", "/metrics", "/ready", "/health")}
    async with running(tmp_path / "log", wait=False, **_SGLANG, load_s=3.0, time_scale=0.1) as engine:
        ends_s = time.monotonic() + 15.0
        while time.monotonic() < ends_s and any(results[-1:] != ["200"] for results in seen.values()):
            for path, results in seen.items():
                result = (await ask(engine.url, path)).result
                if not results or results[-1] != result:
                    results.append(result)
            await asyncio.sleep(0.01)  # between two looks, of which 30 fall into its warm-up
        assert seen["/v1/models"] == seen["/metrics"] == ["conn-refused", "200"]
        assert seen["/ready"] == seen["/health"] == ["conn-refused", "503", "200"]
        assert lives(engine.supervisor.pids["sglang::scheduler"])
        assert "The server is fired up and ready to roll!" in engine.log
