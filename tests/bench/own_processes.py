"""What looking into the engines' own processes costs: two engines of two hundred threads each."""

from __future__ import annotations

import time
from contextlib import ExitStack

from tests.bench.rows import Row
from tests.support.clock import ManualClock
from tests.support.engine_like import engine_like
from tui.sources.engine_processes import EngineProcessSource, EngineTree

ENGINES = 2
SECONDS = 60
BAR_MS = 3.0
POOL = """
import time
def doze():
    while True:
        time.sleep(0.05)
for number in range(199):
    run(doze, b"pool-%d" % number)
"""


def results() -> list[Row]:
    clock = ManualClock()
    source = EngineProcessSource(monotonic=clock.monotonic)
    with ExitStack() as stack:
        children = [stack.enter_context(engine_like(POOL)) for _ in range(ENGINES)]
        trees = {f"http://127.0.0.1:{8000 + n}": EngineTree((child,)) for n, child in enumerate(children)}
        source.watch(trees)
        start = time.thread_time()
        for _ in range(SECONDS):
            clock.now += 1.0
            source.read()
        spent = time.thread_time() - start
    return [Row.at_most("2 engines, 400 threads, one second", spent / SECONDS * 1000.0, "ms CPU", BAR_MS)]
