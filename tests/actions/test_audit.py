"""The audit log: who, when, what, outcome; and no test without it."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from tests.actions.plans import PLAN, child, plan_of
from tui.actions.audit import AuditLog, cut_off, log_path, requester
from tui.actions.plan import RefusedError, Requester

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "infertop"


def test_who_when_what_and_outcome(state: Path) -> None:
    by = Requester(0, "root", "/dev/pts/3", "192.0.2.9", "anna")
    with child() as process, AuditLog() as log:
        plan = plan_of(process.pid, by=by, kill_after_grace=True)
        log.write("started", "run-1", plan)
        log.write("signal", "run-1", plan, "SIGTERM\nto a \x1b[31mpid")
        log.write("ended", "run-1", plan, "passed")
        pid = process.pid
    path = log_path()
    assert path == state / "audit.log"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(entry["what"], entry["id"]) for entry in entries] == [
        ("started", "run-1"), ("signal", "run-1"), ("ended", "run-1"),
    ]  # fmt: skip
    first = entries[0]
    assert first["by"] == dataclasses.asdict(by)
    assert first["target"]["pid"] == pid and first["target"]["name"] == "vllm:8000"
    assert first["action"] == "SIGTERM to pid 4711 (vllm)" and first["kill_after_grace"] is True
    assert first["at"].endswith("+00:00")
    assert entries[1]["outcome"] == "SIGTERM to a pid"
    assert entries[2]["outcome"] == "passed"


def test_it_is_only_ever_appended_to(state: Path) -> None:
    state.mkdir()
    (state / "audit.log").write_text("before\n")
    (state / "audit.log").chmod(0o644)
    for _ in range(2):
        with AuditLog() as log:
            log.write("started", "x", PLAN)
    lines = (state / "audit.log").read_text().splitlines()
    assert lines[0] == "before" and len(lines) == 3
    assert stat.S_IMODE((state / "audit.log").stat().st_mode) == 0o600


def test_a_log_that_cannot_be_written_is_a_refusal(state: Path) -> None:
    state.write_text("a file where the folder should be")
    with pytest.raises(RefusedError, match="cannot be written"):
        AuditLog()
    state.unlink()
    state.mkdir()
    (state / "audit.log").symlink_to("/dev/full")
    with pytest.raises(RefusedError, match="cannot be written"):
        AuditLog()
    (state / "audit.log").unlink()
    os.mkfifo(state / "audit.log")
    with pytest.raises(RefusedError, match=r"cannot be written|not a regular file"):
        AuditLog()


def test_a_test_that_never_ended(state: Path) -> None:
    assert cut_off() == ""
    with AuditLog() as log:
        log.write("started", "one", PLAN)
        assert cut_off().endswith("was cut off before anything was sent")
        log.write("ended", "one", PLAN, "passed")
        assert cut_off() == ""
        log.write("started", "two", PLAN)
        log.write("signal", "two", PLAN, "SIGTERM to pid 4711 (vllm)")
    with (state / "audit.log").open("a") as file:
        file.write('{"cut')
    assert cut_off().startswith("the last test (drain of vllm:8000, 20")
    assert cut_off().endswith("was cut off after: SIGTERM to pid 4711 (vllm)")


def test_a_log_that_cannot_be_read_tells_of_no_test(state: Path) -> None:
    state.mkdir()
    (state / "audit.log").write_text("[" * 20_000)
    assert cut_off() == ""
    (state / "audit.log").unlink()
    os.mkfifo(state / "audit.log")  # opening it would wait for a writer
    assert cut_off() == ""


def test_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.9 50022 192.0.2.1 22")
    monkeypatch.setenv("SUDO_USER", "anna\x1b[2J")
    who = requester()
    assert (who.uid, who.ssh_client, who.sudo_user) == (os.getuid(), "192.0.2.9", "anna")
