"""Engines: the parser against prometheus_client, and 64 targets a second of which 8 hang."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.bench.rows import Row
from tests.support import captures
from tests.support.probers import MadeProber
from tui.exposition.parse import Parser
from tui.model.settings import EngineTarget
from tui.runtime.clock import SystemClock
from tui.runtime.sources import Sources
from tui.runtime.target import WatchedEngine
from tui.sources.engines.reader import EngineReader
from tui.sources.engines.source import EngineSource
from tui.sources.engines.vllm import VLLM

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TARGETS, HUNG = 64, 8
SECONDS = 12
CAPTURE = "vllm-0.32/metrics-after-errors.txt"

# a process of its own: what the servers cost is not ours
SERVERS = """
import asyncio, json, sys, time
from tests.support import captures
from tests.support.servers import NEVER, Reply, Server, vllm

async def main(targets, hung, capture):
    body, begun, servers = captures.text(capture), {}, []

    def scraped(port):
        begun[port].append(time.monotonic())
        return Reply(200, body)

    for number in range(targets):
        server = Server(vllm(body) if number >= hung else {"*": NEVER})
        await server.start()
        begun[server.port] = []
        if number >= hung:
            server.routes["/metrics"] = lambda port=server.port: scraped(port)
        servers.append(server)
    print(json.dumps([server.port for server in servers]), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps([begun[server.port] for server in servers[hung:]]), flush=True)
    print(json.dumps(max(server.most_at_once for server in servers)), flush=True)

asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
"""


def results() -> list[Row]:
    """All of it."""
    return [*parser_ratio(), *sixty_four_targets()]


def parser_ratio() -> list[Row]:
    """Our parser's time over ``prometheus_client``'s, on 60 KB of vLLM."""
    body = captures.text(CAPTURE)
    parser, reader = Parser(VLLM.wanted()), EngineReader(VLLM, "http://127.0.0.1:8000")
    parser.parse(body)
    at = iter(range(1_000_000))
    ours = _best(lambda: parser.parse(body))
    theirs = _best(lambda: list(text_string_to_metric_families(body)))
    whole = _best(lambda: reader.feed(body, float(next(at))))
    return [
        Row.at_most("parser, share of prometheus_client's time", ours / theirs, "", 0.1),
        Row.at_most("parser, a scrape", ours * 1000, "ms", None),
        Row.at_most("prometheus_client, the same", theirs * 1000, "ms", None),
        Row.at_most("scrape to reading, windows and percentiles included", whole * 1000, "ms", None),
    ]


def sixty_four_targets() -> list[Row]:
    """Do the healthy ones keep their cadence while others never answer, and for how much CPU?"""
    alone, crowd = _scraped(TARGETS - HUNG, 0), _scraped(TARGETS, HUNG)
    return [
        Row.at_most(
            "scrapes of the worst of 56, fewer than without 8 hung", alone.fewest - crowd.fewest, "", 1.0
        ),
        Row.at_most("mean seconds between scrapes, with over without", crowd.gap_s / alone.gap_s, "", 1.1),
        Row.at_most("mean seconds between scrapes of the 56", crowd.gap_s, "s", None),
        Row.at_most("requests of one target at once", float(crowd.at_once), "", 1.0),
        Row.at_most("CPU of 56 targets a second", 100 * alone.cpu_s / SECONDS, "% of one", None),
        Row.at_most(
            "CPU of 64 targets a second, 8 of them hung", 100 * crowd.cpu_s / SECONDS, "% of one", None
        ),
    ]


@dataclass(frozen=True)
class Scraped:
    """What the healthy servers saw."""

    fewest: float
    gap_s: float
    at_once: int
    cpu_s: float


def _scraped(targets: int, hung: int) -> Scraped:
    command = [sys.executable, "-c", SERVERS, str(targets), str(hung), CAPTURE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as servers:
        assert servers.stdin is not None and servers.stdout is not None
        ports = json.loads(servers.stdout.readline())
        cpu_s, began = asyncio.run(_watch([f"http://127.0.0.1:{port}" for port in ports]))
        servers.stdin.close()
        scrapes: list[list[float]] = json.loads(servers.stdout.readline())
        at_once = json.loads(servers.stdout.readline())
    since = began + 2.0  # by then all have been told what they are
    kept = [[at for at in times if at >= since] for times in scrapes]
    gaps = [later - earlier for times in kept for earlier, later in itertools.pairwise(times)]
    return Scraped(float(min(map(len, kept))), statistics.fmean(gaps), at_once, cpu_s)


async def _watch(urls: list[str]) -> tuple[float, float]:
    """Scrape them all for a while; CPU seconds it took, and when it began."""
    tasks: set[asyncio.Task[None]] = set()

    def spawn(work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        tasks.add(task)
        return task

    never: Callable[..., Any] = lambda *_: None  # noqa: E731
    made: Callable[..., Any] = lambda *_: MadeProber()  # noqa: E731
    sources = Sources(never, never, never, EngineSource, made, made, lambda _: True)
    watched = [
        WatchedEngine(EngineTarget(url, engine="vllm"), sources, SystemClock(), lambda: 1.0, spawn)
        for url in urls
    ]
    cpu, began = time.process_time(), time.monotonic()
    for engine in watched:
        engine.start()
    await asyncio.sleep(SECONDS)
    spent = time.process_time() - cpu
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(engine.close() for engine in watched))
    return spent, began


def _best(work: Callable[[], object], times: int = 20) -> float:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)
