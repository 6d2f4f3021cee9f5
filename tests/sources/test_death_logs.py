"""The end of a log: files of every kind, a journal and an Engine API through stand-ins that record every call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from tui.model.death import DeathCase, StopMark
from tui.model.status import SourceError
from tui.sources.death import logs
from tui.sources.death.logs import TAIL_BYTES, FileLog, log_of, mark_source
from tui.sources.docker import ContainerSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

URL = "http://127.0.0.1:8000"
ID = "3f2a" * 16


async def refusal(path: Path) -> SourceError:
    with pytest.raises(SourceError) as error:
        await FileLog(str(path)).tail()
    return error.value


async def test_the_end_of_a_long_file_and_of_one_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * TAIL_BYTES + b"end\n")
    log = FileLog(str(path))
    assert (await log.tail()).endswith("aend\n")
    assert len(await log.tail()) == TAIL_BYTES
    with path.open("ab") as file:
        file.write(b"more\n")
    assert (await log.tail()).endswith("end\nmore\n")


async def test_a_file_that_was_truncated_or_rotated(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 9000)
    log = FileLog(str(path))
    await log.tail()
    os.truncate(path, 0)
    assert await log.tail() == ""
    path.write_text("KeyError: old\n" + "y" * 9000)
    path.rename(tmp_path / "log.1")
    path.write_text("new\n")
    text = await log.tail()
    assert text.startswith("KeyError: old")
    assert text.endswith("new\n")


async def test_what_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert (await refusal(tmp_path / "fifo")).reason == "not_supported"
    assert (await refusal(tmp_path / "none")).reason == "404"
    assert (await refusal(tmp_path)).reason == "not_supported"
    assert "regular file" in (await refusal(tmp_path)).detail
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "socket"))
    # looked at first: to open it is an error of its own, and of a FIFO or a device an act
    assert "regular file" in (await refusal(tmp_path / "socket")).detail
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 10)
    assert "\N{REPLACEMENT CHARACTER}" in await FileLog(str(tmp_path / "binary")).tail()
    with pytest.raises(SourceError):
        await FileLog("/x\0y").tail()


async def test_a_file_system_that_hangs_holds_three_threads_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text("KeyError: 1\n")
    released = threading.Event()
    hung = logs._tail
    monkeypatch.setattr(logs, "_tail", lambda *seen: released.wait(30) and hung(*seen))
    log = FileLog(str(tmp_path / "log"))
    waiting = [asyncio.ensure_future(log.tail()) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(SourceError) as error:
        await log.tail()
    assert error.value.reason == "stuck"
    released.set()
    assert await asyncio.gather(*waiting) == ["KeyError: 1\n"] * 3
    assert await log.tail() == "KeyError: 1\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "log").touch(0)
    assert (await refusal(tmp_path / "log")).reason == "no_permission"


# ------------------------------------------------------------------------------- journal


def journalctl(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    calls, program = folder / "calls", folder / "journalctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{script}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return calls


async def tail(case: DeathCase) -> str:
    log = log_of(case)
    assert log is not None
    try:
        return await log.tail()
    finally:
        await log.close()


async def test_the_journal_of_a_unit_and_the_only_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = journalctl(tmp_path, "echo KeyError: 1", monkeypatch)
    rest = "--lines=200 --output=cat --no-pager --quiet"
    assert await tail(DeathCase(URL, "unit:vllm")) == "KeyError: 1\n"
    assert await tail(DeathCase(URL, "unit:a@b.service", user_unit=True)) == "KeyError: 1\n"
    assert await tail(DeathCase(URL, unit="llm.service", user_unit=True, manager_uid=os.geteuid()))
    assert calls.read_text().splitlines() == [
        f"--unit=vllm.service {rest}",
        f"--user --unit=a@b.service {rest}",
        f"--user --unit=llm.service {rest}",
    ]


async def test_a_unit_that_is_only_named_may_be_one_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = journalctl(tmp_path, 'case "$1" in --user) echo mine;; esac', monkeypatch)
    assert await tail(DeathCase(URL, "unit:vllm")) == "mine\n"
    assert len(calls.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("script", "reason"),
    [("true", "no_permission"), ("exit 1", "parse"), ("exec sleep 60", "timeout"), ("exec yes", "too_large")],
)
async def test_a_journal_that_is_empty_fails_hangs_or_floods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    monkeypatch.setattr(logs, "DEADLINE_S", 0.3 if reason == "timeout" else 10.0)
    journalctl(tmp_path, script, monkeypatch)
    with pytest.raises(SourceError) as error:
        await tail(DeathCase(URL, "unit:vllm"))
    assert error.value.reason == reason


@pytest.mark.parametrize("log", ["unit:", "unit:-x", "unit:a b", "docker:", "docker:../x", "docker:a/b?c"])
def test_names_that_are_none_are_not_asked_about(log: str) -> None:
    with pytest.raises(SourceError, match="not the name"):
        log_of(DeathCase(URL, log))
    assert mark_source(DeathCase(URL, log)) is None


def test_without_a_setting_it_is_the_place_that_tells() -> None:
    assert log_of(DeathCase(URL)) is None
    assert log_of(DeathCase(URL, unit="llm.service", user_unit=True, manager_uid=os.geteuid() + 1)) is None
    written = log_of(DeathCase(URL, output="/var/log/llm.log", unit="llm.service"))
    assert written is not None
    assert written.origin == "/var/log/llm.log"
    found = log_of(DeathCase(URL, output="/log", container_id=ID, runtime="docker"))
    assert found is not None
    assert found.origin == f"log of container {ID[:12]}"


# ------------------------------------------------------------------------------- Docker


@contextlib.asynccontextmanager
async def engine_api(path: Path, answers: dict[str, bytes]) -> AsyncIterator[list[str]]:
    """An Engine API on a Unix socket that records every request line; 404 for what it does not know."""
    calls: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode()
        calls.append(line)
        body = answers.get(line.split()[1].partition("?")[0])
        status = b"404 Not Found" if body is None else b"200 OK"
        body = body or b""
        head = b"HTTP/1.1 %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(body))
        writer.write(head + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, path):
        yield calls


def frame(stream: int, data: bytes) -> bytes:
    return bytes((stream, 0, 0, 0)) + len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (frame(1, b"one\n") + frame(2, b"two\n"), "one\ntwo\n"),
        (b"a terminal\nhas no frames\n", "a terminal\nhas no frames\n"),
        (frame(1, b"cut short")[:-4], "cut s"),
        (b"", ""),
        (b"short", "short"),
        (frame(1, b"\xff"), "\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_the_output_of_a_container(tmp_path: Path, body: bytes, text: str) -> None:
    async with engine_api(tmp_path / "d.sock", {"/containers/llm/logs": body}) as calls:
        source = ContainerSource("llm", sockets=[str(tmp_path / "d.sock")])
        assert await source.log() == text
        await source.close()
    assert calls == ["GET /containers/llm/logs?stdout=1&stderr=1&tail=200 HTTP/1.1"]


async def test_the_mark_in_the_log_that_the_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/d.sock")
    body = frame(2, b"INFO:     Shutting down\n")
    async with engine_api(tmp_path / "d.sock", {"/containers/llm/logs": body}):
        source = mark_source(DeathCase(URL, "docker:llm"))
        assert source is not None
        assert await source.read() == StopMark("Shutting down")
        await source.close()
