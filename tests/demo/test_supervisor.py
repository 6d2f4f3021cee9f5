"""The supervisor: what it prints, what it leaves behind (nothing), what can be ordered."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from tests.demo.clients import ask, complete
from tests.demo.running import lives, running, until, until_ready
from tui.demo.control import ControlError, ControlFile, parse_order
from tui.demo.spec import EngineSpec, SpecError
from tui.demo.supervisor import StartError, Supervisor
from tui.demo.traffic import TrafficSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).parents[2]


class Served:
    """A ``demo --serve`` of our own, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.url, self.api_pid = self.next_line()

    def next_line(self) -> tuple[str, int]:
        """URL and pid of the next start that it tells of."""
        out: IO[str] | None = self.process.stdout
        assert out is not None
        for line in out:
            if found := re.fullmatch(r"(http://127\.0\.0\.1:\d+) pid=(\d+)\n", line):
                return found[1], int(found[2])
            assert line.startswith("exited "), line
        raise AssertionError("it ended")

    def next_exit(self) -> str:
        """How a process ended, by the next line."""
        out: IO[str] | None = self.process.stdout
        assert out is not None
        line = out.readline()
        assert line.startswith("exited "), line
        return line

    def group(self) -> set[int]:
        """Live processes of the engine's process group."""
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                fields = _stat(int(entry.name))
                if fields is not None and fields[2] == self.pgid and fields[0] not in "ZX":
                    found.add(int(entry.name))
        return found

    @property
    def pgid(self) -> str:
        if not hasattr(self, "_pgid"):
            fields = _stat(self.api_pid)
            assert fields is not None
            self._pgid = fields[2]
        return self._pgid


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


@contextmanager
def _served(log: Path, *options: str) -> Iterator[Served]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tui", "demo", "--serve", "--load-seconds", "0", *options],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    try:
        yield Served(process)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


async def test_the_first_line_and_an_orderly_end(tmp_path: Path) -> None:
    with _served(tmp_path / "log", "--traffic", "20", "--model", "m") as served:
        await until_ready(served.url)
        reply = await ask(served.url, "/v1/models")
        assert reply.headers["x-infertop-simulated"] == "1" and reply.json["data"][0]["id"] == "m"
        title = _cmdline(served.api_pid)
        assert title[1].endswith(b"/vllm") and title[2:4] == [b"serve", b"m"]
        assert title[title.index(b"--port") + 1].decode() == served.url.rpartition(":")[2]
        await until(lambda: len(served.group()) == 5)  # leash, server, core, worker, traffic
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(5) == 0
        assert served.group() == set()


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
async def test_sigkill_of_the_supervisor_leaves_nothing(tmp_path: Path, dialect: str) -> None:
    """Not even a stopped core, a blocked server, or traffic."""
    with _served(tmp_path / "log", "--traffic", "20", "--dialect", dialect) as served:
        await until_ready(served.url)
        await until(lambda: len(served.group()) == 5)
        core = next(pid for pid in served.group() if _comm(pid) in ("VLLM::EngineCor", "sglang::schedul"))
        os.kill(core, signal.SIGSTOP)
        os.kill(served.api_pid, signal.SIGSTOP)
        served.process.kill()
        assert await until(lambda: served.group() == set(), 5.0) < 2.0


async def test_orphans_end_with_the_supervisor_too(tmp_path: Path) -> None:
    with _served(tmp_path / "log") as served:
        await until_ready(served.url)
        await until(lambda: len(served.group()) == 4)
        core = next(pid for pid in served.group() if _comm(pid) == "VLLM::EngineCor")
        held = _open_descriptors(core)
        os.kill(served.api_pid, signal.SIGKILL)
        assert served.next_exit() == f"exited pid={served.api_pid} signal=9\n"
        await until(lambda: _open_descriptors(core) < held)  # it knows that nobody is there to serve
        assert {_comm(pid) for pid in served.group()} == {"infertop-leash", "VLLM::EngineCor", "VLLM::Worker"}
        assert served.process.poll() is None
        served.process.kill()
        assert await until(lambda: served.group() == set(), 5.0) < 2.0


async def test_orphans_that_were_ordered_outlive_it_for_a_while(tmp_path: Path) -> None:
    with _served(tmp_path / "log", "--keep-orphans", "1", "--time-scale", "0.1") as served:
        await until_ready(served.url)
        await until(lambda: len(served.group()) == 4)
        orphans = {pid for pid in served.group() if _comm(pid).startswith("VLLM::")}
        os.kill(served.api_pid, signal.SIGKILL)
        assert served.process.wait(5) == 0  # nothing is left that it has to do with
        assert all(lives(pid) for pid in orphans)
        await until(lambda: not any(map(lives, orphans)), 8.0)


