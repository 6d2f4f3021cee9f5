"""The files of a run, how a process ended, and the log of a start: each with what can be wrong about them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.program import environment as program_environment
from tests.support.waiting import wait_for
from tui.actions import runs
from tui.actions.ancestry import stat_of
from tui.actions.commands import spawn
from tui.actions.exits import UNKNOWN, Exit, exit_of, from_status
from tui.actions.launch import last_words
from tui.actions.progress import line
from tui.actions.runs import EventReader, EventWriter, RunFiles, all_runs, holder, new_run
from tui.actions.start_log import StartLog
from tui.actions.watch import established

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def ours(files: RunFiles, *, pid: int | None = None, shift: int = 0) -> None:
    """The first line of an event file, of this process or of another."""
    stat = stat_of(os.getpid())
    assert stat is not None
    writer = EventWriter(files)
    writer.write("process", pid=pid or os.getpid(), start_ticks=stat.start_ticks + shift)
    writer.close()


def test_a_run_is_found_by_its_process_and_no_other() -> None:
    files = new_run("drain")
    assert holder(files) is None
    ours(files)
    assert holder(files) == os.getpid()
    recycled = new_run("drain")
    ours(recycled, shift=-1)
    assert holder(recycled) is None
    ended = subprocess.Popen([sys.executable, "-c", ""])
    dead = new_run("restart")
    stat = stat_of(ended.pid)
    assert stat is not None
    (dead.events).write_text(
        json.dumps({"kind": "process", "pid": ended.pid, "start_ticks": stat.start_ticks})
    )
    wait_for(lambda: (found := stat_of(ended.pid)) is None or found.zombie, 10, "its end")
    assert holder(dead) is None  # a zombie runs no test
    ended.wait()


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", '{"pid": "x", "start_ticks": 1}', '{"pid": 1}', '{"pid": Infinity, "start_ticks": 1}',
        '{"pid": 1e400, "start_ticks": 1}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_first_line_is_nobody(text: str) -> None:
    files = new_run("drain")
    files.events.write_text(text)
    assert holder(files) is None


def test_what_is_no_regular_file_is_not_read() -> None:
    files = new_run("drain")
    os.mkfifo(files.events)  # opening it would wait for a writer
    assert holder(files) is None
    with pytest.raises(OSError, match="regular"):
        EventReader(files.events).read()
    files.events.unlink()
    files.events.symlink_to("/dev/zero")  # it has no end
    assert holder(files) is None
    os.mkfifo(files.log)
    assert last_words(files) == "nothing"


def test_a_folder_that_is_no_run_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUNS_KEPT", 1)
    other = tmp_path / "elsewhere"
    (other / "2026-photographs").mkdir(parents=True)
    (tmp_path / "infertop").mkdir()
    (tmp_path / "infertop/runs").symlink_to(other)
    made = [new_run("drain") for _ in range(3)]
    assert (other / "2026-photographs").is_dir()
    assert [files.folder.name for files in all_runs()] == [made[-1].folder.name]


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "done", "passed": []}, {"kind": "done", "reasons": 5}, {"kind": "event", "at": "x"},
        {"kind": "event", "t_s": float("nan")}, {"kind": "request", "id": 10**400}, {"kind": "gauge", "silent": 1},
    ],
)  # fmt: skip
def test_a_line_of_another_shape_is_passed_over(line: dict[str, object]) -> None:
    files = new_run("drain")
    good = {"kind": "note", "at": 1.0, "text": "fine"}
    files.events.write_text(f"{json.dumps(line)}\n{json.dumps(good)}\n")
    assert EventReader(files.events).read() == [good]


def test_old_runs_go_and_living_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUNS_KEPT", 3)
    first = new_run("drain")
    ours(first)
    others = [new_run("drain") for _ in range(5)]
    assert first.folder.exists() and not others[0].folder.exists()
    assert all_runs()[0] == others[-1]
    assert all(files.folder.stat().st_mode & 0o777 == 0o700 for files in all_runs())


def test_lines_are_read_once_and_whole() -> None:
    files = new_run("drain")
    reader = EventReader(files.events)
    assert reader.read() == [] and not reader.begun
    ours(files)
    assert [event["kind"] for event in reader.read()] == ["process"]
    with files.events.open("a") as file:
        file.write('{"kind": "note"')
        file.flush()
        assert reader.read() == []
        file.write(', "text": "x"}\nno json\n[1]\n')
    assert [event["kind"] for event in reader.read()] == ["note"]
    assert reader.read() == [] and reader.begun


FULL_DISK = """
import os, sys
from pathlib import Path
from tui.actions.runs import EventReader, EventWriter, new_run
files = new_run("drain")
writer = EventWriter(files)
with (files.folder / "other").open("wb", buffering=0) as other:
    try:
        while other.write(bytes(4096)):
            pass
    except OSError:
        pass
