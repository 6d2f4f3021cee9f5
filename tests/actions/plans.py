"""Plans and processes for tests: real children of this process, held as the program holds an engine."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
from typing import TYPE_CHECKING, Any

from tui.actions.ancestry import stat_of
from tui.actions.plan import HeldProcess, Plan, ReadinessProbe, Start, Stop, TestTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

URL = "http://127.0.0.1:8000"
PLAN = Plan(
    test="drain",
    target=TestTarget("process", "vllm:8000", URL, "vllm"),
    stop=Stop("sigterm", "SIGTERM to pid 4711 (vllm)"),
    start=Start("nobody", "nobody: it stays down"),
    grace_s=30.0,
    grace_from="[actions] grace_s",
    readiness=ReadinessProbe("/health", 10.0, 1.0, 3),
    others_running=0.0,
    others_waiting=0.0,
)


def held(pid: int, name: str = "sleep") -> HeldProcess:
    """A process as a plan names it."""
    stat = stat_of(pid)
    assert stat is not None
    return HeldProcess(pid, stat.start_ticks, name, "api_server", cmdline=(name,))


def plan_of(*pids: int, **changes: Any) -> Plan:
    """The plan for an engine of these processes, the main one first."""
    tree = tuple(held(pid) for pid in pids)
    target = dataclasses.replace(PLAN.target, main=tree[0] if tree else None, tree=tree)
    return dataclasses.replace(PLAN, target=target, **changes)


@contextlib.contextmanager
def child(*words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process of ours, ended at the end."""
    process = subprocess.Popen(
        words or ("sleep", "60"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
