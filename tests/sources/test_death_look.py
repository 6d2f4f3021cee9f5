"""Why an engine has gone, from all that may tell: Docker, systemd, kernel and log, each through its stand-in."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.sources.test_death_lines import CRASH
from tests.sources.test_death_logs import ID, URL, engine_api, frame, journalctl
from tui.model.death import DeathCase, DeathReading, ExitReading
from tui.sources.death import kernel_log, look
from tui.sources.death.look import DeathSource, look_into
from tui.sources.systemd import UnitSource

if TYPE_CHECKING:
    from pathlib import Path

UNIT = DeathCase(URL, unit="vllm.service")


@pytest.fixture(autouse=True)
def no_kernel_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "KMSG", str(tmp_path / "kmsg"))


def systemctl(folder: Path, monkeypatch: pytest.MonkeyPatch, **properties: Any) -> Path:
    shown = {
        "ActiveState": "failed", "SubState": "failed", "MainPID": 0, "Restart": "on-failure", "NRestarts": 3,
        "TimeoutStopUSec": "1min 30s", "KillMode": "mixed", "MemoryMax": "infinity", "Result": "signal",
        "ExecMainCode": 2, "ExecMainStatus": 9,
        "ExecMainStartTimestampMonotonic": int((time.monotonic() - 500) * 1e6),
        "ExecMainExitTimestampMonotonic": int((time.monotonic() - 12) * 1e6),
    } | properties  # fmt: skip
    (folder / "shown").write_text("".join(f"{name}={value}\n" for name, value in shown.items()))
    program, calls = folder / "systemctl", folder / "calls"
    program.write_text(f'#!/bin/sh\necho systemctl "$@" >> {calls}\ncat {folder}/shown\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return calls


def ended(reading: DeathReading) -> ExitReading:
    assert reading.exit is not None, reading.missing
    return reading.exit


async def test_a_unit_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = systemctl(tmp_path, monkeypatch)
    (tmp_path / "said").write_text(CRASH)
    journalctl(tmp_path, f"case $1 in --unit*) cat {tmp_path}/said;; esac", monkeypatch)
    reading = await look_into(UNIT)
    found = ended(reading)
    assert (found.source, found.name, found.code, found.result) == ("systemd", "vllm.service", 137, "signal")
    assert (found.oom_killed, found.policy, found.restarts, found.grace_s) == (False, "on-failure", 3, 90.0)
    assert found.ended_at == pytest.approx(time.time() - 12, abs=2)
    assert reading.core_crashed
    assert not reading.asked_to_stop
    assert reading.log[1] == "RuntimeError: CUDA error: an illegal memory access"
    assert reading.log_origin == "journal of vllm.service"
    assert [gap.field for gap in reading.missing] == ["kernel"]
    assert sorted(line.split()[0] for line in calls.read_text().splitlines()) == [
        "--dmesg",
        "--unit=vllm.service",
        "systemctl",
    ]


@pytest.mark.parametrize(
    ("properties", "code", "oom", "restarted"),
    [
        ({"ExecMainCode": 1, "ExecMainStatus": 0, "Result": "success"}, 0, False, False),
        ({"ExecMainCode": 3, "ExecMainStatus": 11, "Result": "core-dump"}, 139, False, False),
        ({"Result": "oom-kill"}, 137, True, False),
        ({"ExecMainCode": 0, "ExecMainStatus": 0, "MainPID": 77, "ActiveState": "active",
          "ExecMainStartTimestampMonotonic": 10**18}, None, None, True),
    ],
)  # fmt: skip
async def test_how_systemd_tells_of_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, Any], code: int | None, oom: bool | None,
    restarted: bool,
) -> None:  # fmt: skip
    systemctl(tmp_path, monkeypatch, **properties)
    journalctl(tmp_path, "true", monkeypatch)
    reading = await look_into(DeathCase(URL, unit="vllm.service", since=time.time()))
    assert (ended(reading).code, ended(reading).oom_killed, reading.restarted) == (code, oom, restarted)


async def test_a_unit_that_runs_on_did_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systemctl(tmp_path, monkeypatch, ExecMainCode=0, ExecMainStatus=0, MainPID=77, ActiveState="active")
    journalctl(tmp_path, "true", monkeypatch)
    reading = await look_into(DeathCase(URL, unit="vllm.service", since=time.time()))
    assert reading.exit is None
    assert "runs on without it" in reading.missing[0].why


async def test_a_unit_that_is_only_named_may_be_one_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl(tmp_path, monkeypatch, ExecMainStartTimestampMonotonic=0)
    shown = (tmp_path / "shown").read_text().replace("StartTimestampMonotonic=0", "StartTimestampMonotonic=5")
    (tmp_path / "own").write_text(shown.replace("ExecMainStatus=9", "ExecMainStatus=15"))
    (tmp_path / "systemctl").write_text(
        f'#!/bin/sh\ncase "$1" in --user) cat {tmp_path}/own;; *) cat {tmp_path}/shown;; esac\n'
    )
    journalctl(tmp_path, "true", monkeypatch)
    reading = await look_into(DeathCase(URL, "unit:llm"))
    assert (ended(reading).name, ended(reading).code) == ("llm.service", 143)


async def test_a_unit_that_is_being_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systemctl(tmp_path, monkeypatch, ActiveState="deactivating", ExecMainCode=0, ExecMainStatus=0, MainPID=7)
    found = await UnitSource("vllm.service").read()
    assert (found.active, found.exit_code) == ("deactivating", None)


async def test_a_container_that_was_ended_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/d.sock")
    journalctl(tmp_path, "true", monkeypatch)
    at = dt.datetime.fromtimestamp(time.time() - 12, dt.timezone.utc)
    state = {"Status": "exited", "Running": False, "OOMKilled": True, "ExitCode": 137,
             "FinishedAt": at.isoformat().replace("+00:00", "Z")}  # fmt: skip
    body = json.dumps({"Name": "/llm", "State": state, "RestartCount": 2, "HostConfig": {"Memory": 1 << 30}})
    answers = {
        f"/containers/{ID}/json": body.encode(),
        f"/containers/{ID}/logs": frame(2, b"ValueError: token=planted\n"),
    }
    async with engine_api(tmp_path / "d.sock", answers) as calls:
        reading = await DeathSource(DeathCase(URL, container_id=ID, runtime="docker")).read()
    found = ended(reading)
    assert (found.code, found.oom_killed, found.restarts, found.mem_limit_mib) == (137, True, 2, 1024.0)
    assert found.ended_at == pytest.approx(time.time() - 12, abs=2)
    assert reading.log == ("ValueError: token=***",)
    assert sorted(call.split()[1].partition("?")[0] for call in calls) == sorted(answers)


async def test_a_container_that_is_no_more_and_one_of_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/d.sock")
    journalctl(tmp_path, "true", monkeypatch)
    async with engine_api(tmp_path / "d.sock", {}):
        gone = await look_into(DeathCase(URL, container_id=ID, runtime="docker"))
    assert "--rm" in gone.missing[0].enable
    pod = await look_into(DeathCase(URL, container_id=ID, runtime="containerd", pod_uid="p"))
    assert "kubectl describe pod" in pod.missing[0].enable


async def test_what_nobody_keeps_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journalctl(tmp_path, "true", monkeypatch)
    reading = await look_into(DeathCase(URL))
    assert (reading.exit, reading.log, reading.kernel) == (None, (), ())
    assert [gap.field for gap in reading.missing] == ["exit", "kernel", "log"]
    assert all(gap.enable for gap in reading.missing)
    # of another host neither kernel nor supervisor can be asked
    (tmp_path / "log").write_text("KeyError: 1\n")
    remote = await look_into(DeathCase(URL, str(tmp_path / "log"), local=False))
    assert remote.log == ("KeyError: 1",)
    assert [gap.field for gap in remote.missing] == ["exit"]


async def test_a_supervisor_that_hangs_costs_its_own_answer_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl(tmp_path, monkeypatch)
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexec sleep 60\n")
    journalctl(tmp_path, "case $1 in --unit*) echo KeyError: 1;; esac", monkeypatch)
    monkeypatch.setattr(look, "DEADLINE_S", 0.5)
    monkeypatch.setattr("tui.sources.systemd.DEADLINE_S", 0.6)
    reading = await look_into(UNIT)
    assert reading.log == ("KeyError: 1",)
    assert reading.missing[0].field == "exit"
    assert "0.5 s" in reading.missing[0].why
