"""Who starts an engine again, told from its unit, its container, its parents and their scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.proctree import ProcTree
from tui.actions import supervisor
from tui.model.places import ContainerReading, Place, UnitReading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tui.actions.plan import StopWay

LOOP = "while true; do vllm serve m; sleep 1; done"
ONCE = "export A=1\nvllm serve m"


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path)


def below(tree: ProcTree, comm: str, argv: Sequence[str], *, parent: int = 1) -> None:
    """Engine 100 below pid 50."""
    tree.process(50, ppid=parent, comm=comm, argv=argv)
    tree.process(100, ppid=50, comm="vllm", argv=["vllm", "serve", "m"])


@pytest.mark.parametrize(
    ("restart", "way", "by"),
    [
        ("always", "sigterm", "systemd"),
        ("always", "kill_tree", "systemd"),
        ("always", "systemctl_stop", "nobody"),  # whatever Restart= says
        ("no", "systemctl_restart", "systemd"),
        ("no", "kill_tree", "nobody"),
        ("on-failure", "sigterm", "nobody"),  # SIGTERM and exit status 0 are a clean end
        ("on-failure", "kill_tree", "systemd"),
        ("on-failure", "kill_api_server", "systemd"),
        ("on-success", "sigterm", "systemd"),
        ("on-success", "kill_tree", "nobody"),
        ("on-abnormal", "kill_tree", "systemd"),
        ("on-abnormal", "sigterm", "nobody"),
        (None, "sigterm", "unknown"),
    ],
)
def test_systemd(restart: str | None, way: StopWay, by: str) -> None:
    start = supervisor.of_unit(UnitReading("vllm.service", restart=restart), way)
    assert start.by == by
    if by == "nobody":
        assert start.text.startswith("nobody:") and f"Restart={restart}" in start.text


@pytest.mark.parametrize(
    ("policy", "by"),
    [("no", "nobody"), ("always", "docker"), ("unless-stopped", "docker"), (None, "unknown")],
)
def test_docker(policy: str | None, by: str) -> None:
    reading = ContainerReading("3f" * 32, restart_policy=policy)
    assert supervisor.of_container(Place("3f" * 32), reading).by == by


def test_the_kubelet() -> None:
    start = supervisor.of_container(Place("3f" * 32, pod_uid="abc"), None)
    assert start.by == "kubelet" and "pod abc" in start.text


@pytest.mark.parametrize(
    ("comm", "argv", "by"),
    [
        ("sh", ["sh", "-c", LOOP], "parent"),
        ("bash", ["/bin/bash", "-ec", f"set -u\n{LOOP}"], "parent"),
        ("bash", ["bash", "-o", "pipefail", "-c", "until vllm serve m; do :; done"], "parent"),
        ("sh", ["sh", "-c", ONCE], "nobody"),
        ("sh", ["sh", "-c", "vllm serve m --name meanwhile-while"], "nobody"),
        ("bash", ["-bash"], "nobody"),  # somebody's terminal
        ("bash", ["bash", "-i"], "nobody"),
        ("supervisord", ["supervisord", "-n"], "parent"),
        ("runsv", ["runsv", "vllm"], "parent"),
        ("python3", ["python3", "launch.py"], "unknown"),
        ("bash", ["bash", "gone.sh"], "unknown"),
    ],
)
def test_what_the_parent_is(tree: ProcTree, comm: str, argv: list[str], by: str) -> None:
    below(tree, comm, argv)
    start = supervisor.of_parents(100, str(tree.proc))
    assert start.by == by
    if by == "parent":
        assert start.text.startswith("perhaps ") and "pid 50" in start.text


@pytest.mark.parametrize(("text", "by"), [(LOOP, "parent"), (ONCE, "nobody")])
@pytest.mark.parametrize("absolute", [True, False])
def test_a_script_in_a_file(tree: ProcTree, tmp_path: Path, text: str, by: str, absolute: bool) -> None:
    """A path is one of the shell's own root and folder."""
    folder = tmp_path / "srv"
    folder.mkdir()
    (folder / "run.sh").write_text(f"#!/bin/sh\n{text}\n")
    below(tree, "sh", ["sh", "/srv/run.sh" if absolute else "run.sh"])
    (tree.proc / "50/root").symlink_to(tmp_path)
    (tree.proc / "50/cwd").symlink_to(folder)
    assert supervisor.of_parents(100, str(tree.proc)).by == by


def test_a_shell_without_a_loop_leaves_it_to_what_is_above(tree: ProcTree) -> None:
    tree.process(40, comm="bash", argv=["bash", "-c", "while sleep 1; do sh -c vllm; done"])
    below(tree, "sh", ["sh", "-c", ONCE], parent=40)
    start = supervisor.of_parents(100, str(tree.proc))
    assert start.by == "parent" and "pid 40" in start.text


def test_init_starts_nothing_again(tree: ProcTree) -> None:
    tree.process(100, comm="vllm", argv=["vllm", "serve", "m"])
    assert supervisor.of_parents(100, str(tree.proc)) == supervisor.NOBODY


def test_a_shell_keeps_sigterm_to_itself(tree: ProcTree) -> None:
    below(tree, "sh", ["sh", "-c", ONCE])
    (warning,) = supervisor.signal_warnings(100, str(tree.proc))
    assert warning.startswith("D07: its parent is a shell (sh, pid 50)")
    below(tree, "bash", ["-bash"])
    assert supervisor.signal_warnings(100, str(tree.proc)) == []


@pytest.mark.parametrize(
    ("ignored", "caught", "said"),
    [(0x0, 0x4000, None), (0x4000, 0x0, "it ignores SIGTERM"), (0x1000, 0x2, "does not catch SIGTERM")],
)
def test_what_sigterm_does_to_it(tree: ProcTree, ignored: int, caught: int, said: str | None) -> None:
    tree.process(100, comm="vllm")
    tree.write("100/status", f"Name:\tvllm\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n")
    warnings = supervisor.signal_warnings(100, str(tree.proc))
    assert (warnings == []) if said is None else (said in warnings[0])
