"""Plans for simulated engines: real processes and sockets, and a systemctl that only notes what it is asked."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.actions.plans import child
from tests.demo.clients import complete
from tests.demo.running import lives, running, until
from tests.support.servers import Reply, serve, vllm
from tests.support.vllm_text import Rank, exposition
from tui.actions import planning, safety
from tui.actions.plan import RefusedError
from tui.actions.plan_text import lines
from tui.actions.planning import make_plan
from tui.actions.stops import Wish
from tui.actions.targets import find
from tui.model.places import Place
from tui.model.readings import EngineReading
from tui.model.settings import ActionSettings, Config, EngineTarget

if TYPE_CHECKING:
    from pathlib import Path

    from tui.actions.plan import Plan

DECOY = "import sys, socket\ns = socket.socket(fileno=int(sys.argv[-1]))\nwhile True:\n    s.accept()[0].close()\n"
ON = Config(actions=ActionSettings(enabled=True))


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def port_of(url: str) -> str:
    return url.rpartition(":")[2]


async def test_the_plan_of_an_engine_of_this_host(tmp_path: Path) -> None:
    async with running(
        tmp_path / "log", sigterm="drain-500", shutdown_timeout_s=7.0, api_key="S3cret"
    ) as engine:
        target = EngineTarget(engine.url, token="S3cret")
        plan, held = await make_plan(Wish("drain", requests=4), target, ON)
        with held:
            assert plan.target.name == f"vllm:{port_of(engine.url)}" and plan.target.kind == "process"
            assert plan.target.main is not None and plan.target.main.pid == engine.pids["api"]
            assert {process.pid for process in plan.target.tree} >= set(engine.pids.values())
            assert (plan.target.version, plan.target.model) == ("0.32.0", "demo-8b")
            assert (plan.grace_s, plan.grace_from) == (13.0, "--shutdown-timeout 7 + 6 s to tear down")
            assert (plan.others_running, plan.others_waiting) == (0.0, 0.0)
            assert (plan.traffic.requests, plan.traffic.model, plan.traffic.streaming) == (4, "demo-8b", True)
            assert (plan.readiness.path, plan.readiness.period_s) == ("/health", 10.0)
            assert plan.by is not None and plan.by.uid == os.getuid()
            assert safety.refusals(plan, ON, allow_actions=False) == []
            assert "S3cret" not in str(plan.document())
            text = "\n".join(lines(plan))
            for part in (
                f"vllm, pid {engine.pids['api']}, started 20",
                "--api-key ***",
                f"SIGTERM to pid {engine.pids['api']} (vllm)",
                "13s (--shutdown-timeout 7 + 6 s to tear down), then it is left as it is",
                "0 running, 0 waiting",
                "4 streams to /v1/completions",
                f"type vllm:{port_of(engine.url)}",
            ):
                assert part in text
            assert lives(engine.pids["api"])
            os.kill(engine.pids["api"], signal.SIGKILL)
            await until(lambda: not lives(engine.pids["api"]))
            with pytest.raises(RefusedError, match="has ended"):
                held.verify()
            assert held.main is not None and not held.main.send(signal.SIGTERM)


async def test_requests_of_others_are_seen(tmp_path: Path) -> None:
    async with running(tmp_path / "log") as engine:
        others = asyncio.create_task(complete(engine.url, 2000))
        await until(lambda: engine.supervisor.load.running == 1)
        plan, held = await make_plan(Wish("drain"), EngineTarget(engine.url), ON)
        held.close()
        assert (plan.others_running, plan.others_waiting) == (1.0, 0.0)
        assert "1 request of others in flight" in str(safety.refusals(plan, ON, allow_actions=False))
        knows = Wish("drain", with_traffic=True)
        careless = dataclasses.replace(ON, actions=ActionSettings(enabled=True, require_idle=False))
        for wish, config in ((knows, ON), (Wish("drain"), careless)):
            plan, held = await make_plan(wish, EngineTarget(engine.url), config)
            held.close()
            assert plan.with_traffic and not safety.refusals(plan, config, allow_actions=False)
        others.cancel()
        await asyncio.gather(others, return_exceptions=True)


async def test_what_only_looks_like_an_engine(tmp_path: Path) -> None:
    """A process named as one, that listens, and does not answer as one."""
    (tmp_path / "vllm").write_text(DECOY)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url, fd = f"http://127.0.0.1:{listener.getsockname()[1]}", listener.fileno()
        words = [sys.executable, "-B", str(tmp_path / "vllm"), "serve", "m", "--port", port_of(url), str(fd)]
        with child(*words, pass_fds=(fd,)) as decoy:
            listener.close()
            with pytest.raises(RefusedError, match="does not answer as an engine does"):
                await make_plan(Wish("drain"), EngineTarget(url), ON)
            assert decoy.poll() is None


async def test_a_server_of_a_program_that_is_no_engine() -> None:
    """It answers as one, from a process that is none: this test's own."""
    async with serve({"/version": Reply(200, '{"version": "0.32.0"}')}) as server:
        with pytest.raises(RefusedError, match=rf"pid {os.getpid()} .* not the server of a known engine"):
            await make_plan(Wish("drain"), EngineTarget(server.url), ON)