for number in range(200):
    writer.write("note", text=f"{number} " + "x" * 200)
assert writer.lost, "the disk is not full"
writer.end(passed=True, reasons=[], report=None)
events = EventReader(files.events).read()
print(events[-1]["kind"], files.spare.exists())
"""


def test_the_end_of_a_test_is_told_on_a_full_disk(tmp_path: Path) -> None:
    environment = {**program_environment(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    mounted = f"mount -t tmpfs -o size=1m none {tmp_path} && exec {sys.executable} -c '{FULL_DISK}'"
    command = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted)
    may = (*command[:-1], f"mount -t tmpfs none {tmp_path}")
    allowed = subprocess.run(may, capture_output=True, check=False)
    if allowed.returncode:
        pytest.skip("no file system may be mounted here")
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (ended.stdout, ended.stderr) == ("done False\n", "")


HALF = """
import resource
from tui.actions.report import save_elsewhere
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
try:
    save_elsewhere({"test": "drain", "notes": ["x" * 100]})
except OSError as error:
    print(error.strerror)
"""


def test_half_a_report_is_not_left_behind(tmp_path: Path) -> None:
    environment = {**program_environment(tmp_path), "TMPDIR": str(tmp_path)}
    command = (sys.executable, "-c", HALF)
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (ended.stdout, ended.stderr) == ("File too large\n", "")
    assert list(tmp_path.iterdir()) == []


def test_exits_as_the_kernel_tells_them() -> None:
    for program, wanted in (("raise SystemExit(3)", Exit(code=3)), ("import os; os.abort()", Exit(signal=6))):
        process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
        pidfd = os.pidfd_open(process.pid)
        assert exit_of(pidfd) == UNKNOWN
        process.wait()
        assert exit_of(pidfd) in (wanted, UNKNOWN)  # before Linux 6.15 nobody but the parent is told
        os.close(pidfd)
    assert from_status(0) == Exit(code=0) and from_status(9) == Exit(signal=9)


def test_the_log_of_a_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("INFO Starting to load model old...\n")
    log = StartLog(path)
    log.look(1.0)
    assert log.marks == {}
    with path.open("a") as file:
        file.write("(Worker) Starting to load mo")
        file.flush()
        log.look(2.0)
        file.write("del x...\n(Worker) Loading weights took 4.00 seconds\n")
        file.flush()
        log.look(3.0)
    assert log.marks == {"weights_begin": 3.0, "weights_end": 3.0}
    path.write_text("init engine (profile, create kv cache, warmup model) took 9 s\n")  # rotated: shorter now
    log.look(4.0)
    assert log.marks["compile_end"] == 4.0
    path.unlink()
    log.look(5.0)
    os.mkfifo(path)
    StartLog(path).look(6.0)


def test_what_is_spawned_leads_a_session_and_reads_nothing(tmp_path: Path) -> None:
    program = "import os, sys; print(os.getsid(0) == os.getpid(), sys.stdin.read() == '', os.getcwd())"
    spawn([sys.executable, "-c", program], tmp_path / "log")
    wait_for(lambda: (tmp_path / "log").read_text(), 10, "its words")
    assert (tmp_path / "log").read_text() == "True True /\n"
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_connections_are_counted_from_the_servers_side() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert established(port) == 0
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0]:
            assert established(port) == 1
            assert established(client.getsockname()[1]) == 1


def test_lines_for_a_person_hold_nothing_hostile() -> None:
    assert (
        line({"kind": "event", "t_s": 0.061, "event": "port_closed", "detail": ""})
        == "   +0.06 s  port closed"
    )
    assert line({"kind": "event", "t_s": None, "event": "x", "detail": "a\x1b[2Jb"}).endswith("  x: ab")
    assert line({"kind": "gauge"}) == line({"kind": "request", "request": "new", "outcome": "cut"}) == ""
    assert line({"kind": "done", "passed": None, "reasons": ["why"]}) == "no result; why"
