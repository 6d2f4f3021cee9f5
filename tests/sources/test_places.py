"""Where an engine runs: control groups, Docker's API and systemctl, each through a stand-in that keeps count."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from tui.model.places import ContainerReading, Healthcheck, Place, PublishedPort, UnitReading
from tui.model.status import SourceError
from tui.sources.docker import ContainerSource
from tui.sources.kernel.cgroup import parse
from tui.sources.systemd import UnitSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ID = "3f2a" * 16
POD = "0a1b2c3d-1111-2222-3333-0123456789ab"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("0::/system.slice/vllm.service\n", Place(unit="vllm.service")),
        (f"0::/system.slice/docker-{ID}.scope\n", Place(ID, "docker")),
        (f"12:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n", Place(ID, "docker")),
        (
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
            f"{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n",
            Place(ID, "containerd", POD),
        ),
        (f"0::/kubepods/besteffort/pod{POD}/{ID}\n", Place(ID, None, POD)),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", Place(ID, "podman")),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/llm.service\n",
            Place(unit="llm.service", user_unit=True, manager_uid=1000),
        ),
        ("0::/user.slice/user-1000.slice/user@1000.service/session.slice\n", Place()),
        ("0::/user.slice/user-1000.slice/session-4.scope\n", Place()),
        ("0::/\n", Place()),
        ("nonsense", Place()),
    ],
)
def test_the_path_of_a_control_group_names_the_place(text: str, place: Place) -> None:
    assert parse(text) == place


# ------------------------------------------------------------------------------- Docker

INSPECTED = {
    "Name": "/llm\x1b[31m",
    "RestartCount": 3,
    "State": {
        "Status": "running",
        "Running": True,
        "OOMKilled": False,
        "ExitCode": 0,
        "Error": "",
        "StartedAt": "2026-05-04T10:00:00.123456789Z",
        "FinishedAt": "2026-05-04T09:59:58+00:00",
        "Health": {"Status": "unhealthy", "FailingStreak": 4},
    },
    "Config": {
        "Image": "vllm/vllm-openai:v0.32.0",
        "Env": ["HF_TOKEN=planted"],
        "StopTimeout": 120,
        "Healthcheck": {
            "Test": ["CMD-SHELL", "curl -fH 'Authorization: Bearer planted' localhost:8000/health"],
            "Interval": 10_000_000_000,
            "Timeout": 0,
            "StartPeriod": 600_000_000_000,
        },
    },
    "HostConfig": {
        "Memory": 64 << 30,
        "NanoCpus": 0,
        "CpuQuota": 800000,
        "CpuPeriod": 100000,
        "RestartPolicy": {"Name": "unless-stopped"},
    },
    "NetworkSettings": {
        "IPAddress": "",
        "Networks": {"front": {"IPAddress": "172.18.0.5"}},
        "Ports": {
            "8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "18000"}, {"HostIp": "::", "HostPort": "18000"}],
            "9000/udp": [{"HostIp": "", "HostPort": "9000"}],
            "8002/tcp": None,
            "x/tcp": [{"HostPort": "1"}, 7],
            "70/tcp": [{"HostPort": "99999999999999999999"}],
        },
    },
}


STARTED = dt.datetime(2026, 5, 4, 9, 59, 58, tzinfo=dt.timezone.utc).timestamp()


@contextlib.asynccontextmanager
async def engine_api(path: Path, status: int, body: bytes) -> AsyncIterator[list[str]]:
    """An Engine API on a Unix socket that records every request line."""
    calls: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        calls.append(head.split(b"\r\n")[0].decode())
        writer.write(
            b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(body))
        )
        writer.write(body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, path):
        yield calls


async def look(path: Path) -> ContainerReading:
    source = ContainerSource(ID, sockets=[str(path)])
    try:
        return await source.read()
    finally:
        await source.close()


async def test_a_container_and_the_only_call_that_is_made(tmp_path: Path) -> None:
    async with engine_api(tmp_path / "d.sock", 200, json.dumps(INSPECTED).encode()) as calls:
        found = await look(tmp_path / "d.sock")
    assert calls == [f"GET /containers/{ID}/json HTTP/1.1"]
    assert found == ContainerReading(
        ID,
        name="llm",
        image="vllm/vllm-openai:v0.32.0",
        state="running",
        restart_policy="unless-stopped",
        restarts=3,
        mem_limit_mib=65536.0,
        cpus=8.0,
        oom_killed=False,
        stop_timeout_s=120.0,
        healthcheck=Healthcheck(
            ("CMD-SHELL", "curl -fH 'Authorization: ***' localhost:8000/health"), 10.0, 30.0, 3, 600.0
        ),
        health="unhealthy",
        started_at=STARTED + 2 + 0.123456789,
        finished_at=STARTED,
        published=(
            PublishedPort("0.0.0.0", 18000, "172.18.0.5", 8000, ID),
            PublishedPort("::", 18000, "172.18.0.5", 8000, ID),
        ),
    )
    assert "planted" not in repr(found)


async def test_how_a_container_ended(tmp_path: Path) -> None:
    state = {
        "Status": "exited",
        "Running": False,
        "OOMKilled": True,
        "ExitCode": 137,
        "Error": "exec: --api-key=planted:\x1b[2J not found",
        "StartedAt": "2026-05-04T09:00:00Z",
        "FinishedAt": "2026-05-04T09:59:58Z",
    }
    config = {"Healthcheck": {"Test": ["NONE"]}}
    async with engine_api(tmp_path / "d.sock", 200, json.dumps({"State": state, "Config": config}).encode()):
        found = await look(tmp_path / "d.sock")
    assert (found.state, found.oom_killed, found.exit_code) == ("exited", True, 137)
    assert found.finished_at == STARTED
    assert (found.health, found.healthcheck) == (None, None)
    assert found.error is not None
    assert "exec:" in found.error
    assert "planted" not in found.error
    assert "\x1b" not in found.error


async def test_a_container_that_never_ran_has_not_ended(tmp_path: Path) -> None:
    never = "0001-01-01T00:00:00Z"
    state = {"Status": "created", "ExitCode": 0, "StartedAt": never, "FinishedAt": never}
    async with engine_api(tmp_path / "d.sock", 200, json.dumps({"State": state}).encode()):
        assert await look(tmp_path / "d.sock") == ContainerReading(ID, state="created")


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [(404, b"{}", "404"), (500, b"{}", "5xx"), (200, b"[1]", "parse"), (200, b"{", "parse")],
)
async def test_what_the_api_refuses(tmp_path: Path, status: int, body: bytes, reason: str) -> None:
    async with engine_api(tmp_path / "d.sock", status, body):
        with pytest.raises(SourceError) as error:
            await look(tmp_path / "d.sock")
    assert error.value.reason == reason


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"State": 3, "HostConfig": {"Memory": "x", "CpuQuota": true}}',
        b'{"RestartCount": 1%s, "State": {"FinishedAt": "2026-99-99T00:00:00Z"}}' % (b"0" * 400),
        b'{"Config": {"Healthcheck": {"Test": ["CMD", 7]}}, "State": {"StartedAt": "soon"}}',
    ],
)
async def test_what_is_not_told_is_unknown(tmp_path: Path, body: bytes) -> None:
    async with engine_api(tmp_path / "d.sock", 200, body):
        assert await look(tmp_path / "d.sock") == ContainerReading(ID)


async def test_without_docker_or_the_right_to_ask_it(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as error:
        await look(tmp_path / "none.sock")
    assert error.value.reason == "refused"


async def test_a_container_of_podman_is_asked_for_at_both_of_its_sockets_and_of_docker_at_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONTAINER_HOST", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("tui.sources.docker.PODMAN_SOCKET", str(tmp_path / "root.sock"))
    monkeypatch.setattr("tui.sources.docker.SOCKET", str(tmp_path / "docker.sock"))
    (tmp_path / "podman").mkdir()
    body = json.dumps(INSPECTED).encode()
    async with contextlib.AsyncExitStack() as stack:
        docker = await stack.enter_async_context(engine_api(tmp_path / "docker.sock", 200, body))
        root = await stack.enter_async_context(engine_api(tmp_path / "root.sock", 404, b"{}"))
        own = await stack.enter_async_context(engine_api(tmp_path / "podman" / "podman.sock", 200, body))
        source = ContainerSource(ID, "podman")
        assert (await source.read()).name == "llm"
        await source.close()
        line = f"GET /containers/{ID}/json HTTP/1.1"
        assert (docker, root, own) == ([], [line], [line])
    source = ContainerSource(ID, "podman")
    with pytest.raises(SourceError) as error:  # the sockets have gone
        await source.read()
    await source.close()
    assert error.value.reason == "refused"


@pytest.mark.parametrize("runtime", ["containerd", "crio"])
async def test_of_a_pod_it_is_said_what_is_not_known(runtime: str) -> None:
    source = ContainerSource(ID, runtime)
    with pytest.raises(SourceError, match="limits and restarts are not known") as error:
        await source.read()
    assert error.value.unsupported


# ------------------------------------------------------------------------------- systemd

SHOWN = """ActiveState=active
SubState=running
MainPID=4711
Restart=on-failure
NRestarts=2
TimeoutStopUSec=1min 30s
KillMode=mixed
MemoryMax=infinity
"""


def systemctl(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ``systemctl`` on PATH that notes its arguments, then does what the script says."""
    calls = folder / "calls"
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{script}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return calls


