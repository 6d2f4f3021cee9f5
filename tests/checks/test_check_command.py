"""The real program as an exec probe runs it: its cost, its deadline, its GPUs, and engines that really hang."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.demo.clients import complete
from tests.demo.running import running
from tests.support.program import ROOT, Ended, environment, run
from tests.support.servers import NEVER, serve, serve_in_thread, vllm
from tests.support.vllm_text import Rank, exposition
from tests.support.waiting import until
from tui.checks.health_start import started_within
from tui.sources.kernel.visibility import in_own_namespace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml

pytest_plugins = ("tests.support.nvml_plugin",)

HEALTHY = vllm(exposition(Rank(running=3, steps=500), started=None))
MIB = 1024 * 1024
BUDGET_S = 0.35


def found(ended: Ended) -> dict[str, list[Any]]:
    """The findings of a run by id."""
    by_id: dict[str, list[Any]] = {}
    for finding in ended.json()["findings"]:
        by_id.setdefault(finding["id"], []).append(finding)
    return by_id


def test_a_run_costs_little(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    env = fake_nvml.environment()
    with serve_in_thread(HEALTHY) as server:
        run("check", server.url, home=tmp_path, env=env)  # compiles what has no bytecode yet
        before = os.times()
        done = run("check", server.url, home=tmp_path, env=env)
        after = os.times()
    spent_s = after.children_user + after.children_system - before.children_user - before.children_system
    assert (done.status, done.err) == (0, "")
    assert len([line for line in done.out.splitlines() if "NVIDIA H100 80GB HBM3 answers" in line]) == 8
    assert spent_s < 4 * BUDGET_S  # on a machine that is busy with anything


def test_it_loads_neither_the_screen_nor_an_event_loop(tmp_path: Path) -> None:
    heavy = {"textual", "rich", "plotext", "httpx", "asyncio", "psutil"}
    with serve_in_thread(HEALTHY) as server:
        code = (
            "import sys\nfrom tui import cli\n"
            f"status = cli.main(['check', {server.url!r}])\n"
            f"loaded = {heavy!r} & set(sys.modules)\n"
            "sys.exit(f'loaded {loaded}' if loaded else status)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment(tmp_path, {"INFERTOP_NVML_LIBRARY": str(tmp_path / "none")}),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_everything_that_hangs_at_once_ends_in_time(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    fake_nvml.hang(3, "nvmlDeviceGetMemoryInfo_v2")
    with serve_in_thread({**HEALTHY, "/health": NEVER}) as server:
        began = time.monotonic()
        done = run(
            "check", server.url, "--timeout", "1", "--json", home=tmp_path, env=fake_nvml.environment()
        )
        assert time.monotonic() - began < 1 + 3.0  # the start of an interpreter on a busy machine
    assert done.status == 1
    by_id = found(done)
    assert "stuck in nvmlDeviceGetMemoryInfo" in by_id["gpu-answers"][0]["text"]
    assert "(GPU 3)" in by_id["gpu-answers"][0]["text"]
    assert [finding["level"] for finding in by_id["gpu-answers"][1:]] == ["ok"] * 3
    assert by_id["engine-silent"][0]["level"] == "error"


def test_a_driver_that_hangs_fails_readiness_alone(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    fake_nvml.hang(None, "nvmlInitWithFlags")
    words = ("--timeout", "0.5", "--json")
    with serve_in_thread(HEALTHY) as server:
        ready = run(
            "check", server.url, "--as", "readiness", *words, home=tmp_path, env=fake_nvml.environment()
        )
        alive = run(
            "check", server.url, "--as", "liveness", *words, home=tmp_path, env=fake_nvml.environment()
        )
    assert (ready.status, alive.status) == (1, 0)
    assert "stuck in nvmlInit" in found(ready)["gpu-answers"][0]["text"]
    assert "persistence mode" in found(ready)["gpu-answers"][0]["text"]


def test_each_gpu_that_is_lost_or_full_is_named(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    with fake_nvml.together():
        fake_nvml.count(4)
        fake_nvml.fail(1, "*", 15)
        fake_nvml.set(2, "mem_free", 200 * MIB)
        fake_nvml.fail(3, "nvmlDeviceGetHandleByIndex_v2", 15)
        fake_nvml.delay(0, "nvmlDeviceGetHandleByIndex_v2", 1100)
    env = fake_nvml.environment()
    with serve_in_thread(HEALTHY) as server:
        done = run("check", server.url, "--as", "readiness", "--json", home=tmp_path, env=env)
        strict = run("check", server.url, "--as", "liveness", "--strict", "--json", home=tmp_path, env=env)
        fake_nvml.heal()
        full = run("check", server.url, "--strict", home=tmp_path, env=env)
    assert done.status == 1
    by_id = found(done)
    assert [(f["level"], f["text"][:20], f["value"]) for f in by_id["gpu-answers"][:2]] == [
        ("error", "GPU 1 does not answe", "lost"),
        ("error", "GPU 3 does not answe", "lost"),
    ]
    (memory,) = by_id["gpu-memory"]
    assert (memory["level"], memory["limit"]) == ("warning", 0.98)
    assert memory["value"] == pytest.approx(0.991, abs=0.002)
    assert memory["text"].startswith("GPU 2 NVIDIA H100 80GB HBM3: memory 0.991 used (")
    assert by_id["gpu-slow"][0]["level"] == "warning"
    assert "s to open the cards: slow without persistence mode" in by_id["gpu-slow"][0]["text"]
    assert 1.1 <= by_id["gpu-slow"][0]["value"] < 4
    assert strict.status == 0  # no restart of the engine cures a card
    assert full.status == 1
    assert full.out.startswith("error    GPU 2 NVIDIA H100 80GB HBM3: memory 0.991 used")


@pytest.mark.parametrize("devices", [0, 2])
def test_no_driver_matters_where_there_are_gpus(tmp_path: Path, fake_nvml: FakeNvml, devices: int) -> None:
    fake_nvml.fail(None, "nvmlInitWithFlags", 9)
    for number in range(devices):
        card = tmp_path / f"pci-devices/0000:1{number}:00.0"
        card.mkdir(parents=True)
        (card / "vendor").write_text("0x10de\n")
        (card / "class").write_text("0x030200\n")
        (card / "device").write_text("0x2330\n")
    with serve_in_thread(HEALTHY) as server:
        done = run("check", server.url, "--json", home=tmp_path, env=fake_nvml.environment())
    if devices:
        (finding,) = found(done)["gpu-answers"]
        assert "2 NVIDIA GPUs are on the PCI bus" in finding["text"]
    else:
        (finding,) = found(done)["gpu-driver"]
        assert "no NVIDIA GPU on the PCI bus" in finding["text"]
    assert (done.status, finding["level"]) == ((1, "error") if devices else (0, "warning"))


async def test_a_port_that_is_closed_while_the_engine_loads_again(tmp_path: Path) -> None:
    async def check(url: str) -> Ended:
        env = {"INFERTOP_NVML_LIBRARY": str(tmp_path / "none")}
        return await asyncio.to_thread(
            run, "check", url, "--as", "liveness", "--json", home=tmp_path, env=env
        )

    async with serve(HEALTHY) as server:
        assert (await check(server.url)).status == 0
    gone = await check(server.url)
    async with running(tmp_path / "log", port=server.port, load_s=600.0, wait=False) as engine:
        loading = await check(engine.url)
    assert (gone.status, loading.status) == (1, 0)
    assert found(gone)["engine-down"][0]["level"] == "error"
    assert "started again since it last served" in found(loading)["engine-loading"][0]["text"]


def test_a_container_s_first_process_is_a_start_of_its_engine() -> None:
    ever_s = 1e9
    assert started_within("http://127.0.0.1:1", ever_s) is in_own_namespace("/proc")
    assert not started_within("http://127.0.0.1:1", 0.0)
    assert not started_within("http://192.0.2.1:1", ever_s)  # another host's


def test_a_long_prefill_is_no_hang_while_a_card_works(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    env = {**fake_nvml.environment(), "XDG_STATE_HOME": str(tmp_path / "state")}

    def look() -> tuple[int, str, str]:
        done = run("check", server.url, "--as", "liveness", "--json", home=tmp_path, env=env)
        (finding,) = found(done)["engine-progress"]
        return done.status, finding["level"], finding["text"]

    with fake_nvml.together():
        fake_nvml.count(1)
        for name, value in {"util_gpu": 98, "util_mem": 44, "power_mw": 600_000}.items():
            fake_nvml.set(0, name, value)
    with serve_in_thread(HEALTHY) as server:
        assert look()[0] == 0
        _age(tmp_path, 12)
        status, level, text = look()
        assert (status, level) == (0, "warning")
        assert "with 3 running, 0 waiting, while GPU 0 works (SM 98 %, memory controller 44 %, 600 W)" in text
        assert text.endswith("a long prefill looks like this, for 120 s at most")
        fake_nvml.set(0, "util_mem", 0)  # kernels that wait for each other
        assert look()[:2] == (1, "error")
        fake_nvml.set(0, "util_mem", 44)
        _age(tmp_path, 110)
        assert look()[:2] == (1, "error")


async def test_a_core_that_was_stopped_and_one_that_was_killed(tmp_path: Path) -> None:
    async def check(*words: str) -> Ended:
        env = {"INFERTOP_NVML_LIBRARY": str(tmp_path / "none")}
        return await asyncio.to_thread(run, "check", engine.url, "--json", *words, home=tmp_path, env=env)

    async with running(tmp_path / "log", decode_step_s=0.02, time_scale=0.1) as engine:
        request = asyncio.create_task(complete(engine.url, 4000, silence_s=60))
        await until(lambda: engine.supervisor.load.running > 0, 10, "a running request")
        first = await check()
        assert first.status == 0
        os.kill(engine.pids["VLLM::EngineCore"], signal.SIGSTOP)
        await until(lambda: _state(engine.pids["VLLM::EngineCore"]) == "T", 5, "the stop")
        stopped = await check("--as", "liveness")  # the last steps may have come after the look before
        _age(tmp_path, 6)
        hung = await check("--as", "liveness")
        os.kill(engine.pids["VLLM::EngineCore"], signal.SIGCONT)
        os.kill(engine.pids["VLLM::EngineCore"], signal.SIGKILL)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await until(lambda: engine.exit is not None, 20, "the end of the server")
        gone = await check("--as", "liveness")
    assert (stopped.status, hung.status, gone.status) == (0, 1, 1)
    assert "with 1 running" in found(hung)["engine-progress"][0]["text"]
    assert found(hung)["engine-health"][0]["level"] == "ok"  # vLLM's /health never notices
    assert "and it served" in found(gone)["engine-down"][0]["text"]


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def _age(home: Path, seconds: float) -> None:
    """Let the last look have been that long ago."""
    (file,) = (home / "state/infertop").glob("check-*.json")
    document = json.loads(file.read_text())
    for rank in document["ranks"].values():
        assert rank["since"] is not None
        rank["since"] -= seconds
    file.write_text(json.dumps(document))