async def test_even_traffic_is_all_alike(tmp_path: Path) -> None:
    words = (
        "--traffic",
        "50",
        "--prompt-tokens",
        "40",
        "--output-tokens",
        "6",
        "--spread",
        "0",
        "--set=decode_step_s=0.005",
    )
    with _served(tmp_path / "log", *words) as served:
        await until_ready(served.url)
        limit_s = time.monotonic() + 20
        counted = 0.0
        while counted < 8 and time.monotonic() < limit_s:
            text = (await ask(served.url, "/metrics")).body.decode()
            counted = _figure(text, "vllm:request_prompt_tokens_count")
        assert counted >= 8
        assert _figure(text, "vllm:request_prompt_tokens_sum") == 40 * counted
        assert _figure(text, "vllm:request_generation_tokens_sum") == 6 * counted


def _figure(exposition: str, name: str) -> float:
    return sum(float(value) for value in re.findall(rf"(?m)^{name}{{[^}}]*}} (\S+)$", exposition))


async def test_restart_keeps_the_port(tmp_path: Path) -> None:
    with _served(tmp_path / "log", "--restart", "always", "--time-scale", "0.1") as served:
        await until_ready(served.url)
        old_pid = served.api_pid
        os.kill(old_pid, signal.SIGTERM)
        url, pid = await asyncio.to_thread(served.next_line)
        assert url == served.url and pid != old_pid
        await until_ready(url)


async def test_it_ends_when_the_engine_has(tmp_path: Path) -> None:
    with _served(tmp_path / "log", "--sigterm", "drain-refused", "--time-scale", "0.1") as served:
        await until_ready(served.url)
        os.kill(served.api_pid, signal.SIGTERM)
        assert await asyncio.to_thread(served.process.wait, 10) == 0


def test_a_port_in_use_and_bad_settings_end_with_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, text in (
            (["--port", port], "Address already in use"),
            (["--max-num-seqs", "0"], "max_num_seqs"),
            (["--set", "health_delay_s=abc"], "health_delay_s"),
            (["--set", "wings=2"], "wings"),
            (["--shared-prefix", "2"], "shares are 0-1"),
            (["--control", str(tmp_path)], "directory"),
        ):
            command = [sys.executable, "-m", "tui", "demo", "--serve", *options]
            ended = subprocess.run(
                command, cwd=_ROOT, capture_output=True, text=True, timeout=20, check=False
            )
            assert ended.returncode == 2 and text in ended.stderr and ended.stdout == ""


# ------------------------------------------------------------------------------ orders


async def test_orders_through_the_control_file(tmp_path: Path) -> None:
    path = tmp_path / "control"
    events: list[str] = []
    control = ControlFile(path)
    assert path.stat().st_mode & 0o777 == 0o600
    spec = EngineSpec(port=0, load_s=0.0, time_scale=0.1, decode_step_s=0.005)
    with (tmp_path / "log").open("wb") as log:
        supervisor = Supervisor(spec, control=control, log=log.fileno(), on_event=events.append)
        await supervisor.start()
        try:
            await _order_about(supervisor, path, events)
        finally:
            await supervisor.stop()
            control.close()


async def _order_about(supervisor: Supervisor, path: Path, events: list[str]) -> None:
    def give(**order: Any) -> None:
        with path.open("a") as file:
            file.write(json.dumps(order) + "\n")

    await until_ready(supervisor.url)
    give(do="set", kv_tokens=8192, max_num_seqs=3)
    give(do="traffic", rate=50, prompt_tokens=100, output_tokens=400)
    await until(lambda: supervisor.load.waiting > 0)
    load = supervisor.load
    assert load.phase == "serving" and load.running <= 3
    await until(lambda: supervisor.load.decode_tok_s > 100 and supervisor.load.busy > 0.5)
    assert 'num_gpu_blocks="512"' in (await ask(supervisor.url, "/metrics")).body.decode()
    give(do="traffic", rate=0)
    give(do="hang")
    at_s = supervisor.load.at_s
    await until(lambda: supervisor.load.busy == 0.0 and supervisor.load.at_s >= at_s)
    assert time.monotonic() - supervisor.load.at_s > 0.5
    give(do="resume")
    await until(lambda: supervisor.load.busy > 0.0)
    give(do="fly")
    give(do="set", kv_tokens=1)
    await until(lambda: sum(event.startswith("order refused") for event in events) == 2)
    give(do="set", sigterm="abort-finish")
    give(do="terminate")
    await until(lambda: "code=0" in events[-1])
    assert supervisor.load.phase == "down" and supervisor.pid is None
    give(do="terminate")
    await until(lambda: events[-1] == "order refused: no engine runs")
    give(do="start")
    await until(lambda: supervisor.pid is not None)
    await until_ready(supervisor.url)
    give(do="stop")
    await asyncio.wait_for(supervisor.ended(), 5.0)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ('{"do":"dance"}', "dance"),
        ('{"do":"kill","what":"moon"}', "moon"),
        ('{"do":"resume","what":"core"}', "resume has no 'what'"),
        ('{"do":"set","port":1}', "set has no 'port'"),
    ],
)
def test_what_is_no_order(line: str, text: str) -> None:
    with pytest.raises(ControlError, match=text):
        parse_order(line)


