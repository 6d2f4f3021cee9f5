"""The program's own sources read a simulated engine as they read the real one."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.demo.clients import ask, complete
from tests.demo.recording import CAPTURES
from tests.demo.running import running, until
from tui.model.settings import EngineTarget
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.source import EngineSource
from tui.sources.engines.tables import TABLES
from tui.sources.processes import ProcessSource, tree_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tui.model.readings import EngineReading

_CAPTURED = {"vllm": "vllm-0.32/metrics-load.txt", "sglang": "sglang-0.5.23/metrics-load.txt"}
_ROLES = {
    "vllm": {"api_server": "vllm", "engine_core": "VLLM::EngineCor", "worker": "VLLM::Worker"},
    "sglang": {"api_server": "sglang", "scheduler": "sglang::schedul", "detokenizer": "sglang::detoken"},
}


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
async def test_the_reader_misses_nothing_that_the_real_one_has(tmp_path: Path, dialect: Any) -> None:
    captured = (CAPTURES.parent / _CAPTURED[dialect]).read_text(encoding="utf-8")
    real = EngineReader(TABLES[dialect], "http://x")
    real.feed(captured, 0.0)
    wanted = real.feed(captured, 1.0)
    async with running(tmp_path / "log", dialect=dialect, model="m", max_num_seqs=4) as engine:
        clients = [asyncio.create_task(complete(engine.url, 3000)) for _ in range(6)]
        await until(lambda: engine.supervisor.load.waiting == 2)
        source = EngineSource(EngineTarget(url=engine.url))
        # over a second at least: SGLang's gauges are some steps behind
        reading = await _read_until(
            source,
            lambda found: (found.running, found.waiting) == (4, 2) and (found.window_s or 0.0) >= 1.0,
        )
        await source.close()
        _holds(reading, wanted, dialect)
        await _processes(engine.url, dialect, engine.pids)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


async def _read_until(source: EngineSource, condition: Callable[[EngineReading], bool]) -> EngineReading:
    """The first reading for which a condition holds."""
    ends_s = time.monotonic() + 20.0
    while not condition(reading := await source.read()):
        assert time.monotonic() < ends_s, reading
        await asyncio.sleep(0.05)  # between two scrapes, not instead of one
    return reading


def _holds(reading: EngineReading, wanted: EngineReading, dialect: str) -> None:
    assert reading.simulated and reading.engine == dialect and reading.model == "m"
    assert reading.version == {"vllm": "0.32.0", "sglang": "0.5.23"}[dialect]
    assert (reading.running, reading.waiting) == (4, 2)
    assert reading.gen_tok_s is not None and 100 < reading.gen_tok_s < 400
    assert reading.kv_capacity_tokens == 131072 and reading.kv_usage is not None and reading.kv_usage > 0
    assert reading.stalled_scrapes == 0 and reading.itl_p50_s is not None and reading.itl_p50_s < 0.1
    # what the real one tells too late (nothing finished in the window) is missing in both
    assert {gap.field for gap in reading.missing} <= {gap.field for gap in wanted.missing} | {"ttft_p50_s"}


async def _processes(url: str, dialect: str, pids: dict[str, int]) -> None:
    source = ProcessSource()
    table = await asyncio.to_thread(source.read)
    assert url in table.listeners
    tree = {process.role: process for process in tree_of(table, url)}
    assert {role: process.comm for role, process in tree.items()} == _ROLES[dialect]
    assert {process.pid for process in tree.values()} == set(pids.values())
    assert f"{tree['api_server'].port}" == url.rpartition(":")[2] and tree["api_server"].listening


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
async def test_a_hang_is_seen_by_the_heartbeat(tmp_path: Path, dialect: Any) -> None:
    async with running(tmp_path / "log", dialect=dialect) as engine:
        client = asyncio.create_task(complete(engine.url, 60))
        await until(lambda: engine.supervisor.load.running == 1)
        engine.supervisor.order({"do": "hang"})
        source = EngineSource(EngineTarget(url=engine.url))
        hung = await _read_until(source, lambda reading: (reading.stalled_scrapes or 0) >= 8)
        assert hung.running == 1
        route = "/health" if dialect == "vllm" else "/ready"  # SGLang's /health waits for a token
        assert (await ask(engine.url, route)).result == "200"
        engine.supervisor.order({"do": "resume"})
        assert (await client).key == (200, "length", True, "")
        await _read_until(source, lambda reading: reading.stalled_scrapes == 0)
        await source.close()
