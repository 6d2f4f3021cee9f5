"""Which file a server writes to, by the links of real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import wait_for
from tui.sources.kernel.output import output_file
from tui.sources.processes import ProcessSource

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT = "import sys; sys.stdin.read()"


@pytest.fixture
def child() -> Any:
    """Starts processes that live until the end of the test; the pid."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, **streams: Any) -> int:
        command = words or (sys.executable, "-c", WAIT)
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, **streams))
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_first_stream_that_is_a_file(tmp_path: Path, child: Callable[..., int]) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as first, err.open("wb") as second:
        both = child(stdout=first, stderr=second)
        one = child(stdout=subprocess.PIPE, stderr=second)
    assert output_file("/proc", both, (1, 2)) == str(out)
    assert output_file("/proc", both, (2, 1)) == str(err)
    assert output_file("/proc", one, (1, 2)) == str(err)


def test_what_is_no_file_of_this_host(tmp_path: Path, child: Callable[..., int]) -> None:
    gone = tmp_path / "gone"
    with gone.open("wb") as file:
        deleted = child(stdout=file, stderr=subprocess.DEVNULL)
    gone.unlink()
    piped = child(stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert output_file("/proc", deleted, (1, 2)) == ""
    assert output_file("/proc", piped, (1, 2)) == ""
    assert output_file("/proc", 2**22 + 1, (1, 2)) == ""  # no process has that pid


def test_a_path_of_another_mount_namespace_is_another_file_here(
    tmp_path: Path, child: Callable[..., int]
) -> None:
    with (tmp_path / "out").open("wb") as file:
        apart = child("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "read x", stdout=file)
        here = child("sh", "-c", "read x", stdout=file)
    wait_for(lambda: output_file("/proc", here, (1,)), 10, "its start")
    ours = Path("/proc/self/ns/mnt").readlink()
    try:
        wait_for(lambda: Path(f"/proc/{apart}/ns/mnt").readlink() != ours, 10, "its namespace")
    except OSError:
        pytest.skip("no mount namespace may be made here")
    assert output_file("/proc", apart, (1,)) == ""


def test_only_servers_are_asked(tmp_path: Path, child: Callable[..., int]) -> None:
    script = tmp_path / "vllm"
    script.write_text(WAIT)
    with (tmp_path / "log").open("wb") as file:
        pid = child(sys.executable, str(script), "serve", "tiny", stdout=file)
        source = ProcessSource()
        found = wait_for(
            lambda: next((p for p in source.read().processes if p.pid == pid), None), 10, "the server"
        )
        assert found.output == str(tmp_path / "log")
        os.kill(pid, signal.SIGKILL)
        wait_for(
            lambda: any(p.pid == pid and p.zombie for p in source.read().processes), 10, "its end, unseen"
        )
    ended = next(p for p in source.read().processes if p.pid == pid)
    assert ended.output == str(tmp_path / "log")  # why it ended is told there