async def test_triton_needs_a_route_for_requests(tmp_path: Path) -> None:
    reading = EngineReading("http://127.0.0.1:1", "triton", model="m")
    with pytest.raises(RefusedError, match="generate_path and generate_body"):
        planning._traffic(Wish("drain"), EngineTarget("http://127.0.0.1:1"), reading, "triton")
    target = EngineTarget("http://127.0.0.1:1", generate_path="/v2/models/m/generate", generate_body="{}")
    traffic = planning._traffic(Wish("drain"), target, reading, "triton")
    assert (traffic.path, traffic.body, traffic.streaming) == ("/v2/models/m/generate", "{}", False)
    with pytest.raises(RefusedError, match="SGLang"):
        planning._traffic(Wish("restart", cache_traffic=True), target, reading, "vllm")


# ------------------------------------------------------------------------------ units


def systemctl(folder: Path, monkeypatch: pytest.MonkeyPatch, **properties: Any) -> Path:
    """A ``systemctl`` on PATH that notes its arguments and shows a unit."""
    shown = {"ActiveState": "active", "SubState": "running", "KillMode": "mixed", **properties}
    (folder / "shown").write_text("".join(f"{name}={value}\n" for name, value in shown.items()))
    program, calls = folder / "systemctl", folder / "calls"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ncat {folder}/shown\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return calls


async def test_the_unit_of_an_engine_and_a_unit_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below a shell: the engine is the target; the unit is its own if shell or engine is the main process."""
    async with running(tmp_path / "log", under_shell=True) as engine:
        pid, target = engine.pids["api"], EngineTarget(engine.url)
        shell = (await find(engine.url)).main.ppid

        async def planned(wish: Wish) -> Plan:
            plan, held = await make_plan(wish, target, ON)
            held.close()
            assert plan.target.main is not None and plan.target.main.pid == pid
            return plan

        plan = await planned(Wish("drain"))
        assert (plan.target.kind, plan.stop.text) == ("process", f"SIGTERM to pid {pid} (vllm)")
        assert any(warning.startswith("D07: its parent is a shell") for warning in plan.warnings)

        in_unit(monkeypatch, Place(unit="vllm.service"))
        shown = {"Restart": "on-failure", "TimeoutStopUSec": "45s", "KillMode": "control-group"}
        calls = systemctl(tmp_path, monkeypatch, MainPID=pid, **shown)
        plan = await planned(Wish("drain", grace_s=60.0))
        assert (plan.target.kind, plan.target.name, plan.target.unit) == (
            "systemd", "vllm.service", "vllm.service",
        )  # fmt: skip
        assert plan.stop.command == ("systemctl", "--no-ask-password", "stop", "--", "vllm.service")
        assert plan.start.by == "nobody" and "never starts a unit after systemctl stop" in plan.start.text
        assert "KillMode=control-group" in str(plan.warnings)
        assert "TimeoutStopSec=45 s" in str(plan.warnings)
        plan = await planned(Wish("restart"))
        assert (plan.start.by, plan.start.text) == ("systemd", "systemd (Restart=on-failure)")
        assert (plan.grace_s, plan.grace_from) == (45.0, "TimeoutStopSec of vllm.service")

        in_unit(monkeypatch, Place(unit="vllm.service", user_unit=True))
        systemctl(tmp_path, monkeypatch, MainPID=shell, Restart="no")
        plan = await planned(Wish("restart", "graceful"))
        assert plan.target.user_unit and plan.stop.text == "systemctl --user restart vllm.service"

        # of a cron job, a terminal: to stop that would end far more than the engine
        in_unit(monkeypatch, Place(unit="cron.service"))
        systemctl(tmp_path, monkeypatch, MainPID=os.getpid(), Restart="always")
        plan = await planned(Wish("drain"))
        assert (plan.target.kind, plan.stop.way, plan.start.by) == ("process", "sigterm", "unknown")
        assert f"cron.service, whose main process is another (pid {os.getpid()})" in plan.start.text
        with pytest.raises(RefusedError, match="--mode supervisor"):
            await planned(Wish("restart", "supervisor"))
        assert {line.replace("--user ", "").split()[0] for line in calls.read_text().splitlines()} == {"show"}
        assert lives(pid) and lives(shell)


async def test_a_command_in_place_of_a_signal() -> None:
    """What it stops needs no process that can be seen, but it must be at an address of this host."""
    wish = Wish("drain", stop_command=("docker", "stop", "vllm"))
    async with serve(vllm(exposition(Rank()))) as server:
        plan, held = await make_plan(wish, EngineTarget(server.url), ON)
        held.close()
        assert (plan.target.kind, plan.stop.way) == ("command", "command")
        assert plan.stop.text == "the command: docker stop vllm"
        assert plan.target.main is None and plan.target.tree == ()
        assert plan.warnings[0].startswith("its processes cannot be watched: ")
        assert "not seen here" in "\n".join(lines(plan))
        # figures that an engine does not tell are not zero
        server.routes["/metrics"] = Reply(200, "python_info 1\n")
        plan, held = await make_plan(wish, EngineTarget(server.url), ON)
        held.close()
        assert plan.others_running is None
        assert "not known" in str(safety.refusals(plan, ON, allow_actions=False))
        assert any("an unknown number running" in line for line in lines(plan))
    with pytest.raises(RefusedError, match="no address of this host"):
        await make_plan(wish, EngineTarget("http://192.0.2.7:8000"), ON)


def in_unit(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    """What the control group of a process of this machine would say below systemd."""
    monkeypatch.setattr("tui.actions.targets.place_of", lambda _proc, _pid: place)
