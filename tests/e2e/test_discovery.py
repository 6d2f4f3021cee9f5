"""What a run without arguments finds on this very host: simulated engines, their GPUs, what they left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from tests.demo.running import lives, running, until, until_ready
from tests.support.model_dirs import config, write_config
from tests.support.program import environment, run
from tui.commands.setup import real_sources
from tui.demo.control import ControlError
from tui.model.settings import Config
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml
    from tui.model.snapshot import EngineView

pytest_plugins = ("tests.support.nvml_plugin",)

MIB = 1 << 20


async def once(home: Path, *words: str, env: dict[str, str] | None = None) -> Any:
    words = ("once", "--json", "--interval", "0.5", *words)
    ended = await asyncio.to_thread(run, *words, home=home, env=env)
    assert "Traceback" not in ended.err
    return ended.json()


async def test_engines_and_an_orphan_with_their_memory(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    async with (
        running(tmp_path / "one.log", tensor_parallel_size=2, api_key="planted-secret") as engine,
        running(tmp_path / "two.log", time_scale=0.2) as ended,
    ):
        os.kill(ended.pids["api"], signal.SIGKILL)
        await until(lambda: not lives(ended.pids["api"]))
        core, left = ended.pids["VLLM::EngineCore"], ended.pids["VLLM::Worker_0"]
        workers = [pid for title, pid in engine.pids.items() if "Worker" in title]
        for card, pid in enumerate(workers):
            fake_nvml.processes(card, [(pid, 40000 * MIB)])
        fake_nvml.processes(2, [(left, 30000 * MIB)])
        answer = await once(tmp_path, env=fake_nvml.environment())
    (found,) = [row for row in answer["engines"] if row["url"] == engine.url]
    assert {row["pid"] for row in found["pids"]} >= {engine.pids["api"], *workers}
    assert found["args"]["max-num-seqs"] == "64"
    assert found["args"]["api-key"] == "***"
    assert "planted-secret" not in str(answer)
    orphans = {row["pid"]: row for row in answer["orphans"]}
    assert {core, left} <= set(orphans)
    assert orphans[left]["gpu_mem_mib"] == 30000.0
    assert orphans[left]["command"] == f"kill -TERM {left}"
    assert orphans[left]["age_s"] >= 0
    assert not {engine.pids["api"], *workers} & set(orphans)
    texts = [row["text"] for row in answer["findings"] if row["id"] == "orphan"]
    me = pwd.getpwuid(os.getuid()).pw_name
    told = f"pid {core} of {me} with 1 that ends with it holds 29.3 GiB of GPU 2"
    assert any(told in text and text.endswith(f"to end it: kill -TERM {core}") for text in texts)
    assert not any(f"kill -TERM {left}" in text for text in texts)


async def test_where_the_memory_of_an_engine_went(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    model = write_config(tmp_path / "llama", config("llama-2-13b"))
    index = {"metadata": {"total_size": 26_000_000_000}, "weight_map": {}}
    (model / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    async with running(tmp_path / "log", model=str(model), kv_tokens=32768) as engine:
        fake_nvml.processes(3, [(engine.pids["VLLM::Worker_0"], 55000 * MIB)])
        answer = await once(tmp_path, engine.url, env=fake_nvml.environment())
    memory = answer["engines"][0]["memory"]
    assert memory["weights_mib"] == pytest.approx(26e9 / MIB)
    assert memory["kv_mib"] == pytest.approx(25600.0, rel=0.01)
    assert memory["sequence_tokens"] == 4096
    assert memory["sequences"] == pytest.approx(8, abs=1)
    (share,) = memory["gpus"]
    assert (share["gpu"], share["engine_mib"]) == (3, 55000.0)
    assert share["rest_mib"] == pytest.approx(55000 - 26e9 / MIB - memory["kv_mib"], abs=1)


async def test_an_engine_that_loads_is_found_and_said_to_load(tmp_path: Path) -> None:
    async with running(tmp_path / "log", wait=False, load_s=60.0) as engine:
        ended = await asyncio.to_thread(run, "once", "--interval", "0.5", home=tmp_path)
        answer = await once(tmp_path)
    assert ended.status == 1
    assert any(s.startswith("LOADING") and engine.url in s for s in ended.out.splitlines())
    (found,) = [row for row in answer["engines"] if row["url"] == engine.url]
    assert (found["discovered"], found["state"], found["reason"]) == (True, "loading", "refused")
    (verdict,) = [row for row in answer["verdicts"] if row["scope"] == engine.url]
    assert verdict["verdict"] == "loading"


async def test_a_restarted_engine_keeps_its_row_and_its_history(tmp_path: Path) -> None:
    config = Config(interval_s=0.2)
    async with running(tmp_path / "log", time_scale=0.1) as engine:
        monitor = Monitor(config, (), real_sources(), SystemClock())

        def row() -> EngineView | None:
            return next((view for view in monitor.snapshot().engines if view.url == engine.url), None)

        def served_by(known: bool) -> bool:
            view = row()
            fresh = view is not None and view.engine.status.ok and bool(view.processes)
            return (
                fresh
                and view is not None
                and view.processes is not None
                and ((view.processes[0].pid == before) is known)
            )

        def started() -> bool:
            try:
                engine.supervisor.order({"do": "start"})
            except ControlError:
                return False  # it has not noticed the end yet
            return True

        before = engine.pids["api"]
        await monitor.start()
        try:
            await until(lambda: served_by(True))
            began = monitor.history.get(engine.url, "running")
            assert began is not None
            points = len(began)
            os.kill(before, signal.SIGKILL)
            await until(lambda: not lives(before))
            await until(started)
            await until(lambda: served_by(False), 30.0)
            assert [view.url for view in monitor.snapshot().engines].count(engine.url) == 1
            kept = monitor.history.get(engine.url, "running")
            assert kept is began
            assert len(kept) > points
        finally:
            await monitor.stop()


@pytest.fixture
def namespace() -> Iterator[tuple[str, str]]:
    """A network namespace behind a veth pair, and the address at which we reach it."""
    if shutil.which("ip") is None:
        pytest.skip("there is no ip(8) to make a network namespace with")
    name, at = f"infertop{os.getpid()}", os.getpid() % 200
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no right to make a network namespace: {made.stderr.strip()[:80]}")
    try:
        for line in (
            f"link add it{os.getpid()} type veth peer name eth0 netns {name}",
            f"addr add 10.213.{at}.1/30 dev it{os.getpid()}",
            f"link set it{os.getpid()} up",
            f"-n {name} addr add 10.213.{at}.2/30 dev eth0",
            f"-n {name} link set eth0 up",
            f"-n {name} link set lo up",
        ):
            made = subprocess.run(["ip", *line.split()], capture_output=True, text=True, check=False)
            if made.returncode:
                pytest.skip(f"no veth pair here: {made.stderr.strip()[:80]}")
        yield name, f"10.213.{at}.2"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)  # the pair goes with it


SIMULATOR = textwrap.dedent("""
    import asyncio, subprocess, sys
    from tui.demo.spec import EngineSpec
    from tui.demo.supervisor import Supervisor
    async def main():
        engine = Supervisor(EngineSpec(port=8077, host="0.0.0.0", load_s=0.0), log=subprocess.DEVNULL)
        await engine.start()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await engine.stop()
    asyncio.run(main())
