"""Where a process runs, told from the path of its control group."""

from __future__ import annotations

import re
from typing import Final

from tui.model.places import Place
from tui.model.text import clean
from tui.sources.kernel.procfs import read_start

_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_RUNTIMES: Final = (
    ("libpod", "podman"),
    ("cri-containerd", "containerd"),
    ("crio", "crio"),
    ("docker", "docker"),
)


def place(proc: str, pid: int) -> Place | None:
    """The container, pod and unit of a process; None where the kernel tells none of them.

    Args:
        proc: where procfs is mounted.
        pid: the process.
    """
    try:
        text = read_start(f"{proc}/{pid}/cgroup", 16384).decode("utf-8", "replace")
    except OSError:
        return None
    found = parse(text)
    return found if found != Place() else None


def parse(text: str) -> Place:
    """A /proc/PID/cgroup of either version: the first path that names each thing counts."""
    container = runtime = pod = unit = None
    user, manager = False, None
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        if (match := _CONTAINER.search(path)) and container is None:
            container = match[1]
            runtime = next((name for word, name in _RUNTIMES if word in path), None)
        if (match := _POD.search(path)) and pod is None:
            pod = match[1].replace("_", "-")
        services = [part for part in path.split("/") if part.endswith(".service")]
        if unit is None and services and not services[-1].startswith("user@"):
            unit, above = clean(services[-1], 120), [s for s in services[:-1] if s.startswith("user@")]
            user = bool(above)
            uid = above[-1][len("user@") : -len(".service")] if above else ""
            manager = int(uid) if uid.isascii() and uid.isdigit() and len(uid) <= 10 else None
    return Place(container, runtime, pod, unit, user, manager)
