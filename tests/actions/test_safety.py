"""Each rule that keeps a test from being run, by itself."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING

import pytest

from tests.actions.plans import PLAN, child, held, plan_of
from tui.actions import safety
from tui.actions.lock import TestLock
from tui.actions.plan import HeldProcess, RefusedError, Start, Stop
from tui.model.settings import ActionSettings, Config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ON = Config(actions=ActionSettings(enabled=True))
NOBODY = 65534


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@contextlib.contextmanager
def another_user() -> Iterator[None]:
    """Give up root's rights for a moment; without them, every process of root's is another user's as it is."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.parametrize(
    ("config", "allow", "why"),
    [
        (Config(), False, "tests are off"),
        (Config(), True, None),
        (ON, False, None),
        (dataclasses.replace(ON, read_only=True), False, "read-only"),
        (dataclasses.replace(ON, read_only=True), True, "read-only"),
    ],
)
def test_off_unless_enabled_and_read_only_wins(config: Config, allow: bool, why: str | None) -> None:
    if why is None:
        safety.check_enabled(config, allow_actions=allow)
        return
    with pytest.raises(RefusedError, match=why):
        safety.check_enabled(config, allow_actions=allow)


def test_never_init_the_tool_itself_or_what_it_runs_below() -> None:
    with child() as process:
        safety.check_not_ours([held(process.pid)])
        with pytest.raises(RefusedError, match="init"):
            safety.check_not_ours([held(process.pid), HeldProcess(1, 1, "systemd", "other")])
        with pytest.raises(RefusedError, match="this tool itself"):
            safety.check_not_ours([held(os.getpid())])
        with pytest.raises(RefusedError, match=f"runs below pid {os.getppid()} "):
            safety.check_not_ours([held(os.getppid())])


def test_another_users_process() -> None:
    with child() as process:
        safety.check_rights([held(process.pid)])
        ours = held(process.pid)
        others = ours if os.geteuid() == 0 else HeldProcess(1, 1, "init", "other")
        with another_user(), pytest.raises(RefusedError, match="another user's: run as root"):
            safety.check_rights([others])
        process.kill()
        process.wait()
        safety.check_rights([ours])  # what has ended is another rule's


@pytest.mark.parametrize(
    ("running", "waiting", "why"),
    [
        (0.0, 0.0, None),
        (1.0, 0.0, "1 request of others in flight"),
        (0.0, 2.0, "2 requests of others in flight"),
        (None, 0.0, "not known"),
        (0.0, None, "not known"),
    ],
)
def test_requests_of_others(running: float | None, waiting: float | None, why: str | None) -> None:
    safety.check_traffic(running, waiting, with_traffic=True)
    if why is None:
        safety.check_traffic(running, waiting)
        return
    with pytest.raises(RefusedError, match=why):
        safety.check_traffic(running, waiting)


def test_a_restart_that_nobody_would_make() -> None:
    down = dataclasses.replace(PLAN, test="restart")
    with pytest.raises(RefusedError, match="--start-command"):
        safety.check_starts_again(down)
    safety.check_starts_again(PLAN)  # a drain test may leave it down; the plan says so
    safety.check_starts_again(dataclasses.replace(down, start=Start("command", "x", ("x",))))
    safety.check_starts_again(dataclasses.replace(down, start=Start("unknown", "not known")))


@pytest.mark.parametrize("typed", ["", "vllm", "vllm:8000 ", "VLLM:8000", "vllm:80000", "y"])
def test_the_name_is_typed_to_the_letter(typed: str) -> None:
    safety.check_confirmed(PLAN, "vllm:8000")
    with pytest.raises(RefusedError, match="not confirmed"):
        safety.check_confirmed(PLAN, typed)


def test_all_that_speaks_against_a_plan(tmp_path: Path) -> None:
    with child() as process:
        plan = plan_of(process.pid)
        assert safety.refusals(plan, ON, allow_actions=False) == []
        busy = dataclasses.replace(plan, test="restart", others_running=3.0)
        with TestLock(plan):
            off, traffic, down, lock = safety.refusals(busy, Config(), allow_actions=False)
        assert "off" in off and "3 requests" in traffic and "stay down" in down and "another test" in lock
        (tmp_path / "infertop/audit.log").unlink()
        (tmp_path / "infertop/audit.log").mkdir()
        (log,) = safety.refusals(plan, ON, allow_actions=False)
        assert "audit log" in log


def test_systemctl_needs_no_right_to_signal(tmp_path: Path) -> None:
    """But a SIGKILL after the grace period does."""
    with child() as process:
        plan = plan_of(process.pid, stop=Stop("systemctl_stop", "systemctl stop x.service"))
        if os.geteuid() != 0:
            pytest.skip("needs a process of another user")
        (tmp_path / "infertop").mkdir()
        for path in (tmp_path, tmp_path / "infertop"):
            path.chmod(0o777)
        with another_user():
            gentle = safety.refusals(plan, ON, allow_actions=False)
            hard = safety.refusals(dataclasses.replace(plan, kill_after_grace=True), ON, allow_actions=False)
        assert not any("another user's" in why for why in gentle)
        assert any("another user's" in why for why in hard)