""")


@contextlib.contextmanager
def simulated_in(namespace: str, home: Path) -> Iterator[None]:
    words = ["ip", "netns", "exec", namespace, sys.executable, "-c", SIMULATOR]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment(home), cwd=home)
    try:
        yield
    finally:
        process.communicate(timeout=30)


async def test_a_bare_engine_one_in_another_network_and_an_orphan(
    tmp_path: Path, namespace: tuple[str, str], fake_nvml: FakeNvml
) -> None:
    name, address = namespace
    url = f"http://{address}:8077"
    with simulated_in(name, tmp_path):
        async with (
            running(tmp_path / "one.log", dialect="sglang") as bare,
            running(tmp_path / "two.log", time_scale=0.2) as ended,
        ):
            os.kill(ended.pids["api"], signal.SIGKILL)
            await until_ready(url)
            await until(lambda: not lives(ended.pids["api"]))
            scheduler = next(pid for title, pid in bare.pids.items() if "scheduler" in title)
            left = ended.pids["VLLM::Worker_0"]
            fake_nvml.processes(0, [(scheduler, 40000 * MIB)])
            fake_nvml.processes(2, [(left, 30000 * MIB)])
            answer = await once(tmp_path, env=fake_nvml.environment())
    rows = {row["url"]: row for row in answer["engines"]}
    inside, outside = rows[url], rows[bare.url]
    assert (inside["engine"], outside["engine"]) == ("vllm", "sglang")
    assert inside["running"] is not None
    assert {row["role"] for row in inside["pids"]} >= {"api_server", "engine_core", "worker"}
    assert inside["args"]["max-num-seqs"] == outside["args"]["max-running-requests"] == "64"
    assert [(share["gpu"], share["engine_mib"]) for share in outside["memory"]["gpus"]] == [(0, 40000.0)]
    orphans = {row["pid"]: row for row in answer["orphans"]}
    assert orphans[left]["gpu_mem_mib"] == 30000.0
    assert not orphans.keys() & {row["pid"] for found in rows.values() for row in found["pids"] or ()}