def test_a_control_file_must_be_private_and_ours(tmp_path: Path) -> None:
    open_to_all, link = tmp_path / "open", tmp_path / "link"
    open_to_all.write_text("")
    open_to_all.chmod(0o644)
    link.symlink_to(tmp_path / "elsewhere")
    for path in (open_to_all, link, tmp_path):
        with pytest.raises(ControlError, match=path.name):
            ControlFile(path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_control_file_is_followed_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "control"
    path.touch(0o600)
    path.write_text('{"do":"stop"}\n')
    control = ControlFile(path)
    assert control.lines() == []
    with path.open("a") as file:
        file.write('{"do":"hang"}\n\n{"do":')
    assert control.lines() == ['{"do":"hang"}']
    with path.open("a") as file:
        file.write('"resume"}\n')
    assert control.lines() == ['{"do":"resume"}']
    path.write_text('{"do":"x"}\n')
    assert control.lines() == ['{"do":"x"}']
    path.write_bytes(b"x" * 70000)
    control.lines()
    with path.open("a") as file:
        file.write('\n{"do":"y"}\n')
    assert control.lines()[-1] == '{"do":"y"}'
    control.close()


# ------------------------------------------------------------------------------ the rest


async def test_nothing_stays_open(tmp_path: Path) -> None:
    before = _open_descriptors(os.getpid())
    async with running(tmp_path / "log", under_shell=True) as engine:
        await complete(engine.url, 3)
    assert _open_descriptors(os.getpid()) == before


def _open_descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


async def test_a_taken_port_is_a_start_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StartError, match="in use"):
        await Supervisor(EngineSpec(port=taken.getsockname()[1])).start()


async def test_several_workers_and_the_log_of_a_start(tmp_path: Path) -> None:
    async with running(tmp_path / "log", tensor_parallel_size=2, model="m") as engine:
        comms = {_comm(pid) for pid in engine.pids.values()}
        assert comms == {"vllm", "VLLM::EngineCor", "VLLM::Worker_TP"}
        worker = engine.pids["VLLM::Worker_1"]
        assert _cmdline(worker)[0] == b"VLLM::Worker_TP1" and not any(_cmdline(worker)[1:])
        await complete(engine.url, 3)
        marks = [
            "vLLM API server version 0.32.0", "Starting to load model m...", "Loading weights took",
            "GPU KV cache size: 131,072 tokens", "Maximum concurrency for 4,096 tokens per request: 32.00x",
            "init engine (profile, create kv cache, warmup model) took", "Starting vLLM server on http://",
            "Application startup complete.", '"POST /v1/completions HTTP/1.1" 200 OK',
        ]  # fmt: skip
        places = [engine.log.index(mark) for mark in marks]
        assert places == sorted(places)


async def test_the_statistics_line(tmp_path: Path) -> None:
    async with running(tmp_path / "log", time_scale=0.05, decode_step_s=0.005) as engine:
        await complete(engine.url, 200)
        await until(lambda: "Avg generation throughput" in engine.log)
        line = next(line for line in engine.log.splitlines() if "Avg generation throughput" in line)
        assert re.search(
            r"^\(APIServer pid=\d+\) INFO .*Engine 000: Avg prompt throughput: [\d.]+ tokens/s, Avg generation"
            r" throughput: [\d.]+ tokens/s, Running: \d+ reqs, Waiting: \d+ reqs, GPU KV cache usage: [\d.]+%,"
            r" Prefix cache hit rate: [\d.]+%$",
            line,
        )


@pytest.mark.parametrize(
    "changes",
    [{"nope": 1}, {"port": "x"}, {"port": True}, {"dialect": "x"}, {"sigterm": "x"}, {"kv_tokens": 100}],
)
def test_settings_that_no_engine_has(changes: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=next(iter(changes))):
        EngineSpec().changed(changes)
    with pytest.raises((ValueError, TypeError)):
        TrafficSpec().changed({"nope": 1})


@pytest.mark.parametrize("name", ["shared_prefix", "stream", "hangup", "spread"])
@pytest.mark.parametrize("share", [-0.1, 1.1, "x", True])
def test_a_share_of_the_traffic_is_one(name: str, share: Any) -> None:
    with pytest.raises(ValueError, match="traffic: "):
        TrafficSpec().changed({name: share})


def test_a_spec_survives_its_json() -> None:
    spec = EngineSpec(port=1, decode_step_s=0.5, sigterm="hang", load_s=3)
    assert EngineSpec.from_json(spec.to_json()) == spec


def _cmdline(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def _comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