async def test_a_unit_and_the_only_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").write_text(SHOWN)
    calls = systemctl(tmp_path, f"cat {tmp_path}/out", monkeypatch)
    assert await UnitSource("vllm@a.service").read() == UnitReading(
        "vllm@a.service", "active", "running", 4711, "on-failure", 2, 90.0, "mixed", None
    )
    (line,) = calls.read_text().splitlines()
    assert line.startswith("show --no-pager --property=")
    assert line.endswith(" -- vllm@a.service")


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exec sleep 60", "timeout"), ("exit 1", "parse"), ("echo x", "parse"), ("exec yes", "too_large")],
)
async def test_a_systemctl_that_hangs_fails_or_floods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    monkeypatch.setattr("tui.sources.systemd.DEADLINE_S", 0.3 if reason == "timeout" else 10.0)
    systemctl(tmp_path, script, monkeypatch)
    with pytest.raises(SourceError) as error:
        await UnitSource("vllm.service").read()
    assert error.value.reason == reason


@pytest.mark.parametrize("unit", ["--now.service", "a b.service", "x.target", "../x.service", ""])
async def test_what_is_no_unit_is_not_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    calls = systemctl(tmp_path, "true", monkeypatch)
    with pytest.raises(SourceError):
        await UnitSource(unit).read()
    assert not calls.exists()


async def test_a_unit_of_our_own_manager_is_asked_of_it_and_of_another_users_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").write_text(SHOWN)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    calls = systemctl(tmp_path, f"echo $XDG_RUNTIME_DIR >> {tmp_path}/calls; cat {tmp_path}/out", monkeypatch)
    uid = os.geteuid()
    found = await UnitSource("llm.service", user=True, manager_uid=uid).read()
    assert found.main_pid == 4711
    words, bus = calls.read_text().splitlines()
    assert words.startswith("--user show --no-pager --property=")
    assert bus == f"/run/user/{uid}"
    calls.unlink()
    with pytest.raises(SourceError, match=f"user {uid + 1}'s own systemd") as error:
        await UnitSource("llm.service", user=True, manager_uid=uid + 1).read()
    assert error.value.unsupported
    assert not calls.exists()


async def test_a_host_without_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError) as error:
        await UnitSource("vllm.service").read()
    assert error.value.unsupported
