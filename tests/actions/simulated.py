"""Simulated engines for tests of the tests, and plans against them; only what was started here is signalled."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.demo.running import until, until_ready
from tui.actions import runner
from tui.actions.ancestry import stat_of
from tui.actions.plan import HeldProcess, Plan, ReadinessProbe, Start, Stop, TestTarget, Traffic
from tui.actions.runs import EventWriter, RunFiles, new_run
from tui.demo.spec import OWN_SIGTERM, EngineSpec
from tui.demo.supervisor import RestartPolicy, Supervisor
from tui.model.settings import EngineTarget

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROLES = {"api": "api_server", "VLLM::EngineCore": "engine_core", "sglang::scheduler": "scheduler"}


@dataclass
class Simulated:
    """One engine, and when its supervisor saw what, in epoch seconds."""

    supervisor: Supervisor
    spec: EngineSpec
    seen: list[tuple[float, str]] = field(default_factory=list)
    pids: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.supervisor.url

    def exited_at(self) -> float:
        """When the API server ended the first time."""
        return next(at for at, line in self.seen if line.startswith("exited"))

    def started_again_at(self) -> float:
        return [at for at, line in self.seen if line.startswith("http")][1]

    def plan(self, test: str = "drain", **changes: Any) -> Plan:
        """A plan against it, with short times."""
        tree = tuple(self._held(title) for title in sorted(self.pids, key=lambda title: title != "api"))
        readiness = "/ready" if self.spec.dialect == "sglang" else "/health"
        name = f"{self.spec.dialect}:{self.url.rpartition(':')[2]}"
        values: dict[str, Any] = {
            "test": test,
            "target": TestTarget(
                "process",
                name,
                self.url,
                self.spec.dialect,
                "1.2",
                self.spec.model,
                tree[0],
                tree,
                parameters_b=8.0,
            ),
            "stop": Stop("sigterm", f"SIGTERM to pid {tree[0].pid}"),
            "start": Start("parent", "its parent"),
            "grace_s": 4.0,
            "grace_from": "--grace",
            "readiness": ReadinessProbe(readiness, period_s=1.0, timeout_s=1.0, failure_threshold=1),
            "traffic": Traffic(requests=4, max_tokens=100, outlast_s=0.2, model=self.spec.model),
            "restart_deadline_s": 30.0,
        }
        return Plan(**{**values, **changes})

    def _held(self, title: str) -> HeldProcess:
        pid = self.pids[title]
        stat = stat_of(pid)
        assert stat is not None
        role: Any = ROLES.get(title, "worker")
        return HeldProcess(pid, stat.start_ticks, title, role, cmdline=(self.spec.dialect, "serve"))


@contextlib.asynccontextmanager
async def simulated(
    restart: RestartPolicy = "no", log: Path | None = None, **settings: Any
) -> AsyncIterator[Simulated]:
    """Start an engine, end it and everything below it afterwards."""
    dialect = settings.get("dialect", "vllm")
    spec = EngineSpec(
        **{
            "port": 0,
            "load_s": 0.0,
            "time_scale": 0.2,
            "max_num_seqs": 16,
            "sigterm": OWN_SIGTERM[dialect],
            **settings,
        }
    )
    seen: list[tuple[float, str]] = []
    with contextlib.ExitStack() as stack:
        file = stack.enter_context((log or Path("/dev/null")).open("wb"))
        supervisor = Supervisor(
            spec, restart=restart, log=file.fileno(), on_event=lambda line: seen.append((time.time(), line))
        )
        try:
            await supervisor.start()
            await until_ready(supervisor.url)
            expected = 3 if dialect == "sglang" else 2 + spec.tensor_parallel_size
            await until(lambda: len(supervisor.pids) >= expected)
            await until(lambda: supervisor.load.phase == "serving" and supervisor.load.running == 0)
            yield Simulated(supervisor, spec, seen, supervisor.pids)
        finally:
            await supervisor.stop()
            await asyncio.sleep(0)


@dataclass
class Told:
    """What a test wrote of itself."""

    files: RunFiles
    status: int
    events: list[dict[str, Any]]
    report: dict[str, Any]
    done: dict[str, Any]

    def at(self, name: str) -> float:
        """Epoch seconds of an event."""
        action = next(e for e in self.events if e["kind"] == "event" and e["event"] == "signal_sent")
        event = next(e for e in self.events if e["kind"] == "event" and e["event"] == name)
        return float(action["at"] + event["t_s"])

    def t(self, name: str) -> float:
        """Seconds after the action of an event of the report."""
        return float(next(e["t_s"] for e in self.report["events"] if e["event"] == name))

    def has(self, name: str) -> bool:
        return any(e["event"] == name for e in self.report["events"])

    def requests(self, kind: str) -> list[dict[str, Any]]:
        return [r for r in self.report["requests"] if r["kind"] == kind]


def told(status: int, files: RunFiles) -> Told:
    """Read the event file of a test that has ended, and its report."""
    lines = [json.loads(line) for line in files.events.read_text().splitlines()]
    done = lines[-1]
    report = json.loads(Path(done["report"]).read_text()) if done["report"] else {}
    return Told(files, status, lines, report, done)


def slack() -> float:
    """What our times and the engine's may differ by, in seconds: more on a machine that is full."""
    busy = "PYTEST_XDIST_WORKER" in os.environ or os.getloadavg()[0] > 0.7 * (os.cpu_count() or 1)
    return 0.4 if busy else 0.1


async def run(engine: Simulated, *, test: str = "drain", log: str = "", **changes: Any) -> Told:
    """A test of it in this process."""
    plan = engine.plan(test, **changes)
    files = new_run(plan.test)
    writer = EventWriter(files)
    status = await runner.run(files, plan, EngineTarget(engine.url, log=log), writer)
    writer.close()
    return told(status, files)
