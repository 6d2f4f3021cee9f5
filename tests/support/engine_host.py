"""A made-up machine with engines on it, in the shapes that real ones were seen in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.clock import ManualClock
from tests.support.proctree import ProcTree
from tui.sources.processes import ProcessSource

if TYPE_CHECKING:
    from tui.model.readings import EngineProcess, ProcessTable

FIXTURES = Path(__file__).parents[1] / "fixtures/processes"
URL = "http://127.0.0.1:18000"
VLLM = [
    "/venv/bin/python3",
    "/venv/bin/vllm",
    "serve",
    "tiny-llama",
    "--host",
    "127.0.0.1",
    "--port",
    "18000",
]


class EngineHost:
    """A made-up machine and the source that finds its engines."""

    def __init__(self, root: Path) -> None:
        self.tree = ProcTree(root)
        self.clock = ManualClock()
        self.source = ProcessSource(self.tree.proc, self.clock.monotonic)

    def read(self, after: float = 0.0) -> ProcessTable:
        self.clock.now += after
        return self.source.read()

    def captured(self, name: str, listening: dict[int, list[tuple[int, int]]]) -> None:
        """The tree of a real engine, whose processes listen at (port, inode)."""
        recorded = json.loads((FIXTURES / f"{name}.json").read_text())
        for pid, process in recorded.get("tree", recorded).items():
            own = "::" in process["cmd"]
            self.tree.process(
                int(pid),
                ppid=process["ppid"],
                comm=process["comm"],
                argv=() if own else process["cmd"].split(" "),
                title=process["cmd"] if own else "",
                state=process["state"],
                inodes=[inode for _, inode in listening.get(int(pid), ())],
            )
        for port, inode in {socket for sockets in listening.values() for socket in sockets}:
            self.tree.listen(port, inode)

    def vllm(self) -> None:
        """One server that listens at ``URL``, its core and worker, whose own sockets are not HTTP."""
        self.tree.process(100, comm="vllm", argv=VLLM, inodes=[7], start=2000)
        self.tree.process(
            101, ppid=100, comm="python3", argv=["python3", "-c", "from multiprocessing.resource_tracker"]
        )
        self.tree.process(102, ppid=100, comm="VLLM::EngineCore", title="VLLM::EngineCore")
        self.tree.process(103, ppid=102, comm="VLLM::Worker", title="VLLM::Worker", inodes=[8, 9])
        self.tree.listen(18000, 7)
        self.tree.listen(43311, 8)
        self.tree.listen(46105, 9)


def roles(table: ProcessTable | tuple[EngineProcess, ...]) -> dict[int, str]:
    rows = table if isinstance(table, tuple) else table.processes
    return {process.pid: process.role for process in rows}
