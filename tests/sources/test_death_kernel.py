"""The kernel's log about one engine: records as /dev/kmsg gives them, a journalctl that notes its calls, and this host's own."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.sources.test_death_logs import ID, URL, journalctl
from tui.model.death import DeathCase
from tui.model.status import SourceError
from tui.sources.death.kernel_log import kernel_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CASE = DeathCase(URL, pids=frozenset((4711, 4712)), unit="vllm.service")
KILLED = "Out of memory: Killed process 4712 (VLLM::Worker) total-vm:9kB, anon-rss:8kB"
XID = "NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@contextlib.contextmanager
def kmsg(*texts: str, age_s: float = 1.0) -> Iterator[str]:
    """A path at which each read gives one record, and none is waited for: a pipe of packets."""
    reader, writer = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
    stamp = int((time.monotonic() - age_s) * 1e6)
    for number, text in enumerate(texts):
        os.write(writer, f"6,{number},{stamp},-;{text}\n SUBSYSTEM=pci\n".encode())
    try:
        yield f"/proc/self/fd/{reader}"
    finally:
        os.close(reader)
        os.close(writer)


def found(case: DeathCase, *texts: str, age_s: float = 1.0) -> list[tuple[str, str]]:
    with kmsg(*texts, age_s=age_s) as path:
        return [(line.kind, line.text) for line in kernel_lines(case, path)]


def test_its_own_end_for_memory_and_the_xid_before_it() -> None:
    group = "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/system.slice/vllm.service,task=w,pid=4712,uid=0"
    lines = found(CASE, "usb 1-1: new device", XID, group, KILLED)
    assert lines == [("xid", XID), ("oom", KILLED)]


@pytest.mark.parametrize(
    "text",
    [
        "Out of memory: Killed process 99 (chrome) total-vm:9kB",
        "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/system.slice/other.service,task=x,pid=9,uid=0",
        "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/system.slice/my-vllm.service2,task=x,pid=9,uid=0",
        "NVRM: Xid (PCI:0000:17:00): 31, pid=99, name=python3, MMU fault",
        "vllm[4711]: segfault",
        "",
    ],
)
def test_what_befell_others_is_not_its_end(text: str) -> None:
    assert found(CASE, text) == []


def test_in_a_container_the_group_tells_where_pids_do_not() -> None:
    case = DeathCase(URL, container_id=ID)
    text = (
        f"oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/system.slice/docker-{ID}.scope,task=x,pid=7,uid=0"
    )
    assert [kind for kind, _ in found(case, text)] == ["oom"]


def test_what_is_older_than_the_last_sign_of_life_is_another_story() -> None:
    now = time.time()
    seen = DeathCase(URL, pids=CASE.pids, since=now - 10)
    assert found(seen, KILLED, age_s=60) == [("oom", KILLED)]
    assert found(seen, KILLED, age_s=100) == []


def test_hostile_records(capfd: pytest.CaptureFixture[str]) -> None:
    assert found(CASE, f"{KILLED}\x1b[2J\x07") == [("oom", KILLED)]
    with kmsg() as path:
        assert kernel_lines(CASE, path) == ()


def test_without_the_right_the_journal_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = time.time() - 5
    calls = journalctl(tmp_path, f"echo '{at:.6f} host kernel: {KILLED}'; echo junk", monkeypatch)
    (line,) = kernel_lines(CASE, str(tmp_path / "none"))
    assert (line.kind, line.text) == ("oom", KILLED)
    assert line.at == pytest.approx(at)
    assert calls.read_text().splitlines() == ["--dmesg --lines=2000 --output=short-unix --no-pager --quiet"]


def test_without_any_right_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journalctl(tmp_path, "true", monkeypatch)
    with pytest.raises(SourceError, match="may not be read") as error:
        kernel_lines(CASE, str(tmp_path / "none"))
    assert error.value.reason == "no_permission"


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="/dev/kmsg may not be read here")
def test_the_log_of_this_host_is_read_to_its_end_at_once() -> None:
    begun = time.monotonic()
    assert kernel_lines(DeathCase(URL, pids=frozenset((2**30,)))) == ()
    assert time.monotonic() - begun < 3
