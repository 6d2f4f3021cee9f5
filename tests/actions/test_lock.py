"""One test at a time, of this user and of this host."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import textwrap
from typing import IO, TYPE_CHECKING

import pytest

from tests.actions.plans import PLAN, child, plan_of
from tests.support.program import ROOT
from tui.actions.lock import TestLock, check_free, lock_path
from tui.actions.plan import RefusedError

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

HOLDER = textwrap.dedent("""
    import json, sys
    from tui.actions.lock import TestLock
    from tui.actions.plan import from_document
    with TestLock(from_document(json.loads(input()))):
        print("held", flush=True)
        sys.stdin.read()
""")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "infertop"


def say(process: subprocess.Popen[str], text: str) -> None:
    stdin: IO[str] | None = process.stdin
    assert stdin is not None
    stdin.write(text + "\n")
    stdin.flush()


def test_a_second_test_is_told_who_holds_the_lock() -> None:
    with child() as engine, child(sys.executable, "-c", HOLDER, cwd=ROOT) as first:
        plan = plan_of(engine.pid)
        check_free(plan.target)
        say(first, json.dumps(plan.document()))
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        told = rf"another test runs: drain test of vllm:8000, pid {first.pid}"
        with pytest.raises(RefusedError, match=told):
            TestLock(PLAN)
        with pytest.raises(RefusedError, match=told):
            check_free(PLAN.target)
        first.kill()  # the kernel lets go, whatever the process left undone
        first.wait()
        with TestLock(plan):
            pass


def test_another_users_test_of_the_same_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users have lock files of their own; the engine is the same."""
    with child() as engine, child() as other, TestLock(plan_of(engine.pid)):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        told = f"another user tests vllm:8000 on this host now: pid {os.getpid()} holds its lock"
        with pytest.raises(RefusedError, match=told):
            TestLock(plan_of(engine.pid))
        with pytest.raises(RefusedError, match="another user tests"):
            check_free(plan_of(engine.pid).target)
        with TestLock(plan_of(other.pid)):
            pass


def test_a_test_in_another_network_namespace(tmp_path: Path) -> None:
    """It sees another loopback and other socket names, and the same processes."""
    apart = ("unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", HOLDER)
    with child() as engine:
        with child(*apart, cwd=ROOT, env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "apart")}) as first:
            say(first, json.dumps(plan_of(engine.pid).document()))
            assert first.stdout is not None
            if first.stdout.readline() != "held\n":
                pytest.skip("no network namespace may be made here")
            with pytest.raises(RefusedError, match="another user tests vllm:8000"):
                check_free(plan_of(engine.pid).target)
        check_free(plan_of(engine.pid).target)


def test_an_engine_that_has_ended() -> None:
    with child() as engine:
        plan = plan_of(engine.pid)
    with pytest.raises(RefusedError, match=f"pid {engine.pid} of vllm:8000 has ended"):
        check_free(plan.target)


def test_an_engine_without_a_process_is_known_by_its_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TestLock(PLAN):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        with pytest.raises(RefusedError, match="another user"):
            TestLock(PLAN)


def test_a_lock_whose_holder_says_nonsense(state: Path) -> None:
    state.mkdir()
    (state / "test.lock").write_text("[" * 4000)
    with (state / "test.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RefusedError, match="has not said which"):
            check_free(PLAN.target)


def test_a_lock_file_that_cannot_be_used(state: Path) -> None:
    path = lock_path()
    assert path == state / "test.lock"
    state.mkdir()
    path.symlink_to(state / "elsewhere")
    with pytest.raises(RefusedError, match="cannot be opened"):
        TestLock(PLAN)
    with pytest.raises(RefusedError, match="cannot be opened"):
        check_free(PLAN.target)
